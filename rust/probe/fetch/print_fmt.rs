// SPDX-License-Identifier: GPL-2.0

//! Writes the `print fmt` of the `format` file, which describes to user space how to print a
//! record.

use core::{
    ffi::CStr,
    fmt,
    num::NonZeroU8,
    ops::RangeInclusive, //
};

use crate::types::{
    FetchType,
    Style, //
};

use super::field::Field;

/// The numbers of errors with names: those of user space, and those of the kernel alone.
pub(super) const ERRORS: [RangeInclusive<u16>; 2] = [1..=133, 512..=531];

/// Finds the name of an error, such as `ENOENT`.
pub type ErrorName = fn(u16) -> Option<&'static str>;

/// The part of a record before the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// The address of the probe: `__probe_ip`.
    Probe,
    /// The function and its return address: `__probe_func`, `__probe_ret_ip`.
    Return,
    /// No part: the fields of an event probe come first.
    Event,
}

/// The properties of a field that decide its part of the `print fmt`.
#[derive(Clone, Copy, Debug)]
pub struct FieldFormat {
    /// The conversion of a value, inside the quotes.
    pub conversion: &'static str,
    /// The number of elements of an array.
    pub count: Option<NonZeroU8>,
    /// Whether the field is a locator, and the value is a string elsewhere in the record.
    pub is_dynamic: bool,
    /// Whether the conversion has a second value: the name of the error.
    pub is_errno: bool,
}

impl From<Field> for FieldFormat {
    fn from(field: Field) -> Self {
        Self {
            conversion: field.ty().row().conversion,
            count: field.count(),
            is_dynamic: field.is_dynamic(),
            is_errno: matches!(field.ty(), FetchType::Number(_, Style::Errno)),
        }
    }
}

impl FieldFormat {
    fn elements(self) -> u8 {
        self.count.map_or(1, NonZeroU8::get)
    }
}

/// The `print fmt` of an event. `Display` writes it.
///
/// C: `__set_print_fmt()`.
#[derive(Clone, Debug)]
pub struct PrintFmt<I> {
    /// The part of a record before the fields.
    pub head: Head,
    /// The fields with their names.
    pub fields: I,
    /// The names of errors.
    pub error_name: ErrorName,
}

impl Head {
    /// The `print fmt` of an event without fields.
    pub const fn print_fmt(self) -> &'static CStr {
        match self {
            Self::Probe => c"\"(%lx)\", REC->__probe_ip",
            Self::Return => c"\"(%lx <- %lx)\", REC->__probe_func, REC->__probe_ret_ip",
            Self::Event => c"\"\"",
        }
    }
}

impl<'a, I> fmt::Display for PrintFmt<I>
where
    I: Iterator<Item = (&'a str, Field)> + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.head {
            Head::Probe => "\"(%lx)",
            Head::Return => "\"(%lx <- %lx)",
            Head::Event => "\"",
        })?;
        write_conversions(f, " ", self.fields.clone())?;
        f.write_str(match self.head {
            Head::Probe => "\", REC->__probe_ip",
            Head::Return => "\", REC->__probe_func, REC->__probe_ret_ip",
            Head::Event => "\"",
        })?;
        write_values(f, self.fields.clone(), self.error_name)
    }
}

/// The `print fmt` of an event without a part before the fields, like the `print fmt` of a
/// `TRACE_EVENT()`.
#[derive(Clone, Debug)]
pub struct PlainPrintFmt<I>(pub I);

impl<'a, I> fmt::Display for PlainPrintFmt<I>
where
    I: Iterator<Item = (&'a str, FieldFormat)> + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        write_conversions(f, "", self.0.clone())?;
        f.write_str("\"")?;
        // No field of such an event is an error.
        write_values(f, self.0.clone(), |_| None)
    }
}

/// Writes `NAME=CONVERSION` for each field. Writes `separator` before the first, and a space before
/// each other.
fn write_conversions<'a>(
    f: &mut fmt::Formatter<'_>,
    mut separator: &str,
    fields: impl Iterator<Item = (&'a str, impl Into<FieldFormat>)>,
) -> fmt::Result {
    for (name, field) in fields {
        let field: FieldFormat = field.into();
        write!(f, "{separator}{name}=")?;
        separator = " ";
        if field.count.is_none() {
            f.write_str(field.conversion)?;
            continue;
        }
        for i in 0..field.elements() {
            f.write_str(if i == 0 { "{" } else { "," })?;
            f.write_str(field.conversion)?;
        }
        f.write_str("}")?;
    }
    Ok(())
}

/// Writes an argument for each conversion.
fn write_values<'a>(
    f: &mut fmt::Formatter<'_>,
    fields: impl Iterator<Item = (&'a str, impl Into<FieldFormat>)>,
    error_name: ErrorName,
) -> fmt::Result {
    for (name, field) in fields {
        let field: FieldFormat = field.into();
        for i in 0..field.elements() {
            f.write_str(if field.is_dynamic {
                ", __get_str("
            } else {
                ", REC->"
            })?;
            f.write_str(name)?;
            if field.count.is_some() {
                write!(f, "[{i}]")?;
            }
            if field.is_dynamic {
                f.write_str(")")?;
            }
        }
        if field.is_errno {
            write_error(f, name, error_name)?;
        }
    }
    Ok(())
}

/// Writes the second value of an error: its name in parentheses, or nothing for another number.
///
/// libtraceevent reads 32 bits without their sign, so all numbers are those of the bits. It
/// evaluates no operation in the first argument of `__print_symbolic()`, and a condition after a
/// colon only in parentheses.
fn write_error(f: &mut fmt::Formatter<'_>, name: &str, error_name: ErrorName) -> fmt::Result {
    let bits = |number: u16| u32::from(number).wrapping_neg();
    f.write_str(", ")?;
    for (index, errors) in ERRORS.into_iter().enumerate() {
        if index != 0 {
            f.write_str("(")?;
        }
        let last = bits(*errors.start());
        let count = errors.clone().count();
        write!(
            f,
            "({last:#x} - REC->{name}) < {count} ? __print_symbolic(REC->{name}"
        )?;
        for number in errors {
            write!(f, ", {{ {:#x}, \"", bits(number))?;
            if let Some(error) = error_name(number) {
                write!(f, " (-{error})")?;
            }
            f.write_str("\" }")?;
        }
        f.write_str(") : ")?;
    }
    f.write_str("\"\"")?;
    for _ in ERRORS.get(1..).unwrap_or_default() {
        f.write_str(")")?;
    }
    Ok(())
}

// SPDX-License-Identifier: GPL-2.0

//! How user space is told to print a record: the `print fmt` of the `format` file.

use core::{
    ffi::CStr,
    fmt, //
};

use super::field::Field;

/// What comes before the fields in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// The address of the probe: `__probe_ip`.
    Probe,
    /// The function and where it returned to: `__probe_func`, `__probe_ret_ip`.
    Return,
    /// Nothing: the fields of an event probe come first.
    Event,
}

/// The `print fmt` of an event with these fields, as text.
///
/// C: `__set_print_fmt()`.
#[derive(Clone, Debug)]
pub struct PrintFmt<I> {
    /// What comes first.
    pub head: Head,
    /// The fields with their names.
    pub fields: I,
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
        for (name, field) in self.fields.clone() {
            let conversion = field.ty().row().conversion;
            write!(f, " {name}=")?;
            if field.count().is_none() {
                f.write_str(conversion)?;
                continue;
            }
            for i in 0..field.elements() {
                f.write_str(if i == 0 { "{" } else { "," })?;
                f.write_str(conversion)?;
            }
            f.write_str("}")?;
        }

        f.write_str(match self.head {
            Head::Probe => "\", REC->__probe_ip",
            Head::Return => "\", REC->__probe_func, REC->__probe_ret_ip",
            Head::Event => "\"",
        })?;
        for (name, field) in self.fields.clone() {
            for i in 0..field.elements() {
                f.write_str(if field.is_dynamic() {
                    ", __get_str("
                } else {
                    ", REC->"
                })?;
                f.write_str(name)?;
                if field.count().is_some() {
                    write!(f, "[{i}]")?;
                }
                if field.is_dynamic() {
                    f.write_str(")")?;
                }
            }
        }
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-2.0

//! How user space is told to print a record: the `print fmt` of the `format` file.

use core::fmt;

use crate::command::argument::Style;
use crate::command::argument::Width;

use super::field::Field;
use super::field::Kind;

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
            let format = format(field.kind());
            write!(f, " {name}=")?;
            if field.count().is_none() {
                f.write_str(format)?;
                continue;
            }
            for i in 0..field.elements() {
                f.write_str(if i == 0 { "{" } else { "," })?;
                f.write_str(format)?;
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

/// The conversion of one value, as it stands between the quotes of the `print fmt`.
const fn format(kind: Kind) -> &'static str {
    match kind {
        Kind::Number(Width::W8, Style::Unsigned) => "%Lu",
        Kind::Number(_, Style::Unsigned) => "%u",
        Kind::Number(Width::W8, Style::Signed) => "%Ld",
        Kind::Number(_, Style::Signed) => "%d",
        Kind::Number(Width::W8, Style::Hex) => "0x%Lx",
        Kind::Number(_, Style::Hex) => "0x%x",
        Kind::Number(_, Style::Char) => "'%c'",
        Kind::Number(_, Style::Symbol) => "%pS",
        Kind::String(_) | Kind::Symstr => "\\\"%s\\\"",
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Prints the fields of a record as text.
//!
//! A record can outlive its event, and the kernel reuses event numbers. So the bytes can belong to
//! any other event, and can be incomplete. The printer trusts none of them.

use core::fmt;

use crate::types::{
    FetchType,
    Style,
    Width, //
};

use super::{
    field::Field,
    print_fmt::ERRORS,
    string::place_of, //
};

/// The text for a missing value.
///
/// C: `FAULT_STRING`.
const FAULT: &str = "(fault)";

/// A destination of text. The kernel's strings can contain any bytes.
///
/// C: `struct trace_seq`.
pub trait Output: fmt::Write {
    /// Writes bytes without a change.
    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result;

    /// Writes the symbol of an address, with offset and size.
    ///
    /// C: `%pS`.
    fn symbol(&mut self, address: u64) -> fmt::Result;

    /// The name of an error, such as `ENOENT`. `None` for a number without a name.
    fn error_name(&self, number: u16) -> Option<&'static str>;

    /// Writes the symbol of an address, without offset and size.
    ///
    /// C: `%ps`.
    fn function(&mut self, address: u64) -> fmt::Result;
}

/// Prints the fields of a record: ` NAME=VALUE` for each.
///
/// `record` contains the bytes of the whole record. Its first `header` bytes precede the fields.
/// The printer shows a value outside these bytes as a fault.
///
/// # Errors
///
/// The errors of `out`.
///
/// C: `trace_probe_print_args()`.
pub fn print<'a, O: Output>(
    fields: impl Iterator<Item = (&'a str, Field)>,
    record: &[u8],
    header: usize,
    out: &mut O,
) -> fmt::Result {
    for (name, field) in fields {
        out.write_str(" ")?;
        out.write_str(name)?;
        out.write_str("=")?;
        let start = header.saturating_add(field.offset());
        if field.count().is_none() {
            print_value(field.ty(), record, start, out)?;
            continue;
        }
        for i in 0..field.elements() {
            out.write_str(if i == 0 { "{" } else { "," })?;
            let before = i.wrapping_mul(field.ty().size());
            print_value(field.ty(), record, start.saturating_add(before), out)?;
        }
        out.write_str("}")?;
    }
    Ok(())
}

/// Prints the value at byte `start` of the record.
fn print_value<O: Output>(ty: FetchType, record: &[u8], start: usize, out: &mut O) -> fmt::Result {
    let Some(value) = number(record, start, ty.size()) else {
        return out.write_str(FAULT);
    };
    match ty.of_field() {
        FetchType::Number(_, Style::Unsigned) | FetchType::Bitfield(..) => write!(out, "{value}"),
        FetchType::Number(width, Style::Signed) => write!(out, "{}", signed(value, width)),
        FetchType::Number(width, Style::Errno) => {
            let value = signed(value, width);
            write!(out, "{value}")?;
            write_error_name(value, out)
        }
        FetchType::Number(_, Style::Hex) => write!(out, "{value:#x}"),
        FetchType::Number(_, Style::Char) => out.bytes(&[b'\'', value as u8, b'\'']),
        FetchType::Number(_, Style::Symbol) => out.symbol(value),
        FetchType::Number(_, Style::Function) => out.function(value),
        FetchType::String(_) | FetchType::Symstr => match string(record, value as u32) {
            Some(text) => {
                out.write_str("\"")?;
                out.bytes(text)?;
                out.write_str("\"")
            }
            None => out.write_str(FAULT),
        },
    }
}

/// Writes the name of an error after its negative number, in parentheses. Writes nothing after
/// another number.
pub(crate) fn write_error_name<O: Output>(number: i64, out: &mut O) -> fmt::Result {
    let is_error = |number: &u16| ERRORS.iter().any(|errors| errors.contains(number));
    let number = u16::try_from(number.wrapping_neg()).ok().filter(is_error);
    match number.and_then(|number| out.error_name(number)) {
        Some(name) => write!(out, " (-{name})"),
        None => Ok(()),
    }
}

/// The number of `bytes` bytes, at most 8, at byte `start` of the record. `None` if the record is
/// too short.
fn number(record: &[u8], start: usize, bytes: usize) -> Option<u64> {
    let field = record.get(start..)?.get(..bytes)?;
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(field) {
        *to = *from;
    }
    Some(u64::from_le_bytes(word))
}

/// Sign-extends a number of `width`.
fn signed(value: u64, width: Width) -> i64 {
    match width {
        Width::W1 => i64::from(value as i8),
        Width::W2 => i64::from(value as i16),
        Width::W4 => i64::from(value as i32),
        Width::W8 => value as i64,
    }
}

/// The string at a location, up to its first NUL. If the record is incomplete, returns the part of
/// the string in the record.
fn string(record: &[u8], location: u32) -> Option<&[u8]> {
    let (start, len) = place_of(location);
    if len == 0 {
        return None;
    }
    let text = record.get(start..)?;
    let text = text.get(..len).unwrap_or(text);
    text.split(|byte| *byte == 0).next()
}

// SPDX-License-Identifier: GPL-2.0

//! Replaces the addresses of the kernel in a text, for readers who may not see them.
//!
//! A text contains an address if a number in it means one, in decimal, octal or hexadecimal:
//!
//! - a number in the upper half of the range, or with more than 64 bits;
//! - a number after a `-` that lies more than [`MAX_OFFSET`] below zero: `\-1553958400`, and the
//!   offset in `-0x5c9f8600(\0)`;
//! - a number after a `+` whose lower 32 bits, with their sign, lie more than [`MAX_OFFSET`] below
//!   zero: `+0xa3607a00(\0)`. The offset of a dereference has 32 bits.
//!
//! So the sum of an offset and an immediate that remain visible is no address of the kernel.

use core::fmt;

use super::number;

/// Maximum distance below zero, in bytes, of a number that is no address. The kernel has no secret
/// address in the last 16 MiB, and an address is the sum of at most two numbers.
///
/// C: `MODULES_END` in `arch/x86/include/asm/pgtable_64_types.h`, `FIXADDR_TOP` in
/// `arch/arm64/include/asm/fixmap.h`.
const MAX_OFFSET: u32 = 8 << 20;

/// Whether the text contains an address of the kernel.
pub fn has_address(text: &str) -> bool {
    pieces(text).any(|(_, is_address)| is_address)
}

/// A text. `Display` replaces the digits of each address of the kernel by zeros, as
/// `/proc/kallsyms` does. All characters keep their columns.
pub struct Masked<'a>(pub &'a str);

impl fmt::Display for Masked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (piece, is_address) in pieces(self.0) {
            if is_address {
                write!(f, "{:0<1$}", "", piece.len())?;
            } else {
                f.write_str(piece)?;
            }
        }
        Ok(())
    }
}

/// Splits a text into runs of hexadecimal digits, and the text between two runs. Returns each
/// piece, and whether it is an address.
fn pieces(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut start = 0usize;
    core::iter::from_fn(move || {
        let (before, rest) = text.split_at_checked(start)?;
        let is_digit = |c: char| c.is_ascii_hexdigit();
        let is_number = is_digit(rest.chars().next()?);
        let end = rest.find(|c| is_digit(c) != is_number);
        let piece = rest.get(..end.unwrap_or(rest.len()))?;
        start = start.saturating_add(piece.len());
        Some((piece, is_number && is_address(before, piece)))
    })
}

/// Whether digits are an address. `before` is the text before them.
fn is_address(before: &str, digits: &str) -> bool {
    let value = value(before.ends_with(['x', 'X']), digits);
    let before = before
        .strip_suffix("0x")
        .or_else(|| before.strip_suffix("0X"))
        .unwrap_or(before);
    // An offset in user memory has a `u` after its sign.
    let sign = before.strip_suffix('u').unwrap_or(before).chars().last();
    value.is_none_or(|value| {
        value > i64::MAX as u64
            || match sign {
                Some('-') => value > MAX_OFFSET.into(),
                Some('+') => is_far_below_zero(value as i32),
                _ => false,
            }
    })
}

/// Whether an offset lies more than [`MAX_OFFSET`] below zero.
fn is_far_below_zero(offset: i32) -> bool {
    offset < 0 && offset.unsigned_abs() > MAX_OFFSET
}

/// The value of digits. `None` if it needs more than 64 bits. A reader can recognise an address
/// without its `0x`, too.
fn value(is_after_x: bool, digits: &str) -> Option<u64> {
    match number::leading(digits) {
        (value, "") if !is_after_x => value,
        _ => u64::from_str_radix(digits, 16).ok(),
    }
}

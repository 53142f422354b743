// SPDX-License-Identifier: GPL-2.0

//! Parses symbols with an offset in arguments.

use crate::error::Errno;

use super::number;

/// Splits `SYM[+|-OFF]` into the symbol, which can be empty, and the offset in bytes.
///
/// C: `traceprobe_split_symbol_offset()`.
///
/// # Errors
///
/// EINVAL if the offset is not a number, ERANGE if it does not fit.
pub fn split_symbol(text: &str) -> Result<(&str, i64), Errno> {
    let start = text.find(['+', '-']).unwrap_or(text.len());
    match text.split_at_checked(start) {
        None | Some((_, "")) => Ok((text, 0)),
        Some((symbol, offset)) => Ok((symbol, number::signed(offset)?)),
    }
}

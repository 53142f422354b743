// SPDX-License-Identifier: GPL-2.0

//! Replaces the addresses of the kernel in a text, for readers who may not see them.

use core::fmt;

use super::number;

/// Whether the text contains an address of the kernel.
pub fn has_address(text: &str) -> bool {
    Pieces(text).any(|(word, is_word)| is_word && address_len(word).is_some())
}

/// A text. `Display` replaces each address of the kernel by zeros, as `/proc/kallsyms` does. The
/// characters after an address keep their columns.
pub struct Masked<'a>(pub &'a str);

impl fmt::Display for Masked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, is_word) in Pieces(self.0) {
            let address = if is_word { address_len(word) } else { None };
            let Some((digits, rest)) = address.and_then(|len| word.split_at_checked(len)) else {
                f.write_str(word)?;
                continue;
            };
            let prefix = if digits.starts_with("0x") || digits.starts_with("0X") {
                2
            } else {
                0
            };
            for (index, c) in digits.chars().enumerate() {
                write_char(f, if index < prefix { c } else { '0' })?;
            }
            f.write_str(rest)?;
        }
        Ok(())
    }
}

fn write_char(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    fmt::Write::write_char(f, c)
}

/// An iterator over the pieces of a text: words of letters, digits and `_`, and the text between
/// two words. Returns each piece, and whether the piece is a word.
struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = (&'a str, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let is_in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_word = is_in_word(self.0.chars().next()?);
        let end = self.0.find(|c| is_in_word(c) != is_word);
        let (piece, rest) = self.0.split_at_checked(end.unwrap_or(self.0.len()))?;
        self.0 = rest;
        Some((piece, is_word))
    }
}

/// If the word starts with a kernel address, returns the length of the address. A kernel address is
/// a number in the upper half of the range, or a number with more than 64 bits.
fn address_len(word: &str) -> Option<usize> {
    const HEX_DIGITS: usize = 16;

    let is_kernel = |value: Option<u64>| value.is_none_or(|value| value > i64::MAX as u64);
    // A reader can recognise an address without its `0x`, too.
    if word.len() >= HEX_DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let value = u64::from_str_radix(word, 16).ok();
        return is_kernel(value).then_some(word.len());
    }
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (value, rest) = number::leading(word);
    is_kernel(value).then_some(word.len().saturating_sub(rest.len()))
}

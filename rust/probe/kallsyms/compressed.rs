// SPDX-License-Identifier: GPL-2.0

//! Hashes and expands the names of the kernel's symbols, which are compressed in memory.
//!
//! The names follow each other. A name is its length in bytes, and then the bytes. Each byte is the
//! number of a token, which stands for some characters. The first character is the symbol's type.
//! To find a name, rkprobe needs only the hashes of names. It computes them from the hashes of
//! tokens. It expands only the names that may match a pattern.
//!
//! C: `kallsyms_expand_symbol()` in `kernel/kallsyms.c`, `write_src()` in `scripts/kallsyms.c`.

use crate::hash::PartialHash;

/// The number of tokens.
pub const TOKENS: usize = 256;

/// Maximum length of a name with its length field, in bytes.
pub const MAX_COMPRESSED: usize = 2 + 0x3fff;

/// The texts of the tokens, in order. `index` contains the start of each text. A NUL ends each
/// text. A text without a NUL is `None`.
///
/// C: `kallsyms_token_table`, `kallsyms_token_index`.
pub fn token_texts<'a>(
    table: &'a [u8],
    index: &'a [u8; 2 * TOKENS],
) -> impl Iterator<Item = Option<&'a [u8]>> {
    index.chunks_exact(2).map(|start| {
        let start = u16::from_ne_bytes(start.try_into().ok()?);
        let text = table.get(usize::from(start)..)?;
        text.get(..text.iter().position(|&byte| byte == 0)?)
    })
}

/// Expands a compressed name, without the type, to the start of `to`, and returns it. `None` if the
/// name does not begin with `prefix`, if `to` is too short, or without a text for a token.
///
/// # Examples
///
/// ```
/// use probe::kallsyms::{
///     expand,
///     TOKENS, //
/// };
///
/// let mut texts: [&[u8]; TOKENS] = [b""; TOKENS];
/// texts[1] = b"Tvfs_";
/// texts[2] = b"re";
/// texts[3] = b"ad";
/// let mut to = [0; 16];
/// assert_eq!(expand(&[1, 2, 3], &texts, b"vfs_r", &mut to), Some(b"vfs_read".as_slice()));
/// assert_eq!(expand(&[1, 2, 3], &texts, b"vfs_w", &mut to), None);
/// ```
pub fn expand<'a>(
    name: &[u8],
    texts: &[&[u8]; TOKENS],
    prefix: &[u8],
    to: &'a mut [u8],
) -> Option<&'a [u8]> {
    let (first, rest) = name.split_first()?;
    let (_, first) = texts[usize::from(*first)].split_first()?;
    let rest = rest.iter().map(|&number| texts[usize::from(number)]);
    let mut len = 0usize;
    for text in core::iter::once(first).chain(rest) {
        let end = len.checked_add(text.len())?;
        to.get_mut(len..end)?.copy_from_slice(text);
        // Most names differ from the prefix in their first tokens.
        if let Some(expected) = prefix.get(len..) {
            if !text.iter().zip(expected).all(|(a, b)| a == b) {
                return None;
            }
        }
        len = end;
    }
    to.get(..len).filter(|name| name.len() >= prefix.len())
}

/// The hash of the characters that a byte of a compressed name stands for.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    whole: PartialHash,
    /// The hash of the token without its first character. `None` if this character cannot be a
    /// type.
    behind_type: Option<PartialHash>,
}

impl Token {
    /// Creates a token from its characters.
    pub fn new(text: &[u8]) -> Self {
        Self {
            whole: PartialHash::of(text),
            behind_type: match text {
                [first, rest @ ..] if first.is_ascii_alphabetic() => Some(PartialHash::of(rest)),
                _ => None,
            },
        }
    }
}

/// All tokens, in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a>(&'a [Token; TOKENS]);

impl<'a> Tokens<'a> {
    /// Returns `None` if the number of tokens is not [`TOKENS`].
    pub fn new(tokens: &'a [Token]) -> Option<Self> {
        Some(Self(tokens.try_into().ok()?))
    }

    /// The [`hash`](crate::hash::hash) of a compressed name, without the type. `None` if the first
    /// character of the name is not a type.
    #[inline(always)]
    pub fn hash(&self, name: &[u8]) -> Option<u64> {
        let (first, rest) = name.split_first()?;
        let start = self.0[usize::from(*first)].behind_type?;
        let all = rest.iter().fold(start, |part, &number| {
            part.then(self.0[usize::from(number)].whole)
        });
        Some(all.end())
    }
}

/// An iterator over compressed names. It ends before an incomplete name.
///
/// # Examples
///
/// ```
/// use probe::{
///     hash::hash,
///     kallsyms::{
///         Names,
///         Token,
///         Tokens, //
///     },
/// };
///
/// // Each byte stands for itself, but 1 for "vfs_".
/// let mut tokens: Vec<Token> = (0..=255).map(|byte| Token::new(&[byte])).collect();
/// tokens[1] = Token::new(b"vfs_");
/// let tokens = Tokens::new(&tokens).unwrap();
///
/// let mut names = Names::new(b"\x06T\x01read\x07T\x01wri");
/// let hashes: Vec<_> = names.by_ref().map(|name| tokens.hash(name)).collect();
/// assert_eq!(hashes, [Some(hash(b"vfs_read"))]);
/// assert_eq!(names.rest(), b"\x07T\x01wri");
/// ```
#[derive(Clone, Debug)]
pub struct Names<'a>(&'a [u8]);

impl<'a> Names<'a> {
    /// Creates an iterator over the names in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes after the last name.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = match self.0 {
            [len, rest @ ..] if len & 0x80 == 0 => (usize::from(*len), rest),
            // The first byte contains the low seven bits, the second the other bits.
            [low, high, rest @ ..] => (usize::from(low & 0x7f) | (usize::from(*high) << 7), rest),
            _ => return None,
        };
        let (name, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(name)
    }
}

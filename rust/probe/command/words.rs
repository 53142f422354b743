// SPDX-License-Identifier: GPL-2.0

//! Splits a line into words.
//!
//! C: `argv_split()` in `lib/argv_split.c`, and `trace_parse_run_command()` in
//! `kernel/trace/trace.c` for the comments.

use core::fmt;

/// Whether `c` separates words. Returns true for the ASCII characters that the kernel's `isspace()`
/// accepts.
///
/// The kernel also accepts the byte 0xa0, which would split some UTF-8 characters.
pub(super) const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// Returns the command of a line: the text before the comment. The names of symbols, events and
/// fields are ASCII. So text that is not UTF-8 cannot be a valid command, and the result is `None`.
pub fn without_comment(line: &[u8]) -> Option<&str> {
    let text = line.split(|&byte| byte == b'#').next().unwrap_or(line);
    core::str::from_utf8(text).ok()
}

/// An iterator over the words of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// Creates an iterator over the words of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// The text that the iterator has not consumed.
    pub(super) fn text(&self) -> &'a str {
        self.rest
    }

    /// Splits the words at the first `word`. Returns the words before it, and, if `word` exists,
    /// the words after it.
    pub(super) fn split_at(self, word: &str) -> (Self, Option<Self>) {
        let mut rest = self.clone();
        while let Some(next) = rest.next() {
            if next == word {
                let behind = rest.rest.len().saturating_add(word.len());
                let end = self.rest.len().saturating_sub(behind);
                let before = self.rest.get(..end).unwrap_or("");
                return (Self { rest: before }, Some(rest));
            }
        }
        (self, None)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start_matches(is_space);
        let end = text.find(is_space).unwrap_or(text.len());
        let (word, rest) = text.split_at_checked(end)?;
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// A position in a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Index of the word: the command is 0, its target 1, and its arguments start at 2. An index
    /// after the last word is the position after the last word.
    pub word: usize,
    /// Byte offset in the word.
    pub offset: usize,
}

/// The position of the first word of the target.
pub(super) const TARGET: Position = Position { word: 1, offset: 0 };

impl Position {
    /// The position `bytes` bytes after this one, in the same word.
    #[must_use]
    pub const fn skip(self, bytes: usize) -> Self {
        Self {
            word: self.word,
            offset: self.offset.saturating_add(bytes),
        }
    }

    /// The column of the caret under [`Normalized`](super::Normalized), counted from 0, in bytes.
    pub fn column(self, text: &str) -> usize {
        let mut start = 0usize;
        for (index, word) in Words::new(text).enumerate() {
            if index == self.word {
                return start.saturating_add(self.offset);
            }
            start = start.saturating_add(word.len()).saturating_add(1);
        }
        start
    }
}

/// A writer that counts bytes. Writing does not fail.
pub(super) struct Length(pub(super) usize);

impl fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.saturating_add(text.len());
        Ok(())
    }
}

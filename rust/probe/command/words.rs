// SPDX-License-Identifier: GPL-2.0

//! A line as words.
//!
//! C: `argv_split()` in `lib/argv_split.c`, and `trace_parse_run_command()` in
//! `kernel/trace/trace.c` for the comments.

/// Whether `c` separates words: what `isspace()` of the kernel takes of ASCII.
///
/// The kernel takes the byte 0xa0 as well, and would cut characters of UTF-8 into two.
pub(super) const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// The line in front of its comment.
pub(super) fn without_comment(line: &str) -> &str {
    line.split_once('#').map_or(line, |(text, _)| text)
}

/// The words of a line, without those of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// The words of `line`.
    pub fn new(line: &'a str) -> Self {
        Self {
            rest: without_comment(line),
        }
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

// SPDX-License-Identifier: GPL-2.0

//! A list of functions: `PATTERN[,PATTERN]...`, with `!PATTERN` for functions to leave out.

use super::words::{
    Position,
    TARGET, //
};

/// An item of a list of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionItem<'a> {
    /// A pattern for the names of functions. Empty only if the whole list is.
    pub pattern: &'a str,
    /// Whether the list leaves out the functions that match.
    pub is_excepted: bool,
    /// The position of the item in the command.
    pub at: Position,
}

/// The items of a list of functions. `word` is the word of the command that has the list.
pub(super) fn items(list: &str, word: usize) -> impl Iterator<Item = FunctionItem<'_>> {
    let mut next = Position { word, offset: 0 };
    list.split(',').map(move |text| {
        let at = next;
        next = at.skip(text.len()).skip(",".len());
        let excepted = text.strip_prefix('!');
        FunctionItem {
            pattern: excepted.unwrap_or(text),
            is_excepted: excepted.is_some(),
            at,
        }
    })
}

/// The items of the list of functions that is the target of an `f`.
pub fn target_functions(list: &str) -> impl Iterator<Item = FunctionItem<'_>> {
    items(list, TARGET.word)
}

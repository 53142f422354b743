// SPDX-License-Identifier: GPL-2.0

//! Checks lists of functions.

use crate::error::{
    Errno,
    ErrorKind, //
};

use super::{
    error::Error,
    function_list, //
};

/// The maximum number of patterns in a list: the module searches all symbols for each of them.
pub const MAX_PATTERNS: usize = 64;

/// Checks that a list does not have too many patterns, and that none of them is empty or has a
/// suffix. `word` is the word of the command that has the list.
pub(super) fn check_list(list: &str, word: usize) -> Result<(), Error> {
    let error = |kind, at| Err(Error::at(kind, at, Errno::EINVAL));
    for (index, item) in function_list::items(list, word).enumerate() {
        if index == MAX_PATTERNS {
            return error(ErrorKind::TooManyPatterns, item.at);
        }
        let at = item.at.skip(usize::from(item.is_excepted));
        if item.pattern.is_empty() {
            return error(ErrorKind::BadPattern, at);
        }
        if let Some(offset) = item.pattern.find('%') {
            return error(ErrorKind::BadAddrSuffix, at.skip(offset));
        }
    }
    Ok(())
}

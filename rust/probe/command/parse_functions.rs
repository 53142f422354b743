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

/// Checks that no pattern of a list is empty or has a suffix. `word` is the word of the command
/// that has the list.
pub(super) fn check_list(list: &str, word: usize) -> Result<(), Error> {
    for item in function_list::items(list, word) {
        let at = item.at.skip(usize::from(item.is_excepted));
        let error = |kind, at| Err(Error::at(kind, at, Errno::EINVAL));
        if item.pattern.is_empty() {
            return error(ErrorKind::BadPattern, at);
        }
        if let Some(offset) = item.pattern.find('%') {
            return error(ErrorKind::BadAddrSuffix, at.skip(offset));
        }
    }
    Ok(())
}

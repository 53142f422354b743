// SPDX-License-Identifier: GPL-2.0

//! Patterns with wildcards: `*`, `?`, `[a-z]`, `[!a-z]` and `\`.
//!
//! C: `lib/glob.c`.

use kernel::prelude::*;

use crate::bindings;

/// Whether a text matches a pattern. Any context. Takes time proportional to the product of both
/// lengths at most.
///
/// # Examples
///
/// ```
/// # use ktrace::glob;
/// assert!(glob::matches(c"post*", c"postgres"));
/// assert!(!glob::matches(c"post?", c"postgres"));
/// ```
///
/// C: `glob_match()`.
#[inline(always)]
pub fn matches(pattern: &CStr, text: &CStr) -> bool {
    // SAFETY: Both are NUL-terminated strings. The function only reads them.
    unsafe { bindings::glob_match(pattern.as_char_ptr(), text.as_char_ptr()) }
}

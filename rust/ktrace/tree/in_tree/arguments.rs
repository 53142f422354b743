// SPDX-License-Identifier: GPL-2.0

//! The words of a command that removes events, as the kernel passes them.

use core::marker::PhantomData;

use kernel::{
    ffi::c_char,
    prelude::*,
    str::CStr, //
};

/// The words of a command, one by one. One that is not UTF-8 is a text that is in no listing.
#[derive(Clone)]
pub struct Arguments<'a> {
    /// # Invariants
    ///
    /// So many strings, which live for as long as `'a`.
    next: *const *const c_char,
    left: usize,
    strings: PhantomData<&'a CStr>,
}

impl Arguments<'_> {
    /// # Safety
    ///
    /// There are `len` strings at `first`, which live and do not change for as long as the value.
    pub(crate) unsafe fn new(first: *const *const c_char, len: usize) -> Self {
        // INVARIANT: The caller passes `len` strings that live for as long as the value.
        Self {
            next: first,
            left: len,
            strings: PhantomData,
        }
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: By the invariant of `next` there are `left` strings from it on, and one was left.
        let word = unsafe { CStr::from_char_ptr(*self.next) };
        // INVARIANT: And so there is one less from the next one on.
        self.next = self.next.wrapping_add(1);
        Some(word.to_str().unwrap_or("\0"))
    }
}

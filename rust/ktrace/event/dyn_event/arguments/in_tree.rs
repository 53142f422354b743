// SPDX-License-Identifier: GPL-2.0

//! The words of a command that removes events, in the form in which the kernel passes them.

use core::marker::PhantomData;

use kernel::{
    ffi::c_char,
    prelude::*,
    str::CStr, //
};

/// An iterator over the words of a command. A word that is not UTF-8 becomes a string that no
/// listing contains.
#[derive(Clone)]
pub struct Arguments<'a> {
    /// # Invariants
    ///
    /// `next` points to `left` pointers to strings, which live for `'a`.
    next: *const *const c_char,
    left: usize,
    strings: PhantomData<&'a CStr>,
}

impl Arguments<'_> {
    /// # Safety
    ///
    /// `first` must point to `len` pointers to strings. The strings must live, and must not change,
    /// for as long as the value lives.
    pub(crate) unsafe fn new(first: *const *const c_char, len: usize) -> Self {
        // INVARIANT: The caller guarantees `len` strings that live as long as the value.
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
        // SAFETY: By the invariant of `next`, there are `left` strings from `next` on, and `left`
        // was not 0.
        let word = unsafe { CStr::from_char_ptr(*self.next) };
        // INVARIANT: The string was taken, so one string less remains from the next pointer on.
        self.next = self.next.wrapping_add(1);
        Some(word.to_str().unwrap_or("\0"))
    }
}

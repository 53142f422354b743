// SPDX-License-Identifier: GPL-2.0

//! The kernel's `dynamic_events` in tracefs: commands that are written there, and entries in its
//! listing. It is open in the kernel's tree alone; elsewhere nothing here does anything.
//!
//! For rkprobe alone: it is not exported to other modules.
//!
//! C: `kernel/trace/trace_dynevent.h`.

use core::ffi::CStr;
use core::marker::PhantomData;

use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;

use crate::home;
use crate::trace_event::EventMutex;

/// Who makes events by commands. Process context.
///
/// Without the token `event_mutex` is not held. With it the kernel goes through its list: entries
/// that are removed here leave the listing at once, and the list later.
pub trait Handler: 'static {
    /// Carries out a command that is none for the kernel. `ECANCELED` where it is none for us.
    ///
    /// Without `event_mutex`; one at a time.
    fn create(command: &[u8]) -> Result;

    /// Shows the entry of this number.
    fn show(token: &EventMutex, number: usize, to: &SeqFile);

    /// Is it in use, so that it cannot be removed?
    fn is_busy(token: &EventMutex, number: usize) -> bool;

    /// Removes it, and [its entry](DynEvent).
    fn remove(token: &EventMutex, number: usize) -> Result;

    /// Is it what is to be removed: of this group, or any; of this name, or any where it is empty;
    /// and otherwise as these words say?
    fn matches(
        token: &EventMutex,
        number: usize,
        group: Option<&str>,
        event: &str,
        words: Arguments<'_>,
    ) -> bool;
}

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
    #[cfg_attr(not(CONFIG_RKPROBE_EXPORTS), expect(dead_code))]
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

/// An entry of the listing: of the probe of a number. Dropping it takes it out of the listing.
pub struct DynEvent(home::DynEvent);

impl DynEvent {
    /// One that is not in the listing. `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(home::DynEvent::new()?))
    }

    /// Puts it into the listing, if it is not there: `H` is asked about this number from now on.
    pub fn add<H: Handler>(&self, token: &EventMutex, number: usize) {
        self.0.add::<H>(token, number);
    }

    /// Takes it out, if it is there: `H` is not asked about it any more.
    pub fn remove(&self, token: &EventMutex) {
        self.0.remove(token);
    }
}

/// A registered handler: no command comes after it was dropped. Dropping waits for a command that
/// is being carried out, so it is not for use in [`Handler::create`].
///
/// It does not matter whether [entries](DynEvent) go before or after it.
pub struct Registration(());

/// Registers who takes commands: there can be one, else `EBUSY`. Process context.
pub fn register<H: Handler>() -> Result<Registration> {
    home::register_dyn_events::<H>()?;
    Ok(Registration(()))
}

impl Drop for Registration {
    fn drop(&mut self) {
        home::unregister_dyn_events();
    }
}

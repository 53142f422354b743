// SPDX-License-Identifier: GPL-2.0

//! The kernel's `dynamic_events` in tracefs: commands that are written there, and entries in its
//! listing. It is open to modules of the kernel's tree alone; elsewhere nothing here does anything.
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
pub trait Handler: 'static {
    /// Carries out a command that is none for the kernel. `ECANCELED` where it is none for us.
    ///
    /// Without `event_mutex`; one at a time.
    fn create(command: &[u8]) -> Result;

    /// Shows the entry of this number.
    fn show(token: &EventMutex, number: usize, to: &SeqFile);

    /// Is it in use, so that it cannot be removed?
    fn is_busy(token: &EventMutex, number: usize) -> bool;

    /// Removes it, and [its entry](DynEvent), but no other.
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
        // INVARIANT: By the safety requirement.
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
        // SAFETY: By the type invariant there was one left.
        let word = unsafe { CStr::from_ptr((*self.next).cast()) };
        // INVARIANT: And so there is one less from the next one on.
        self.next = self.next.wrapping_add(1);
        Some(word.to_str().unwrap_or("\0"))
    }
}

/// An entry of the listing: of the probe of a number.
pub struct DynEvent(home::DynEvent);

impl DynEvent {
    /// One that is not in the listing. `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(home::DynEvent::new()?))
    }

    /// Puts it into the listing, if it is not there. Before it is dropped it must be taken out;
    /// else it stays, with a warning.
    pub fn add(&self, token: &EventMutex, number: usize) {
        self.0.add(token, number);
    }

    /// Takes it out, if it is there.
    pub fn remove(&self, token: &EventMutex) {
        self.0.remove(token);
    }
}

/// A registered handler: no command comes after it was dropped.
pub struct Registration(());

/// Registers who takes commands: there can be one. Process context.
///
/// # Safety
///
/// What was [added](DynEvent::add) is [removed](DynEvent::remove) before the module of `H` goes.
pub unsafe fn register<H: Handler>() -> Result<Registration> {
    home::register_dyn_events::<H>()?;
    Ok(Registration(()))
}

impl Drop for Registration {
    fn drop(&mut self) {
        home::unregister_dyn_events();
    }
}

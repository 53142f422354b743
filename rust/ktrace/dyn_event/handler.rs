// SPDX-License-Identifier: GPL-2.0

//! Who makes events by commands in `dynamic_events`.

use kernel::prelude::*;
use kernel::seq_file::SeqFile;

use crate::home::Arguments;
use crate::trace_event::EventMutex;

/// Who takes commands. Process context.
pub trait Commands: 'static {
    /// Carries out a command that is none for the kernel. `ECANCELED` where it is none for us.
    ///
    /// Without `event_mutex`; one at a time.
    fn create(command: &[u8]) -> Result;
}

/// Who is asked about [entries](super::DynEvent). Process context.
///
/// The kernel goes through its list: entries that are removed here leave the listing at once, and
/// the list later.
pub trait Entries: 'static {
    /// Shows the entry of this number.
    fn show(token: &EventMutex, number: usize, to: &SeqFile);

    /// Is it in use, so that it cannot be removed?
    fn is_busy(token: &EventMutex, number: usize) -> bool;

    /// Removes it, and [its entry](super::DynEvent).
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

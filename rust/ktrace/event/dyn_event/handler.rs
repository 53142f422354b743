// SPDX-License-Identifier: GPL-2.0

//! Traits for modules that create events by commands in `dynamic_events`.

use kernel::{
    prelude::*,
    seq_file::SeqFile, //
};

use crate::event::mutex::EventMutex;

use super::arguments::Arguments;

/// A handler of commands. Process context.
pub trait Commands: 'static {
    /// Executes a command that the kernel does not recognize. `ECANCELED` if this handler does not
    /// recognize the command either.
    ///
    /// Called without `event_mutex`. The calls do not overlap.
    fn create(command: &[u8]) -> Result;
}

/// A handler for its [entries](super::DynEvent). Process context.
///
/// The kernel iterates over its list. So a removed entry disappears from the listing immediately,
/// but leaves the list later.
pub trait Entries: 'static {
    /// Prints the entry with this number to `to`.
    fn show(token: &EventMutex, number: usize, to: &SeqFile);

    /// Whether the entry is in use, so that it cannot be removed.
    fn is_busy(token: &EventMutex, number: usize) -> bool;

    /// Removes the probe with this number, and [its entry](super::DynEvent).
    fn remove(token: &EventMutex, number: usize) -> Result;

    /// Whether a command that removes events matches this entry. The group and the name must equal
    /// those of the entry. Without a group, any group matches. An empty name matches any name. The
    /// words are the target and the first arguments of the probe.
    fn matches(
        token: &EventMutex,
        number: usize,
        group: Option<&str>,
        event: &str,
        words: Arguments<'_>,
    ) -> bool;
}

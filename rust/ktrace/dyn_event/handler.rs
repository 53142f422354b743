// SPDX-License-Identifier: GPL-2.0

//! Traits of modules that create events with commands in `dynamic_events`.

use kernel::{
    prelude::*,
    seq_file::SeqFile, //
};

use crate::{
    trace_event::EventMutex,
    tree::Arguments, //
};

/// A handler of commands. Process context.
pub trait Commands: 'static {
    /// Carries out a command that is none for the kernel. `ECANCELED` where it is none for us.
    ///
    /// Without `event_mutex`; one at a time.
    fn create(command: &[u8]) -> Result;
}

/// A handler that answers for its [entries](super::DynEvent). Process context.
///
/// The kernel iterates over its list. So a removed entry leaves the listing at once, and the list
/// later.
pub trait Entries: 'static {
    /// Shows the entry of this number.
    fn show(token: &EventMutex, number: usize, to: &SeqFile);

    /// Whether the entry is in use. Then it cannot be removed.
    fn is_busy(token: &EventMutex, number: usize) -> bool;

    /// Removes the probe of this number, and [its entry](super::DynEvent).
    fn remove(token: &EventMutex, number: usize) -> Result;

    /// Whether a command that removes events matches this entry. The group and the name must be
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

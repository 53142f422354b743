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

    /// Does anybody use the entry? Then it cannot be removed.
    fn is_busy(token: &EventMutex, number: usize) -> bool;

    /// Removes the probe of this number, and [its entry](super::DynEvent).
    fn remove(token: &EventMutex, number: usize) -> Result;

    /// Does a command that removes events mean this entry? The group and the name must be those of
    /// the entry. No group stands for any, and so does an empty name. The words are the target and
    /// the first arguments of the probe.
    fn matches(
        token: &EventMutex,
        number: usize,
        group: Option<&str>,
        event: &str,
        words: Arguments<'_>,
    ) -> bool;
}

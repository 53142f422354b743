// SPDX-License-Identifier: GPL-2.0

//! A command that removes events: `-:[GROUP/][EVENT] [TARGET [ARGS]]`. In `dynamic_events`, a `!`
//! before the command that created a probe has the same meaning. As in C, the parser ignores the
//! characters between the `!` and the `:`.
//!
//! C: `dyn_event_release()` in `kernel/trace/trace_dynevent.c`, `trace_kprobe_match()` in
//! `kernel/trace/trace_kprobe.c`, `trace_fprobe_match()` in `kernel/trace/trace_fprobe.c`,
//! `eprobe_dyn_event_match()` in `kernel/trace/trace_eprobe.c`.

use crate::error::ErrorKind;

use super::{
    error::Error,
    words::Words, //
};

/// A command that removes events. [`ProbeSpec::is_deleted_by`](super::ProbeSpec::is_deleted_by)
/// selects the probes. If it selects none, the error is [`ErrorKind::NoSuchEvent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The group. `None` selects all groups.
    pub group: Option<&'a str>,
    /// The event. An empty string selects all events of the group.
    pub event: &'a str,
    /// Words that must equal the words of the event's listing: the target, then arguments from the
    /// first on.
    pub words: Words<'a>,
}

impl<'a> Delete<'a> {
    /// Parses a command from its first word, which starts with `-` or `!`, and its other words.
    pub(super) fn parse(head: &'a str, words: Words<'a>) -> Result<Self, Error> {
        let name = match head.strip_prefix('!') {
            Some(command) => command.split_once(':').map(|(_, name)| name),
            None => head.strip_prefix("-:"),
        };
        let Some(name) = name else {
            return Err(Error::invalid(ErrorKind::BadDelete, 0, 1));
        };
        // As in C, a `.` does not separate the group from the event here.
        let (group, event) = match name.split_once('/') {
            Some((group, event)) => (Some(group), event),
            None => (None, name),
        };
        if group.is_none() && event.is_empty() {
            return Err(Error::invalid(ErrorKind::NoDeleteName, 0, head.len()));
        }
        Ok(Self {
            group,
            event,
            words,
        })
    }
}

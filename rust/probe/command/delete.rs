// SPDX-License-Identifier: GPL-2.0

//! `-:[GROUP/][EVENT] [TARGET [ARGS]]`: removes events. In the file for all kinds, a `!` before the
//! command that created a probe has the same meaning. As in C, the characters between the `!` and
//! the `:` are ignored.
//!
//! C: `dyn_event_release()` in `kernel/trace/trace_dynevent.c`, `trace_kprobe_match()` in
//! `kernel/trace/trace_kprobe.c`, `trace_fprobe_match()` in `kernel/trace/trace_fprobe.c`,
//! `eprobe_dyn_event_match()` in `kernel/trace/trace_eprobe.c`.

use crate::error::ErrorKind;

use super::{
    error::Error,
    words::Words, //
};

/// A command that deletes events. [`ProbeSpec::is_deleted_by`](super::ProbeSpec::is_deleted_by)
/// says which probes it deletes. If there is none, the error is [`ErrorKind::NoSuchEvent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The group, or any where it is left out.
    pub group: Option<&'a str>,
    /// The event; empty is every event of the group.
    pub event: &'a str,
    /// The words that must equal those in the event's listing: the target, then arguments from the
    /// first on.
    pub words: Words<'a>,
}

impl<'a> Delete<'a> {
    /// Parses the first word, which starts with `-` or `!`, and the other words.
    pub(super) fn parse(head: &'a str, words: Words<'a>) -> Result<Self, Error> {
        let name = match head.strip_prefix('!') {
            Some(command) => command.split_once(':').map(|(_, name)| name),
            None => head.strip_prefix("-:"),
        };
        let Some(name) = name else {
            return Err(Error::invalid(ErrorKind::BadDelete, 0, 1));
        };
        // Only the slash separates here.
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

// SPDX-License-Identifier: GPL-2.0

//! `-:[GROUP/][EVENT] [TARGET [ARGS]]`: which events go. In the file of all kinds a `!` in front of
//! the command that made a probe says the same; as in C what is between it and the `:` does not
//! matter.
//!
//! C: `dyn_event_release()` in `kernel/trace/trace_dynevent.c`, `trace_kprobe_match()` in
//! `kernel/trace/trace_kprobe.c`, `trace_fprobe_match()` in `kernel/trace/trace_fprobe.c`,
//! `eprobe_dyn_event_match()` in `kernel/trace/trace_eprobe.c`.

use super::error::Error;
use super::words::Words;
use crate::error::ErrorKind;

/// A command that deletes events. It deletes every probe that it matches; where there is none, the
/// error is [`ErrorKind::NoSuchEvent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The group, or any where it is left out.
    pub group: Option<&'a str>,
    /// The event; empty is every event of the group.
    pub event: &'a str,
    /// What else must be as in the listing of the event: the target, then arguments from the first
    /// on.
    pub words: Words<'a>,
}

impl<'a> Delete<'a> {
    /// From the first word, which starts with `-` or `!`, and the others.
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

    /// Whether the probe goes whose group, event and listing line these are.
    pub fn matches(&self, group: &str, event: &str, listing: &str) -> bool {
        matches(
            (self.group, self.event, self.words.clone()),
            (group, event, listing),
        )
    }
}

/// Whether a group, or any, an event, or any where it is empty, and more words, mean the probe
/// whose group, event and listing line these are.
///
/// The listing says each argument as `NAME=BODY`, so one written without its name does not
/// match. Unlike in C, a target of more than 63 bytes can match, and one with its `%return`.
pub fn matches<'a>(
    (wanted_group, wanted_event, mut words): (Option<&str>, &str, impl Iterator<Item = &'a str>),
    (group, event, listing): (&str, &str, &str),
) -> bool {
    let is_event = listing.starts_with('e');
    let mut listed = Words::new(listing).skip(1);
    let mut is_target = |word: &str| {
        listed.next().is_some_and(|target| {
            target == word
                || target.strip_suffix("%return") == Some(word)
                || is_event && target.split_once('.') == word.split_once('/')
        })
    };

    (wanted_event.is_empty() || wanted_event == event)
        && wanted_group.is_none_or(|name| name == group)
        && words.next().is_none_or(&mut is_target)
        && words.all(|word| listed.next() == Some(word))
}

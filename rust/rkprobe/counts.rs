// SPDX-License-Identifier: GPL-2.0

//! The file of the tables of all events that count.

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    str::CString,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

use ktrace::glob;
use probe::command::{
    EventsFile,
    Normalized, //
};

use crate::{
    event::Probe,
    registry,
    tally::Tally, //
};

/// The line instead of a table. The tool knows it, too.
const NO_MEMORY: &str = "# no memory to show a table\n";

/// An event that counts.
struct CountingEvent {
    tally: Arc<Tally>,
    group: CString,
    event: CString,
    is_enabled: bool,
    /// The condition of its probe. Several probes may have several conditions, so then it is left
    /// out.
    condition: Option<CString>,
}

impl CountingEvent {
    /// The event of a probe. `None` if it makes records. `ENOMEM`.
    fn of(probe: &Probe) -> Result<Option<Self>> {
        let (records, spec) = (probe.records(), probe.spec());
        let Some(tally) = records.schema.tally() else {
            return Ok(None);
        };
        let command = spec.command();
        let condition = match command.condition_text() {
            Some(condition) if records.state.probes.load(Relaxed) == 1 => {
                Some(CString::try_from_fmt(format_args!("{condition}"))?)
            }
            _ => None,
        };
        Ok(Some(Self {
            tally: tally.clone(),
            group: CString::try_from_fmt(format_args!("{}", spec.group()))?,
            event: CString::try_from_fmt(format_args!("{}", spec.event()))?,
            is_enabled: records.state.is_enabled.load(Relaxed),
            condition,
        }))
    }

    /// The event whose first probe has this number. `None` if there is none any more. `ENOMEM`.
    fn at(number: usize) -> Result<Option<Self>> {
        let event = registry::with_first_probe(number, Self::of).transpose()?;
        Ok(event.flatten())
    }
}

/// A pattern for the names of events: `[GROUP/]EVENT`, with `*`, `?` and `[...]`.
struct Pattern {
    group: Option<CString>,
    event: CString,
}

impl Pattern {
    /// `ENOMEM`.
    fn new(text: &str) -> Result<Self> {
        let copy = |text| CString::try_from_fmt(format_args!("{text}"));
        Ok(match text.split_once('/') {
            Some((group, event)) => Self {
                group: Some(copy(group)?),
                event: copy(event)?,
            },
            None => Self {
                group: None,
                event: copy(text)?,
            },
        })
    }

    fn matches(&self, event: &CountingEvent) -> bool {
        let is_group = |group: &CString| glob::matches(group, &event.group);
        self.group.as_ref().is_none_or(is_group) && glob::matches(&self.event, &event.event)
    }
}

/// The number of the first probe of an event that counts, from `from` on.
pub(crate) fn next(mut from: usize) -> Option<usize> {
    let counts = |probe: &Probe| probe.records().schema.tally().is_some();
    loop {
        let number = registry::next(EventsFile::DynamicEvents, from)?;
        if registry::with_first_probe(number, counts) == Some(true) {
            return Some(number);
        }
        from = number + 1;
    }
}

/// Writes the table of the event whose first probe has this number.
pub(crate) fn show(number: usize, to: &SeqFile) {
    let event = match CountingEvent::at(number) {
        Ok(Some(event)) => event,
        Ok(None) => return,
        Err(_) => return to.call_printf(format_args!("{NO_MEMORY}")),
    };
    let (group, name) = (text(&event.group), text(&event.event));
    to.call_printf(format_args!("# event: {group}/{name}\n"));
    let condition = event
        .condition
        .as_ref()
        .map(|condition| Normalized(text(condition)));
    if event
        .tally
        .show(condition.as_ref(), event.is_enabled, to)
        .is_err()
    {
        to.call_printf(format_args!("{NO_MEMORY}"));
    }
    to.call_printf(format_args!("\n\n"));
}

/// Empties the tables of the events whose names match a pattern. `ENOENT` if there are none.
/// `ENOMEM`.
pub(crate) fn reset(line: &[u8]) -> Result {
    let pattern = core::str::from_utf8(line).map_err(|_| EINVAL)?.trim();
    if pattern.is_empty() {
        return Ok(());
    }
    let pattern = Pattern::new(pattern)?;
    let (mut from, mut is_found) = (0, false);
    while let Some(number) = next(from) {
        if let Some(event) = CountingEvent::at(number)?.filter(|event| pattern.matches(event)) {
            event.tally.reset()?;
            is_found = true;
        }
        from = number + 1;
    }
    match is_found {
        true => Ok(()),
        false => Err(ENOENT),
    }
}

/// A part of a command, which was checked to be UTF-8.
fn text(part: &CString) -> &str {
    part.to_str().unwrap_or("")
}

// SPDX-License-Identifier: GPL-2.0

//! Strings of programs that cannot be read at the entry of a call, because their page is not in memory: the function
//! itself brings the page in, so the record of the call's return has the string.

use std::{
    collections::HashMap,
    time::{
        Duration,
        Instant, //
    }, //
};

use crate::{
    format::FAULT,
    record::Entry, //
};

/// A call that takes longer is shown without the string.
const PATIENCE: Duration = Duration::from_secs(1);

/// The name of the field with the address of a string.
pub fn address_name(name: &str) -> String {
    format!("{name}_at")
}

/// The calls whose strings are missing.
#[derive(Default)]
pub struct LateTexts {
    /// The event of entries, for each event of returns. Without them, no call waits.
    events: HashMap<String, String>,
    waiting: Vec<(Entry, Instant)>,
}

impl LateTexts {
    /// `events` has the event of returns and that of entries of each function whose strings can be missing.
    pub fn new(events: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            events: events.into_iter().collect(),
            waiting: Vec::new(),
        }
    }

    /// Takes a record, or that there is none now. Returns those that can be shown.
    pub fn take(&mut self, entry: Option<Entry>) -> Vec<Entry> {
        let Some(entry) = entry else {
            return self.remove(|_, since| since.elapsed() >= PATIENCE);
        };
        if let Some(event) = self.events.get(&*entry.event).cloned() {
            let is_call = |call: &Entry| *call.event == *event && call.pid == entry.pid;
            let mut calls = self.remove(|call, _| is_call(call));
            calls.iter_mut().for_each(|call| complete(call, &entry));
            return calls;
        }
        // The task had no return since its last call: the call was recursive, or its record was lost.
        let mut shown = self.remove(|call, _| call.event == entry.event && call.pid == entry.pid);
        let has_returns = self.events.values().any(|event| **event == *entry.event);
        match has_returns && missing(&entry).next().is_some() {
            true => self.waiting.push((entry, Instant::now())),
            false => shown.push(entry),
        }
        shown
    }

    /// The end of the records. Returns all that are left.
    pub fn end(&mut self) -> Vec<Entry> {
        self.remove(|_, _| true)
    }

    fn remove(&mut self, is_it: impl Fn(&Entry, &Instant) -> bool) -> Vec<Entry> {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (removed, kept) = all.partition(|(call, since)| is_it(call, since));
        self.waiting = kept;
        let removed: Vec<(Entry, Instant)> = removed;
        removed.into_iter().map(|(call, _)| call).collect()
    }
}

/// The names and the addresses of the strings that could not be read.
fn missing(entry: &Entry) -> impl Iterator<Item = (&str, &str)> {
    let faults = entry.fields.iter().filter(|(_, value)| *value == FAULT);
    faults.filter_map(|(name, _)| {
        let address = value(entry, &address_name(name))?;
        (address != "0x0").then_some((name, address))
    })
}

fn value<'e>(entry: &'e Entry, name: &str) -> Option<&'e str> {
    let mut fields = entry.fields.iter();
    Some(fields.find(|(field, _)| *field == name)?.1)
}

/// Gives a call the strings of its return. The address of each must be the same.
fn complete(call: &mut Entry, at_return: &Entry) {
    let texts: Vec<(String, String)> = missing(call)
        .filter(|(name, address)| value(at_return, &address_name(name)) == Some(address))
        .filter_map(|(name, _)| Some((name.into(), value(at_return, name)?.into())))
        .collect();
    for (name, text) in texts {
        call.fields = call.fields.with(&name, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(event: &str, pid: u32, fields: &str) -> Entry {
        let line = format!("  cat-{pid} [000] ..... 6.1: {event}: (f+0x0/0x9) {fields}");
        Entry::parse(&line, event).unwrap()
    }

    fn texts() -> LateTexts {
        LateTexts::new([("args_return".into(), "args".into())])
    }

    fn names(shown: Vec<Entry>) -> Vec<String> {
        let name = |entry: &Entry| value(entry, "name").unwrap_or("").to_string();
        shown.iter().map(name).collect()
    }

    #[test]
    fn a_string_is_that_of_the_return() {
        let mut texts = texts();
        let mut take = |event, pid, fields| names(texts.take(Some(entry(event, pid, fields))));
        let fault = "name_at=0x10 name=(fault)";
        assert_eq!(take("args", 1, "name_at=0x10 name=\"x\""), ["\"x\""]);
        assert!(take("args_return", 1, "name_at=0x10 name=\"x\"").is_empty());
        assert!(take("args", 1, fault).is_empty());
        assert!(take("args_return", 2, "name_at=0x10 name=\"y\"").is_empty());
        assert_eq!(take("args_return", 1, "name_at=0x10 name=\"x\""), ["\"x\""]);
        assert!(take("args_return", 1, "name_at=0x10 name=\"x\"").is_empty());
        assert!(take("args", 1, fault).is_empty());
        assert_eq!(take("args_return", 1, "name_at=0x20 name=\"x\""), [FAULT]);
        assert!(take("args", 1, fault).is_empty());
        assert_eq!(take("args_return", 1, fault), [FAULT]);
    }

    #[test]
    fn a_call_does_not_wait_for_the_return_of_another() {
        let mut texts = texts();
        let fault = || Some(entry("args", 1, "name_at=0x10 name=(fault)"));
        assert!(texts.take(fault()).is_empty());
        assert!(texts.take(None).is_empty());
        assert_eq!(names(texts.take(fault())), [FAULT]);
        assert_eq!(names(texts.end()), [FAULT]);
        assert!(texts.end().is_empty());
    }

    #[test]
    fn other_records_do_not_wait() {
        for fields in ["name_at=0x0 name=(fault)", "name=(fault)", "a=1"] {
            assert_eq!(texts().take(Some(entry("args", 1, fields))).len(), 1);
        }
        let mut none = LateTexts::default();
        let fault = entry("args", 1, "name_at=0x10 name=(fault)");
        assert_eq!(none.take(Some(fault)).len(), 1);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Tables that the tool makes of records, because the answer needs two events, a start and an end, or because the
//! kernel's tables have no stack traces of programs.

use std::{
    collections::HashMap,
    os::fd::BorrowedFd, //
};

use crate::{
    context::Context,
    failure::Result,
    hist::{
        Hist,
        Row, //
    },
    instance::Instance,
    reader::Reader,
    record::{
        name_of,
        Entry,
        Record, //
    },
    stream::Options, //
};

/// The most rows of a table.
const MAX_ROWS: usize = 1 << 20;

/// What a record adds to a table.
#[derive(Debug, Default, PartialEq)]
pub struct Hit {
    /// The index of the table.
    pub table: usize,
    /// The keys of its row.
    pub keys: Vec<String>,
    /// The duration, in ns. It is the last key of its row.
    pub ns: Option<u64>,
    /// The number that is added up for each row.
    pub value: u64,
}

/// The keys of a row, and its duration.
pub fn split(row: &Row) -> (&[String], u64) {
    match row.keys.split_last() {
        Some((ns, keys)) => (keys, ns.parse().unwrap_or(0)),
        None => (&[], 0),
    }
}

/// The stack trace of a record as a key, as in the kernel's tables: it begins with the function that made the call.
pub fn callers(record: &Record<'_>) -> String {
    let is_own = |frame: &&str| name_of(record.place) == name_of(frame);
    let has_own = record.return_address().is_none() && record.stack.first().is_some_and(is_own);
    record.stack[usize::from(has_own)..].join("\n")
}

/// What the records with these indices of their events add to the tables.
pub type Take<'a> = &'a mut dyn FnMut(usize, &Record<'_>) -> Vec<Hit>;

/// A table.
#[derive(Default)]
struct Rows {
    rows: HashMap<Vec<String>, Row>,
    dropped: u64,
}

impl Rows {
    fn add(&mut self, hit: Hit) {
        let mut keys = hit.keys;
        keys.extend(hit.ns.map(|ns| ns.to_string()));
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&keys) {
            self.dropped += 1;
            return;
        }
        let row = self.rows.entry(keys).or_insert_with_key(|keys| Row {
            keys: keys.clone(),
            hits: 0,
            sum: 0,
            min: None,
            max: None,
        });
        row.hits += 1;
        row.sum = row.sum.saturating_add(hit.value);
    }
}

/// The tables of the records of a run.
pub struct Tally {
    reader: Option<Reader>,
    options: Options,
    events: Vec<String>,
    tables: Vec<Rows>,
}

impl Tally {
    /// Counts records of these events. The options say which stack traces they have.
    pub fn new<E: ToString>(events: &[E], options: &Options) -> Self {
        Self {
            reader: None,
            options: *options,
            events: events.iter().map(E::to_string).collect(),
            tables: events.iter().map(|_| Rows::default()).collect(),
        }
    }

    /// The buffers of the records, once they are read.
    pub fn buffers(&self) -> Vec<BorrowedFd<'_>> {
        self.reader.as_ref().map_or(Vec::new(), Reader::buffers)
    }

    /// Counts the records that there are, or those before `is_over` says that the run ends.
    pub fn read(
        &mut self,
        context: &Context,
        instance: &Instance<'_>,
        is_over: impl Fn() -> bool,
        take: Take<'_>,
    ) -> Result {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => context.reader(instance, &self.options)?,
        };
        reader.read(is_over, |entry| {
            self.add(entry, take);
            Ok(true)
        })?;
        self.reader = Some(reader);
        Ok(())
    }

    /// The end of the run: counts the records that wait for a stack trace.
    pub fn end(&mut self, take: Take<'_>) {
        for entry in self.reader.take().into_iter().flat_map(Reader::end) {
            self.add(Some(entry), take);
        }
    }

    /// The tables, at least one for each event.
    pub fn tables(&self) -> impl Iterator<Item = Hist> + '_ {
        self.tables.iter().map(|table| Hist {
            rows: table.rows.values().cloned().collect(),
            dropped: table.dropped,
        })
    }

    fn add(&mut self, entry: Option<Entry>, take: Take<'_>) {
        let Some(entry) = entry else {
            return;
        };
        let Some(event) = self.events.iter().position(|event| **event == *entry.event) else {
            return;
        };
        let mut record = entry.record();
        record
            .stack
            .extend(entry.user_stack.iter().map(String::as_str));
        for hit in take(event, &record) {
            if self.tables.len() <= hit.table {
                self.tables.resize_with(hit.table + 1, Rows::default);
            }
            self.tables[hit.table].add(hit);
        }
    }
}

/// The first table of records, which are `lines`.
#[cfg(test)]
pub fn table_of<E: ToString>(events: &[E], lines: &[&str], take: Take<'_>) -> Hist {
    let mut tally = Tally::new(events, &Options::default());
    for line in lines {
        let mut names = events.iter().map(E::to_string);
        tally.add(names.find_map(|event| Entry::parse(line, &event)), take);
    }
    let first = tally.tables().next();
    first.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(tally: &Tally) -> Vec<Hist> {
        tally.tables().collect()
    }

    #[test]
    fn equal_keys_share_a_row() {
        let mut rows = Rows::default();
        for (key, ns, value) in [("a", 5, 100), ("a", 5, 11), ("a", 6, 1), ("b", 5, 1)] {
            rows.add(Hit {
                keys: vec![key.into()],
                ns: Some(ns),
                value,
                ..Hit::default()
            });
        }
        assert_eq!((rows.rows.len(), rows.dropped), (3, 0));
        let row = rows.rows.values().find(|row| row.hits == 2).unwrap();
        assert_eq!((split(row), row.sum), ((&["a".to_string()][..], 5), 111));
    }

    #[test]
    fn counts_records_with_both_stacks() {
        let mut take = |table: usize, record: &Record<'_>| {
            vec![Hit {
                table,
                keys: vec![record.place.into(), callers(record)],
                ..Hit::default()
            }]
        };
        let mut tally = Tally::new(&["a", "b"], &Options::default());
        let entry = |event: &str, stack: &[&str], user_stack: &[&str]| Entry {
            event: event.into(),
            place: "f+0x4/0x9".into(),
            stack: stack.iter().map(|frame| (*frame).into()).collect(),
            user_stack: user_stack.iter().map(|frame| frame.to_string()).collect(),
            ..Entry::default()
        };
        for _ in 0..2 {
            let entry = entry("a", &["f+0x9/0x9", "g+0x1/0x2"], &["0x10"]);
            tally.add(Some(entry), &mut take);
        }
        tally.add(Some(entry("b", &[], &[])), &mut take);
        tally.add(Some(entry("c", &[], &[])), &mut take);
        let tables = tables(&tally);
        let row = &tables[0].rows[0];
        assert_eq!(row.keys, ["f+0x4/0x9", "g+0x1/0x2\n0x10"]);
        assert_eq!((row.hits, tables[0].rows.len()), (2, 1));
        assert_eq!(tables[1].rows[0].keys, ["f+0x4/0x9", ""]);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Counts that the tool makes of records, because the kernel's tables have no stack traces of programs.

use std::collections::HashMap;

use crate::{
    failure::Result,
    hist::{
        Hist,
        Row, //
    },
    instance::Instance,
    programs::{
        self,
        Programs, //
    },
    reader::Reader,
    record::Record,
    stream::{
        self,
        Options,
        Pending,
        Stacks, //
    },
    tracefs::Tracefs, //
};

/// The most rows of a table.
const MAX_ROWS: usize = 65536;

/// The keys of a record, from the index of its event, the record, and its stack traces as a key.
pub type Keys = Box<dyn Fn(usize, &Record<'_>, String) -> Vec<String>>;

/// A table for each event, of the records of a run.
pub struct Tally {
    reader: Option<Reader>,
    stacks: Stacks,
    programs: Programs,
    events: Vec<String>,
    keys: Keys,
    tables: Vec<HashMap<Vec<String>, u64>>,
    dropped: Vec<u64>,
}

impl Tally {
    /// Counts records of these events. The options say which stack traces they have.
    pub fn new(events: &[&str], options: &Options, keys: Keys) -> Self {
        Self {
            reader: None,
            stacks: Stacks::new(options),
            programs: Programs::new(),
            events: events.iter().map(|event| event.to_string()).collect(),
            keys,
            tables: vec![HashMap::new(); events.len()],
            dropped: vec![0; events.len()],
        }
    }

    /// Counts the records that there are, or those before `is_over` says that the run ends.
    pub fn read(
        &mut self,
        tracefs: &Tracefs,
        instance: &Instance<'_>,
        is_over: impl Fn() -> bool,
    ) -> Result {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::open(tracefs, instance)?,
        };
        reader.read(is_over, |line| {
            let complete = match line {
                "" => self.stacks.rest(),
                line => self.stacks.take(line),
            };
            self.add(complete);
            Ok(true)
        })?;
        self.reader = Some(reader);
        Ok(())
    }

    /// The end of the run: counts the records that wait for a stack trace.
    pub fn end(&mut self) {
        let complete = self.stacks.end();
        self.add(complete);
    }

    /// The tables, one for each event.
    pub fn tables(&self) -> Vec<Hist> {
        let hist = |(rows, dropped): (&HashMap<Vec<String>, u64>, &u64)| Hist {
            rows: rows
                .iter()
                .map(|(keys, hits)| Row {
                    keys: keys.clone(),
                    hits: *hits,
                    sum: 0,
                    min: None,
                    max: None,
                })
                .collect(),
            dropped: *dropped,
        };
        self.tables.iter().zip(&self.dropped).map(hist).collect()
    }

    fn add(&mut self, complete: Vec<Pending>) {
        for pending in complete {
            let Some((event, record)) = Record::parse_any(&pending.line, &self.events) else {
                if let Some(mapping) = Record::parse(&pending.line, programs::EVENT) {
                    self.programs.take(&mapping);
                }
                continue;
            };
            let mut kernel = stream::without_probe(&pending.stack, &record);
            // As in the kernel's tables, a stack begins with the function that made the call.
            let is_own = |frame: &&str| record.place.split('+').next() == frame.split('+').next();
            if record.return_address().is_none() && kernel.first().is_some_and(is_own) {
                kernel.remove(0);
            }
            let kernel = kernel.join("\n");
            let thread = record.pid.parse().unwrap_or(0);
            let user = self.programs.frames(thread, &pending.user_stack).join("\n");
            let stack = match (kernel.is_empty(), user.is_empty()) {
                (false, false) => kernel + "\n" + &user,
                _ => kernel + &user,
            };
            let keys = (self.keys)(event, &record, stack);
            let table = &mut self.tables[event];
            if table.len() < MAX_ROWS || table.contains_key(&keys) {
                *table.entry(keys).or_default() += 1;
            } else {
                self.dropped[event] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_records_with_both_stacks() {
        let options = Options {
            has_stack: true,
            has_user_stack: true,
            ..Options::default()
        };
        let keys = |_: usize, record: &Record<'_>, stack| vec![record.place.into(), stack];
        let mut tally = Tally::new(&["a", "b"], &options, Box::new(keys));
        let head = "cat-0 [000] ..... 1.0:";
        for _ in 0..2 {
            for line in [
                "a: (f+0x4/0x9)",
                "<stack trace>",
                "=> f+0x9/0x9",
                "=> g+0x1/0x2",
                "<user stack trace>",
                "=>  <0000000000000010>",
            ] {
                let line = match line.starts_with('=') {
                    true => format!(" {line}"),
                    false => format!("{head} {line}"),
                };
                let complete = tally.stacks.take(&line);
                tally.add(complete);
            }
        }
        let complete = tally.stacks.take(&format!("{head} b: (f)"));
        tally.add(complete);
        tally.end();
        let tables = tally.tables();
        let row = &tables[0].rows[0];
        assert_eq!(row.keys, ["f+0x4/0x9", "g+0x1/0x2\n0x10"]);
        assert_eq!((row.hits, tables[0].rows.len()), (2, 1));
        assert_eq!(tables[1].rows[0].keys, ["f", ""]);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Tables that the tool makes from records, because the answer needs two events: a start and an end.

use std::{
    collections::HashMap,
    time::Instant, //
};

use crate::{
    context::{
        Context,
        LiveScreen,
        DRAW_INTERVAL, //
    },
    failure::Result,
    hist::{
        Hist,
        Row, //
    },
    instance::Instance,
    missing::Missing,
    probes,
    record::Record,
    stream::{
        self,
        Pending,
        Stacks, //
    },
    table::{
        Options,
        Question,
        Tables, //
    }, //
};

/// A hit that counts in the table.
#[derive(Debug, PartialEq)]
pub struct Hit {
    /// The keys of its row.
    pub keys: Vec<String>,
    /// The duration, in ns. It is the last key of its row.
    pub ns: u64,
    /// The number that is added up for each row.
    pub value: u64,
}

/// A question whose table consists of the hits of records.
pub trait Gathers: Question {
    /// Takes a record of one of the events. Returns what it adds to the table.
    fn take(&mut self, event: usize, record: &Record<'_>) -> Vec<Hit>;
}

/// The rows of a table.
#[derive(Default)]
struct Tally(HashMap<Vec<String>, Row>);

impl Tally {
    fn add(&mut self, hit: Hit) {
        let mut keys = hit.keys;
        keys.push(hit.ns.to_string());
        let row = self.0.entry(keys).or_insert_with_key(|keys| Row {
            keys: keys.clone(),
            hits: 0,
            sum: 0,
            min: None,
            max: None,
        });
        row.hits += 1;
        row.sum = row.sum.saturating_add(hit.value);
    }

    fn hist(&self) -> Hist {
        Hist {
            rows: self.0.values().cloned().collect(),
            dropped: 0,
        }
    }
}

/// The keys of a row, and its duration.
pub fn split(row: &Row) -> (&[String], u64) {
    match row.keys.split_last() {
        Some((ns, keys)) => (keys, ns.parse().unwrap_or(0)),
        None => (&[], 0),
    }
}

/// Defines and enables the events of a question in a new instance. `commands` are the commands to try for each event
/// of a group.
pub fn start<'c>(
    context: &'c Context,
    events: &[String],
    stream: &stream::Options,
    commands: impl Fn(&str) -> Vec<Vec<String>>,
) -> Result<Instance<'c>> {
    probes::check_all(&commands("rkprobe"))?;
    let instance = context.start()?;
    probes::define_all(&context.tracefs, &commands(instance.group()))?;
    stream.prepare(&context.tracefs, &instance, context.is_json)?;
    for event in events {
        context.enable(&instance, event)?;
    }
    Ok(instance)
}

/// Answers a question by the records of `events`, while the run lasts and at its end. With `has_stacks`, each record
/// has a stack trace.
pub fn run<Q: Gathers>(
    context: &Context,
    instance: &Instance<'_>,
    events: &[String],
    has_stacks: bool,
    question: Q,
    options: &Options<'_>,
) -> Result {
    context.begin_reading(instance, None)?;
    if context.tracefs.is_dry() {
        return Ok(());
    }
    let mut tables = Tables::new(context, question, 0, options);
    let mut tally = Tally::default();
    let mut stacks = Stacks::new(has_stacks);
    let is_live = options.interval.is_none() && context.is_live();
    let interval = options.interval.unwrap_or(DRAW_INTERVAL);
    let mut live = None;
    let mut next = Instant::now() + interval;
    let add = |complete: Vec<Pending>, question: &mut Q, tally: &mut Tally| {
        for pending in complete {
            let Some((event, record)) = Record::parse_any(&pending.line, events) else {
                continue;
            };
            let stack = stream::without_probe(&pending.stack, &record);
            for hit in question.take(event, &Record { stack, ..record }) {
                tally.add(hit);
            }
        }
    };
    context.read_records(instance, |line| {
        let complete = match line {
            "" => stacks.rest(),
            line => {
                let record = Record::parse_any(line, events);
                stacks.take(line, record.map(|(_, record)| record.cpu))
            }
        };
        add(complete, &mut tables.question, &mut tally);
        if (is_live || options.interval.is_some()) && Instant::now() >= next {
            next += interval;
            let missing = Missing::read(&context.tracefs, instance)?;
            let text = tables.next(&[tally.hist()], &missing)?;
            match is_live {
                true => live.get_or_insert_with(LiveScreen::open).draw(&text)?,
                false => context.print(&text)?,
            }
        }
        Ok(true)
    })?;
    add(stacks.end(), &mut tables.question, &mut tally);
    drop(live);
    let missing = Missing::read(&context.tracefs, instance)?;
    tables.end(&[tally.hist()], &missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_share_a_row() {
        let mut tally = Tally::default();
        for (key, ns, value) in [("a", 5, 100), ("a", 5, 11), ("a", 6, 1), ("b", 5, 1)] {
            tally.add(Hit {
                keys: vec![key.into()],
                ns,
                value,
            });
        }
        let hist = tally.hist();
        assert_eq!((hist.rows.len(), hist.counted()), (3, 4));
        let row = hist.rows.iter().find(|row| row.hits == 2).unwrap();
        assert_eq!((split(row), row.sum), ((&["a".to_string()][..], 5), 111));
    }
}

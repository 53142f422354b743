// SPDX-License-Identifier: GPL-2.0

//! `rkprobe locks`: who waits for which lock, how long, and who holds it?

use std::{
    cmp::Reverse,
    collections::{
        BTreeMap,
        HashMap, //
    }, //
};

use serde::Serialize;
use serde_json::json;

use crate::{
    by::{
        By,
        Who, //
    },
    context::Context,
    draw::{
        Bar,
        Screen, //
    },
    duration,
    failure::{
        Failure,
        Result, //
    },
    flame::Stack,
    hist::Hist,
    lock_probes::{
        self,
        Offsets, //
    },
    record::Record,
    spread::{
        Figures,
        Spread, //
    },
    stream,
    table::{
        self,
        Cell,
        Image,
        Options,
        Question,
        Slice, //
    },
    tally::{
        self,
        Hit, //
    },
    threads,
    whom::Whom, //
};

/// The events, in the order in which they are enabled.
const EVENTS: [&str; 2] = ["end", "begin"];
/// The options of the question.
#[derive(Clone, Copy)]
pub struct Asked {
    /// How the waits for a holder are divided.
    pub by: Option<By>,
    /// Whether each stack has a row.
    pub with_stack: bool,
    /// The shortest wait that counts, in ns.
    pub min: u64,
}

/// The waits of a program at one place.
#[derive(Serialize)]
struct Waits {
    kind: String,
    /// The name of the lock, if it is a variable.
    #[serde(skip_serializing_if = "String::is_empty")]
    lock: String,
    /// The function that waits for the lock.
    place: String,
    /// The program that held the lock when the wait began.
    holder: String,
    #[serde(flatten)]
    who: Who,
    #[serde(flatten)]
    figures: Figures,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack: Vec<String>,
    #[serde(skip)]
    spread: Spread,
}

/// A lock, and the function that waits for it.
fn waits_in(kind: &str, lock: &str, place: &str) -> String {
    match lock {
        "" => format!("{kind} in {place}"),
        lock => format!("{kind} {lock} in {place}"),
    }
}

impl Waits {
    fn words(&self) -> String {
        let who = match &*self.who.name {
            "" => String::new(),
            who => format!("{who} "),
        };
        let lock = waits_in(&self.kind, &self.lock, &self.place);
        format!("{lock}: {who}waits for {}", self.holder)
    }

    fn show(&self) -> String {
        let spread = &self.spread;
        format!(
            "{:>8}  {:>8}  {:>8}  {}\n{}",
            spread.count(),
            duration::show(spread.total()),
            duration::show(spread.max()),
            self.words(),
            stream::show_stack(&self.stack),
        )
    }
}

/// A wait that has not ended.
struct Open {
    start: u64,
    keys: Vec<String>,
}

/// The question.
struct Locks {
    asked: Asked,
    /// The waits of threads, by their IDs and the addresses of the locks.
    open: HashMap<(String, String), Open>,
    /// The stacks of all rows, for the image.
    stacks: Vec<(Vec<String>, u64)>,
}

/// The program that holds the lock, as far as the kernel knows it.
fn holder(record: &Record<'_>) -> String {
    let (flags, owner) = (record.number("flags"), record.number("owner"));
    match record.number("holder_pid") {
        0 => "?".into(),
        _ if lock_probes::is_reader(flags, owner) => {
            format!("readers such as {}", record.text("holder"))
        }
        _ => record.text("holder"),
    }
}

/// The name of a lock that is a variable. Empty for a lock in other memory.
fn variable(symbol: &str) -> String {
    match symbol.starts_with("0x") {
        true => String::new(),
        false => symbol.split("+0x0/").next().unwrap_or(symbol).into(),
    }
}

impl Question for Locks {
    type Row = Waits;

    const ROWS: &'static str = "waits";

    const COLUMNS: &'static [&'static str] =
        &["total", "count", "name", "holder", "place", "avg", "max"];

    fn title(&self) -> String {
        "locks".into()
    }

    fn take(&mut self, event: usize, record: &Record<'_>) -> Vec<Hit> {
        let address = record.field("address").unwrap_or("");
        let wait = (record.pid.to_string(), address.to_string());
        if EVENTS[event] == "begin" {
            // A mutex begins a wait more than once.
            self.open.entry(wait).or_insert_with(|| Open {
                start: record.time,
                keys: vec![
                    lock_probes::kind(record.number("flags")).into(),
                    variable(record.field("lock").unwrap_or("0x")),
                    threads::place(&record.stack).into(),
                    holder(record),
                    By::name_of(self.asked.by, record),
                    record.stack.join("\n"),
                ],
            });
            return Vec::new();
        }
        let Some(open) = self.open.remove(&wait) else {
            return Vec::new();
        };
        let ns = record.time.saturating_sub(open.start);
        match ns < self.asked.min {
            true => Vec::new(),
            false => vec![Hit {
                keys: open.keys,
                ns: Some(ns),
                ..Hit::default()
            }],
        }
    }

    fn slice(&self, _: &Record<'_>, hit: &Hit) -> Option<Slice> {
        let [kind, lock, place, holder, _, stack] = &hit.keys[..] else {
            return None;
        };
        let stack: Vec<&str> = stack.lines().collect();
        Some(Slice {
            name: waits_in(kind, lock, place),
            is_of_thread: true,
            arguments: json!({"holder": holder, "stack": stack}),
        })
    }

    /// The waits with the longest total time first.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Waits> {
        let mut groups: BTreeMap<&[String], Spread> = BTreeMap::new();
        let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for row in hists.iter().flat_map(|hist| &hist.rows) {
            let (keys, ns) = tally::split(row);
            let Some((stack, others)) = keys.split_last() else {
                continue;
            };
            let group = match self.asked.with_stack {
                true => keys,
                false => others,
            };
            groups.entry(group).or_default().add(ns, row.hits);
            let mut frames: Vec<String> = stack.lines().map(String::from).collect();
            frames.extend(others.last().filter(|who| !who.is_empty()).cloned());
            *stacks.entry(frames).or_default() += ns.saturating_mul(row.hits);
        }
        self.stacks = stacks.into_iter().collect();
        let waits = |(keys, spread): (&[String], Spread)| {
            let key = |index: usize| keys.get(index).cloned().unwrap_or_default();
            Waits {
                kind: key(0),
                lock: key(1),
                place: key(2),
                holder: key(3),
                who: Who::new(self.asked.by, key(4)),
                stack: key(5).lines().map(String::from).collect(),
                figures: spread.figures(),
                spread,
            }
        };
        let mut rows: Vec<Waits> = groups.into_iter().map(waits).collect();
        rows.sort_by_key(|row| Reverse(row.spread.total()));
        rows
    }

    fn cell<'r>(row: &'r Waits, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.who.name),
            "holder" => Cell::Text(&row.holder),
            "place" => Cell::Text(&row.place),
            "count" => row.spread.count().into(),
            "avg" => row.spread.average().into(),
            "max" => row.spread.max().into(),
            _ => row.spread.total().into(),
        }
    }

    fn show(&self, rows: &[Waits], _: Screen) -> String {
        match rows {
            [] => "0 waits for locks\n".into(),
            rows => {
                let head = format!("{:>8}  {:>8}  {:>8}\n", "waits", "total", "longest");
                head + &rows.iter().map(Waits::show).collect::<String>()
            }
        }
    }

    /// The stacks of all waits. The program is below the functions.
    fn image<'r>(&'r self, _: &'r [Waits]) -> (String, Image<'r>) {
        if self.stacks.is_empty() {
            return ("0 waits for locks".into(), Image::Bars(Vec::<Bar>::new()));
        }
        let stack = |(frames, ns): &'r (Vec<String>, u64)| Stack {
            frames: frames.iter().map(String::as_str).collect(),
            function: "waits",
            result: None,
            value: *ns,
        };
        (
            "waits for locks".into(),
            Image::Flames("ns", self.stacks.iter().map(stack).collect()),
        )
    }
}

/// The commands of both events. The start of a wait has a probe for each kind of lock, and for each value of its flags.
fn commands(group: &str, offsets: &Offsets, whom: &Whom) -> Vec<Vec<String>> {
    let end = format!(
        "t:{group}/end contention_end address=lock:x64{}",
        whom.clause()
    );
    let begin = |rest: String| {
        vec![format!(
            "t:{group}/begin contention_begin {rest}{}",
            whom.and()
        )]
    };
    let begins = offsets.probes().into_iter().map(begin);
    [vec![end]].into_iter().chain(begins).collect()
}

/// Runs the command.
pub fn run(context: &Context, asked: Asked, options: &Options<'_>) -> Result {
    let offsets = Offsets::find().ok_or_else(|| {
        Failure::new(
            "locks needs BTF that describes mutexes: the kernel needs CONFIG_DEBUG_INFO_BTF",
        )
    })?;
    let stream = stream::Options {
        has_stack: true,
        stack_of: Some(|event| event == EVENTS[1]),
        needs_clock: true,
        ..stream::Options::default()
    };
    let question = Locks {
        asked,
        open: HashMap::new(),
        stacks: Vec::new(),
    };
    let commands = |_: &Locks, group: &str| commands(group, &offsets, &context.whom);
    table::run_records(context, &EVENTS, &stream, question, commands, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_its_holder_and_its_place() {
        let mut question = Locks {
            asked: Asked {
                by: Some(By::Comm),
                with_stack: false,
                min: 5_000,
            },
            open: HashMap::new(),
            stacks: Vec::new(),
        };
        let begin = |time: &str, lock: &str, pid| {
            format!(
                "a-7 [000] ..... 1.{time}: begin: (f+0x4/0x10) lock={lock} address=0xff00 flags=32 owner=0xee01 \
                 holder_pid={pid} holder=\"b c\" comm=\"a\""
            )
        };
        let end = |task: &str, time: &str| {
            format!("{task} [000] ..... 1.{time}: end: (f+0x4/0x10) address=0xff00")
        };
        let lines = [
            begin("000001", "0xff00", 9),
            begin("000005", "0xff00", 9),
            end("x-8", "000006"),
            end("a-7", "000011"),
            begin("000021", "big_lock+0x0/0x20", 0),
            end("a-7", "000031"),
            begin("000041", "big_lock+0x0/0x20", 0),
            end("a-7", "000042"),
        ];
        let mut take = |event: usize, record: &Record<'_>| {
            let stack = vec!["__mutex_lock.constprop.0+0x1/0x2", "fdget_pos+0x1/0x2"];
            let record = Record {
                stack,
                fields: record.fields.clone(),
                user_stack: Vec::new(),
                ..*record
            };
            question.take(event, &record)
        };
        let lines = lines.each_ref().map(String::as_str);
        let hist = tally::table_of(&EVENTS, &lines, &mut take);
        let rows = question.rows(&[hist]);
        let shown: Vec<String> = rows.iter().map(Waits::show).collect();
        assert_eq!(
            shown,
            [
                "       1   10.0 us   10.0 us  mutex in fdget_pos: a waits for b c\n",
                "       1   10.0 us   10.0 us  mutex big_lock in fdget_pos: a waits for ?\n"
            ]
        );
        assert_eq!(question.stacks[0].0.last().unwrap(), "a");
        let undivided = Waits {
            who: Who::default(),
            ..rows.into_iter().next().unwrap()
        };
        assert_eq!(undivided.words(), "mutex in fdget_pos: waits for b c");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! `rkprobe leaks STRUCT --get FUNCTION --put FUNCTION`: which objects have more gets than puts, and where are the gets
//! without a put?

use std::{
    cmp::Reverse,
    collections::BTreeMap, //
};

use serde::Serialize;

use crate::{
    context::Context,
    draw::Screen,
    duration,
    ends::End,
    failure::{
        Failure,
        Result, //
    },
    flame::Stack,
    hist::Hist,
    objects,
    probes,
    record::Record,
    references::{
        Get,
        References, //
    },
    stream,
    sys,
    table::{
        self,
        Cell,
        Image,
        Options,
        Question, //
    },
    tally::Hit,
    whom::Whom, //
};

/// The options of the question.
pub struct Asked<'a> {
    /// The structure.
    pub structure: &'a str,
    /// Functions and places with commas between them, each with `=FETCHARG` if its types do not say what the object is.
    pub get: Option<&'a str>,
    pub put: &'a str,
    /// The functions and places where an object begins, with one reference, and ends.
    pub from: Option<&'a str>,
    pub until: Option<&'a str>,
    /// The shortest time that a get must have no put, in ns.
    pub min_age: u64,
}

/// The effect of a function or of a place in the source on an object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Birth,
    Get,
    Put,
    End,
}

/// A function or a place in the source. It has one event, even if it has several sites.
struct Place<'a> {
    action: Action,
    /// As the user writes it.
    name: &'a str,
    end: End<'a>,
}

/// Equal gets without a put.
#[derive(Serialize)]
struct Gets {
    function: String,
    comm: String,
    count: u64,
    /// The time since the oldest of them.
    age_ns: u64,
    /// Whether other gets may be those without a put.
    guess: bool,
    objects: Vec<String>,
    stack: Vec<String>,
}

impl Gets {
    fn show(&self, structure: &str) -> String {
        let gets = if self.count == 1 { "get" } else { "gets" };
        let first = self.objects.first().map_or("?", String::as_str);
        let others = match self.objects.len() {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        format!(
            "{:>4} {gets} without a put, oldest {}, {} by {}, {structure} {first}{others}{}\n{}",
            self.count,
            duration::show(self.age_ns),
            self.function,
            self.comm,
            if self.guess { ", a guess" } else { "" },
            stream::show_stack(&self.stack),
        )
    }
}

/// The question.
struct Leaks<'a> {
    asked: Asked<'a>,
    /// The places, in the order of their events.
    places: Vec<Place<'a>>,
    references: References,
}

/// The present time of the clock of the records, in ns.
fn now() -> u64 {
    sys::since_epoch().saturating_sub(sys::monotonic_epoch())
}

impl Question for Leaks<'_> {
    type Row = Gets;

    const ROWS: &'static str = "gets";

    const COLUMNS: &'static [&'static str] = &["count", "name", "age"];

    const IS_SO_FAR: bool = true;

    fn title(&self) -> String {
        format!("leaks {}", self.asked.structure)
    }

    fn take(&mut self, event: usize, record: &Record<'_>) -> Vec<Hit> {
        let address = record.field("object").unwrap_or("");
        if !objects::is_address(address) {
            return Vec::new();
        }
        let place = &self.places[event];
        let get = || Get {
            function: place.name.into(),
            comm: record.text("comm"),
            pid: record.pid.into(),
            time: record.time,
            stack: record.stack.iter().copied().map(String::from).collect(),
        };
        match place.action {
            Action::Birth => self.references.birth(address, get()),
            Action::Get => self.references.get(address, get()),
            Action::Put => self.references.put(address, record.pid),
            Action::End => self.references.end(address),
        }
        Vec::new()
    }

    /// The places with the most gets first.
    fn rows(&mut self, _: &[Hist]) -> Vec<Gets> {
        let now = now();
        let mut groups: BTreeMap<(&str, &str, &[String]), Gets> = BTreeMap::new();
        for (address, object) in self.references.held() {
            for get in &object.gets {
                let age = now.saturating_sub(get.time);
                if age < self.asked.min_age {
                    continue;
                }
                let key = (&*get.function, &*get.comm, &*get.stack);
                let gets = groups.entry(key).or_insert_with(|| Gets {
                    function: get.function.clone(),
                    comm: get.comm.clone(),
                    count: 0,
                    age_ns: 0,
                    guess: false,
                    objects: Vec::new(),
                    stack: get.stack.clone(),
                });
                gets.count += 1;
                gets.age_ns = gets.age_ns.max(age);
                gets.guess |= object.is_guess;
                if !gets.objects.iter().any(|object| object == address) {
                    gets.objects.push(address.into());
                }
            }
        }
        let mut rows: Vec<Gets> = groups.into_values().collect();
        rows.sort_by_key(|gets| (Reverse(gets.count), Reverse(gets.age_ns)));
        rows
    }

    fn cell<'r>(row: &'r Gets, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.comm),
            "age" => row.age_ns.into(),
            _ => row.count.into(),
        }
    }

    fn show(&self, rows: &[Gets], _: Screen) -> String {
        let structure = self.asked.structure;
        match rows {
            [] => format!("{structure}: each get has a put\n"),
            rows => rows.iter().map(|gets| gets.show(structure)).collect(),
        }
    }

    fn image<'r>(&'r self, rows: &'r [Gets]) -> (String, Image<'r>) {
        let stack = |gets: &'r Gets| Stack {
            frames: gets.stack.iter().map(String::as_str).collect(),
            function: &gets.function,
            result: None,
            value: gets.count,
        };
        (
            format!("{}: gets without a put", self.asked.structure),
            Image::Flames("gets", rows.iter().map(stack).collect()),
        )
    }
}

/// A failure to find a function or its object, with this command's way to give the object instead of an option.
fn advise(failure: Failure, name: &str) -> Failure {
    match failure {
        Failure::Message(text) if text.contains(" --") => {
            let problem = text.split(": ").next().unwrap_or_default();
            Failure::new(format!(
                "{problem}: say what the object is, such as {name}='$arg1'"
            ))
        }
        failure => failure,
    }
}

/// The functions and places of a list.
fn places<'a>(
    context: &Context,
    structure: &str,
    list: &'a str,
    action: Action,
) -> Result<Vec<Place<'a>>> {
    // The object of a put is a parameter, and that of a birth the return value.
    let is_last = matches!(action, Action::Put | Action::End);
    let place = |word: &'a str| {
        let (name, given) = match word.split_once('=') {
            Some((name, fetch)) => (name, Some(fetch)),
            None => (word, None),
        };
        let end = End::find(context, structure, name, given, is_last);
        let end = end.map_err(|failure| advise(failure, name))?;
        Ok(Place { action, name, end })
    };
    list.split(',').map(place).collect()
}

fn event(index: usize, action: Action) -> String {
    let name = match action {
        Action::Birth => "birth",
        Action::Get => "get",
        Action::Put => "put",
        Action::End => "end",
    };
    format!("{name}{index}")
}

/// The commands to try for each probe of all places. The tasks of the run are those that get.
fn commands(group: &str, places: &[Place<'_>], whom: &Whom) -> Vec<Vec<String>> {
    let of_place = |(index, place): (usize, &Place<'_>)| {
        let event = event(index, place.action);
        let of_function = |function: &str| match place.end.is_returned() {
            true => probes::at_return_with_stack(function, group, &event),
            false => probes::at_entry(function, group, &event),
        };
        let rest = match place.action {
            Action::Birth | Action::Get => format!(" comm=$comm{}", whom.clause()),
            Action::Put | Action::End => String::new(),
        };
        place.end.commands(group, &event, of_function, &rest)
    };
    places.iter().enumerate().flat_map(of_place).collect()
}

/// Runs the command.
pub fn run(context: &Context, asked: Asked<'_>, options: &Options<'_>) -> Result {
    if asked.get.is_none() && asked.from.is_none() {
        return Err(Failure::new(
            "which function gets an object? Give --get, or --from for objects that begin with a reference",
        ));
    }
    // The puts are enabled first: a get whose put is not seen would be a leak.
    let lists = [
        (Some(asked.put), Action::Put),
        (asked.until, Action::End),
        (asked.get, Action::Get),
        (asked.from, Action::Birth),
    ];
    let mut all = Vec::new();
    for (list, action) in lists {
        let Some(list) = list else {
            continue;
        };
        all.extend(places(context, asked.structure, list, action)?);
    }
    let indexed = all.iter().enumerate();
    let events: Vec<String> = indexed
        .map(|(index, place)| event(index, place.action))
        .collect();
    let stream = stream::Options {
        has_stack: true,
        stack_of: stream::only_of(
            |event| event.starts_with("birth") || event.starts_with("get"),
            all.iter().any(|place| place.end.is_place()),
        ),
        needs_clock: true,
        ..stream::Options::default()
    };
    let question = Leaks {
        references: References::new(asked.from.is_some()),
        asked,
        places: all,
    };
    let commands =
        |question: &Leaks<'_>, group: &str| commands(group, &question.places, &context.whom);
    table::run_records(context, &events, &stream, question, commands, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<'a>(action: Action, name: &'a str, object: &str) -> Place<'a> {
        Place {
            action,
            name,
            end: End::Function(name, object.into()),
        }
    }

    #[test]
    fn the_tasks_of_the_run_are_those_that_get() {
        let sites = ["f+0x5", "g+0x7"].map(|target| (target.into(), "%bx:x64".into()));
        let places = [
            place(Action::Put, "iput", "inode"),
            place(Action::Birth, "alloc_inode", "$retval"),
            Place {
                action: Action::End,
                name: "copied",
                end: End::Sites(sites.into()),
            },
        ];
        let whom = Whom::new(crate::whom::Options {
            comm: Some("a"),
            ..Default::default()
        });
        let all = commands("g", &places, &whom.unwrap());
        assert_eq!(all[0][0], "f:g/put0 iput object=inode");
        assert_eq!(
            all[1][1],
            "f:g/birth1 alloc_inode%return object=$retval comm=$comm if $COMM ~ \"a\""
        );
        assert_eq!(
            all[2..],
            [
                ["p:g/end2 f+0x5 object=%bx:x64"],
                ["p:g/end2 g+0x7 object=%bx:x64"]
            ]
        );
        probes::check_all(&all).unwrap();
    }

    #[test]
    fn equal_gets_share_a_row() {
        let asked = Asked {
            structure: "inode",
            get: Some("ihold"),
            put: "iput",
            from: None,
            until: None,
            min_age: 0,
        };
        let mut question = Leaks {
            asked,
            places: vec![
                place(Action::Put, "iput", "inode"),
                place(Action::Get, "ihold", "inode"),
            ],
            references: References::new(false),
        };
        let events = ["put0", "get1"].map(String::from);
        for line in [
            "a-1 [000] ..... 1.0: get1: (ihold+0x4/0x10) object=0xff01 comm=\"a\"",
            "a-1 [000] ..... 1.1: get1: (ihold+0x4/0x10) object=0xff02 comm=\"a\"",
            "a-1 [000] ..... 1.2: get1: (ihold+0x4/0x10) object=0xff03 comm=\"a\"",
            "a-1 [000] ..... 1.3: put0: (iput+0x4/0x10) object=0xff02",
            "a-1 [000] ..... 1.3: put0: (iput+0x4/0x10) object=0x0",
        ] {
            let (event, record) = Record::parse_any(line, &events).unwrap();
            let stack = vec!["f+0x1/0x2"];
            question.take(event, &Record { stack, ..record });
        }
        let rows = question.rows(&[]);
        assert_eq!(
            (rows.len(), rows[0].count, rows[0].objects.len()),
            (1, 2, 2)
        );
        let text = rows[0].show("inode");
        assert!(
            text.starts_with("   2 gets without a put, oldest "),
            "{text}"
        );
        assert!(text.contains(", ihold by a, inode 0xff0"));
        assert!(text.ends_with(" and 1 more\n          f+0x1/0x2\n"));
    }
}

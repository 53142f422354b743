// SPDX-License-Identifier: GPL-2.0

//! `rkprobe lat STRUCT from FUNCTION until FUNCTION`: how long does it take from one function to another one, with the
//! same object?
//!
//! No event of rkprobe can subtract the times of two events. So both make records, and the tool subtracts.

use std::{
    cmp::Reverse,
    collections::{
        BTreeMap,
        HashMap, //
    }, //
};

use serde::Serialize;
use serde_json::{
    json,
    Value as Json, //
};

use crate::{
    by::By,
    context::Context,
    draw::Screen,
    duration,
    ends::End,
    failure::{
        Failure,
        Result, //
    },
    flame::Stack,
    hist::{
        self,
        Hist, //
    },
    objects,
    probes,
    record::Record,
    spread::{
        self,
        Bucket,
        Figures,
        Scale,
        Spread, //
    },
    stream,
    table::{
        self,
        Cell,
        Group,
        Image,
        Options,
        Question,
        Slice, //
    },
    tally::{
        self,
        Hit, //
    },
    whom::Whom, //
};

/// The events, in the order in which they are enabled: a start whose end is not seen would stay open.
const EVENTS: [&str; 2] = ["until", "from"];

/// The objects that the user asks about.
pub struct Asked<'a> {
    /// The structure.
    pub structure: &'a str,
    /// The function where the time starts.
    pub from: &'a str,
    /// The function where the time ends.
    pub until: &'a str,
    /// The fetch arguments that are the object, if the user gives them.
    pub object: Option<&'a str>,
    pub end: Option<&'a str>,
    /// How the objects are divided: by the task, the CPU or the stack at the start.
    pub by: Option<By>,
    pub scale: Scale,
}

/// The times of one group.
#[derive(Serialize)]
struct Times {
    #[serde(skip)]
    group: String,
    /// The group in JSON.
    #[serde(rename = "group", skip_serializing_if = "Option::is_none")]
    json: Option<Json>,
    #[serde(flatten)]
    figures: Figures,
    buckets: Vec<Bucket>,
    #[serde(skip)]
    spread: Spread,
}

/// An object that has not reached the end.
struct Open {
    time: u64,
    group: String,
}

/// The question.
struct Between<'a> {
    asked: Asked<'a>,
    /// `STRUCT from FUNCTION until FUNCTION`.
    text: String,
    /// The objects between start and end, by their addresses.
    open: HashMap<String, Open>,
    all: Spread,
}

fn title(spread: &Spread) -> String {
    format!(
        "{} times, average {}, longest {}",
        spread.count(),
        duration::show(spread.average()),
        duration::show(spread.max()),
    )
}

/// All figures.
fn summary(spread: &Spread) -> String {
    format!(
        "{}; half within {}, 99 % within {}",
        title(spread),
        duration::show(spread.percentile(50)),
        duration::show(spread.percentile(99)),
    )
}

impl Between<'_> {
    fn group(&self, record: &Record<'_>) -> String {
        By::name_of(self.asked.by, record)
    }
}

impl Question for Between<'_> {
    type Row = Times;

    const ROWS: &'static str = "groups";

    const COLUMNS: &'static [&'static str] =
        &["count", "name", "avg", "total", "p50", "p99", "max"];

    fn title(&self) -> String {
        self.text.clone()
    }

    fn function(&self) -> Option<&str> {
        Some(&self.text)
    }

    fn take(&mut self, event: usize, record: &Record<'_>) -> Vec<Hit> {
        let object = record.field("object").unwrap_or("");
        if EVENTS[event] == "from" {
            if objects::is_address(object) {
                let group = self.group(record);
                let time = record.time;
                self.open.insert(object.into(), Open { time, group });
            }
            return Vec::new();
        }
        let Some(open) = self.open.remove(object) else {
            return Vec::new();
        };
        vec![Hit {
            keys: vec![open.group],
            ns: Some(record.time.saturating_sub(open.time)),
            ..Hit::default()
        }]
    }

    fn slice(&self, record: &Record<'_>, hit: &Hit) -> Option<Slice> {
        let mut arguments = json!({"object": record.field("object")});
        if let Some(by) = self.asked.by {
            arguments["group"] = by.json(&hit.keys[0]);
        }
        Some(Slice {
            name: self.asked.structure.into(),
            is_of_thread: false,
            arguments,
        })
    }

    /// The groups, that with the most objects first.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Times> {
        let mut groups: BTreeMap<&str, Spread> = BTreeMap::new();
        self.all = Spread::default();
        for row in hists.iter().flat_map(|hist| &hist.rows) {
            let (keys, ns) = tally::split(row);
            let group = keys.first().map_or("", String::as_str);
            groups.entry(group).or_default().add(ns, row.hits);
            self.all.add(ns, row.hits);
        }
        let times = |(group, spread): (&str, Spread)| Times {
            group: group.into(),
            json: self.asked.by.map(|by| by.json(group)),
            figures: spread.figures(),
            buckets: spread.buckets(&self.asked.scale),
            spread,
        };
        let mut groups: Vec<Times> = groups.into_iter().map(times).collect();
        groups.sort_by_key(|times| Reverse(times.spread.count()));
        groups
    }

    fn cell<'r>(row: &'r Times, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.group),
            "avg" => row.spread.average().into(),
            "total" => row.spread.total().into(),
            "p50" => row.spread.percentile(50).into(),
            "p99" => row.spread.percentile(99).into(),
            "max" => row.spread.max().into(),
            _ => row.spread.count().into(),
        }
    }

    fn show(&self, rows: &[Times], screen: Screen) -> String {
        let Asked {
            structure,
            until,
            scale,
            ..
        } = &self.asked;
        let range = spread::range_of(rows.iter().map(|times| times.spread.range()));
        let text = match rows {
            [] => format!("{}: 0 times\n", self.text),
            _ => table::groups(self, rows, screen, |times| {
                let figures = match rows {
                    [_] => summary(&times.spread),
                    _ => title(&times.spread),
                };
                Group {
                    name: times.group.clone(),
                    bars: times.spread.bars_of(scale, range),
                    figures: format!("{structure}: {figures}"),
                }
            }),
        };
        match self.open.len() {
            0 => text,
            count => format!("{text}{count} {structure} not yet in {until}\n"),
        }
    }

    fn image<'r>(&'r self, rows: &'r [Times]) -> (String, Image<'r>) {
        let stack = |times: &'r Times| Stack {
            frames: hist::lines(&times.group).collect(),
            function: self.asked.structure,
            result: None,
            value: times.spread.total(),
        };
        let image = match self.asked.by {
            Some(By::Stack) => Image::Flames("ns", rows.iter().map(stack).collect()),
            _ => Image::Bars(self.all.bars(&self.asked.scale)),
        };
        (format!("{}: {}", self.text, summary(&self.all)), image)
    }
}

/// The commands to try for each probe of both events.
fn all_commands(group: &str, by: Option<By>, ends: &[End<'_>; 2], whom: &Whom) -> Vec<Vec<String>> {
    let comm = match by {
        Some(By::Comm) => " comm=$comm",
        _ => "",
    };
    let rest = format!("{comm}{}", whom.clause());
    let has_stack = by == Some(By::Stack);
    let commands = |event: &str, end: &End<'_>, rest: &str| {
        let of_function = |function: &str| match (end.is_returned(), has_stack) {
            (true, false) => probes::at_return(function, group, event),
            (true, true) => probes::at_return_with_stack(function, group, event),
            (false, _) => probes::at_entry(function, group, event),
        };
        end.commands(group, event, of_function, rest)
    };
    let [from, until] = ends;
    let mut all = commands(EVENTS[0], until, "");
    all.extend(commands(EVENTS[1], from, &rest));
    all
}

/// Runs the command.
pub fn run(context: &Context, asked: Asked<'_>, options: &Options<'_>) -> Result {
    let Asked {
        structure,
        from,
        until,
        by,
        ..
    } = asked;
    if from == until {
        return Err(Failure::new(format!(
            "the time starts and ends in {from}: rkprobe lat {from} shows how long its calls take"
        )));
    }
    let ends = [
        End::find(context, structure, from, asked.object, false)?,
        End::find(context, structure, until, asked.end, true)?,
    ];
    let has_stacks = by == Some(By::Stack);
    let stream = stream::Options {
        has_stack: has_stacks,
        stack_of: stream::only_of(|event| event == EVENTS[1], ends.iter().any(End::is_place)),
        needs_clock: true,
        lacks_place: true,
        ..stream::Options::default()
    };
    let question = Between {
        text: format!("{structure} from {from} until {until}"),
        asked,
        open: HashMap::new(),
        all: Spread::default(),
    };
    let commands = |_: &Between<'_>, group: &str| all_commands(group, by, &ends, &context.whom);
    table::run_records(context, &EVENTS, &stream, question, commands, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(by: Option<By>) -> Asked<'static> {
        Asked {
            structure: "x",
            from: "a",
            until: "b",
            object: None,
            end: None,
            by,
            scale: Scale::Log2,
        }
    }

    fn question(by: Option<By>) -> Between<'static> {
        Between {
            asked: asked(by),
            text: "x from a until b".into(),
            open: HashMap::new(),
            all: Spread::default(),
        }
    }

    #[test]
    fn an_object_has_its_time_from_the_last_start_to_the_first_end() {
        let mut question = question(Some(By::Comm));
        let events = EVENTS.map(String::from);
        let lines = [
            "a-1 [000] ..... 1.000001: until: (b+0x4/0x10) object=0xff01",
            "a-1 [000] ..... 1.000002: from: (a+0x4/0x10) object=0x0 comm=\"a\"",
            "a-1 [000] ..... 1.000003: from: (a+0x4/0x10) object=0xff01 comm=\"a\"",
            "<...>-1 [000] ..... 1.000004: from: (a+0x4/0x10) object=0xff01 comm=\"a b\"",
            "a-1 [000] ..... 1.000005: from: (a+0x4/0x10) object=0xff02 comm=\"a\"",
            "c-1 [001] ..... 1.000014: until: (b+0x4/0x10) object=0xff01",
            "c-1 [001] ..... 1.000015: until: (b+0x4/0x10) object=0xff01",
        ];
        let hits: Vec<Hit> = lines
            .iter()
            .flat_map(|line| {
                let (event, record) = Record::parse_any(line, &events).unwrap();
                question.take(event, &record)
            })
            .collect();
        let hit = Hit {
            keys: vec!["a b".into()],
            ns: Some(10_000),
            ..Hit::default()
        };
        let (_, end) = Record::parse_any(lines[5], &events).unwrap();
        let slice = question.slice(&end, &hit).unwrap();
        assert_eq!(
            (&*slice.name, slice.arguments),
            ("x", json!({"object": "0xff01", "group": "a b"}))
        );
        assert_eq!(hits, [hit]);
        assert_eq!(question.open.len(), 1);
    }

    #[test]
    fn shows_each_group() {
        let mut question = question(Some(By::Comm));
        let row = |group: &str, ns: &str, hits| hist::Row {
            keys: vec![group.into(), ns.into()],
            hits,
            sum: 0,
            min: None,
            max: None,
        };
        let hist = Hist {
            rows: vec![
                row("a", "3000", 1),
                row("b", "1000", 2),
                row("b", "7000", 1),
            ],
            dropped: 0,
        };
        let rows = question.rows(&[hist]);
        let screen = Screen {
            columns: None,
            has_color: false,
            has_blocks: false,
        };
        let text = question.show(&rows, screen);
        let start = "\
count  name      avg    total      p50      p99      max
    3  b     3.00 us  9.00 us  1.00 us  7.00 us  7.00 us
    1  a     3.00 us  3.00 us  3.00 us  3.00 us  3.00 us

b
 512 ns .. 1.02 us  2
1.02 us .. 2.05 us  0
";
        assert!(text.starts_with(start), "{text}");
        let end = "\n\na\n 512 ns .. 1.02 us  0\n1.02 us .. 2.05 us  0\n2.05 us .. 4.10 us  1\n";
        assert!(text.contains(end), "{text}");
        assert!(text.contains("x: 3 times, average 3.00 us, longest 7.00 us\n\n"));
        let text = question.show(&rows[..1], screen);
        assert!(text.contains(
            "x: 3 times, average 3.00 us, longest 7.00 us; half within 1.00 us, 99 % within 7.00 us\n"
        ));
        assert_eq!(question.all.count(), 4);
        let json = serde_json::to_string(&rows[1]).unwrap();
        assert_eq!(
            json,
            "{\"group\":\"a\",\"count\":1,\"total_ns\":3000,\"min_ns\":3000,\"p50_ns\":3000,\"p90_ns\":3000,\
             \"p99_ns\":3000,\"max_ns\":3000,\"buckets\":[{\"over_ns\":2048,\"to_ns\":4096,\"count\":1}]}"
        );
    }

    #[test]
    fn an_object_is_seen_at_the_entry_if_it_is_a_parameter() {
        let ends = [
            End::Function("a", "$retval".into()),
            End::Function("b", "rq".into()),
        ];
        let whom = Whom::default();
        let all = all_commands("g", Some(By::Comm), &ends, &whom);
        assert_eq!(
            all,
            [
                ["f:g/until b object=rq", "p:g/until b object=rq"],
                [
                    "f:g/from a%return object=$retval comm=$comm",
                    "r4096:g/from a object=$retval comm=$comm"
                ]
            ]
        );
        let sites = ["c+0x1", "d+0x2"].map(|target| (target.into(), "%bx:x64".into()));
        let ends = [End::Sites(sites.into()), End::Function("b", "rq".into())];
        let all = all_commands("g", None, &ends, &whom);
        assert_eq!(
            all[1..],
            [
                ["p:g/from c+0x1 object=%bx:x64"],
                ["p:g/from d+0x2 object=%bx:x64"]
            ]
        );
    }
}

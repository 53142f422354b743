// SPDX-License-Identifier: GPL-2.0

//! `rkprobe count FUNCTIONS`: which functions are called how often? The kernel counts by function.

use std::cmp::Reverse;

use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    asked::has_offset,
    by::By,
    calls,
    context::Context,
    counts::{
        Count,
        Table, //
    },
    draw::{
        self,
        Bar,
        Screen, //
    },
    failure::{
        Failure,
        Result, //
    },
    flame::Stack,
    hist::{
        self,
        Hist, //
    },
    probes,
    record::Record,
    stream::{
        self,
        show_stack, //
    },
    table::{
        self,
        Cell,
        Image,
        Options,
        Question,
        Source, //
    },
    tally::{
        self,
        Hit,
        Tally, //
    },
    targets::Targets, //
};

/// The rows of the tables of all events of a run, and the least rows of one.
const SIZE: u32 = 8192;
const MIN_SIZE: u32 = 128;

/// The calls of a function, or of the part that `--by` makes.
#[derive(Serialize)]
struct Calls {
    function: String,
    #[serde(skip)]
    group: Option<String>,
    /// The group in JSON.
    #[serde(rename = "group", skip_serializing_if = "Option::is_none")]
    json: Option<Json>,
    calls: u64,
}

impl Calls {
    /// A row of the diagram.
    fn bar(&self, has_stack: bool) -> Bar {
        let label = match &self.group {
            Some(group) if !has_stack => format!("{}  {group}", self.function),
            _ => self.function.clone(),
        };
        Bar {
            label,
            value: self.calls,
        }
    }

    /// The lines of its stack.
    fn frames(&self) -> Vec<&str> {
        hist::lines(self.group.as_deref().unwrap_or("")).collect()
    }

    /// The calls of a stack.
    fn stack(&self) -> Stack<'_> {
        Stack {
            frames: self.frames(),
            function: &self.function,
            result: None,
            value: self.calls,
        }
    }
}

/// The question.
struct Counted<'a> {
    /// The functions, as the user chooses them.
    text: &'a str,
    targets: Targets,
    /// The trace events, each of which has a table. Empty if functions are counted.
    events: Vec<String>,
    /// Whether they are sites in functions. A function can have several.
    has_sites: bool,
    by: Option<By>,
    has_stacks: bool,
}

impl Question for Counted<'_> {
    type Row = Calls;

    const ROWS: &'static str = "functions";

    const COLUMNS: &'static [&'static str] = &["count", "name", "group"];

    fn title(&self) -> String {
        format!("count {}", self.text)
    }

    /// A call with its stack, with `--user-stack`.
    fn take(&mut self, event: usize, record: &Record<'_>) -> Vec<Hit> {
        let (table, keys) = match self.events.is_empty() {
            true => (0, vec![record.function(), tally::callers(record)]),
            false => (event, vec![tally::callers(record)]),
        };
        vec![Hit {
            table,
            keys,
            ..Hit::default()
        }]
    }

    /// The functions with the most calls first, and names in order where calls are equal.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Calls> {
        let calls = |function: &str, group: Option<&String>, calls| Calls {
            function: function.into(),
            group: group.cloned(),
            json: self.by.zip(group).map(|(by, key)| by.json(key)),
            calls,
        };
        let of_functions = |hist| {
            let rows = self.targets.rows(hist);
            rows.map(|row| calls(hist::symbol(&row.keys[0]), row.keys.get(1), row.hits))
        };
        let of_event = |(event, hist): (&String, &Hist)| {
            let rows = hist.rows.iter();
            let rows = rows.map(|row| calls(event, row.keys.first(), row.hits));
            rows.collect::<Vec<Calls>>()
        };
        let mut rows: Vec<Calls> = match self.events.is_empty() {
            true => hists.iter().flat_map(of_functions).collect(),
            false => self.events.iter().zip(hists).flat_map(of_event).collect(),
        };
        if self.has_sites {
            merge(&mut rows);
        }
        rows.sort_by_cached_key(|row| {
            (Reverse(row.calls), row.function.clone(), row.group.clone())
        });
        rows
    }

    fn cell<'r>(row: &'r Calls, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.function),
            "group" => Cell::Text(row.group.as_deref().unwrap_or("")),
            _ => row.calls.into(),
        }
    }

    fn cell_text(&self, row: &Calls, column: &str) -> String {
        match column {
            // The first frame stands for the stack.
            "group" => row.frames().first().map_or("", |frame| frame).into(),
            "name" => row.function.clone(),
            _ => row.calls.to_string(),
        }
    }

    fn show(&self, rows: &[Calls], screen: Screen) -> String {
        match rows {
            [] if !self.events.is_empty() => format!("{}: 0 records\n", self.text),
            [] => format!("{}: 0 calls\n", self.text),
            rows if self.has_stacks => {
                let bars = draw::bars(&self.bars(rows), screen);
                let lines = bars.lines().zip(rows);
                lines
                    .map(|(line, row)| format!("{line}\n{}", show_stack(&row.frames())))
                    .collect()
            }
            rows => draw::bars(&self.bars(rows), screen),
        }
    }

    fn image<'r>(&'r self, rows: &'r [Calls]) -> (String, Image<'r>) {
        let image = match self.has_stacks {
            true => Image::Flames("calls", rows.iter().map(Calls::stack).collect()),
            false => Image::Bars(self.bars(rows)),
        };
        (format!("{}: calls", self.text), image)
    }
}

impl Counted<'_> {
    fn bars(&self, rows: &[Calls]) -> Vec<Bar> {
        let bar = |row: &Calls| row.bar(self.has_stacks);
        rows.iter().map(bar).collect()
    }
}

/// One row for all sites of a function, or of each of its groups.
fn merge(rows: &mut Vec<Calls>) {
    rows.sort_by(|a, b| (&a.function, &a.group).cmp(&(&b.function, &b.group)));
    rows.dedup_by(|row, first| {
        let is_same = (&row.function, &row.group) == (&first.function, &first.group);
        if is_same {
            first.calls += row.calls;
        }
        is_same
    });
}

/// Runs the command. `by` divides the calls of a function, or the records of a trace event.
pub fn run(context: &Context, pattern: &str, by: Option<By>, options: &Options<'_>) -> Result {
    let has_stacks = by == Some(By::Stack);
    let has_user_stack = options.has_user_stack;
    if has_user_stack && !has_stacks {
        return Err(Failure::new("--user-stack needs --by stack"));
    }
    let events = context.functions.each_event(pattern)?.unwrap_or_default();
    let is_event = !events.is_empty();
    let sites = match is_event {
        true => None,
        false => context.functions.sites(&context.tracefs, pattern, &[])?,
    };
    let targets = match &sites {
        Some(sites) => {
            let targets = sites.all.iter().map(|site| site.target.clone());
            Targets::all(targets.collect())
        }
        None if is_event => Targets::all(Vec::new()),
        None => context.functions.targets(pattern)?,
    };
    let division = by.map(|by| by.division(is_event));
    let function = || (!is_event).then_some("func").into_iter();
    let keys: Vec<&str> = function().chain(division.map(|by| by.key)).collect();
    let names: Vec<&str> = function().chain(division.map(|by| by.name)).collect();
    // The stack of a trace event is in its record only.
    let counts_records = has_user_stack || (has_stacks && is_event);
    let count = Count {
        keys: &keys,
        sum: None,
        size: (SIZE / events.len().max(1) as u32)
            .next_power_of_two()
            .max(MIN_SIZE),
        condition: context.whom.counted(),
    };
    let end = match counts_records {
        true => format!(" if {}", context.whom.counted()),
        false => division.map_or("", |by| by.field).to_string() + &count.clauses(),
    };
    let own: Vec<String> = calls::names("count", events.len().max(1)).collect();
    let commands = |group: &str| -> Vec<Vec<String>> {
        // `f` does not wait for a module, and has no place inside a function.
        let is_place = sites.is_some() || has_offset(pattern);
        let kind = match is_place || context.functions.awaited(pattern).is_some() {
            true => "p",
            false => "f",
        };
        let command = |target: &String| vec![format!("{kind}:{group}/count {target}{end}")];
        let of_events = own.iter().zip(&events);
        let of_events =
            of_events.map(|(own, event)| vec![format!("e:{group}/{own} {}{end}", event.target())]);
        targets.texts.iter().map(command).chain(of_events).collect()
    };
    probes::check_all(&commands("rkprobe"))?;
    let instance = context.start()?;
    probes::define_all(&context.tracefs, &commands(instance.group()))?;
    let source = match counts_records {
        true => {
            let stacks = stream::Options::with_stacks(true, has_user_stack);
            stacks.prepare(&context.tracefs, &instance, false)?;
            Source::Records(Tally::new(&own, &stacks))
        }
        false => {
            let table = |event| Table {
                event,
                keys: &names,
                sum: None,
            };
            Source::Tables(own.iter().map(|own| table(own)).collect())
        }
    };
    for event in &own {
        context.switch_on(&instance, event)?;
    }
    let question = Counted {
        text: pattern,
        targets,
        events: events.iter().map(ToString::to_string).collect(),
        has_sites: sites.is_some(),
        by,
        has_stacks,
    };
    table::run(context, &instance, source, 0, question, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_the_calls_of_a_function() {
        let text =
            "{ func: [ffff] a, common_stacktrace:\n   a+0x1/0x2\n   b+0x1/0x2\n} hitcount: 2\n\
            { func: [ffff] b, common_stacktrace:\n   c+0x1/0x2\n} hitcount: 5\n";
        let hist = hist::parse(text, &["func", "common_stacktrace"], None);
        let mut question = Counted {
            text: "x",
            targets: Targets::all(Vec::new()),
            events: Vec::new(),
            has_sites: false,
            by: Some(By::Stack),
            has_stacks: true,
        };
        let rows = question.rows(&[hist]);
        let screen = Screen {
            columns: None,
            has_color: false,
            has_blocks: false,
        };
        assert_eq!(
            question.show(&rows, screen),
            "b  5\n          c+0x1/0x2\na  2\n          a+0x1/0x2\n          b+0x1/0x2\n"
        );
    }
}

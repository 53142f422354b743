// SPDX-License-Identifier: GPL-2.0

//! `rkprobe follow STRUCT from PLACE [until PLACE]`: the life of an object as a timeline. A PLACE is a function, or a
//! place in the source.
//!
//! An object probe records the functions that receive the object. The events of its source and of its end record, too:
//! they are the first and the last step of a life.

use std::{
    collections::HashMap,
    rc::Rc, //
};

use serde::{
    Serialize,
    Serializer, //
};
use serde_json::Value as Json;

use crate::{
    context::Context,
    draw::{
        self,
        Screen, //
    },
    duration,
    ends::End,
    failure::{
        note,
        Result, //
    },
    objects::is_address,
    perfetto::{
        self,
        Trace, //
    },
    probes,
    record::Record,
    stream::{
        self,
        Options, //
    },
    values::Values,
    whom::Whom, //
};

/// The most steps of a life that are kept. Others are counted.
const MAX_STEPS: usize = 10_000;
/// The most lives at the same time: the kernel follows no more objects.
const MAX_LIVES: usize = 1024;
/// The columns of the track on a terminal.
const TRACK: usize = 24;

/// The question of the command.
pub struct Question<'a> {
    /// The structure.
    pub structure: &'a str,
    /// The function or the place where a life begins.
    pub from: &'a str,
    /// The function or the place where a life ends.
    pub until: Option<&'a str>,
    /// The fetch argument that is the object, if the user gives it.
    pub object: Option<&'a str>,
    /// The fetch argument that is the object at the end, if the user gives it.
    pub end: Option<&'a str>,
    /// The functions that are steps: patterns with commas between them.
    pub only: Option<&'a str>,
    /// Fetch arguments to show at each step.
    pub fields: Vec<&'a str>,
    /// Whether only the calls are steps at which one of these values has changed.
    pub only_changes: bool,
    /// The number of objects to show.
    pub count: Option<u64>,
    /// Whether each step has the time of day and the CPU.
    pub has_time: bool,
    /// The path of a trace.
    pub perfetto: Option<&'a String>,
}

/// The commands of the three events: for each probe, a command with others to try. The tasks of the run are those
/// whose objects it follows: the steps of other tasks belong to a life, too. The end is at the return of its function:
/// so the call belongs to the life.
struct Commands {
    from: Vec<Vec<String>>,
    until: Vec<Vec<String>>,
    follow: String,
}

impl Commands {
    fn new(
        group: &str,
        question: &Question<'_>,
        values: &Values,
        from: &End<'_>,
        until: Option<&End<'_>>,
        whom: &Whom,
    ) -> Self {
        let mut follow = format!(
            "o:{group}/follow ({}){group}/from.object",
            question.structure
        );
        if let Some(only) = question.only {
            follow += &format!(" {only}");
        }
        if until.is_some() {
            follow += &format!(" until={group}/until.object");
        }
        if question.only_changes {
            follow += " changes";
        }
        follow += &values.shown_arguments();
        let at_start = |function: &str| match from.is_returned() {
            true => probes::at_return(function, group, "from"),
            false => vec![format!("p:{group}/from {function}")],
        };
        let at_end = |function: &str| probes::at_return(function, group, "until");
        Self {
            from: from.commands(group, "from", at_start, &whom.clause()),
            until: until.map_or(Vec::new(), |until| {
                until.commands(group, "until", at_end, "")
            }),
            follow,
        }
    }

    /// The commands to try for each probe.
    fn all(&self) -> impl Iterator<Item = &[String]> {
        let ends = self
            .from
            .iter()
            .chain(&self.until)
            .map(|commands| &**commands);
        ends.chain([std::slice::from_ref(&self.follow)])
    }
}

/// A step of a life.
#[derive(Serialize)]
struct Step {
    /// The time since the start of the life.
    ns: u64,
    /// The time since the epoch, in seconds.
    time: f64,
    cpu: u32,
    comm: String,
    pid: u32,
    function: String,
    #[serde(serialize_with = "as_members")]
    fields: Vec<Shown>,
    /// The task, with the time and the CPU if they are wanted.
    #[serde(skip)]
    head: String,
}

/// The name of a value, with the value as text and as JSON.
type Shown = (Rc<str>, String, Json);

fn as_members<S: Serializer>(
    fields: &[Shown],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    let fields = fields.iter();
    serializer.collect_map(fields.map(|(name, _, json)| (&**name, json)))
}

/// A click on a step in a trace shows this.
#[derive(Serialize)]
struct Arguments<'a> {
    object: &'a str,
    #[serde(flatten, serialize_with = "as_members")]
    fields: &'a [Shown],
}

impl Step {
    fn is_like(&self, other: &Self) -> bool {
        (&self.head, &self.function, &self.fields) == (&other.head, &other.function, &other.fields)
    }

    fn show(&self) -> String {
        let mut text = format!("{}  {}", self.head, self.function);
        for (name, value, _) in &self.fields {
            text += &format!(" {name}={value}");
        }
        text
    }
}

/// A life.
#[derive(Serialize)]
struct Life<'a> {
    structure: &'a str,
    object: String,
    ended: bool,
    left_out: usize,
    steps: Vec<Step>,
    /// The time of the first step, in ns.
    #[serde(skip)]
    start: u64,
    /// Counts the lives.
    #[serde(skip)]
    number: u64,
}

impl Life<'_> {
    fn push(&mut self, values: &Values, options: &Options, record: &Record<'_>, function: String) {
        if self.steps.len() == MAX_STEPS {
            self.left_out += 1;
            return;
        }
        self.steps.push(Step {
            ns: record.time.saturating_sub(self.start),
            time: stream::time_of(record),
            cpu: record.cpu,
            comm: record.comm.into(),
            pid: record.pid.parse().unwrap_or(0),
            function,
            fields: values.each(record, &["object", "parameter"]),
            head: options.head(record),
        });
    }

    fn length(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.ns)
    }

    /// Its steps in a trace. The kernel records the time of a step, and no duration.
    fn slices(&self) -> Vec<perfetto::Call<'_, Arguments<'_>>> {
        let steps = self.steps.iter();
        steps
            .map(|step| perfetto::Call {
                thread: step.pid,
                comm: &step.comm,
                function: &step.function,
                start: self.start + step.ns,
                ns: 0,
                arguments: Arguments {
                    object: &self.object,
                    fields: &step.fields,
                },
            })
            .collect()
    }

    /// A head, and a line for each step. Equal steps that follow each other share a line, unless each has its time of day.
    /// That takes the place of the track.
    fn show(&self, options: &Options, screen: Screen) -> String {
        let count = self.steps.len() + self.left_out;
        let mut text = format!(
            "{} {}: {count} step{} in {}{}\n",
            self.structure,
            self.object,
            if count == 1 { "" } else { "s" },
            duration::show(self.length()),
            if self.ended { "" } else { ", still live" },
        );
        let mut steps = &self.steps[..];
        while let [first, ..] = steps {
            let count = steps.iter().take_while(|step| step.is_like(first)).count();
            steps = &steps[count..];
            let mut line = format!("{:>9}  ", duration::show(first.ns));
            let mut step = first.show();
            if count > 1 {
                step += &format!("  {count} times");
            }
            if let Some(columns) = screen.columns {
                let mut room = columns.saturating_sub(9 + 2);
                if !options.has_time {
                    line += &draw::track(first.ns, self.length(), TRACK, screen);
                    line += "  ";
                    room = room.saturating_sub(TRACK + 2);
                }
                step = draw::shorten(&step, room.max(1));
            }
            text += &format!("{line}{step}\n");
        }
        if self.left_out > 0 {
            text += &format!("           and {} more steps\n", self.left_out);
        }
        text
    }
}

/// The lives that have not ended.
struct Lives<'a> {
    structure: &'a str,
    /// The function where a life begins, if its entry is the first step.
    entry: Option<&'a str>,
    /// How the first and the last step are shown.
    first: &'a str,
    last: &'a str,
    values: &'a Values,
    options: Options,
    live: HashMap<String, Life<'a>>,
    count: u64,
}

impl<'a> Lives<'a> {
    /// Takes a record of an event. Returns the life that ends with it.
    fn take(&mut self, event: &str, record: &Record<'_>) -> Option<Life<'a>> {
        if event == "follow" {
            let life = self.live.get_mut(record.field("object")?)?;
            let function = record.caller();
            // The other event records the call of this function.
            if self.entry != Some(function) {
                life.push(self.values, &self.options, record, function.into());
            }
        } else if event == "from" {
            let address = record.field("object")?;
            let has_room = self.live.len() < MAX_LIVES || self.live.contains_key(address);
            if !is_address(address) || !has_room {
                return None;
            }
            let count = &mut self.count;
            let life = self.live.entry(address.into()).or_insert_with(|| {
                *count += 1;
                Life {
                    structure: self.structure,
                    object: address.into(),
                    ended: false,
                    left_out: 0,
                    steps: Vec::new(),
                    start: record.time,
                    number: *count,
                }
            });
            life.push(self.values, &self.options, record, self.first.into());
        } else if event == "until" {
            let mut life = self.live.remove(record.field("object")?)?;
            life.push(self.values, &self.options, record, self.last.into());
            life.ended = true;
            return Some(life);
        }
        None
    }

    /// The lives that have not ended, the oldest first.
    fn rest(self) -> Vec<Life<'a>> {
        let mut rest: Vec<Life<'_>> = self.live.into_values().collect();
        rest.sort_by_key(|life| life.number);
        rest
    }
}

/// Runs the command.
pub fn run(context: &Context, question: &Question<'_>) -> Result {
    let structure = question.structure;
    let from = End::find(context, structure, question.from, question.object, false)?;
    let until = question
        .until
        .map(|until| End::find(context, structure, until, question.end, true));
    let until = until.transpose()?;
    let module = || from.module(&context.functions);
    let values = Values::of_object(module, structure, &question.fields)?;
    let commands = |group: &str| {
        let until = until.as_ref();
        Commands::new(group, question, &values, &from, until, &context.whom)
    };
    for command in commands("rkprobe").all().flatten() {
        probes::check_syntax(command)?;
    }
    let instance = context.start()?;
    let commands = commands(instance.group());
    for command in commands.all() {
        probes::define(&context.tracefs, command)?;
    }
    // The default clock of tracing differs a little between CPUs.
    context
        .tracefs
        .write(&instance.file("trace_clock"), "mono")?;
    let options = Options {
        has_time: question.has_time,
        ..Options::default()
    };
    // A life without its first step is not shown. So the first step comes last.
    for event in ["follow", "until", "from"] {
        if event != "until" || until.is_some() {
            context.enable(&instance, event, &options)?;
        }
    }
    let name = |function: &str| function.rsplit(':').next().unwrap_or(function).to_string();
    let entry = name(question.from);
    let first = match (from.is_place(), from.is_returned()) {
        (true, _) => question.from.into(),
        (false, true) => format!("{entry} returns it"),
        (false, false) => entry.clone(),
    };
    let end = question.until.unwrap_or_default();
    let last = match until.as_ref().is_some_and(End::is_place) {
        true => format!("{end}: the end"),
        false => format!("{} returns: the end", name(end)),
    };
    let is_entry = !from.is_place() && !from.is_returned();
    let mut lives = Lives {
        structure,
        entry: is_entry.then_some(&*entry),
        first: &first,
        last: &last,
        values: &values,
        options,
        live: HashMap::new(),
        count: 0,
    };
    let mut trace = Trace::wanted(context.tracefs.is_dry(), question.perfetto, || {
        format!("rkprobe follow {structure}")
    })?;
    let mut print = |life: &Life<'_>| {
        if let Some(trace) = &mut trace {
            let object = format!("{structure} {}", life.object);
            trace.add_life(&object, life.number, life.slices())?;
        }
        match context.is_json {
            true => context.print_json(life),
            false => context.print(&life.show(&options, context.screen())),
        }
    };
    let mut left = question.count.unwrap_or(u64::MAX);
    context.begin_reading(&instance, None)?;
    context.read_records(&instance, &options, |entry| {
        let life = entry.and_then(|entry| lives.take(&entry.event, &entry.record()));
        if let Some(life) = life {
            print(&life)?;
            left -= 1;
        }
        Ok(left > 0)
    })?;
    if left > 0 && !context.tracefs.is_dry() {
        if lives.count == 0 {
            note(format!(
                "rkprobe: no {structure} came from {} during the run",
                question.from
            ));
        }
        for life in lives.rest() {
            print(&life)?;
        }
    }
    trace.map_or(Ok(()), Trace::finish)?;
    context.print_missing(&instance, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lives<'a>(values: &'a Values, entry: Option<&'a str>) -> Lives<'a> {
        Lives {
            structure: "x",
            entry,
            first: entry.unwrap_or("alloc returns it"),
            last: "free returns: the end",
            values,
            options: Options::default(),
            live: HashMap::new(),
            count: 0,
        }
    }

    const LINES: &str = " \
cat-7 [001] ..... 6.000001: follow: (early+0x4/0x10) object=0xffff01 parameter=1
cat-7 [001] ..... 6.000002: from: (caller+0x9/0x10 <- alloc) object=0xffff01
cat-7 [001] ..... 6.000002: from: (caller+0x9/0x10 <- alloc) object=0x0
cat-7 [001] ..... 6.000002: from: (caller+0x9/0x10 <- alloc) object=0xfffffffffffffff4
cat-7 [001] ..... 6.000003: from: (caller+0x9/0x10 <- alloc) object=0xffff02
cat-7 [001] ..... 6.000004: follow: (use+0x4/0x10) object=0xffff01 parameter=1 n=1
cat-7 [001] ..... 6.000005: follow: (use+0x4/0x10) object=0xffff01 parameter=1 n=1
sh-8 [001] ..... 6.000006: follow: (use+0x4/0x10) object=0xffff01 parameter=1 n=2
cat-7 [001] ..... 6.001002: until: (caller+0x9/0x10 <- free) object=0xffff01
cat-7 [001] ..... 6.001003: until: (caller+0x9/0x10 <- free) object=0xffff03";

    fn take<'a>(lives: &mut Lives<'a>, line: &str) -> Option<Life<'a>> {
        let events = ["follow", "from", "until"];
        let (event, record) = Record::parse_any(line, &events)?;
        lives.take(events[event], &record)
    }

    #[test]
    fn a_life_has_its_steps_alone() {
        let values = Values::default();
        let mut lives = lives(&values, None);
        let ended: Vec<Life<'_>> = LINES
            .lines()
            .filter_map(|line| take(&mut lives, line))
            .collect();
        assert_eq!(ended.len(), 1);
        let screen = Screen {
            columns: None,
            has_color: true,
            has_blocks: true,
        };
        assert_eq!(
            ended[0].show(&Options::default(), screen),
            "x 0xffff01: 5 steps in 1.00 ms\n     \
             0 ns  cat-7  alloc returns it\n  \
             2.00 us  cat-7  use n=1  2 times\n  \
             4.00 us  sh-8  use n=2\n  \
             1.00 ms  cat-7  free returns: the end\n"
        );
        let json = serde_json::to_string(&ended[0]).unwrap();
        assert!(json.starts_with(
            "{\"structure\":\"x\",\"object\":\"0xffff01\",\"ended\":true,\"left_out\":0,\"steps\":[{\"ns\":0,"
        ));
        assert!(json.contains("\"function\":\"use\",\"fields\":{\"n\":2}}"));
        let rest = lives.rest();
        assert_eq!(rest.len(), 1);
        assert!(rest[0]
            .show(&Options::default(), screen)
            .starts_with("x 0xffff02: 1 step in 0 ns, still live\n"));
    }

    #[test]
    fn with_the_time_of_day_each_step_has_a_line() {
        let values = Values::default();
        let mut lives = lives(&values, None);
        lives.options.has_time = true;
        let ended = LINES.lines().find_map(|line| take(&mut lives, line));
        let screen = Screen {
            columns: Some(48),
            has_color: false,
            has_blocks: false,
        };
        let text = ended.unwrap().show(&lives.options, screen);
        let uses = text
            .lines()
            .filter(|line| line.ends_with(" [001]  cat-7  use n=1"));
        assert_eq!(uses.count(), 2, "{text}");
    }

    #[test]
    fn the_first_function_is_one_step() {
        let values = Values::default();
        let mut lives = lives(&values, Some("alloc"));
        for line in [
            "a-1 [0] . 1.0: from: (alloc+0x4/0x10) object=0xff",
            "a-1 [0] . 1.0: follow: (alloc+0x4/0x10) object=0xff parameter=1",
        ] {
            assert!(take(&mut lives, line).is_none());
        }
        assert_eq!(lives.rest()[0].steps.len(), 1);
    }

    #[test]
    fn there_are_not_more_lives_than_the_kernel_follows() {
        let values = Values::default();
        let mut lives = lives(&values, None);
        for number in 1..3000 {
            let line = format!("a-1 [0] . 1.0: from: (c+0x4/0x10 <- alloc) object={number:#x}");
            assert!(take(&mut lives, &line).is_none());
        }
        assert_eq!(lives.rest().len(), MAX_LIVES);
    }

    #[test]
    fn a_long_life_is_counted() {
        let values = Values::default();
        let mut lives = lives(&values, None);
        take(
            &mut lives,
            "a-1 [0] . 1.0: from: (c+0x4/0x10 <- alloc) object=0xff",
        );
        for _ in 0..MAX_STEPS {
            take(
                &mut lives,
                "a-1 [0] . 1.0: follow: (f+0x4/0x10) object=0xff parameter=1",
            );
        }
        assert_eq!(lives.rest()[0].left_out, 1);
    }

    #[test]
    fn the_commands_have_the_object_probe_last() {
        let mut question = Question {
            structure: "inode",
            from: "a",
            until: Some("b:b"),
            object: None,
            end: None,
            only: Some("x_*,y"),
            fields: vec!["m=$obj->i_mode"],
            only_changes: true,
            perfetto: None,
            count: None,
            has_time: false,
        };
        let values = Values::plain(&question.fields);
        let from = End::Function("a", "$retval".into());
        let until = End::Function("b:b", "inode".into());
        let whom = Whom::default();
        let commands = Commands::new("g", &question, &values, &from, Some(&until), &whom);
        let all: Vec<&[String]> = commands.all().collect();
        assert_eq!(
            all,
            [
                &[
                    "f:g/from a%return object=$retval",
                    "r4096:g/from a object=$retval"
                ][..],
                &["r4096:g/until b:b object=inode"],
                &["o:g/follow (inode)g/from.object x_*,y until=g/until.object changes m=$obj->i_mode"]
            ]
        );
        question.until = None;
        question.only = None;
        question.only_changes = false;
        let commands = Commands::new("g", &question, &values, &until, None, &whom);
        let all: Vec<&[String]> = commands.all().collect();
        assert_eq!(
            all,
            [
                ["p:g/from b:b object=inode"],
                ["o:g/follow (inode)g/from.object m=$obj->i_mode"]
            ]
        );
        let site = |place: &str, object: &str| (place.to_string(), object.to_string());
        let from = End::Sites(vec![
            site("m:a+0x9", "%bx:x64"),
            site("m:b+0x4", "+8(%sp):x64"),
        ]);
        let until = End::Sites(vec![site("m:c+0x4", "%di:x64")]);
        let commands = Commands::new("g", &question, &values, &from, Some(&until), &whom);
        let all: Vec<&[String]> = commands.all().collect();
        assert_eq!(
            all,
            [
                ["p:g/from m:a+0x9 object=%bx:x64"],
                ["p:g/from m:b+0x4 object=+8(%sp):x64"],
                ["p:g/until m:c+0x4 object=%di:x64"],
                ["o:g/follow (inode)g/from.object until=g/until.object m=$obj->i_mode"]
            ]
        );
    }
}

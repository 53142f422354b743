// SPDX-License-Identifier: GPL-2.0

//! Answers that are call trees: the event of a run, its calls, and their output.

use std::collections::{
    BTreeMap,
    BTreeSet, //
};

use crate::{
    asked::refuse_offset,
    blocks,
    btf,
    cause::{
        self,
        Cause,
        Failed, //
    },
    context::Context,
    duration,
    errno,
    failure::Result,
    flame::{
        self,
        Stack, //
    },
    functions::Method,
    groups::{
        Group,
        Groups,
        Likeness, //
    },
    inflight::InFlight,
    outline::{
        self,
        Mark,
        View, //
    },
    pattern::is_pattern,
    perfetto::Trace,
    places::{
        self,
        Places,
        Sought, //
    },
    probes,
    record::Record,
    returns::{
        Returned,
        Returns,
        MIN_ERROR, //
    },
    stream,
    syscalls::{
        self,
        Syscalls, //
    },
    tree::{
        Call,
        Collector, //
    },
    tree_json,
    values::{
        Members,
        More,
        Values, //
    },
    ways::Failing,
    words::{
        record_of,
        Signatures, //
    }, //
};

/// The size of the buffer of each CPU, in KiB. The records of a call are written at once.
const BUFFER: &str = "8192";

/// The numbers of calls at the same time and of steps of a call for which the event has memory.
const ROOM: &str = " calls=64 steps=4096";

/// The functions that are steps if the user does not say it.
pub const ALL: &str = "*";

/// Which calls the user wants to see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    All,
    /// Those that return an error, or this error.
    Failed(Option<u32>),
    /// Those that take longer than this time in ns.
    Slow(u64),
}

/// The question of a run.
pub struct Question<'a> {
    /// The name of the event.
    pub event: &'a str,
    pub root: &'a str,
    /// The functions that are steps, as the event's command has them.
    pub functions: &'a str,
    pub wanted: Wanted,
    /// Whether all steps are shown, and not only those that tell why.
    pub is_whole: bool,
    /// Whether the calls are shown when the run is over, and not as they return.
    pub is_late: bool,
    pub options: stream::Options,
    /// What a second run of the command finds about the functions that return the errors.
    pub again: Sought,
    /// The path of a flame graph.
    pub svg: Option<&'a String>,
    /// The path of a trace for Perfetto.
    pub perfetto: Option<&'a String>,
}

/// What a run has found.
pub struct Answer<'c> {
    context: &'c Context,
    question: &'c Question<'c>,
    values: Values,
    pub signatures: Signatures,
    syscalls: Syscalls,
    pub groups: Groups,
    count: u64,
    /// The own time of each path of functions, for a flame graph.
    flames: BTreeMap<Vec<String>, u64>,
    /// The functions from which errors come.
    causes: BTreeSet<Failed>,
    places: Places,
    trace: Option<Trace>,
}

impl<'c> Answer<'c> {
    fn new(context: &'c Context, question: &'c Question<'c>, values: Values) -> Result<Self> {
        let title = || format!("rkprobe {} {}", question.event, question.root);
        let likeness = match question.is_whole {
            true => Likeness::Tree,
            false => Likeness::Cause,
        };
        Ok(Self {
            context,
            question,
            values,
            signatures: Signatures::default(),
            syscalls: Syscalls::default(),
            groups: Groups::new(likeness),
            count: 0,
            flames: BTreeMap::new(),
            causes: BTreeSet::new(),
            places: Places::none(question.again),
            trace: Trace::wanted(context.tracefs.is_dry(), question.perfetto, title)?,
        })
    }

    /// Takes a call. Returns whether the user wants more.
    fn take(&mut self, call: Call) -> Result<bool> {
        let wanted = self.question.options.count;
        if wanted.is_some_and(|wanted| self.count >= wanted) {
            return Ok(false);
        }
        self.count += 1;
        let functions = call.steps.iter().map(|step| &*step.function);
        self.signatures.look_up(functions);
        if self.question.svg.is_some() {
            self.add_flames(&call);
        }
        let cause = cause::find(&call, &self.signatures.returns);
        if let Some(mut trace) = self.trace.take() {
            let (syscall, root) = (self.syscall(&call), self.root_members(&call));
            let added = trace.add_tree(&call, cause.as_ref(), &self.signatures, syscall, root);
            self.trace = Some(trace);
            added?;
        }
        if let (true, Some(cause)) = (self.question.again.is_any(), &cause) {
            let failed = cause.failed(&call, &self.signatures.returns);
            self.causes.insert(failed);
        }
        if self.context.is_json {
            let text = self.json(&call, cause.as_ref());
            self.context.print(&text)?;
        } else {
            let (index, is_new) = self.groups.add(call, cause, &self.signatures.returns);
            if is_new && !self.question.is_late {
                let text = self.text(index);
                self.context.print(&text)?;
            }
        }
        Ok(wanted.is_none_or(|wanted| self.count < wanted))
    }

    fn add_flames(&mut self, call: &Call) {
        let times = call.self_times();
        let mut path: Vec<String> = Vec::new();
        for (step, ns) in call.steps.iter().zip(times) {
            path.truncate(step.depth);
            path.push(step.function.clone());
            *self.flames.entry(path.clone()).or_default() += ns.unwrap_or(0);
        }
    }

    /// The system call of a call, with its arguments.
    pub fn syscall(&mut self, call: &Call) -> Option<String> {
        self.syscalls.text(&self.context.tracefs, call)
    }

    /// A call as text: what it is, and its steps.
    pub fn text(&mut self, index: usize) -> String {
        let group = &self.groups.all[index];
        let call = &group.call;
        let syscall = self.syscalls.text(&self.context.tracefs, call);
        let mut view = match (&group.cause, self.question.is_whole) {
            (Some(cause), false) => View::of_cause(cause),
            (Some(cause), true) => View {
                shown: None,
                ..View::of_cause(cause)
            },
            (None, false) => slow_view(call),
            (None, true) => View::default(),
        };
        view.has_times = self.question.is_whole || matches!(self.question.wanted, Wanted::Slow(_));
        view.root = self.root_arguments(call);
        let failed = group
            .cause
            .as_ref()
            .map(|cause| cause.failed(call, &self.signatures.returns));
        view.place = failed.as_ref().and_then(|failed| self.places.text(failed));
        let ways = failed.as_ref().and_then(|failed| self.places.ways(failed));
        let ways = ways.map_or(String::new(), Failing::undecided);
        let what = syscall.as_deref().unwrap_or(&call.root().function);
        let head = self.head(group, what);
        let lines = outline::text(call, &self.signatures, &view, self.context.screen());
        format!("{head}{lines}{ways}{}\n", missing(call))
    }

    /// The arguments of the root, if the event has recorded them. Those of a system call are in the first line.
    fn root_arguments(&self, call: &Call) -> Option<String> {
        if is_syscall(call) {
            return Some("...".into());
        }
        let is_recorded = !call.fields.is_empty();
        is_recorded.then(|| self.values.show(&record_of(&call.fields), &[]))
    }

    /// The same as JSON.
    fn root_members(&self, call: &Call) -> Option<Members> {
        let is_recorded = !call.fields.is_empty() && !is_syscall(call);
        is_recorded.then(|| self.values.json(&record_of(&call.fields), &[]))
    }

    /// The first line of a call.
    fn head(&self, group: &Group, what: &str) -> String {
        let call = &group.call;
        let error = group.cause.as_ref().map_or(String::new(), |cause| {
            format!(" = -{}", errno::name(cause.error.into()))
        });
        let ns = call.root().ns.map_or("?".into(), duration::show);
        let times = match group.count {
            1 => String::new(),
            count => format!("  {count} times"),
        };
        let task = with_record(call, |record| self.question.options.head(record));
        format!("{task}  {what}{error}  {ns}{times}\n")
    }

    fn json(&mut self, call: &Call, cause: Option<&Cause>) -> String {
        let syscall = self.syscalls.text(&self.context.tracefs, call);
        let line = tree_json::line(
            call,
            cause,
            &self.signatures,
            syscall,
            self.root_members(call),
        );
        with_record(call, |record| self.question.options.json(record, line))
    }

    fn write_images(&mut self) -> Result {
        if let Some(trace) = self.trace.take() {
            trace.finish()?;
        }
        let Some(path) = self.question.svg.filter(|_| !self.context.tracefs.is_dry()) else {
            return Ok(());
        };
        let stacks = self.flames.iter().filter(|(_, ns)| **ns > 0);
        let stacks: Vec<Stack<'_>> = stacks
            .map(|(functions, ns)| Stack {
                frames: functions.iter().rev().map(String::as_str).collect(),
                function: functions.last().map_or("", String::as_str),
                result: None,
                value: *ns,
            })
            .collect();
        let title = format!("{}: own time of functions", self.question.root);
        flame::write(path, &title, "ns", &stacks)
    }
}

/// Calls `f` with a record that has the task, the CPU and the time of a call.
fn with_record<R>(call: &Call, f: impl FnOnce(&Record<'_>) -> R) -> R {
    f(&Record {
        comm: &call.comm,
        pid: &call.tid,
        cpu: call.cpu,
        time: call.end,
        ..record_of(&[])
    })
}

/// The steps that took most of the time.
fn slow_view(call: &Call) -> View {
    let (path, _) = cause::slowest(call);
    let last = path.last().copied().unwrap_or(0);
    View {
        marks: [(last, Mark::Slowest)].into(),
        shown: Some(path.into_iter().collect()),
        ..View::default()
    }
}

/// Whether the root is a system call, whose event records registers.
fn is_syscall(call: &Call) -> bool {
    call.field("sys0").is_some()
}

/// A line about the steps that are missing from a call.
fn missing(call: &Call) -> String {
    let mut text = String::new();
    for (count, why) in [
        (
            call.lost,
            "the buffer of the call or the return stack of the task was full",
        ),
        (call.unread, "the trace buffer was full: see --buffer"),
    ] {
        if count > 0 {
            text += &format!("  {count} steps are missing: {why}\n");
        }
    }
    text
}

/// The condition that the root returns an error, or this error.
fn failed(root: &str, number: Option<u32>) -> Result<String> {
    let mut returns = Returns::default();
    returns.look_up([root].into_iter());
    returns.check_errors(root, root)?;
    let operand = match returns.of(root) {
        Returned::Int => "$retval:s32",
        _ => "$retval:s64",
    };
    Ok(match number {
        Some(number) => format!("{operand} == -{number}"),
        None => format!("{operand} < 0 && {operand} >= {MIN_ERROR}"),
    })
}

/// The commands to try.
fn commands(context: &Context, question: &Question<'_>, values: &Values) -> Result<Vec<String>> {
    let root = question.root;
    let symbol = match root.split_once(':') {
        Some((module, name)) => format!("{name} [{module}]"),
        None => root.into(),
    };
    let mut conditions = Vec::new();
    match question.wanted {
        Wanted::All => {}
        Wanted::Failed(number) => {
            conditions.push(failed(&symbol, number)?);
        }
        Wanted::Slow(ns) => conditions.push(format!("$elapsed > {ns}")),
    }
    let clause = match (conditions.first(), context.whom.and()) {
        (Some(condition), and) => format!(" if {condition}{and}"),
        (None, _) => context.whom.clause(),
    };
    // All system calls have their arguments in the same registers.
    let function = match root {
        syscalls::ALL => syscalls::ANY,
        root => root,
    };
    let of_syscall = btf::with(None, |btf| syscalls::fetch_arguments(btf, function)).flatten();
    let fetches = match of_syscall {
        Some(fetch) => vec![fetch, String::new()],
        None => values.fetch_arguments("", false),
    };
    let functions = match (question.functions, root) {
        ("", _) => String::new(),
        // A call that never returns would count as missed.
        (functions, syscalls::ALL) => format!(" {functions},!{}", syscalls::EXITS),
        (functions, _) => format!(" {functions}"),
    };
    let event = question.event;
    let command = |fetch| format!("c:GROUP/{event} {root}{functions}{ROOM}{fetch}{clause}");
    Ok(fetches.into_iter().map(command).collect())
}

/// Runs a question about calls of a root. Returns what it has found. `finish` prints what is left to say.
pub fn run(
    context: &Context,
    question: &Question<'_>,
    finish: impl FnOnce(&mut Answer<'_>) -> Result<String>,
) -> Result {
    refuse_offset(question.root)?;
    match is_pattern(question.root) {
        true => drop(context.functions.choose(question.root, Method::Ftrace)?),
        false => context.functions.check(question.root, Method::Ftrace)?,
    }
    let roots = [question.root.to_string()];
    let values = Values::of_each(&context.functions, &roots, "", More::default())?
        .pop()
        .unwrap_or_default();
    let commands = commands(context, question, &values)?;
    if question.again.has_ways {
        blocks::check(context)?;
    }
    let of_group = |group: &str| -> Vec<String> {
        let all = commands.iter();
        all.map(|command| command.replacen("c:GROUP/", &format!("c:{group}/"), 1))
            .collect()
    };
    probes::check_all(&[of_group("rkprobe")])?;
    let instance = context.start()?;
    probes::define(&context.tracefs, &of_group(instance.group()))?;
    for (file, value) in [("trace_clock", "mono"), ("buffer_size_kb", BUFFER)] {
        context.tracefs.write(&instance.file(file), value)?;
    }
    context.keep_calls(&instance, question.event);
    let plain = stream::Options::default();
    context.enable(&instance, question.event, &plain)?;
    let mut answer = Answer::new(context, question, values)?;
    context.begin_reading(&instance, None)?;
    let mut collector = Collector::default();
    let mut wants_more = true;
    context.read_records(&instance, &plain, |entry| {
        let calls = match entry {
            None => collector.rest(),
            Some(entry) => collector.take(&entry.record()).into_iter().collect(),
        };
        for call in calls {
            wants_more = wants_more && answer.take(call)?;
        }
        Ok(wants_more)
    })?;
    for call in collector.end() {
        wants_more = wants_more && answer.take(call)?;
    }
    if context.tracefs.is_dry() {
        return Ok(());
    }
    let in_flight = context.in_flight();
    if !answer.causes.is_empty() {
        // The kernel calls functions with these probes to prepare the second run, which takes several times as long.
        context.switch_off(&instance, question.event)?;
        let (causes, returns) = (&answer.causes, &answer.signatures.returns);
        answer.places = places::find(context, causes, returns, question.again)?;
    }
    answer.write_images()?;
    if context.is_json {
        if question.again.is_any() {
            context.print_json(&answer.places)?;
        }
        for call in in_flight {
            context.print_json(&BTreeMap::from([("in_flight", call)]))?;
        }
        return context.print_missing(&instance, "");
    }
    let mut end = finish(&mut answer)?;
    end += &answer.places.missing();
    if !in_flight.is_empty() {
        end += "not returned yet:\n";
        end += &in_flight.iter().map(InFlight::text).collect::<String>();
    }
    context.print_missing(&instance, &end)
}

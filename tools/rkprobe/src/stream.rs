// SPDX-License-Identifier: GPL-2.0

//! Streams of records: when and where each record was made, and the functions that led to it.
//!
//! The kernel writes the stack traces of a record as records of their own, after it in the buffer of the same CPU: first
//! that of the kernel, and then that of the program.

use std::{
    process,
    rc::Rc, //
};

use serde::Serialize;

use crate::{
    failure::Result,
    instance::Instance,
    programs,
    record::{
        name_of,
        return_address,
        Entry,
        Record, //
    },
    sys,
    tracefs::Tracefs, //
};

/// The functions through which the kernel calls a probe, without their offsets. A stack trace begins with them and the
/// functions that they call.
const OF_PROBES: [&str; 8] = [
    "return_to_handler",
    "arch_rethook_trampoline",
    "arch_rethook_trampoline_callback",
    "rethook_trampoline_handler",
    "ftrace_call",
    "ftrace_regs_call",
    "ftrace_caller",
    "ftrace_regs_caller",
];

/// The prefixes of the functions through which the kernel calls a probe at a trace event.
const OF_EVENTS: [&str; 3] = ["__traceiter_", "perf_syscall_", "perf_trace_"];

/// The maximum number of such functions.
const MAX_OF_PROBES: usize = 12;

/// The filter of an event without the tool's own calls. A hit in an interrupt of the tool is none of them.
pub fn not_own() -> String {
    /// C: `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ`, `TRACE_FLAG_NMI`.
    const INTERRUPTS: u32 = 0x08 | 0x10 | 0x40;

    format!(
        "common_pid != {} || common_flags & {INTERRUPTS:#x}",
        process::id()
    )
}

/// A record in JSON.
#[derive(Serialize)]
struct Line<'a, T> {
    time: f64,
    cpu: u32,
    comm: &'a str,
    pid: Option<u32>,
    #[serde(flatten)]
    answer: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<&'a Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_stack: Option<&'a Vec<String>>,
}

/// The options of a stream of records.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// The number of records after which the stream ends.
    pub count: Option<u64>,
    /// Whether each record has a stack trace.
    pub has_stack: bool,
    /// Whether only the records of an event with this name have one, if not all.
    pub stack_of: Option<fn(&str) -> bool>,
    /// Whether each record has the stack trace of the program.
    pub has_user_stack: bool,
    /// Whether the time and the CPU are also in an answer that is not JSON.
    pub has_time: bool,
    /// Whether the times of different CPUs must be comparable.
    pub needs_clock: bool,
    /// Whether the answer has no place of a record, unless the record has a stack trace of the kernel.
    pub lacks_place: bool,
}

impl Options {
    /// Options of records that have these stack traces.
    pub fn with_stacks(has_stack: bool, has_user_stack: bool) -> Self {
        Self {
            has_stack,
            has_user_stack,
            ..Self::default()
        }
    }

    /// Prepares an instance before its event is enabled. JSON always has the time.
    pub fn prepare(&self, tracefs: &Tracefs, instance: &Instance<'_>, is_json: bool) -> Result {
        let mut changes = Vec::new();
        if self.has_time || self.needs_clock || is_json {
            // The default clock of tracing has no constant distance from the time of day.
            changes.push(("trace_clock", "mono"));
        }
        if self.has_stack {
            changes.push(("options/sym-offset", "1"));
        }
        if self.has_stack && self.stack_of.is_none() {
            changes.push(("options/stacktrace", "1"));
        }
        if self.has_user_stack {
            changes.push(("options/userstacktrace", "1"));
        }
        for (name, value) in changes {
            tracefs.write(&instance.file(name), value)?;
        }
        match self.has_user_stack {
            true => programs::watch(tracefs, instance),
            false => Ok(()),
        }
    }

    /// Whether the records of this event have stack traces.
    fn has_stack_of(&self, event: &str) -> bool {
        self.has_stack && self.stack_of.is_none_or(|is_one| is_one(event))
    }

    /// Prepares an event before it is enabled. The trigger also acts on a record that the filter of the event drops.
    pub fn prepare_event(&self, tracefs: &Tracefs, instance: &Instance<'_>, event: &str) -> Result {
        if self.stack_of.is_none() || !self.has_stack_of(event) {
            return Ok(());
        }
        let trigger = format!("stacktrace if {}", not_own());
        tracefs.write(&instance.event_file(event, "trigger"), &trigger)
    }

    /// The task of a record, with the time and the CPU if they are wanted.
    pub fn head(&self, record: &Record<'_>) -> String {
        let task = format!("{}-{}", record.comm, record.pid);
        match self.has_time {
            true => format!(
                "{} [{:03}]  {task}",
                sys::time_of_day(since_epoch(record)),
                record.cpu
            ),
            false => task,
        }
    }

    /// A line of JSON: when, where and who, the members of `answer`, and the stack trace.
    pub fn json(&self, record: &Record<'_>, answer: impl Serialize) -> String {
        let line = Line {
            time: time_of(record),
            cpu: record.cpu,
            comm: record.comm,
            pid: record.pid.parse().ok(),
            answer,
            stack: self.has_stack.then_some(&record.stack),
            user_stack: self.has_user_stack.then_some(&record.user_stack),
        };
        // Only a map whose keys are no strings could not be written.
        serde_json::to_string(&line).unwrap_or_default() + "\n"
    }

    /// The lines below a record: one for each function of its stack traces.
    pub fn lines(&self, record: &Record<'_>) -> String {
        show_stack(&record.stack) + &show_stack(&record.user_stack)
    }
}

/// The events of [`Options::stack_of`]: those for which `is_one` is true, or all if one is at a place inside a function.
/// For single events, the kernel walks the stack of the probe's handler, and does not get out of the copy of instructions
/// that a jump in place of a breakpoint leads to. For all events, it begins with the registers of the hit.
pub fn only_of(is_one: fn(&str) -> bool, is_inside: bool) -> Option<fn(&str) -> bool> {
    (!is_inside).then_some(is_one)
}

/// A line for each function of a stack trace.
pub fn show_stack<T: AsRef<str>>(stack: &[T]) -> String {
    let lines = stack.iter();
    lines
        .flat_map(|frame| ["          ", frame.as_ref(), "\n"])
        .collect()
}

/// The time of a record since the epoch, in seconds.
pub fn time_of(record: &Record<'_>) -> f64 {
    sys::seconds(since_epoch(record))
}

/// The time of a record since the epoch, in ns.
fn since_epoch(record: &Record<'_>) -> u64 {
    record.time + sys::monotonic_epoch()
}

/// A record of the kernel.
#[derive(Debug, PartialEq)]
pub enum Part {
    /// A record of an event.
    Record(Entry),
    /// The functions of the stack trace of the record before, the innermost first.
    Stack(Vec<Rc<str>>),
    /// The addresses of the program's stack trace, the innermost first.
    UserStack(Vec<u64>),
}

/// A record and its stack traces.
#[derive(Debug, PartialEq)]
pub struct Pending {
    /// The record, with its stack trace.
    pub entry: Entry,
    /// The addresses of the program's stack trace, the innermost first.
    pub user_stack: Vec<u64>,
    /// Whether there was a time without new records since the record.
    is_old: bool,
}

/// Gives the records of a stream their stack traces.
pub struct Stacks {
    options: Options,
    pending: Vec<Pending>,
}

impl Stacks {
    /// The stack traces that the options want.
    pub fn new(options: &Options) -> Self {
        Self {
            options: *options,
            pending: Vec::new(),
        }
    }

    /// Takes a record of a CPU. Adds those that are complete then to `complete`.
    pub fn take(&mut self, cpu: u32, part: Part, complete: &mut Vec<Pending>) {
        let of_cpu = |pending: &Pending| pending.entry.cpu == cpu;
        let waiting = self.pending.iter().position(of_cpu);
        match (part, waiting) {
            (Part::Record(entry), _) => {
                // The kernel had no memory for the stack trace of the record before, or its task has none.
                complete.extend(waiting.map(|index| self.pending.remove(index)));
                let waits = self.options.has_user_stack || self.options.has_stack_of(&entry.event);
                let pending = Pending {
                    entry,
                    user_stack: Vec::new(),
                    is_old: false,
                };
                match waits {
                    true => self.pending.push(pending),
                    false => complete.push(pending),
                }
            }
            (Part::Stack(frames), Some(index)) => {
                self.pending[index].entry.stack = frames;
                if !self.options.has_user_stack {
                    complete.push(self.pending.remove(index));
                }
            }
            (Part::UserStack(frames), Some(index)) => {
                self.pending[index].user_stack = frames;
                complete.push(self.pending.remove(index));
            }
            (Part::Stack(_) | Part::UserStack(_), None) => {}
        }
    }

    /// There are no more records now. Returns the records that are complete.
    pub fn rest(&mut self) -> Vec<Pending> {
        let complete = self.remove(|pending| pending.is_old);
        for pending in &mut self.pending {
            pending.is_old = true;
        }
        complete
    }

    /// The end of the stream. Returns all other records.
    pub fn end(&mut self) -> Vec<Pending> {
        self.remove(|_| true)
    }

    fn remove(&mut self, is_complete: impl Fn(&Pending) -> bool) -> Vec<Pending> {
        let (complete, pending) = self.pending.drain(..).partition(is_complete);
        self.pending = pending;
        complete
    }
}

/// Removes the functions of the probe itself from the stack trace of a record. At a return on arm64, the stack trace of the
/// kernel lacks the caller, which is added.
pub fn remove_probe(entry: &mut Entry) {
    let stack = &entry.stack;
    let is_of_event = |name: &str| OF_EVENTS.iter().any(|start| name.starts_with(start));
    // The record of a trace event has no place.
    let is_event = entry.place.is_empty();
    let calls_probe = |frame: &Rc<str>| {
        let name = name_of(frame);
        OF_PROBES.contains(&name) || (is_event && is_of_event(name))
    };
    let is_of_probe = |frame: &&Rc<str>| frame.ends_with("[rkprobe]") || frame.starts_with("0x");
    let of_probe = stack.iter().take(MAX_OF_PROBES).rposition(calls_probe);
    let mut first = of_probe.map_or(0, |last| last + 1);
    first += stack[first..].iter().take_while(is_of_probe).count();
    let caller = return_address(&entry.place);
    // A trampoline of ftrace can have the name of a module that was at its address.
    let is_own = |at: usize| {
        let frame = stack.get(at).map(|frame| name_of(frame));
        caller.is_none() && frame == Some(name_of(&entry.place))
    };
    if !is_own(first) && is_own(first + 1) {
        first += 1;
    }
    // Another return probe of the function can hide the caller.
    let known =
        caller.filter(|caller| caller.contains('+') && !OF_PROBES.contains(&name_of(caller)));
    let is_next = |caller: &&str| {
        let next = stack.get(first);
        next.is_some_and(|next| name_of(next) != name_of(caller))
    };
    let caller: Option<Rc<str>> = known.filter(is_next).map(Rc::from);
    drop(entry.stack.splice(..first, caller));
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Options = Options {
        count: None,
        has_stack: true,
        stack_of: None,
        has_user_stack: false,
        has_time: false,
        needs_clock: false,
        lacks_place: false,
    };

    fn record(cpu: u32, pid: &str) -> Part {
        Part::Record(Entry {
            pid: pid.into(),
            cpu,
            ..Entry::default()
        })
    }

    fn stack(frame: &str) -> Part {
        Part::Stack(vec![frame.into()])
    }

    /// The records that are complete after a part.
    fn take(stacks: &mut Stacks, cpu: u32, part: Part) -> Vec<Pending> {
        let mut complete = Vec::new();
        stacks.take(cpu, part, &mut complete);
        complete
    }

    fn shown(records: Vec<Pending>) -> Vec<(String, String, usize)> {
        let records = records.into_iter();
        records
            .map(|of| (of.entry.pid, of.entry.stack.concat(), of.user_stack.len()))
            .collect()
    }

    fn one(pid: &str, stack: &str, addresses: usize) -> [(String, String, usize); 1] {
        [(pid.into(), stack.into(), addresses)]
    }

    #[test]
    fn only_some_events_have_stack_traces() {
        let mut stacks = Stacks::new(&Options {
            stack_of: Some(|event| event == "get"),
            ..KERNEL
        });
        let of = |event: &str, pid| match record(1, pid) {
            Part::Record(entry) => Part::Record(Entry {
                event: event.into(),
                ..entry
            }),
            part => part,
        };
        assert_eq!(take(&mut stacks, 1, of("put", "5")).len(), 1);
        assert_eq!(take(&mut stacks, 1, of("get", "6")).len(), 0);
        let complete = take(&mut stacks, 1, Part::Stack(vec!["f".into()]));
        assert_eq!((complete.len(), &*complete[0].entry.pid), (1, "6"));
    }

    #[test]
    fn a_record_gets_the_stack_of_its_cpu() {
        let mut all = Stacks::new(&KERNEL);
        assert!(take(&mut all, 0, record(0, "1")).is_empty());
        assert!(take(&mut all, 1, record(1, "2")).is_empty());
        assert_eq!(shown(take(&mut all, 1, stack("f"))), one("2", "f", 0));
        assert_eq!(shown(take(&mut all, 0, stack("g"))), one("1", "g", 0));
        assert!(take(&mut all, 0, stack("h")).is_empty());
        assert!(all.end().is_empty());
    }

    #[test]
    fn the_stack_of_the_program_is_the_last() {
        let mut all = Stacks::new(&Options::with_stacks(true, true));
        assert!(take(&mut all, 0, record(0, "1")).is_empty());
        assert!(take(&mut all, 0, stack("f")).is_empty());
        assert_eq!(
            shown(take(&mut all, 0, Part::UserStack(vec![1, 2]))),
            one("1", "f", 2)
        );
    }

    #[test]
    fn a_record_without_a_stack_is_shown_later() {
        let mut all = Stacks::new(&KERNEL);
        assert!(take(&mut all, 0, record(0, "1")).is_empty());
        assert_eq!(shown(take(&mut all, 0, record(0, "2"))), one("1", "", 0));
        assert!(all.rest().is_empty());
        assert_eq!(shown(all.rest()), one("2", "", 0));
        assert!(take(&mut all, 0, record(0, "1")).is_empty());
        assert_eq!(shown(all.end()), one("1", "", 0));
        let complete = take(&mut Stacks::new(&Options::default()), 0, record(0, "2"));
        assert_eq!(shown(complete), one("2", "", 0));
    }

    /// The stack trace of the record in a line that has this one, without the probe.
    fn without_probe(stack: &[&str], line: &str) -> Vec<Rc<str>> {
        let mut entry = Entry::parse(line, "e").expect("a record");
        entry.stack = stack.iter().map(|frame| Rc::from(*frame)).collect();
        remove_probe(&mut entry);
        entry.stack
    }

    #[test]
    fn a_stack_begins_with_the_caller_of_the_function_that_returned() {
        let stack = [
            "fprobe_return+0x1/0x2",
            "return_to_handler+0x1/0x2",
            "h+0x1/0x2",
        ];
        for (place, shown) in [
            ("g+0x1/0x2 <- f", &["g+0x1/0x2", "h+0x1/0x2"][..]),
            ("h+0x1/0x2 <- f", &["h+0x1/0x2"]),
            ("return_to_handler+0x0/0x2 <- f", &["h+0x1/0x2"]),
            ("f+0x0/0x2", &["h+0x1/0x2"]),
        ] {
            let line = format!("a-1 [000] ..... 1.0: e: ({place}) a=1");
            assert_eq!(without_probe(&stack, &line).join(" "), shown.join(" "));
            assert!(without_probe(&[], &line).is_empty());
        }
    }

    #[test]
    fn a_trampoline_is_no_frame() {
        let line = "cat-1 [000] ..... 1.0: e: (f+0x4/0x9) a=1";
        let stack = ["init+0x85/0xff0 [m]", "f+0x9/0x9", "g+0x1/0x2"];
        let shown = |stack: &[&str]| without_probe(stack, line).join(" ");
        assert_eq!(shown(&stack), "f+0x9/0x9 g+0x1/0x2");
        assert_eq!(shown(&stack[1..]), "f+0x9/0x9 g+0x1/0x2");
        assert_eq!(shown(&["h+0x1/0x2", "g+0x1/0x2"]), "h+0x1/0x2 g+0x1/0x2");
    }
}

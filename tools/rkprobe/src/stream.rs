// SPDX-License-Identifier: GPL-2.0

//! Streams of records: when and where each record was made, and the functions that led to it.
//!
//! The kernel writes the stack trace of a record as a record of its own, behind it in the buffer of the same CPU.

use serde::Serialize;

use crate::{
    failure::Result,
    instance::Instance,
    record::{
        self,
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

/// The maximum number of such functions.
const MAX_OF_PROBES: usize = 12;

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
}

/// The options of a stream of records.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// The number of records after which the stream ends.
    pub count: Option<u64>,
    /// Whether each record has a stack trace.
    pub has_stack: bool,
    /// Whether the time and the CPU are also in an answer that is not JSON.
    pub has_time: bool,
}

impl Options {
    /// Prepares an instance before its event is enabled. JSON always has the time.
    pub fn prepare(&self, tracefs: &Tracefs, instance: &Instance<'_>, is_json: bool) -> Result {
        let mut changes = Vec::new();
        if self.has_time || is_json {
            // The default clock of tracing has no constant distance from the time of day.
            changes.push(("trace_clock", "mono"));
        }
        if self.has_stack {
            changes.extend([("options/sym-offset", "1"), ("options/stacktrace", "1")]);
        }
        for (name, value) in changes {
            tracefs.write(&instance.file(name), value)?;
        }
        Ok(())
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
            time: sys::seconds(since_epoch(record)),
            cpu: record.cpu,
            comm: record.comm,
            pid: record.pid.parse().ok(),
            answer,
            stack: self.has_stack.then_some(&record.stack),
        };
        // Only a map whose keys are no strings could not be written.
        serde_json::to_string(&line).unwrap_or_default() + "\n"
    }

    /// The lines below a record: one for each function of its stack trace.
    pub fn lines(&self, record: &Record<'_>) -> String {
        show_stack(&record.stack)
    }
}

/// A line for each function of a stack trace.
pub fn show_stack<T: AsRef<str>>(stack: &[T]) -> String {
    let lines = stack.iter();
    lines
        .map(|frame| format!("          {}\n", frame.as_ref()))
        .collect()
}

/// The time of a record since the epoch, in ns.
fn since_epoch(record: &Record<'_>) -> u64 {
    record.time + sys::monotonic_epoch()
}

/// A record that waits for its stack trace.
#[derive(Debug, PartialEq)]
pub struct Pending {
    cpu: u32,
    /// The line of the record.
    pub line: String,
    /// The functions of its stack trace, the innermost first.
    pub stack: Vec<String>,
    has_stack: bool,
    /// Whether there was a time without new lines since the record.
    is_old: bool,
}

/// Gives the records of a stream their stack traces.
pub struct Stacks {
    has_stacks: bool,
    pending: Vec<Pending>,
    /// The CPU whose stack trace the lines are.
    open: Option<u32>,
}

impl Stacks {
    /// Without `has_stacks`, no record waits for a stack trace.
    pub fn new(has_stacks: bool) -> Self {
        Self {
            has_stacks,
            pending: Vec::new(),
            open: None,
        }
    }

    /// Takes a line. `cpu` is the CPU of a record to show. Returns the records that are complete.
    pub fn take(&mut self, line: &str, cpu: Option<u32>) -> Vec<Pending> {
        if let (Some(cpu), Some(frame)) = (self.open, line.trim_start().strip_prefix("=> ")) {
            if let Some(record) = self.pending.iter_mut().find(|record| record.cpu == cpu) {
                record.stack.push(frame.trim().into());
            }
            return Vec::new();
        }
        let mut complete = match self.open.take() {
            Some(cpu) => self.remove(|record| record.cpu == cpu),
            None => Vec::new(),
        };
        if let Some(head) = line.strip_suffix(": <stack trace>") {
            let Some((_, cpu)) = record::split_head(head) else {
                return complete;
            };
            if let Some(record) = self.pending.iter_mut().find(|record| record.cpu == cpu) {
                record.has_stack = true;
                self.open = Some(cpu);
            }
        } else if let Some(cpu) = cpu {
            // The kernel had no room for the stack trace of the record before.
            complete.extend(self.remove(|record| record.cpu == cpu));
            let record = Pending {
                cpu,
                line: line.into(),
                stack: Vec::new(),
                has_stack: false,
                is_old: false,
            };
            match self.has_stacks {
                true => self.pending.push(record),
                false => complete.push(record),
            }
        }
        complete
    }

    /// There are no more lines now. Returns the records that are complete.
    pub fn rest(&mut self) -> Vec<Pending> {
        self.open = None;
        let complete = self.remove(|record| record.has_stack || record.is_old);
        for record in &mut self.pending {
            record.is_old = true;
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

/// The functions of a record's stack trace, without those of the probe itself. At a return on arm64, the stack trace of
/// the kernel lacks the caller.
pub fn without_probe<'a>(stack: &'a [String], record: &Record<'a>) -> Vec<&'a str> {
    let calls_probe = |frame: &String| OF_PROBES.contains(&function(frame));
    let is_of_probe = |frame: &&String| frame.ends_with("[rkprobe]") || frame.starts_with("0x");
    let of_probe = stack.iter().take(MAX_OF_PROBES).rposition(calls_probe);
    let stack = &stack[of_probe.map_or(0, |last| last + 1)..];
    let first = stack.iter().take_while(is_of_probe).count();
    let mut stack: Vec<_> = stack[first..].iter().map(String::as_str).collect();
    let caller = record.return_address();
    // Another return probe of the function can hide the caller.
    let known =
        caller.filter(|caller| caller.contains('+') && !OF_PROBES.contains(&function(caller)));
    if let (Some(first), Some(caller)) = (stack.first(), known) {
        if function(first) != function(caller) {
            stack.insert(0, caller);
        }
    }
    stack
}

/// The function of the frame `FUNCTION+0x1/0x2`.
fn function(frame: &str) -> &str {
    frame.split('+').next().unwrap_or(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(records: &[Pending]) -> Vec<(&str, Vec<&str>)> {
        records
            .iter()
            .map(|pending| {
                let record = Record::parse(&pending.line, "e").expect("a record");
                (&*pending.line, without_probe(&pending.stack, &record))
            })
            .collect()
    }

    #[test]
    fn a_record_gets_the_stack_of_its_cpu() {
        let mut all = Stacks::new(true);
        let (one, two) = (
            "cat-1 [000] ..... 1.0: e: (f+0x1/0x2) a=1",
            "sh-2 [001] ..... 1.1: e: (f+0x1/0x2) a=2",
        );
        assert!(all.take(one, Some(0)).is_empty());
        assert!(all.take(two, Some(1)).is_empty());
        assert!(all
            .take("sh-2 [001] ..... 1.2: <stack trace>", None)
            .is_empty());
        assert!(all.take(" => return_to_handler+0x0/0x50", None).is_empty());
        assert!(all.take(" => 0xffff", None).is_empty());
        assert!(all.take(" => f+0x1/0x2", None).is_empty());
        assert!(all.take(" => 0xffff", None).is_empty());
        let complete = all.take("cat-1 [000] ..... 1.3: <stack trace>", None);
        assert_eq!(stacks(&complete), [(two, vec!["f+0x1/0x2", "0xffff"])]);
        assert!(all.take(" => g+0x1/0x2 [m]", None).is_empty());
        assert_eq!(stacks(&all.rest()), [(one, vec!["g+0x1/0x2 [m]"])]);
        assert!(all.end().is_empty());
    }

    #[test]
    fn a_record_without_a_stack_is_shown_later() {
        let mut all = Stacks::new(true);
        let (one, two) = ("a-1 [000] ..... 1.0: e: (f)", "b-1 [000] ..... 1.1: e: (f)");
        assert!(all.take(one, Some(0)).is_empty());
        assert_eq!(stacks(&all.take(two, Some(0))), [(one, vec![])]);
        assert!(all.rest().is_empty());
        assert_eq!(stacks(&all.rest()), [(two, vec![])]);
        assert!(all.take(one, Some(0)).is_empty());
        assert_eq!(stacks(&all.end()), [(one, vec![])]);
        let complete = Stacks::new(false).take(two, Some(0));
        assert_eq!(stacks(&complete), [(two, vec![])]);
    }

    #[test]
    fn a_stack_begins_with_the_caller_of_the_function_that_returned() {
        let stack = [
            "fprobe_return+0x1/0x2",
            "return_to_handler+0x1/0x2",
            "h+0x1/0x2",
        ]
        .map(String::from);
        for (place, shown) in [
            ("g+0x1/0x2 <- f", vec!["g+0x1/0x2", "h+0x1/0x2"]),
            ("h+0x1/0x2 <- f", vec!["h+0x1/0x2"]),
            ("return_to_handler+0x0/0x2 <- f", vec!["h+0x1/0x2"]),
            ("f+0x0/0x2", vec!["h+0x1/0x2"]),
        ] {
            let line = format!("a-1 [000] ..... 1.0: e: ({place}) a=1");
            let record = Record::parse(&line, "e").expect("a record");
            assert_eq!(without_probe(&stack, &record), shown);
            assert_eq!(without_probe(&[], &record), [""; 0]);
        }
    }
}

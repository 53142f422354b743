// SPDX-License-Identifier: GPL-2.0

//! Streams of records: when and where each record was made, and the functions that led to it.
//!
//! The kernel writes the stack traces of a record as records of their own, behind it in the buffer of the same CPU: first
//! that of the kernel, and then that of the program.

use serde::Serialize;

use crate::{
    failure::Result,
    instance::Instance,
    programs,
    record::{
        self,
        name_of,
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
    /// Whether each record has the stack trace of the program.
    pub has_user_stack: bool,
    /// Whether the time and the CPU are also in an answer that is not JSON.
    pub has_time: bool,
    /// Whether the times of different CPUs must be comparable.
    pub needs_clock: bool,
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
            changes.extend([("options/sym-offset", "1"), ("options/stacktrace", "1")]);
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

/// The stack traces that a record can have, in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Kernel,
    User,
}

/// A record that waits for its stack traces.
#[derive(Debug, PartialEq)]
pub struct Pending {
    cpu: u32,
    /// The line of the record.
    pub line: String,
    /// The functions of its stack trace, the innermost first.
    pub stack: Vec<String>,
    /// The addresses of the program's stack trace, the innermost first.
    pub user_stack: Vec<u64>,
    /// Whether it has its last stack trace.
    is_whole: bool,
    /// Whether there was a time without new lines since the record.
    is_old: bool,
}

/// Gives the records of a stream their stack traces.
pub struct Stacks {
    /// The last stack trace of a record. Without one, no record waits.
    last: Option<Kind>,
    pending: Vec<Pending>,
    /// The CPU and the kind of the stack trace whose lines come now.
    open: Option<(u32, Kind)>,
}

impl Stacks {
    /// The stack traces that the options want.
    pub fn new(options: &Options) -> Self {
        Self {
            last: match (options.has_stack, options.has_user_stack) {
                (_, true) => Some(Kind::User),
                (true, false) => Some(Kind::Kernel),
                (false, false) => None,
            },
            pending: Vec::new(),
            open: None,
        }
    }

    /// Takes a line, which is a record or belongs to a stack trace. Returns the records that are complete.
    pub fn take(&mut self, line: &str) -> Vec<Pending> {
        if let (Some((cpu, kind)), Some(frame)) = (self.open, line.trim_start().strip_prefix("=> "))
        {
            if let Some(record) = self.pending.iter_mut().find(|record| record.cpu == cpu) {
                match kind {
                    Kind::Kernel => record.stack.push(frame.trim().into()),
                    Kind::User => record.user_stack.extend(address(frame)),
                }
            }
            return Vec::new();
        }
        let mut complete = match self.open.take() {
            Some((cpu, _)) => self.remove(|record| record.cpu == cpu && record.is_whole),
            None => Vec::new(),
        };
        if let Some((head, kind)) = start_of_stack(line) {
            let Some((_, cpu)) = record::split_head(head) else {
                return complete;
            };
            if let Some(record) = self.pending.iter_mut().find(|record| record.cpu == cpu) {
                record.is_whole = self.last == Some(kind);
                self.open = Some((cpu, kind));
            }
        } else if let Some(cpu) = record::cpu(line) {
            // The kernel had no room for the stack trace of the record before, or its task has none.
            complete.extend(self.remove(|record| record.cpu == cpu));
            let record = Pending {
                cpu,
                line: line.into(),
                stack: Vec::new(),
                user_stack: Vec::new(),
                is_whole: false,
                is_old: false,
            };
            match self.last {
                Some(_) => self.pending.push(record),
                None => complete.push(record),
            }
        }
        complete
    }

    /// There are no more lines now. Returns the records that are complete.
    pub fn rest(&mut self) -> Vec<Pending> {
        self.open = None;
        let complete = self.remove(|record| record.is_whole || record.is_old);
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

/// The head and the kind of a stack trace that begins with a line.
fn start_of_stack(line: &str) -> Option<(&str, Kind)> {
    let head = line.strip_suffix("stack trace>")?;
    match head.strip_suffix(": <user ") {
        Some(head) => Some((head, Kind::User)),
        None => Some((head.strip_suffix(": <")?, Kind::Kernel)),
    }
}

/// The address of a frame of a program, such as ` <00007f5c2be48e9d>`.
fn address(frame: &str) -> Option<u64> {
    let digits = frame.trim().strip_prefix('<')?.strip_suffix('>')?;
    u64::from_str_radix(digits, 16).ok()
}

/// The functions of a record's stack trace, without those of the probe itself. At a return on arm64, the stack trace of
/// the kernel lacks the caller.
pub fn without_probe<'a>(stack: &'a [String], record: &Record<'a>) -> Vec<&'a str> {
    let calls_probe = |frame: &String| OF_PROBES.contains(&name_of(frame));
    let is_of_probe = |frame: &&String| frame.ends_with("[rkprobe]") || frame.starts_with("0x");
    let of_probe = stack.iter().take(MAX_OF_PROBES).rposition(calls_probe);
    let stack = &stack[of_probe.map_or(0, |last| last + 1)..];
    let mut first = stack.iter().take_while(is_of_probe).count();
    // A trampoline of ftrace can have the name of a module that was at its address.
    let is_own = |at: usize| {
        let frame = stack.get(at).map(|frame| name_of(frame));
        record.return_address().is_none() && frame == Some(name_of(record.place))
    };
    if !is_own(first) && is_own(first + 1) {
        first += 1;
    }
    let mut stack: Vec<_> = stack[first..].iter().map(String::as_str).collect();
    let caller = record.return_address();
    // Another return probe of the function can hide the caller.
    let known =
        caller.filter(|caller| caller.contains('+') && !OF_PROBES.contains(&name_of(caller)));
    if let (Some(first), Some(caller)) = (stack.first(), known) {
        if name_of(first) != name_of(caller) {
            stack.insert(0, caller);
        }
    }
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Options = Options {
        count: None,
        has_stack: true,
        has_user_stack: false,
        has_time: false,
        needs_clock: false,
    };

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
        let mut all = Stacks::new(&KERNEL);
        let (one, two) = (
            "cat-1 [000] ..... 1.0: e: (f+0x1/0x2) a=1",
            "sh-2 [001] ..... 1.1: e: (f+0x1/0x2) a=2",
        );
        assert!(all.take(one).is_empty());
        assert!(all.take(two).is_empty());
        assert!(all.take("sh-2 [001] ..... 1.2: <stack trace>").is_empty());
        assert!(all.take(" => return_to_handler+0x0/0x50").is_empty());
        assert!(all.take(" => 0xffff").is_empty());
        assert!(all.take(" => f+0x1/0x2").is_empty());
        assert!(all.take(" => 0xffff").is_empty());
        let complete = all.take("cat-1 [000] ..... 1.3: <stack trace>");
        assert_eq!(stacks(&complete), [(two, vec!["f+0x1/0x2", "0xffff"])]);
        assert!(all.take(" => g+0x1/0x2 [m]").is_empty());
        assert_eq!(stacks(&all.rest()), [(one, vec!["g+0x1/0x2 [m]"])]);
        assert!(all.end().is_empty());
    }

    #[test]
    fn a_record_without_a_stack_is_shown_later() {
        let mut all = Stacks::new(&KERNEL);
        let (one, two) = ("a-1 [000] ..... 1.0: e: (f)", "b-1 [000] ..... 1.1: e: (f)");
        assert!(all.take(one).is_empty());
        assert_eq!(stacks(&all.take(two)), [(one, vec![])]);
        assert!(all.rest().is_empty());
        assert_eq!(stacks(&all.rest()), [(two, vec![])]);
        assert!(all.take(one).is_empty());
        assert_eq!(stacks(&all.end()), [(one, vec![])]);
        let complete = Stacks::new(&Options::default()).take(two);
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

    #[test]
    fn a_trampoline_is_no_frame() {
        let record = Record::parse("cat-1 [000] ..... 1.0: e: (f+0x4/0x9) a=1", "e").unwrap();
        let stack = ["init+0x85/0xff0 [m]", "f+0x9/0x9", "g+0x1/0x2"].map(String::from);
        assert_eq!(without_probe(&stack, &record), ["f+0x9/0x9", "g+0x1/0x2"]);
        assert_eq!(
            without_probe(&stack[1..], &record),
            ["f+0x9/0x9", "g+0x1/0x2"]
        );
        let others = ["h+0x1/0x2", "g+0x1/0x2"].map(String::from);
        assert_eq!(without_probe(&others, &record), ["h+0x1/0x2", "g+0x1/0x2"]);
    }
}

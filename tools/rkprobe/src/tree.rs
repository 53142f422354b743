// SPDX-License-Identifier: GPL-2.0

//! The records of a call-tree event, as calls: each with its steps, in the order in which the functions were entered.

use std::collections::HashMap;

use crate::record::Record;

/// The number of argument words of a step.
pub const WORDS: usize = 4;

/// The fields of each record. Others are fetch arguments of the user or of the tool.
const OWN: [&str; 10] = [
    "call", "depth", "func", "enter", "ns", "ret", "has", "args", "steps", "lost",
];

/// A call of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// `NAME` or `NAME [MODULE]`.
    pub function: String,
    /// The number of its callers up to the root.
    pub depth: usize,
    /// The time since the root's entry, in ns.
    pub enter: u64,
    /// The duration, in ns. `None` if the function did not return before the root, or nobody saw its return.
    pub ns: Option<u64>,
    /// The word in the register of the return value. `None` as for the duration.
    pub ret: Option<u64>,
    /// The first words of the arguments.
    pub args: [u64; WORDS],
}

impl Step {
    fn parse(record: &Record<'_>) -> Option<Self> {
        let has_result = number(record, "has")? != 0;
        let of_return = |name| number(record, name).filter(|_| has_result);
        let mut args = [0; WORDS];
        let words = record.field("args").unwrap_or("");
        let words = words.trim_matches(['{', '}']).split(',');
        for (arg, word) in args.iter_mut().zip(words) {
            *arg = parse_number(word).unwrap_or(0);
        }
        Some(Self {
            function: record.field("func")?.into(),
            depth: usize::try_from(number(record, "depth")?).ok()?,
            enter: number(record, "enter")?,
            ns: of_return("ns"),
            ret: of_return("ret"),
            args,
        })
    }
}

/// A number in decimal or hexadecimal digits.
fn parse_number(text: &str) -> Option<u64> {
    match text.trim().strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

fn number(record: &Record<'_>, name: &str) -> Option<u64> {
    parse_number(record.field(name)?)
}

/// A call of the root, with its steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// The number of the call, from the kernel.
    pub number: u64,
    /// The name of the task.
    pub comm: String,
    /// The thread ID of the task.
    pub tid: String,
    /// The CPU on which the root returned.
    pub cpu: u32,
    /// The time when the root returned, in ns.
    pub end: u64,
    /// The root and its steps. A caller is before its callees.
    pub steps: Vec<Step>,
    /// The fetch arguments.
    pub fields: Vec<(String, String)>,
    /// The number of steps for which the kernel's buffer had no room.
    pub lost: u64,
    /// The number of steps whose records were lost on their way.
    pub unread: u64,
}

impl Call {
    /// The root. Each call has one.
    pub fn root(&self) -> &Step {
        &self.steps[0]
    }

    /// The value of a fetch argument.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        Some(&fields.find(|(field, _)| field == name)?.1)
    }

    /// The time when the root was entered, in ns.
    pub fn start(&self) -> u64 {
        self.end.saturating_sub(self.root().ns.unwrap_or(0))
    }

    /// The number of steps that are missing.
    pub fn missing(&self) -> u64 {
        self.lost + self.unread
    }

    /// The caller of each step. If its record is lost, the nearest caller that is left stands for it.
    pub fn parents(&self) -> Vec<Option<usize>> {
        let mut open: Vec<usize> = Vec::new();
        let parent = |(index, step): (usize, &Step)| {
            while let Some(last) = open.last() {
                if self.steps[*last].depth < step.depth {
                    break;
                }
                open.pop();
            }
            // A step whose depth is wrong must not become a second root.
            let parent = open.last().copied().or((index > 0).then_some(0));
            open.push(index);
            parent
        };
        self.steps.iter().enumerate().map(parent).collect()
    }

    /// The callees of each step.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.steps.len()];
        for (index, parent) in self.parents().into_iter().enumerate() {
            if let Some(parent) = parent {
                children[parent].push(index);
            }
        }
        children
    }

    /// The durations of the steps, without those of their callees, in ns.
    pub fn self_times(&self) -> Vec<Option<u64>> {
        let mut times: Vec<Option<u64>> = self.steps.iter().map(|step| step.ns).collect();
        for (step, parent) in self.steps.iter().zip(self.parents()) {
            let time = parent.and_then(|parent| times[parent].as_mut());
            if let (Some(time), Some(ns)) = (time, step.ns) {
                *time = time.saturating_sub(ns);
            }
        }
        times
    }

    /// The steps from the root to a step.
    pub fn path(&self, index: usize) -> Vec<usize> {
        let parents = self.parents();
        let mut path = vec![index];
        while let Some(parent) = path.last().and_then(|last| parents[*last]) {
            path.push(parent);
        }
        path.reverse();
        path
    }
}

/// A call whose steps are not all read.
struct Open {
    call: Call,
    /// The number of steps that the kernel has.
    steps: u64,
    /// Whether there was a time without new records since its last one.
    is_old: bool,
}

impl Open {
    fn is_complete(&self) -> bool {
        self.call.steps.len() as u64 > self.steps
    }

    fn close(mut self) -> Call {
        self.call.unread = (self.steps + 1).saturating_sub(self.call.steps.len() as u64);
        self.call
    }
}

/// Makes calls of records, in whatever order the CPUs have them.
#[derive(Default)]
pub struct Collector {
    open: HashMap<u64, Open>,
    /// The number of steps whose root is unknown.
    pub orphans: u64,
}

impl Collector {
    /// Takes a record. Returns the call that it completes.
    pub fn take(&mut self, record: &Record<'_>) -> Option<Call> {
        let step = Step::parse(record)?;
        let id = number(record, "call")?;
        if step.depth > 0 {
            let Some(open) = self.open.get_mut(&id) else {
                self.orphans += 1;
                return None;
            };
            open.call.steps.push(step);
            open.is_old = false;
        } else {
            let of_user = |(name, value): &(&str, &str)| {
                (!OWN.contains(name)).then(|| (name.to_string(), value.to_string()))
            };
            let call = Call {
                number: id,
                comm: record.comm.into(),
                tid: record.pid.into(),
                cpu: record.cpu,
                end: record.time,
                steps: vec![step],
                fields: record.fields.iter().filter_map(of_user).collect(),
                lost: number(record, "lost").unwrap_or(0),
                unread: 0,
            };
            let open = Open {
                call,
                steps: number(record, "steps").unwrap_or(0),
                is_old: false,
            };
            self.open.insert(id, open);
        }
        let is_complete = self.open.get(&id).is_some_and(Open::is_complete);
        is_complete.then(|| self.open.remove(&id))?.map(Open::close)
    }

    /// There are no more records now. Returns the calls whose other records are lost: the kernel writes all records of a
    /// call at once.
    pub fn rest(&mut self) -> Vec<Call> {
        let calls = self.remove(|open| open.is_old);
        for open in self.open.values_mut() {
            open.is_old = true;
        }
        calls
    }

    /// The end of the records. Returns all other calls.
    pub fn end(&mut self) -> Vec<Call> {
        self.remove(|_| true)
    }

    fn remove(&mut self, is_wanted: impl Fn(&Open) -> bool) -> Vec<Call> {
        let wanted = self.open.iter().filter(|(_, open)| is_wanted(open));
        let mut ids: Vec<u64> = wanted.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        let calls = ids.iter().filter_map(|id| self.open.remove(id));
        calls.map(Open::close).collect()
    }
}

/// Makes calls for tests.
#[cfg(test)]
pub mod tests {
    use super::*;

    /// A call of the steps `(DEPTH, FUNCTION, RETURN VALUE)`. Step number `n` starts after `10 n` ns, and takes 1000 ns
    /// less for each deeper level.
    pub fn call(steps: &[(usize, &str, i64)]) -> Call {
        let step = |(index, (depth, function, ret)): (usize, &(usize, &str, i64))| Step {
            function: (*function).into(),
            depth: *depth,
            enter: index as u64 * 10,
            ns: Some((10 - *depth as u64) * 1000),
            ret: Some(*ret as u64),
            args: [1, 2, 3, 4],
        };
        Call {
            number: 1,
            comm: "cat".into(),
            tid: "7".into(),
            end: 50_000,
            steps: steps.iter().enumerate().map(step).collect(),
            ..Call::default()
        }
    }

    fn line(call: u64, depth: u32, function: &str, rest: &str) -> String {
        format!(
            "  my cat-7     [001] ..... 6.152338: why: (root) call={call} depth={depth} func={function} enter=5 ns=70 \
             ret=0xfffffffffffffffe has=1 args={{0x1,0x2,0x0,0xff}} {rest}"
        )
    }

    fn take(collector: &mut Collector, lines: &[String]) -> Vec<Call> {
        let all = lines.iter();
        all.filter_map(|line| collector.take(&Record::parse(line, "why").unwrap()))
            .collect()
    }

    #[test]
    fn records_of_two_calls_can_alternate() {
        let mut collector = Collector::default();
        let calls = take(
            &mut collector,
            &[
                line(1, 0, "root", "steps=2 lost=3 name=\"a b\" nr=5"),
                line(2, 0, "root", "steps=1 lost=0 name=\"\" nr=0"),
                line(1, 1, "f [m]", "steps=0 lost=0 name=\"\" nr=0"),
                line(2, 1, "g", "steps=0 lost=0 name=\"\" nr=0"),
                line(1, 2, "h", "steps=0 lost=0 name=\"\" nr=0"),
                line(3, 0, "root", "steps=0 lost=0 name=\"\" nr=0"),
            ],
        );
        let numbers: Vec<_> = calls.iter().map(|call| call.number).collect();
        assert_eq!(numbers, [2, 1, 3]);
        let call = &calls[1];
        assert_eq!((&*call.comm, &*call.tid, call.cpu), ("my cat", "7", 1));
        assert_eq!((call.lost, call.unread, call.missing()), (3, 0, 3));
        assert_eq!(call.field("name"), Some("\"a b\""));
        assert_eq!(call.field("call"), None);
        assert_eq!(call.start(), 6_152_338_000 - 70);
        let step = &call.steps[1];
        assert_eq!((&*step.function, step.depth, step.enter), ("f [m]", 1, 5));
        assert_eq!((step.ns, step.ret), (Some(70), Some(-2_i64 as u64)));
        assert_eq!(step.args, [1, 2, 0, 255]);
        assert!(collector.end().is_empty());
    }

    #[test]
    fn a_step_can_lack_its_result() {
        let text = line(1, 0, "root", "steps=0").replace("has=1", "has=0");
        let calls = take(&mut Collector::default(), &[text]);
        assert_eq!((calls[0].root().ns, calls[0].root().ret), (None, None));
    }

    #[test]
    fn records_can_be_lost() {
        let mut collector = Collector::default();
        let calls = take(
            &mut collector,
            &[
                line(1, 0, "root", "steps=3 lost=0"),
                line(1, 1, "f", "steps=0 lost=0"),
                line(9, 1, "g", "steps=0 lost=0"),
                line(1, 3, "h", "steps=0 lost=0"),
            ],
        );
        assert!(calls.is_empty());
        assert_eq!(collector.orphans, 1);
        assert!(collector.rest().is_empty());
        let calls = collector.rest();
        assert_eq!((calls.len(), calls[0].unread), (1, 1));
        assert_eq!(calls[0].parents(), [None, Some(0), Some(1)]);
        take(&mut collector, &[line(2, 0, "root", "steps=3 lost=0")]);
        assert_eq!(collector.end()[0].unread, 3);
        assert!(collector.end().is_empty());
    }

    #[test]
    fn a_caller_is_the_nearest_step_above() {
        let call = call(&[
            (0, "root", 0),
            (1, "a", 0),
            (2, "b", 0),
            (2, "c", 0),
            (4, "d", 0),
            (1, "e", 0),
            (0, "wrong", 0),
        ]);
        assert_eq!(
            call.parents(),
            [None, Some(0), Some(1), Some(1), Some(3), Some(0), Some(0)]
        );
        assert_eq!(call.children()[1], [2, 3]);
        assert_eq!(call.path(4), [0, 1, 3, 4]);
        assert_eq!(call.path(0), [0]);
    }

    #[test]
    fn self_time_excludes_callees() {
        let mut call = call(&[(0, "root", 0), (1, "a", 0), (2, "b", 0), (2, "c", 0)]);
        for (step, ns) in call.steps.iter_mut().zip([100, 60, 20, 50]) {
            step.ns = Some(ns);
        }
        // Clocks of different CPUs can differ.
        assert_eq!(call.self_times(), [Some(40), Some(0), Some(20), Some(50)]);
        call.steps[1].ns = None;
        assert_eq!(call.self_times()[..2], [Some(100), None]);
    }
}

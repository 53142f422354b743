// SPDX-License-Identifier: GPL-2.0

//! `rkprobe lat FUNCTION`: how long do calls take? The kernel counts by powers of two.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    context::Context,
    counts::{
        self,
        Count,
        Table, //
    },
    draw::{
        self,
        Bar, //
    },
    duration,
    failure::Result,
    flame::{
        self,
        Stack, //
    },
    functions::Method,
    hist::{
        self,
        Hist,
        Row, //
    },
    missing::Missing,
    probes,
    svg,
    whom::Whom, //
};

/// How the calls are divided.
#[derive(Clone, Copy, PartialEq)]
pub enum By {
    /// By the name of the task.
    Comm,
    /// By the thread ID.
    Pid,
    /// By the CPU on which the call ended.
    Cpu,
    /// By the stack at the end of the call.
    Stack,
}

impl By {
    /// Parses the value of `--by`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "comm" => Self::Comm,
            "pid" => Self::Pid,
            "cpu" => Self::Cpu,
            "stack" => Self::Stack,
            _ => return None,
        })
    }

    /// The field that the event needs for the key, as the end of a command.
    pub fn field(self) -> &'static str {
        match self {
            Self::Comm => " comm=$comm",
            Self::Cpu => " common_cpu=$current->thread_info.cpu",
            Self::Pid | Self::Stack => "",
        }
    }

    /// The key of the table.
    pub fn key(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            _ => self.name(),
        }
    }

    /// The name of the key in the text of the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Comm => "comm",
            Self::Pid => "common_pid",
            Self::Cpu => "common_cpu",
            Self::Stack => "common_stacktrace",
        }
    }
}

/// Whether the kernel's stack at `f...%return` lacks the function that made the call: on arm64, no frame has its address
/// there. The stack of a kretprobe has it.
const STACK_LACKS_CALLER: bool = cfg!(target_arch = "aarch64");

/// The calls whose duration is between two powers of two, in JSON.
#[derive(Serialize)]
struct Bucket {
    over_ns: u64,
    to_ns: u64,
    calls: u64,
}

/// The calls of one group, in JSON.
#[derive(Serialize)]
struct Group<'a> {
    group: &'a str,
    calls: u64,
    total_ns: u64,
    buckets: Vec<Bucket>,
}

/// The calls of one group.
#[derive(Default)]
struct Calls {
    /// Calls by the exponent of their longest duration.
    buckets: BTreeMap<u32, u64>,
    count: u64,
    ns: u64,
}

impl Calls {
    /// All buckets between the first and the last.
    fn all(&self) -> Vec<(u32, u64)> {
        let (Some(first), Some(last)) = (self.buckets.keys().next(), self.buckets.keys().last())
        else {
            return Vec::new();
        };
        (*first..=*last)
            .map(|exponent| (exponent, self.buckets.get(&exponent).copied().unwrap_or(0)))
            .collect()
    }

    fn bars(&self) -> Vec<Bar> {
        self.all()
            .into_iter()
            .map(|(exponent, value)| Bar {
                label: format!(
                    "{:>7} .. {:>7}",
                    duration::show(lower(exponent)),
                    duration::show(power(exponent))
                ),
                value,
            })
            .collect()
    }

    /// The upper bound of the bucket of the call that is slower than `percent` of the calls.
    fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        for (exponent, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return power(*exponent);
            }
        }
        0
    }

    fn summary(&self) -> String {
        format!(
            "{} calls, average {}, half within {}, 99 % within {}\n",
            self.count,
            duration::show(self.ns / self.count.max(1)),
            duration::show(self.percentile(50)),
            duration::show(self.percentile(99)),
        )
    }

    fn json<'a>(&self, group: &'a str) -> Group<'a> {
        let buckets = self.all().into_iter().map(|(exponent, calls)| Bucket {
            over_ns: lower(exponent),
            to_ns: power(exponent),
            calls,
        });
        Group {
            group,
            calls: self.count,
            total_ns: self.ns,
            buckets: buckets.collect(),
        }
    }
}

fn power(exponent: u32) -> u64 {
    1_u64.checked_shl(exponent).unwrap_or(u64::MAX)
}

/// The lower bound of a bucket.
fn lower(exponent: u32) -> u64 {
    exponent.checked_sub(1).map_or(0, power)
}

fn group(hist: &Hist) -> BTreeMap<String, Calls> {
    let mut groups: BTreeMap<String, Calls> = BTreeMap::new();
    for row in &hist.rows {
        let (Some(bucket), name) = (row.keys.last(), &row.keys[..row.keys.len() - 1]) else {
            continue;
        };
        let calls = groups.entry(name.join(" ")).or_default();
        *calls
            .buckets
            .entry(hist::exponent(bucket).unwrap_or(0))
            .or_default() += row.hits;
        calls.count += row.hits;
        calls.ns += row.sum;
    }
    groups
}

/// Groups, that with the most calls first.
fn sorted(groups: &BTreeMap<String, Calls>) -> Vec<(&String, &Calls)> {
    let mut sorted: Vec<_> = groups.iter().collect();
    sorted.sort_by_key(|(_, calls)| std::cmp::Reverse(calls.count));
    sorted
}

fn picture(context: &Context, function: &str, hist: &Hist, missing: &Missing) -> String {
    let mut text = String::new();
    for (name, calls) in sorted(&group(hist)) {
        for line in hist::lines(name) {
            text += &format!("{line}\n");
        }
        text += &draw::bars(&calls.bars(), context.screen());
        text += &format!("{function}: {}", calls.summary());
    }
    if text.is_empty() {
        text = format!("{function}: 0 calls\n");
    }
    missing.around(&text)
}

/// The commands to try.
fn commands(
    function: &probes::Function<'_>,
    group: &str,
    by: Option<By>,
    whom: &Whom,
) -> Vec<String> {
    let field = by.map_or("", By::field);
    let keys: Vec<&str> = by.map(By::key).into_iter().chain(["ns.log2"]).collect();
    let count = Count {
        keys: &keys,
        sum: Some("ns"),
        size: if by.is_some() { 4096 } else { 128 },
        condition: whom.counted(),
    };
    let mut commands = function.at_return(group, "lat");
    if by == Some(By::Stack) && STACK_LACKS_CALLER {
        commands.reverse();
    }
    let commands = commands.into_iter();
    commands
        .map(|command| format!("{command} ns=$elapsed{field}{}", count.clauses()))
        .collect()
}

/// The duration of the calls of each stack.
fn stacks<'a>(function: &'a str, hist: &'a Hist) -> Vec<Stack<'a>> {
    // A stack has a row for each duration, and the flame graph adds them up.
    let stack = |row: &'a Row| Stack {
        frames: hist::lines(&row.keys[0]).collect(),
        function,
        result: None,
        value: row.sum,
    };
    hist.rows.iter().map(stack).collect()
}

/// Runs the command.
pub fn run(context: &Context, function: &str, by: Option<By>, image: Option<&String>) -> Result {
    let probed = context.functions.check(function, Method::Any)?;
    for command in commands(&probed, "rkprobe", by, &context.whom) {
        probes::check_syntax(&command)?;
    }
    let instance = context.start()?;
    probes::define(
        &context.tracefs,
        &commands(&probed, instance.group(), by, &context.whom),
    )?;
    context.switch_on(&instance, "lat")?;
    let names: Vec<&str> = by.map(By::name).into_iter().chain(["ns"]).collect();
    let table = Table {
        event: "lat",
        keys: &names,
        sum: Some("ns"),
    };
    let read = || counts::read_one(&context.tracefs, &instance, table);
    context.watch(&instance, || {
        let (hist, missing) = read()?;
        Ok(picture(context, function, &hist, &missing))
    })?;
    if context.tracefs.is_dry() {
        return Ok(());
    }
    let (hist, missing) = read()?;
    if let Some(path) = image {
        let mut all = Calls::default();
        for calls in group(&hist).values() {
            for (exponent, count) in &calls.buckets {
                *all.buckets.entry(*exponent).or_default() += count;
            }
            all.count += calls.count;
            all.ns += calls.ns;
        }
        let title = format!(
            "{function}: {}{}",
            all.summary().trim_end(),
            missing.title()
        );
        match by {
            Some(By::Stack) => flame::write(path, &title, "ns", &stacks(function, &hist))?,
            _ => svg::write(path, &title, &all.bars())?,
        }
    }
    if !context.is_json {
        return context.print(&picture(context, function, &hist, &missing));
    }
    let groups = group(&hist);
    let groups = sorted(&groups)
        .into_iter()
        .map(|(name, calls)| calls.json(name));
    let groups: Vec<Group<'_>> = groups.collect();
    context.print_table(Some(function), "groups", &groups, &missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_group_and_bucket() {
        let text =
            "{ comm: a, ns: ~ 2^3 } hitcount: 8 ns: 64\n{ comm: b, ns: ~ 2^0 } hitcount: 1 ns: 1\n\
            { comm: a, ns: ~ 2^5 } hitcount: 2 ns: 60\n";
        let groups = group(&hist::parse(text, &["comm", "ns"], Some("ns")));
        let calls = &groups["a"];
        assert_eq!((calls.count, calls.ns), (10, 124));
        assert_eq!(calls.all(), [(3, 8), (4, 0), (5, 2)]);
        assert_eq!(
            (
                calls.percentile(50),
                calls.percentile(80),
                calls.percentile(81)
            ),
            (8, 8, 32)
        );
        assert_eq!(groups["b"].bars()[0].label, "   0 ns ..    1 ns");
        assert_eq!(sorted(&groups)[0].0, "a");
        assert_eq!(Calls::default().percentile(99), 0);
    }
}

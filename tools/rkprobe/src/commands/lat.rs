// SPDX-License-Identifier: GPL-2.0

//! `rkprobe lat FUNCTIONS`: how long do calls take? The kernel counts by powers of two.

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
    selection::is_list,
    svg,
    targets::Targets,
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
    /// The function, if the run has several. Otherwise empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    function: &'a str,
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

    fn json<'a>(&self, function: &'a str, group: &'a str) -> Group<'a> {
        let buckets = self.all().into_iter().map(|(exponent, calls)| Bucket {
            over_ns: lower(exponent),
            to_ns: power(exponent),
            calls,
        });
        Group {
            function,
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

/// The calls of each function and group. The function is empty if the run has only one.
type Groups = BTreeMap<(String, String), Calls>;

fn group(hist: &Hist, is_list: bool) -> Groups {
    let mut groups = Groups::new();
    for row in &hist.rows {
        let Some((bucket, keys)) = row.keys.split_last() else {
            continue;
        };
        let (function, keys) = match keys {
            [function, keys @ ..] if is_list => (hist::symbol(function).into(), keys),
            keys => (String::new(), keys),
        };
        let calls = groups.entry((function, keys.join(" "))).or_default();
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
fn sorted(groups: &Groups) -> Vec<(&(String, String), &Calls)> {
    let mut sorted: Vec<_> = groups.iter().collect();
    sorted.sort_by_key(|(_, calls)| std::cmp::Reverse(calls.count));
    sorted
}

/// What the user asks.
struct Question<'a> {
    /// The functions, as the user chooses them.
    text: &'a str,
    by: Option<By>,
    /// Whether each function has a histogram of its own.
    is_list: bool,
}

fn picture(context: &Context, question: &Question<'_>, hist: &Hist, missing: &Missing) -> String {
    let mut text = String::new();
    for ((function, group), calls) in sorted(&group(hist, question.is_list)) {
        for line in hist::lines(group) {
            text += &format!("{line}\n");
        }
        text += &draw::bars(&calls.bars(), context.screen());
        let function = match &**function {
            "" => question.text,
            function => function,
        };
        text += &format!("{function}: {}", calls.summary());
    }
    if text.is_empty() {
        text = format!("{}: 0 calls\n", question.text);
    }
    missing.around(&text)
}

/// The commands to try for each target.
fn commands(
    question: &Question<'_>,
    targets: &[String],
    group: &str,
    whom: &Whom,
) -> Vec<Vec<String>> {
    let by = question.by;
    let field = by.map_or("", By::field);
    let mut keys = Vec::new();
    keys.extend(question.is_list.then_some("func"));
    keys.extend(by.map(By::key));
    keys.push("ns.log2");
    let count = Count {
        keys: &keys,
        sum: Some("ns"),
        size: match (question.is_list, by) {
            (false, None) => 128,
            (false, Some(_)) => 4096,
            (true, _) => 8192,
        },
        condition: whom.counted(),
    };
    let of_target = |target: &String| {
        let mut commands = match question.is_list {
            true => vec![format!("f:{group}/lat {target}%return")],
            false => probes::at_return(target, group, "lat"),
        };
        if by == Some(By::Stack) && STACK_LACKS_CALLER {
            commands.reverse();
        }
        let commands = commands.into_iter();
        commands
            .map(|command| format!("{command} ns=$elapsed{field}{}", count.clauses()))
            .collect()
    };
    targets.iter().map(of_target).collect()
}

/// The duration of the calls of each stack.
fn stacks<'a>(question: &Question<'a>, hist: &'a Hist) -> Vec<Stack<'a>> {
    // A stack has a row for each duration, and the flame graph adds them up.
    let stack = |row: &'a Row| {
        let (function, stack) = match &row.keys[..] {
            [function, stack, ..] if question.is_list => (hist::symbol(function), stack),
            keys => (question.text, &keys[0]),
        };
        Stack {
            frames: hist::lines(stack).collect(),
            function,
            result: None,
            value: row.sum,
        }
    };
    hist.rows.iter().map(stack).collect()
}

/// Runs the command. `text` chooses the functions.
pub fn run(context: &Context, text: &str, by: Option<By>, image: Option<&String>) -> Result {
    let is_list = is_list(text);
    let question = Question { text, by, is_list };
    let targets = match is_list {
        true => context.functions.targets(text)?,
        false => Targets::all(context.functions.each(text, Method::Any)?),
    };
    let commands = |group: &str| commands(&question, &targets.texts, group, &context.whom);
    probes::check_all(&commands("rkprobe"))?;
    let instance = context.start()?;
    probes::define_all(&context.tracefs, &commands(instance.group()))?;
    context.switch_on(&instance, "lat")?;
    let mut names = Vec::new();
    names.extend(is_list.then_some("func"));
    names.extend(by.map(By::name));
    names.push("ns");
    let table = Table {
        event: "lat",
        keys: &names,
        sum: Some("ns"),
    };
    let read = || -> Result<(Hist, Missing)> {
        let (hist, missing) = counts::read_one(&context.tracefs, &instance, table)?;
        Ok((targets.filter(hist), missing))
    };
    context.watch(&instance, || {
        let (hist, missing) = read()?;
        Ok(picture(context, &question, &hist, &missing))
    })?;
    if context.tracefs.is_dry() {
        return Ok(());
    }
    let (hist, missing) = read()?;
    let groups = group(&hist, is_list);
    if let Some(path) = image {
        let mut all = Calls::default();
        for calls in groups.values() {
            for (exponent, count) in &calls.buckets {
                *all.buckets.entry(*exponent).or_default() += count;
            }
            all.count += calls.count;
            all.ns += calls.ns;
        }
        let title = format!("{text}: {}{}", all.summary().trim_end(), missing.title());
        match by {
            Some(By::Stack) => flame::write(path, &title, "ns", &stacks(&question, &hist))?,
            _ => svg::write(path, &title, &all.bars())?,
        }
    }
    if !context.is_json {
        return context.print(&picture(context, &question, &hist, &missing));
    }
    let groups = sorted(&groups)
        .into_iter()
        .map(|((function, group), calls)| calls.json(function, group));
    let groups: Vec<Group<'_>> = groups.collect();
    context.print_table(Some(text), "groups", &groups, &missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_group_and_bucket() {
        let text =
            "{ comm: a, ns: ~ 2^3 } hitcount: 8 ns: 64\n{ comm: b, ns: ~ 2^0 } hitcount: 1 ns: 1\n\
            { comm: a, ns: ~ 2^5 } hitcount: 2 ns: 60\n";
        let hist = hist::parse(text, &["comm", "ns"], Some("ns"));
        let groups = group(&hist, false);
        let key = |function: &str, group: &str| (function.into(), group.into());
        let calls = &groups[&key("", "a")];
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
        assert_eq!(groups[&key("", "b")].bars()[0].label, "   0 ns ..    1 ns");
        assert_eq!(sorted(&groups)[0].0 .1, "a");
        assert_eq!(Calls::default().percentile(99), 0);
        let hist = hist::parse(
            "{ func: [ffff] f [m], comm: a, ns: ~ 2^3 } hitcount: 2 ns: 9\n",
            &["func", "comm", "ns"],
            Some("ns"),
        );
        assert_eq!(group(&hist, true)[&key("f [m]", "a")].ns, 9);
    }

    #[test]
    fn many_functions_have_histograms_of_their_own() {
        let question = |text, is_list| Question {
            text,
            by: None,
            is_list,
        };
        let targets = ["vfs_*", "do_exit"].map(String::from);
        let all = commands(&question("x", true), &targets, "g", &Whom::default());
        assert_eq!(all.len(), 2);
        for (commands, target) in all.iter().zip(&targets) {
            let start =
                format!("f:g/lat {target}%return ns=$elapsed by func,ns.log2 sum ns size=8192 if ");
            assert!(
                commands.len() == 1 && commands[0].starts_with(&start),
                "{commands:?}"
            );
        }
        let one = commands(
            &question("do_exit", false),
            &targets[1..],
            "g",
            &Whom::default(),
        );
        assert_eq!(one[0].len(), 2);
        assert!(one[0][1].contains(" by ns.log2 sum ns size=128 if "));
    }
}

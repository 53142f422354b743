// SPDX-License-Identifier: GPL-2.0

//! `rkprobe lat FUNCTIONS`: how long do calls take? The kernel counts by powers of two.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::BTreeMap, //
};

use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    asked::refuse_offset,
    by::{
        By,
        Division, //
    },
    context::Context,
    counted::Counted,
    counts::{
        Count,
        Table, //
    },
    draw::Screen,
    duration,
    failure::Result,
    flame::Stack,
    functions::Method,
    hist::{
        self,
        Hist,
        Row, //
    },
    probes,
    selection::is_list,
    spread::{
        self,
        Scale, //
    },
    table::{
        self,
        Cell,
        Group,
        Image,
        Options,
        Question,
        Source, //
    },
    targets::Targets,
    whom::Whom, //
};

/// The calls whose duration is between two bounds.
#[derive(Serialize)]
struct Bucket {
    over_ns: u64,
    /// Nothing in the bucket above the last bound.
    to_ns: Option<u64>,
    calls: u64,
}

/// The calls of one group.
#[derive(Default, Serialize)]
struct Calls {
    /// The function, if the run has several. Otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    function: String,
    #[serde(skip)]
    group: String,
    /// The group in JSON.
    #[serde(rename = "group")]
    json: Json,
    calls: u64,
    total_ns: u64,
    /// The shortest and the longest call. Unknown for an interval if an earlier call was shorter or longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ns: Option<u64>,
    /// All buckets between the first and the last with a call.
    buckets: Vec<Bucket>,
    #[serde(skip)]
    counted: Counted,
}

impl Calls {
    /// The calls of rows whose last key is a bucket.
    fn new<'r>(
        function: String,
        group: String,
        rows: impl Iterator<Item = &'r Row>,
        scale: &Scale,
    ) -> Self {
        let counted = Counted::new(rows);
        let bucket = |bucket: spread::Bucket| Bucket {
            over_ns: bucket.over_ns,
            to_ns: bucket.to_ns,
            calls: bucket.count,
        };
        Self {
            function,
            group,
            json: Json::Null,
            calls: counted.hits(),
            total_ns: counted.total,
            min_ns: counted.min,
            max_ns: counted.max,
            buckets: counted.buckets(scale).into_iter().map(bucket).collect(),
            counted,
        }
    }

    fn average(&self) -> u64 {
        self.counted.average()
    }

    /// The upper bound of the bucket of the call that is slower than `percent` of the calls.
    fn percentile(&self, percent: u64) -> u64 {
        self.counted.percentile(percent)
    }

    /// The exact figures.
    fn title(&self) -> String {
        let average = duration::show(self.average());
        let longest = self
            .max_ns
            .map(|ns| format!(", longest {}", duration::show(ns)));
        format!(
            "{} calls, average {average}{}",
            self.calls,
            longest.unwrap_or_default()
        )
    }

    fn summary(&self) -> String {
        format!(
            "{}; by buckets, half within {}, 99 % within {}",
            self.title(),
            duration::show(self.percentile(50)),
            duration::show(self.percentile(99)),
        )
    }
}

/// The functions and the groups that the user asks about.
#[derive(Clone)]
struct Asked<'a> {
    /// The functions, as the user chooses them.
    text: &'a str,
    by: Option<By>,
    /// Whether each function has a histogram of its own.
    is_list: bool,
    scale: Scale,
}

impl Asked<'_> {
    fn counting(&self) -> Counting<'_> {
        Counting {
            functions: self.text,
            is_list: self.is_list,
            event: "lat",
            is_event: false,
            field: "ns",
            by: self.by,
            scale: &self.scale,
        }
    }
}

/// The question. With the groups, it keeps the calls of all of them.
struct Durations<'a> {
    asked: Asked<'a>,
    targets: Targets,
    all: Calls,
}

impl Durations<'_> {
    /// The function of a group.
    fn function_of<'r>(&'r self, calls: &'r Calls) -> &'r str {
        match self.asked.is_list {
            true => &calls.function,
            false => self.asked.text,
        }
    }

    fn name_of<'r>(&'r self, calls: &'r Calls) -> Cow<'r, str> {
        group_name(&calls.function, &calls.group, self.asked.text)
    }
}

/// The name of a group: its function if the run has several, and what divides the calls. With neither, that of the only
/// function. A stack has a line for each function.
pub fn group_name<'r>(function: &'r str, group: &'r str, only: &'r str) -> Cow<'r, str> {
    match (function, group) {
        ("", "") => only.into(),
        ("", group) => group.into(),
        (function, "") => function.into(),
        (function, group) => format!("{function} {group}").into(),
    }
}

impl Question for Durations<'_> {
    type Row = Calls;

    const ROWS: &'static str = "groups";

    const COLUMNS: &'static [&'static str] =
        &["count", "name", "avg", "total", "p50", "p99", "max"];

    fn title(&self) -> String {
        format!("lat {}", self.asked.text)
    }

    fn function(&self) -> Option<&str> {
        Some(self.asked.text)
    }

    /// The groups, that with the most calls first.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Calls> {
        let rows = || hists.iter().flat_map(|hist| self.targets.rows(hist));
        let scale = &self.asked.scale;
        let all = Calls::new(String::new(), String::new(), rows(), scale);
        let mut groups: BTreeMap<(String, String), Vec<&Row>> = BTreeMap::new();
        for row in rows() {
            let keys = &row.keys[..row.keys.len() - 1];
            let (function, keys) = match keys {
                [function, keys @ ..] if self.asked.is_list => {
                    (hist::symbol(function).into(), keys)
                }
                keys => (String::new(), keys),
            };
            let group = (function, keys.join(" "));
            groups.entry(group).or_default().push(row);
        }
        let groups = groups.into_iter();
        let mut groups: Vec<Calls> = groups
            .map(|((function, group), rows)| Calls::new(function, group, rows.into_iter(), scale))
            .collect();
        for calls in &mut groups {
            let by = self.asked.by.unwrap_or(By::Comm);
            calls.json = by.json(&calls.group);
        }
        groups.sort_by_key(|calls| Reverse(calls.calls));
        self.all = all;
        groups
    }

    fn cell<'r>(row: &'r Calls, column: &str) -> Cell<'r> {
        match column {
            "name" if row.function.is_empty() => Cell::Text(&row.group),
            "name" => Cell::Text(&row.function),
            "avg" => row.average().into(),
            "total" => row.total_ns.into(),
            "p50" => row.percentile(50).into(),
            "p99" => row.percentile(99).into(),
            "max" => row.counted.max_or_bound().into(),
            _ => row.calls.into(),
        }
    }

    fn cell_text(&self, row: &Calls, column: &str) -> String {
        match Self::cell(row, column) {
            Cell::Text(_) => self.name_of(row).into(),
            Cell::Number(Reverse(number)) => table::number_text(column, number),
        }
    }

    fn show(&self, rows: &[Calls], screen: Screen) -> String {
        if self.all.calls == 0 {
            return format!("{}: 0 calls\n", self.asked.text);
        }
        let range = spread::range_of(rows.iter().map(|calls| calls.counted.range()));
        table::groups(self, rows, screen, |calls| {
            let figures = match rows {
                [_] => calls.summary(),
                _ => calls.title(),
            };
            Group {
                name: match &*calls.group {
                    "" => String::new(),
                    _ => self.name_of(calls).into(),
                },
                bars: calls.counted.bars_of(&self.asked.scale, range),
                figures: format!("{}: {figures}", self.function_of(calls)),
            }
        })
    }

    fn durations(&self) -> Vec<(u32, u64)> {
        let buckets = self.all.buckets.iter();
        buckets
            .map(|bucket| (bucket.to_ns.map_or(63, u64::ilog2), bucket.calls))
            .collect()
    }

    fn image<'r>(&'r self, rows: &'r [Calls]) -> (String, Image<'r>) {
        let stack = |calls: &'r Calls| Stack {
            frames: hist::lines(&calls.group).collect(),
            function: self.function_of(calls),
            result: None,
            value: calls.total_ns,
        };
        let image = match self.asked.by {
            Some(By::Stack) => Image::Flames("ns", rows.iter().map(stack).collect()),
            _ => Image::Bars(self.all.counted.bars(&self.asked.scale)),
        };
        (format!("{}: {}", self.asked.text, self.all.title()), image)
    }
}

/// What the kernel counts for a histogram: by function if the user chose several, by group, and by bucket of a field.
pub struct Counting<'a> {
    /// The functions, as the user chooses them.
    pub functions: &'a str,
    /// Whether each function has a histogram of its own.
    pub is_list: bool,
    pub event: &'static str,
    /// Whether the probe is at a trace event.
    pub is_event: bool,
    pub field: &'static str,
    pub by: Option<By>,
    pub scale: &'a Scale,
}

impl Counting<'_> {
    fn division(&self) -> Option<Division> {
        self.by.map(|by| by.division(self.is_event))
    }

    /// The end of a command for the event: the field that the group needs, and what is counted.
    pub fn clauses(&self, whom: &Whom) -> String {
        let bucket = format!("{}.{}", self.field, self.scale.modifier());
        let mut keys = Vec::new();
        keys.extend(self.is_list.then_some("func"));
        keys.extend(self.division().map(|by| by.key));
        keys.push(&bucket);
        let count = Count {
            keys: &keys,
            sum: Some(self.field),
            size: self.scale.table_size(self.is_list, self.by.is_some()),
            condition: whom.counted(),
        };
        let field = self.division().map_or("", |by| by.field);
        format!("{field}{}", count.clauses())
    }

    /// What the event probes.
    pub fn targets(&self, context: &Context) -> Result<Targets> {
        match self.is_list {
            true => context.functions.targets(self.functions),
            false => {
                let all = context.functions.each_whole(self.functions, Method::Any);
                all.map(Targets::all)
            }
        }
    }

    /// Counts, and answers the question. `commands` has the commands to try for each target in a group of events.
    pub fn run<Q: Question>(
        &self,
        context: &Context,
        commands: impl Fn(&str) -> Vec<Vec<String>>,
        question: Q,
        options: &Options<'_>,
    ) -> Result {
        probes::check_all(&commands("rkprobe"))?;
        let instance = context.start()?;
        probes::define_all(&context.tracefs, &commands(instance.group()))?;
        context.switch_on(&instance, self.event)?;
        let mut names = Vec::new();
        names.extend(self.is_list.then_some("func"));
        names.extend(self.division().map(|by| by.name));
        names.push(self.field);
        let source = Source::Tables(vec![Table {
            event: self.event,
            keys: &names,
            sum: Some(self.field),
        }]);
        table::run(context, &instance, source, 0, question, options)
    }
}

/// The commands to try for each target.
fn commands(asked: &Asked<'_>, targets: &[String], group: &str, whom: &Whom) -> Vec<Vec<String>> {
    let clauses = asked.counting().clauses(whom);
    let of_target = |target: &String| {
        let commands = match asked.is_list {
            true => vec![format!("f:{group}/lat {target}%return")],
            false if asked.by == Some(By::Stack) => {
                probes::at_return_with_stack(target, group, "lat")
            }
            false => probes::at_return(target, group, "lat"),
        };
        let commands = commands.into_iter();
        commands
            .map(|command| format!("{command} ns=$elapsed{clauses}"))
            .collect()
    };
    targets.iter().map(of_target).collect()
}

/// Runs the command. `text` chooses the functions.
pub fn run(
    context: &Context,
    text: &str,
    by: Option<By>,
    scale: Scale,
    options: &Options<'_>,
) -> Result {
    let asked = Asked {
        text,
        by,
        is_list: is_list(text),
        scale,
    };
    refuse_offset(text)?;
    let counting = asked.counting();
    let targets = counting.targets(context)?;
    let texts = targets.texts.clone();
    let commands = |group: &str| commands(&asked, &texts, group, &context.whom);
    let question = Durations {
        asked: asked.clone(),
        targets,
        all: Calls::default(),
    };
    counting.run(context, commands, question, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str, is_list: bool) -> Durations<'_> {
        Durations {
            asked: Asked {
                text,
                by: None,
                is_list,
                scale: Scale::Log2,
            },
            targets: Targets::all(Vec::new()),
            all: Calls::default(),
        }
    }

    #[test]
    fn counts_by_group_and_bucket() {
        let text = "{ comm: a, ns: ~ 2^3 } hitcount: 8 ns: 64 min_ns: 5 max_ns: 8\n\
            { comm: b, ns: ~ 2^0 } hitcount: 1 ns: 1 min_ns: 1 max_ns: 1\n\
            { comm: a, ns: ~ 2^5 } hitcount: 2 ns: 60 min_ns: 29 max_ns: 31\n";
        let hist = hist::parse(text, &["comm", "ns"], Some("ns"));
        let mut question = self::question("f", false);
        let [calls, b] = &question.rows(&[hist])[..] else {
            panic!();
        };
        assert_eq!((&*calls.group, calls.calls, calls.total_ns), ("a", 10, 124));
        let buckets = serde_json::to_string(&calls.buckets).unwrap();
        assert_eq!(
            buckets,
            "[{\"over_ns\":4,\"to_ns\":8,\"calls\":8},{\"over_ns\":8,\"to_ns\":16,\"calls\":0},\
             {\"over_ns\":16,\"to_ns\":32,\"calls\":2}]"
        );
        let percentiles = [50, 80, 81].map(|percent| calls.percentile(percent));
        assert_eq!(percentiles, [8, 8, 32]);
        assert_eq!(b.counted.bars(&Scale::Log2)[0].label, "   0 ns ..    1 ns");
        assert_eq!(
            calls.summary(),
            "10 calls, average 12 ns, longest 31 ns; by buckets, half within 8 ns, 99 % within 32 ns"
        );
        assert_eq!((calls.min_ns, calls.max_ns), (Some(5), Some(31)));
        let all = &question.all;
        assert_eq!((all.calls, all.min_ns, all.max_ns), (11, Some(1), Some(31)));
        assert_eq!(Calls::default().percentile(99), 0);
        let text = "{ func: [ffff] f [m], comm: a, ns: ~ 2^3 } hitcount: 2 ns: 9\n";
        let hist = hist::parse(text, &["func", "comm", "ns"], Some("ns"));
        let groups = self::question("f,g", true).rows(&[hist]);
        let names = (&*groups[0].function, &*groups[0].group);
        assert_eq!((names, groups[0].total_ns), (("f [m]", "a"), 9));
    }

    #[test]
    fn groups_have_a_table_and_one_scale() {
        let text =
            "{ func: [ffff] f, comm: a, ns: ~ 2^3 } hitcount: 8 ns: 64 min_ns: 5 max_ns: 8\n\
            { func: [ffff] g, comm: a, ns: ~ 2^5 } hitcount: 10 ns: 300 min_ns: 29 max_ns: 31\n";
        let screen = Screen {
            columns: None,
            has_color: false,
            has_blocks: false,
        };
        let shown = |keys: &[&str], text: &str, is_list| {
            let hist = hist::parse(text, keys, Some("ns"));
            let mut question = self::question("f", is_list);
            let rows = question.rows(&[hist]);
            question.show(&rows, screen)
        };
        assert_eq!(
            shown(&["func", "comm", "ns"], text, true),
            "\
count  name    avg   total    p50    p99    max
   10  g a   30 ns  300 ns  32 ns  32 ns  31 ns
    8  f a    8 ns   64 ns   8 ns   8 ns   8 ns

g a
   4 ns ..    8 ns   0
   8 ns ..   16 ns   0
  16 ns ..   32 ns  10
g: 10 calls, average 30 ns, longest 31 ns

f a
   4 ns ..    8 ns   8
   8 ns ..   16 ns   0
  16 ns ..   32 ns   0
f: 8 calls, average 8 ns, longest 8 ns
"
        );
        let text = "{ comm: a, ns: ~ 2^3 } hitcount: 8 ns: 64\n";
        assert_eq!(
            shown(&["comm", "ns"], text, false),
            "a\n   4 ns ..    8 ns  8\n\
             f: 8 calls, average 8 ns; by buckets, half within 8 ns, 99 % within 8 ns\n"
        );
    }

    #[test]
    fn many_functions_have_histograms_of_their_own() {
        let targets = ["vfs_*", "do_exit"].map(String::from);
        let all = commands(&question("x", true).asked, &targets, "g", &Whom::default());
        assert_eq!(all.len(), 2);
        for (commands, target) in all.iter().zip(&targets) {
            let start =
                format!("f:g/lat {target}%return ns=$elapsed by func,ns.log2 sum ns min ns max ns size=8192 if ");
            assert!(
                commands.len() == 1 && commands[0].starts_with(&start),
                "{commands:?}"
            );
        }
        let one = commands(
            &question("do_exit", false).asked,
            &targets[1..],
            "g",
            &Whom::default(),
        );
        assert_eq!(one[0].len(), 2);
        assert!(one[0][1].contains(" by ns.log2 sum ns min ns max ns size=128 if "));
    }
}

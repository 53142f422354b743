// SPDX-License-Identifier: GPL-2.0

//! `rkprobe hist FUNCTIONS VALUE`: how are the values of an argument or of a result distributed? The kernel counts by
//! buckets.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::BTreeMap, //
};

use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    asked::refuse_offset,
    by::By,
    commands::lat::{
        self,
        Counting, //
    },
    context::Context,
    counted::Counted,
    draw::{
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
        Hist,
        Row, //
    },
    kinds::Kind,
    probes,
    selection::is_list,
    spread::{
        self,
        Range,
        Scale, //
    },
    table::{
        self,
        Cell,
        Group,
        Image,
        Options,
        Question, //
    },
    targets::Targets,
    trace_events::TraceEvent,
    whom::Whom, //
};

/// The field with the value of a trace event. A field of the event of the same name would come before it.
const EVENT_VALUE: &str = "rkprobe_value";

/// The question of the user.
#[derive(Clone)]
pub struct Asked<'a> {
    /// The functions, as the user chooses them.
    pub functions: &'a str,
    /// The fetch argument.
    pub value: &'a str,
    pub by: Option<By>,
    pub scale: Scale,
}

impl Asked<'_> {
    fn counting(&self) -> Counting<'_> {
        Counting {
            functions: self.functions,
            is_list: is_list(self.functions),
            event: "hist",
            is_event: false,
            field: "value",
            by: self.by,
            scale: &self.scale,
        }
    }

    /// Whether the probe is at the return of the functions.
    fn is_at_return(&self, whom: &Whom) -> bool {
        let at_return = ["$retval", "$elapsed"];
        let condition = whom.clause();
        at_return
            .iter()
            .any(|name| self.value.contains(name) || condition.contains(name))
    }

    fn bucket(&self, bucket: &spread::Bucket) -> Bucket {
        let (from, to) = match (&self.scale, bucket.over_ns) {
            // The first bucket also has 0.
            (Scale::Log2, 0) => (0, bucket.to_ns),
            (Scale::Log2, over) => (over + 1, bucket.to_ns),
            (_, over) => (over, bucket.to_ns.map(|to| to - 1)),
        };
        Bucket {
            from,
            to,
            calls: bucket.count,
        }
    }
}

/// The calls whose value is in a range.
#[derive(Debug, PartialEq, Serialize)]
struct Bucket {
    /// The least value that belongs to the bucket.
    from: u64,
    /// The greatest one. Nothing in the last bucket if it has no upper bound.
    to: Option<u64>,
    calls: u64,
}

/// The values of one group.
#[derive(Default, Serialize)]
struct Values {
    /// The function, if the run has several. Otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    function: String,
    #[serde(skip)]
    group: String,
    /// The group in JSON.
    #[serde(rename = "group", skip_serializing_if = "Option::is_none")]
    json: Option<Json>,
    calls: u64,
    /// The calls with a negative value. The other members are about the others.
    negative: u64,
    total: u64,
    /// The least and the greatest value. Unknown for an interval if an earlier one was less or greater.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
    /// All buckets between the first and the last with a call.
    buckets: Vec<Bucket>,
    #[serde(skip)]
    counted: Counted,
    /// Whether the bound of a bucket of the kernel does not belong to the bucket.
    #[serde(skip)]
    is_below_bound: bool,
}

impl Values {
    /// The values of rows whose last key is a bucket.
    fn new<'r>(asked: &Asked<'_>, rows: impl Iterator<Item = &'r Row>) -> Self {
        let counted = Counted::new(rows);
        let buckets = counted.buckets(&asked.scale);
        Self {
            calls: counted.hits(),
            negative: counted.negative,
            total: counted.total,
            min: counted.min,
            max: counted.max,
            buckets: buckets.iter().map(|bucket| asked.bucket(bucket)).collect(),
            counted,
            is_below_bound: asked.scale != Scale::Log2,
            ..Self::default()
        }
    }

    /// The rows of its diagram: the buckets of a range, and one for the calls below 0 if a group has such.
    fn bars(&self, asked: &Asked<'_>, range: Option<Range>, has_negative: bool) -> Vec<Bar> {
        let buckets = self.counted.buckets_of(&asked.scale, range).into_iter();
        let buckets: Vec<Bucket> = buckets.map(|bucket| asked.bucket(&bucket)).collect();
        let number = |to: Option<u64>| to.map_or("more".into(), |to: u64| to.to_string());
        let width = |text: fn(&Bucket) -> Option<u64>| {
            let lengths = buckets.iter().map(|bucket| number(text(bucket)).len());
            lengths.max().unwrap_or(0)
        };
        let (from, to) = (width(|bucket| Some(bucket.from)), width(|bucket| bucket.to));
        let negative = has_negative.then(|| Bar {
            label: "below 0".into(),
            value: self.negative,
        });
        let bar = |bucket: &Bucket| Bar {
            label: format!("{:>from$} .. {:>to$}", bucket.from, number(bucket.to)),
            value: bucket.calls,
        };
        negative
            .into_iter()
            .chain(buckets.iter().map(bar))
            .collect()
    }

    /// The exact figures.
    fn title(&self) -> String {
        let mut text = format!("{} calls", self.calls);
        if self.negative > 0 {
            text += &format!(", {} below 0", self.negative);
        }
        if self.calls > self.negative {
            text += &format!(", average {}", self.counted.average());
            let greatest = self.max.map(|max| format!(", greatest {max}"));
            text += &greatest.unwrap_or_default();
        }
        text
    }

    /// The greatest value that can be in the kernel's bucket of this percentile.
    fn percentile(&self, percent: u64) -> u64 {
        let bound = self.counted.percentile(percent);
        bound.saturating_sub(u64::from(self.is_below_bound))
    }

    fn summary(&self) -> String {
        match self.calls > self.negative {
            true => format!(
                "{}; by buckets, half at most {}, 99 % at most {}",
                self.title(),
                self.percentile(50),
                self.percentile(99),
            ),
            false => self.title(),
        }
    }
}

/// The question. With the groups, it keeps the values of all of them.
struct Distribution<'a> {
    asked: Asked<'a>,
    targets: Targets,
    is_list: bool,
    all: Values,
}

impl Distribution<'_> {
    /// The function of a group.
    fn function_of<'r>(&'r self, values: &'r Values) -> &'r str {
        match self.is_list {
            true => &values.function,
            false => self.asked.functions,
        }
    }

    fn name_of<'r>(&'r self, values: &'r Values) -> Cow<'r, str> {
        lat::group_name(&values.function, &values.group, self.asked.functions)
    }
}

impl Question for Distribution<'_> {
    type Row = Values;

    const ROWS: &'static str = "groups";

    const COLUMNS: &'static [&'static str] =
        &["count", "name", "avg", "total", "p50", "p99", "max"];

    fn title(&self) -> String {
        format!("hist {} {}", self.asked.functions, self.asked.value)
    }

    fn function(&self) -> Option<&str> {
        Some(self.asked.functions)
    }

    /// The groups, that with the most calls first.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Values> {
        let rows = || hists.iter().flat_map(|hist| self.targets.rows(hist));
        let mut groups: BTreeMap<&[String], Vec<&Row>> = BTreeMap::new();
        for row in rows() {
            let keys = &row.keys[..row.keys.len() - 1];
            groups.entry(keys).or_default().push(row);
        }
        let values = |(keys, rows): (&[String], Vec<&Row>)| {
            let (function, group) = match (keys, self.is_list) {
                ([function, group @ ..], true) => (hist::symbol(function), group),
                (group, _) => ("", group),
            };
            Values {
                function: function.into(),
                group: group.join(" "),
                json: self
                    .asked
                    .by
                    .zip(group.first())
                    .map(|(by, key)| by.json(key)),
                ..Values::new(&self.asked, rows.into_iter())
            }
        };
        let mut groups: Vec<Values> = groups.into_iter().map(values).collect();
        groups.sort_by_key(|values| Reverse(values.calls));
        self.all = Values::new(&self.asked, rows());
        groups
    }

    fn cell<'r>(row: &'r Values, column: &str) -> Cell<'r> {
        match column {
            "name" if row.function.is_empty() => Cell::Text(&row.group),
            "name" => Cell::Text(&row.function),
            "avg" => row.counted.average().into(),
            "total" => row.total.into(),
            "p50" => row.percentile(50).into(),
            "p99" => row.percentile(99).into(),
            "max" => row.max.unwrap_or(row.percentile(100)).into(),
            _ => row.calls.into(),
        }
    }

    fn cell_text(&self, row: &Values, column: &str) -> String {
        match Self::cell(row, column) {
            Cell::Number(Reverse(number)) => number.to_string(),
            Cell::Text(_) => self.name_of(row).into(),
        }
    }

    fn show(&self, rows: &[Values], screen: Screen) -> String {
        let value = self.asked.value;
        if rows.is_empty() {
            return format!("{} {value}: 0 calls\n", self.asked.functions);
        }
        let range = spread::range_of(rows.iter().map(|values| values.counted.range()));
        let has_negative = rows.iter().any(|values| values.negative > 0);
        table::groups(self, rows, screen, |values| {
            let figures = match rows {
                [_] => values.summary(),
                _ => values.title(),
            };
            Group {
                name: match &*values.group {
                    "" => String::new(),
                    _ => self.name_of(values).into(),
                },
                bars: values.bars(&self.asked, range, has_negative),
                figures: format!("{} {value}: {figures}", self.function_of(values)),
            }
        })
    }

    fn image<'r>(&'r self, rows: &'r [Values]) -> (String, Image<'r>) {
        let Asked {
            functions, value, ..
        } = self.asked;
        let stack = |values: &'r Values| Stack {
            frames: hist::lines(&values.group).collect(),
            function: self.function_of(values),
            result: None,
            value: values.total,
        };
        let image = match self.asked.by {
            Some(By::Stack) => Image::Flames("sum", rows.iter().map(stack).collect()),
            _ => {
                let (range, has_negative) = (self.all.counted.range(), self.all.negative > 0);
                Image::Bars(self.all.bars(&self.asked, range, has_negative))
            }
        };
        (format!("{functions} {value}: {}", self.all.title()), image)
    }
}

/// The commands to try for each target.
fn commands(asked: &Asked<'_>, targets: &[String], group: &str, whom: &Whom) -> Vec<Vec<String>> {
    let (value, by) = (asked.value, asked.by);
    let clauses = asked.counting().clauses(whom);
    let is_at_return = asked.is_at_return(whom);
    let of_target = |target: &String| {
        let commands = match (is_list(asked.functions), is_at_return) {
            (true, true) => vec![format!("f:{group}/hist {target}%return")],
            (true, false) => vec![format!("f:{group}/hist {target}")],
            (false, true) if by == Some(By::Stack) => {
                probes::at_return_with_stack(target, group, "hist")
            }
            (false, true) => probes::at_return(target, group, "hist"),
            (false, false) => probes::at_entry(target, group, "hist"),
        };
        let commands = commands.into_iter();
        commands
            .map(|command| format!("{command} value={value}{clauses}"))
            .collect()
    };
    targets.iter().map(of_target).collect()
}

/// The commands for the sites of a place in the source, each with what a probe takes and the value there.
fn commands_at(
    asked: &Asked<'_>,
    sites: &[(String, String)],
    group: &str,
    whom: &Whom,
) -> Vec<Vec<String>> {
    let clauses = asked.counting().clauses(whom);
    let command = |(target, value): &(String, String)| {
        vec![format!("p:{group}/hist {target} value={value}{clauses}")]
    };
    sites.iter().map(command).collect()
}

/// Counts by the values of a field of a trace event.
fn run_event(
    context: &Context,
    asked: &Asked<'_>,
    events: &[TraceEvent],
    options: &Options<'_>,
) -> Result {
    let [event] = events else {
        return Err(Failure::new(format!(
            "{} is {} trace events: hist takes one",
            asked.functions,
            events.len()
        )));
    };
    if asked.by == Some(By::Stack) {
        return Err(Failure::new(
            "--by stack is for functions: a trace event has no stack key",
        ));
    }
    let values = TraceEvent::values_of_each(events, &context.tracefs)?;
    let field = values
        .iter()
        .flatten()
        .find(|value| *value.name == *asked.value);
    let of_symbol = format!("{}:x64", asked.value);
    let value = match field {
        Some(field) if field.kind == Kind::Symbol => &of_symbol,
        Some(field) => field.without_name(),
        None => asked.value,
    };
    for (end, what) in [("string", "a string"), ("]", "an array")] {
        if value.ends_with(end) {
            return Err(Failure::new(format!(
                "{} is {what}, and no number",
                asked.value
            )));
        }
    }
    let (name, target) = (event.to_string(), event.target());
    let asked = Asked {
        functions: &name,
        ..asked.clone()
    };
    let counting = Counting {
        is_event: true,
        field: EVENT_VALUE,
        ..asked.counting()
    };
    let clauses = counting.clauses(&context.whom);
    let command = |group: &str| format!("e:{group}/hist {target} {EVENT_VALUE}={value}{clauses}");
    let question = Distribution {
        asked: asked.clone(),
        targets: Targets::all(Vec::new()),
        is_list: false,
        all: Values::default(),
    };
    counting.run(
        context,
        |group| vec![vec![command(group)]],
        question,
        options,
    )
}

/// Runs the command.
pub fn run(context: &Context, asked: &Asked<'_>, options: &Options<'_>) -> Result {
    let counting = asked.counting();
    let functions = &context.functions;
    if let Some(events) = functions.each_event(asked.functions)? {
        return run_event(context, asked, &events, options);
    }
    let sites = functions.sites_with(&context.tracefs, asked.functions, asked.value)?;
    let sites = sites.map(|sites| -> Vec<(String, String)> {
        let sites = sites.into_iter();
        sites.map(|(site, value)| (site.target, value)).collect()
    });
    let targets = match &sites {
        Some(_) => Targets::all(Vec::new()),
        None => {
            if asked.is_at_return(&context.whom) {
                refuse_offset(asked.functions)?;
            }
            counting.targets(context)?
        }
    };
    let texts = targets.texts.clone();
    let commands = |group: &str| match &sites {
        Some(sites) => commands_at(asked, sites, group, &context.whom),
        None => commands(asked, &texts, group, &context.whom),
    };
    let question = Distribution {
        asked: asked.clone(),
        targets,
        is_list: is_list(asked.functions),
        all: Values::default(),
    };
    counting.run(context, commands, question, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(value: &'static str, scale: Scale, by: Option<By>) -> Distribution<'static> {
        Distribution {
            asked: Asked {
                functions: "f",
                value,
                by,
                scale,
            },
            targets: Targets::all(Vec::new()),
            is_list: false,
            all: Values::default(),
        }
    }

    const SCREEN: Screen = Screen {
        columns: None,
        has_color: false,
        has_blocks: false,
    };

    #[test]
    fn negative_values_have_a_row_of_their_own() {
        let text = "{ value: ~ 2^64 } hitcount: 2 value: 18446744073709551594 min_value: -11 max_value: -11\n\
            { value: ~ 2^0  } hitcount: 1 value: 0 min_value: 0 max_value: 0\n\
            { value: ~ 2^2  } hitcount: 3 value: 10 min_value: 3 max_value: 4\n";
        let hist = hist::parse(text, &["value"], Some("value"));
        let mut question = question("$retval", Scale::Log2, None);
        let rows = question.rows(&[hist]);
        assert_eq!(
            question.show(&rows, SCREEN),
            "below 0  2\n0 .. 1   1\n2 .. 2   0\n3 .. 4   3\n\
             f $retval: 6 calls, 2 below 0, average 2, greatest 4; by buckets, half at most 4, 99 % at most 4\n"
        );
        assert_eq!(
            serde_json::to_string(&rows[0]).unwrap(),
            "{\"calls\":6,\"negative\":2,\"total\":10,\"min\":0,\"max\":4,\"buckets\":[\
             {\"from\":0,\"to\":1,\"calls\":1},{\"from\":2,\"to\":2,\"calls\":0},{\"from\":3,\"to\":4,\"calls\":3}]}"
        );
        let hist = hist::parse(
            "{ value: ~ 2^64 } hitcount: 2 value: 1\n",
            &["value"],
            Some("value"),
        );
        let rows = question.rows(&[hist]);
        assert_eq!(
            question.show(&rows, SCREEN),
            "below 0  2\nf $retval: 2 calls, 2 below 0\n"
        );
        assert_eq!(question.show(&[], SCREEN), "f $retval: 0 calls\n");
    }

    #[test]
    fn the_buckets_of_the_user_begin_at_his_numbers() {
        let text = "{ comm: a, value: ~ 0-511 } hitcount: 1 value: 1 min_value: 1 max_value: 1\n\
            { comm: a, value: ~ 512-1023 } hitcount: 2 value: 1024 min_value: 512 max_value: 512\n\
            { comm: b, value: ~ 4096-4607 } hitcount: 1 value: 4096 min_value: 4096 max_value: 4096\n";
        let hist = hist::parse(text, &["comm", "value"], Some("value"));
        let scale = Scale::parse_numbers("512,1024").unwrap();
        let mut question = question("count", scale, Some(By::Comm));
        let rows = question.rows(&[hist]);
        assert_eq!(
            question.show(&rows, SCREEN),
            "count  name   avg  total   p50   p99   max\n    3  a      341   1025  1023  1023   512\n    \
             1  b     4096   4096  4607  4607  4096\n\n\
             a\n   0 ..  511  1\n 512 .. 1023  2\n1024 .. more  0\n\
             f count: 3 calls, average 341, greatest 512\n\n\
             b\n   0 ..  511  0\n 512 .. 1023  0\n1024 .. more  1\n\
             f count: 1 calls, average 4096, greatest 4096\n"
        );
        let one = question.show(&rows[..1], SCREEN);
        assert_eq!(
            one,
            "a\n  0 ..  511  1\n512 .. 1023  2\n\
             f count: 3 calls, average 341, greatest 512; by buckets, half at most 1023, 99 % at most 1023\n"
        );
        assert_eq!(question.all.calls, 4);
    }

    #[test]
    fn the_probe_is_where_the_value_is() {
        let of = |value, condition: Option<&'static str>, by| {
            let whom = Whom::new(crate::whom::Options {
                condition,
                ..crate::whom::Options::default()
            });
            let question = question(value, Scale::Linear(512), by);
            let all = commands(&question.asked, &["f".into()], "g", &whom.unwrap());
            all[0][0].clone()
        };
        let command = of("count", None, None);
        let start = "f:g/hist f value=count by value.buckets=512 sum value min value max value size=8192 if ";
        assert!(command.starts_with(start), "{command}");
        let command = of("$retval", None, Some(By::Comm));
        let start = "f:g/hist f%return value=$retval comm=$comm by comm,value.buckets=512 ";
        assert!(command.starts_with(start), "{command}");
        let command = of("count", Some("$retval < 0"), None);
        assert!(
            command.starts_with("f:g/hist f%return value=count "),
            "{command}"
        );
        let command = of("$retval", None, Some(By::Stack));
        assert!(
            command.starts_with("r4096:g/hist f value=$retval by stack,"),
            "{command}"
        );
        let question = question("n", Scale::Log2, None);
        let sites = [("g+0x5".into(), "%bx:s32".into())];
        let all = commands_at(&question.asked, &sites, "g", &Whom::default());
        let start = "p:g/hist g+0x5 value=%bx:s32 by value.log2 ";
        assert!(all[0][0].starts_with(start), "{all:?}");
    }
}

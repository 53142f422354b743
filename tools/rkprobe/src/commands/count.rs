// SPDX-License-Identifier: GPL-2.0

//! `rkprobe count FUNCTIONS`: which functions are called how often? The kernel counts by function.

use serde::Serialize;

use crate::{
    commands::lat::By,
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
    failure::Result,
    flame::{
        self,
        Stack, //
    },
    hist::{
        self,
        Hist,
        Row, //
    },
    missing::Missing,
    probes,
    svg, //
};

/// The calls of a function, in JSON.
#[derive(Serialize)]
struct Calls<'a> {
    function: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a String>,
    calls: u64,
}

/// The function, and what `--by` adds. A stack is in one line.
fn label(row: &Row) -> String {
    let mut label = hist::symbol(&row.keys[0]).to_string();
    for key in &row.keys[1..] {
        label += &format!("  {}", hist::one_line(key));
    }
    label
}

/// The functions with the most calls first, and names in order where calls are equal.
fn functions(hist: &Hist) -> Vec<Bar> {
    let mut bars: Vec<Bar> = hist
        .rows
        .iter()
        .map(|row| Bar {
            label: label(row),
            value: row.hits,
        })
        .collect();
    bars.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.label.cmp(&b.label)));
    bars
}

/// The calls of each stack.
fn stacks<'a>(hist: &'a Hist) -> Vec<Stack<'a>> {
    let stack = |row: &'a Row| Stack {
        frames: hist::lines(&row.keys[1]).collect(),
        function: hist::symbol(&row.keys[0]),
        result: None,
        value: row.hits,
    };
    hist.rows.iter().map(stack).collect()
}

fn picture(context: &Context, pattern: &str, hist: &Hist, missing: &Missing) -> String {
    let bars = functions(hist);
    missing.around(&match bars.is_empty() {
        true => format!("{pattern}: 0 calls\n"),
        false => draw::bars(&bars, context.screen()),
    })
}

/// Runs the command. `by` divides the calls of a function, and `image` is the path of an image.
pub fn run(context: &Context, pattern: &str, by: Option<By>, image: Option<&String>) -> Result {
    let targets = context.functions.targets(pattern)?;
    let (mut keys, mut names) = (vec!["func"], vec!["func"]);
    if let Some(by) = by {
        keys.push(by.key());
        names.push(by.name());
    }
    let count = Count {
        keys: &keys,
        sum: None,
        size: 8192,
        condition: context.whom.counted(),
    };
    let commands = |group: &str| -> Vec<Vec<String>> {
        let end = by.map_or("", By::field).to_string() + &count.clauses();
        let command = |target: &String| vec![format!("f:{group}/count {target}{end}")];
        targets.texts.iter().map(command).collect()
    };
    probes::check_all(&commands("rkprobe"))?;
    let instance = context.start()?;
    probes::define_all(&context.tracefs, &commands(instance.group()))?;
    context.switch_on(&instance, "count")?;
    let table = Table {
        event: "count",
        keys: &names,
        sum: None,
    };
    let read = || -> Result<(Hist, Missing)> {
        let (hist, missing) = counts::read_one(&context.tracefs, &instance, table)?;
        Ok((targets.filter(hist), missing))
    };
    context.watch(&instance, || {
        let (hist, missing) = read()?;
        Ok(picture(context, pattern, &hist, &missing))
    })?;
    if context.tracefs.is_dry() {
        return Ok(());
    }
    let (hist, missing) = read()?;
    if let Some(path) = image {
        let title = format!("{pattern}: calls{}", missing.title());
        match by {
            Some(By::Stack) => flame::write(path, &title, "calls", &stacks(&hist))?,
            _ => svg::write(path, &title, &functions(&hist))?,
        }
    }
    if !context.is_json {
        return context.print(&picture(context, pattern, &hist, &missing));
    }
    let mut rows: Vec<&Row> = hist.rows.iter().collect();
    rows.sort_by(|a, b| b.hits.cmp(&a.hits).then_with(|| a.keys.cmp(&b.keys)));
    let functions = rows.into_iter().map(|row| Calls {
        function: hist::symbol(&row.keys[0]),
        group: row.keys.get(1),
        calls: row.hits,
    });
    let functions: Vec<Calls<'_>> = functions.collect();
    context.print_table(None, "functions", &functions, &missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_the_calls_of_a_function() {
        let text =
            "{ func: [ffff] a, common_stacktrace:\n   a+0x1/0x2\n   b+0x1/0x2\n} hitcount: 2\n\
            { func: [ffff] b, common_stacktrace:\n   c+0x1/0x2\n} hitcount: 5\n";
        let hist = hist::parse(text, &["func", "common_stacktrace"], None);
        let labels: Vec<String> = functions(&hist).into_iter().map(|bar| bar.label).collect();
        assert_eq!(labels, ["b  c+0x1/0x2", "a  a+0x1/0x2 < b+0x1/0x2"]);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Answers that are tables: their order, their first rows, and tables of intervals.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    os::fd::BorrowedFd,
    time::{
        Duration,
        Instant, //
    }, //
};

use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    context::Context,
    counts::{
        self,
        Table, //
    },
    draw::{
        self,
        Bar,
        Screen, //
    },
    duration,
    failure::Result,
    flame::{
        self,
        Stack, //
    },
    heat::Heat,
    hist::{
        self,
        Hist, //
    },
    instance::Instance,
    lanes::{
        self,
        Lanes, //
    },
    live::{
        Live,
        OnTerminal, //
    },
    missing::Missing,
    perfetto::{
        Call,
        Trace, //
    },
    probes,
    record::Record,
    rust_names,
    stream,
    svg,
    sys,
    tally::{
        Hit,
        Tally, //
    },
    view::{
        self,
        View, //
    }, //
};

/// What the user wants to see of a table.
#[derive(Default)]
pub struct Options<'a> {
    /// The column by which the rows are sorted, if the order is not that of the question.
    pub sort: Option<&'a str>,
    /// The number of rows to show.
    pub top: Option<usize>,
    /// The time after which there is a new table. Without it, one table has the whole run.
    pub interval: Option<Duration>,
    /// The path of an image.
    pub image: Option<&'a String>,
    /// The path of a heat map.
    pub heat: Option<&'a String>,
    /// The path of a trace for Perfetto.
    pub perfetto: Option<&'a String>,
    /// Whether the stack traces are those of the program, too.
    pub has_user_stack: bool,
}

/// What the rows are sorted by: the highest number or the first text comes first.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
pub enum Cell<'a> {
    Number(Reverse<u64>),
    Text(&'a str),
}

impl From<u64> for Cell<'_> {
    fn from(number: u64) -> Self {
        Self::Number(Reverse(number))
    }
}

/// An image of a table.
pub enum Image<'a> {
    Bars(Vec<Bar>),
    /// A flame graph, with the unit of its values.
    Flames(&'static str, Vec<Stack<'a>>),
    /// The ways of calls through functions.
    Lanes(Vec<Lanes>),
}

/// A part of a trace for Perfetto: a hit, which ends at the time of its record.
pub struct Slice {
    pub name: String,
    /// Whether the thread of the record has done it from its start to its end.
    pub is_of_thread: bool,
    /// A click on the slice shows this.
    pub arguments: Json,
}

/// A question whose answer is a table.
pub trait Question {
    /// A row.
    type Row: Serialize;

    /// The name of the rows in JSON.
    const ROWS: &'static str;

    /// The columns by which the rows can be sorted, the number of calls first.
    const COLUMNS: &'static [&'static str];

    /// Whether the table of an interval is that of the run so far, and not that of its own calls.
    const IS_SO_FAR: bool = false;

    /// The title of a table on a terminal.
    fn title(&self) -> String;

    /// The function of the question, if JSON repeats it.
    fn function(&self) -> Option<&str> {
        None
    }

    /// Takes a record, if the tool counts records: what it adds to the tables. `event` is the index of its event.
    fn take(&mut self, _event: usize, _record: &Record<'_>) -> Vec<Hit> {
        Vec::new()
    }

    /// A hit of a record in a trace for Perfetto, if the command writes one.
    fn slice(&self, _record: &Record<'_>, _hit: &Hit) -> Option<Slice> {
        None
    }

    /// The rows, in the order of the question.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Self::Row>;

    /// The cell of a row in one of the columns of the command line.
    fn cell<'r>(row: &'r Self::Row, column: &str) -> Cell<'r>;

    /// The text of a cell in one of the columns.
    fn cell_text(&self, row: &Self::Row, column: &str) -> String {
        match Self::cell(row, column) {
            Cell::Number(Reverse(number)) => number_text(column, number),
            Cell::Text(text) => text.into(),
        }
    }

    /// The text of the rows, or of an answer without rows.
    fn show(&self, rows: &[Self::Row], screen: Screen) -> String;

    /// The calls of the rows by the exponent of the longest duration of a bucket, if the rows have durations.
    fn durations(&self) -> Vec<(u32, u64)> {
        Vec::new()
    }

    /// The title of an image, and the image. It is always of the whole run.
    fn image<'r>(&'r self, rows: &'r [Self::Row]) -> (String, Image<'r>);
}

/// The text of a number in a column.
pub fn number_text(column: &str, number: u64) -> String {
    match column {
        "total" | "avg" | "p50" | "p99" | "max" | "queued" | "age" => duration::show(number),
        _ => number.to_string(),
    }
}

/// A group of calls in an answer.
pub struct Group {
    /// The lines above its histogram: its name, or a stack. Empty if its figures name it.
    pub name: String,
    pub bars: Vec<Bar>,
    /// Its figures, in words.
    pub figures: String,
}

/// The text of groups: the histogram of each. If there are several, the first lines are the table that also fills a
/// terminal.
pub fn groups<Q: Question>(
    question: &Q,
    rows: &[Q::Row],
    screen: Screen,
    group: impl Fn(&Q::Row) -> Group,
) -> String {
    let groups: Vec<Group> = rows.iter().map(group).collect();
    let bars: Vec<&[Bar]> = groups.iter().map(|group| &*group.bars).collect();
    let text = |(group, bars): (&Group, String)| {
        let name: String = hist::lines(&group.name)
            .flat_map(|line| [line, "\n"])
            .collect();
        name + &bars + &draw::sentence(&group.figures, screen)
    };
    let table = || view::text(Q::COLUMNS, &cells(question, rows), screen);
    let table = (rows.len() > 1).then(table);
    let groups = groups.iter().zip(draw::diagrams(&bars, screen)).map(text);
    table
        .into_iter()
        .chain(groups)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The cells of rows, in the order of the columns.
fn cells<Q: Question>(question: &Q, rows: &[Q::Row]) -> Vec<view::Row> {
    let cell = |row: &Q::Row, column: &str| view::Cell {
        text: rust_names::shown(&question.cell_text(row, column)).into(),
        number: match Q::cell(row, column) {
            Cell::Number(Reverse(number)) => Some(number),
            Cell::Text(_) => None,
        },
    };
    let row = |row| Q::COLUMNS.iter().map(|column| cell(row, column)).collect();
    rows.iter().map(row).collect()
}

/// A table in JSON.
#[derive(Serialize)]
struct Answer<'a, R> {
    /// The end of the interval, in seconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(flatten)]
    rows: BTreeMap<&'a str, Vec<R>>,
    /// The number of rows that are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_rows: Option<usize>,
    missing: &'a Missing,
}

/// Sorts rows, and removes those that are not shown. Returns how many these are.
fn choose<Q: Question>(rows: &mut Vec<Q::Row>, options: &Options<'_>) -> usize {
    if let Some(column) = options.sort {
        rows.sort_by(|a, b| Q::cell(a, column).cmp(&Q::cell(b, column)));
    }
    let more = options.top.map_or(0, |top| rows.len().saturating_sub(top));
    rows.truncate(rows.len() - more);
    more
}

/// The text of a table. An interval begins with its time.
fn text<Q: Question>(
    context: &Context,
    question: &mut Q,
    hists: &[Hist],
    missing: &Missing,
    options: &Options<'_>,
) -> Result<String> {
    let now = sys::since_epoch();
    let mut rows = question.rows(hists);
    let more = choose::<Q>(&mut rows, options);
    if context.is_json {
        return context.json(&Answer {
            time: options.interval.map(|_| sys::seconds(now)),
            function: question.function(),
            rows: BTreeMap::from([(Q::ROWS, rows)]),
            more_rows: options.top.map(|_| more),
            missing,
        });
    }
    let mut text = question.show(&rows, context.screen());
    if more > 0 {
        text += &format!("... {more} more row{}\n", if more == 1 { "" } else { "s" });
    }
    let text = missing.around(&text);
    Ok(match options.interval {
        Some(_) => format!("{}\n{text}", &sys::time_of_day(now)[..8]),
        None => text,
    })
}

/// Where the counts of a run come from.
pub enum Source<'a> {
    /// The kernel counts in tables.
    Tables(Vec<Table<'a>>),
    /// The tool counts records: see [`Question::take`].
    Records(Tally),
}

/// The answer of a run, while it lasts.
struct Run<'a, Q: Question> {
    context: &'a Context,
    instance: &'a Instance<'a>,
    source: Source<'a>,
    unprobed: u64,
    question: Q,
    options: &'a Options<'a>,
    /// The counts of the intervals before.
    before: (Vec<Hist>, Missing),
    /// The rows on the terminal.
    shown: Vec<Q::Row>,
    /// The start of the run, the heat map so far, and its counts.
    heat: Option<(Instant, Heat, Vec<Hist>)>,
    trace: Option<Trace>,
}

impl<Q: Question> Run<'_, Q> {
    fn read(&self) -> Result<(Vec<Hist>, Missing)> {
        let (tracefs, instance) = (&self.context.tracefs, self.instance);
        let tally = match &self.source {
            Source::Tables(tables) => return counts::read(tracefs, instance, tables),
            Source::Records(tally) => tally,
        };
        let hists: Vec<Hist> = tally.tables().collect();
        let mut missing = Missing::read(tracefs, instance)?;
        missing.add_dropped(hists.iter().map(|hist| hist.dropped).sum());
        Ok((hists, missing))
    }

    /// The text of the next answer, and the counts of the whole run.
    fn next(&mut self) -> Result<(String, Vec<Hist>, Missing)> {
        let (hists, missing) = self.read()?;
        let new = since(&hists, &self.before.0);
        let lacking = missing.since(&self.before.1).with_unprobed(self.unprobed);
        let (context, options) = (self.context, self.options);
        let text = text(context, &mut self.question, &new, &lacking, options)?;
        if self.options.interval.is_some() && !Q::IS_SO_FAR {
            self.before = (hists.clone(), missing.clone());
        }
        Ok((text, hists, missing.with_unprobed(self.unprobed)))
    }
}

impl<Q: Question> OnTerminal for Run<'_, Q> {
    fn view(&self, screen: Screen) -> View {
        let title = rust_names::shown(&self.question.title()).into();
        View::new(title, Q::COLUMNS, self.options.sort, screen)
    }

    fn rows(&mut self) -> Result<view::Rows> {
        let (hists, missing) = self.read()?;
        self.shown = self.question.rows(&hists);
        Ok(view::Rows {
            rows: cells(&self.question, &self.shown),
            note: missing.with_unprobed(self.unprobed).lines(),
        })
    }

    fn details(&self, row: usize) -> String {
        let rows = self.shown.get(row..=row).unwrap_or(&[]);
        self.question.show(rows, self.context.screen())
    }
}

impl<Q: Question> Live for Run<'_, Q> {
    fn has_records(&self) -> bool {
        matches!(self.source, Source::Records(_))
    }

    fn buffers(&self) -> Vec<BorrowedFd<'_>> {
        match &self.source {
            Source::Records(tally) => tally.buffers(),
            Source::Tables(_) => Vec::new(),
        }
    }

    fn poll(&mut self, is_end: bool) -> Result {
        let (context, instance) = (self.context, self.instance);
        if let Source::Records(tally) = &mut self.source {
            let (question, trace) = (&mut self.question, &mut self.trace);
            let mut written = Ok(());
            let take = &mut |event: usize, record: &Record<'_>| {
                let hits = question.take(event, record);
                if let (Some(trace), Ok(())) = (&mut *trace, &written) {
                    written = hits
                        .iter()
                        .try_for_each(|hit| add(trace, question, record, hit));
                }
                hits
            };
            if !context.tracefs.is_dry() {
                let is_over = || !is_end && context.is_over();
                tally.read(context, instance, is_over, take)?;
            }
            if is_end {
                tally.end(take);
            }
            written?;
        }
        Ok(())
    }

    fn tick(&mut self) -> Result {
        if self.heat.is_none() {
            return Ok(());
        }
        let (hists, _) = self.read()?;
        if let Some((start, heat, before)) = &mut self.heat {
            let new = since(&hists, before);
            *before = hists;
            self.question.rows(&new);
            let end = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            heat.add(end, self.question.durations().into_iter());
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<String> {
        Ok(self.next()?.0)
    }
}

/// The hits of tables since an earlier time. At that time, the last tables may not have existed.
fn since(now: &[Hist], before: &[Hist]) -> Vec<Hist> {
    let none = Hist::default();
    let before = before.iter().chain(std::iter::repeat(&none));
    now.iter()
        .zip(before)
        .map(|(now, before)| now.since(before))
        .collect()
}

/// Adds a hit to a trace.
fn add<Q: Question>(trace: &mut Trace, question: &Q, record: &Record<'_>, hit: &Hit) -> Result {
    let Some(slice) = question.slice(record, hit) else {
        return Ok(());
    };
    let ns = hit.ns.unwrap_or(0);
    if slice.is_of_thread {
        return trace.add(Call::of_record(record, &slice.name, ns, slice.arguments));
    }
    let start = record.time.saturating_sub(ns);
    trace.add_span(&slice.name, start, ns, slice.arguments)
}

/// Answers a question by the counts of the run, while the run lasts and at its end. The kernel refuses a probe at some
/// functions: `unprobed` is their number.
pub fn run<Q: Question>(
    context: &Context,
    instance: &Instance<'_>,
    source: Source<'_>,
    unprobed: u64,
    question: Q,
    options: &Options<'_>,
) -> Result {
    let trace = Trace::wanted(context.tracefs.is_dry(), options.perfetto, || {
        format!("rkprobe {}", question.title())
    })?;
    let mut run = Run {
        context,
        instance,
        source,
        unprobed,
        question,
        options,
        before: Default::default(),
        shown: Vec::new(),
        heat: None,
        trace,
    };
    if options.heat.is_some() && !context.tracefs.is_dry() {
        run.heat = Some((Instant::now(), Heat::default(), Vec::new()));
    }
    context.watch(instance, options.interval, &mut run)?;
    if context.tracefs.is_dry() {
        return Ok(());
    }
    run.tick()?;
    let (text, hists, missing) = run.next()?;
    context.print(&text)?;
    if let (Some(path), Some((_, heat, _))) = (options.heat, &run.heat) {
        // The title of an image of the whole run.
        run.question.rows(&hists);
        let (title, _) = run.question.image(&[]);
        heat.write(path, &format!("{title}{}", missing.title()))?;
    }
    if let Some(path) = options.image {
        let question = &mut run.question;
        let mut rows = question.rows(&hists);
        choose::<Q>(&mut rows, options);
        let (title, image) = question.image(&rows);
        let title = format!("{title}{}", missing.title());
        match image {
            Image::Bars(bars) => svg::write(path, &title, &bars)?,
            Image::Flames(unit, stacks) => flame::write(path, &title, unit, &stacks)?,
            Image::Lanes(functions) => lanes::write(path, &title, &functions)?,
        }
    }
    run.trace.map_or(Ok(()), Trace::finish)
}

/// Answers a question by records of `events`, each of which adds to one table: see [`Question::take`]. `commands` are the
/// commands to try for each event of a group.
pub fn run_records<Q: Question, E: AsRef<str> + ToString>(
    context: &Context,
    events: &[E],
    stream: &stream::Options,
    question: Q,
    commands: impl Fn(&Q, &str) -> Vec<Vec<String>>,
    options: &Options<'_>,
) -> Result {
    probes::check_all(&commands(&question, "rkprobe"))?;
    let instance = context.start()?;
    probes::define_all(&context.tracefs, &commands(&question, instance.group()))?;
    stream.prepare(&context.tracefs, &instance, context.is_json)?;
    for event in events {
        context.enable(&instance, event.as_ref(), stream)?;
    }
    let source = Source::Records(Tally::new(events, stream));
    run(context, &instance, source, 0, question, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Words;

    impl Question for Words {
        type Row = (&'static str, u64);

        const ROWS: &'static str = "words";

        const COLUMNS: &'static [&'static str] = &["count", "name"];

        fn title(&self) -> String {
            "words".into()
        }

        fn rows(&mut self, _: &[Hist]) -> Vec<Self::Row> {
            vec![("c", 1), ("a", 2), ("b", 2)]
        }

        fn cell<'r>(row: &'r Self::Row, column: &str) -> Cell<'r> {
            match column {
                "name" => Cell::Text(row.0),
                _ => row.1.into(),
            }
        }

        fn show(&self, rows: &[Self::Row], _: Screen) -> String {
            rows.iter().map(|row| row.0).collect()
        }

        fn image<'r>(&'r self, _: &'r [Self::Row]) -> (String, Image<'r>) {
            (String::new(), Image::Bars(Vec::new()))
        }
    }

    #[test]
    fn the_first_rows_are_those_of_the_order() {
        for (sort, top, expected, more) in [
            (None, None, "cab", 0),
            (None, Some(5), "cab", 0),
            (Some("name"), Some(2), "ab", 1),
            (Some("count"), Some(1), "a", 2),
            (Some("count"), Some(0), "", 3),
        ] {
            let options = Options {
                sort,
                top,
                ..Options::default()
            };
            let mut rows = Words.rows(&[]);
            assert_eq!(choose::<Words>(&mut rows, &options), more);
            let names: String = rows.iter().map(|row| row.0).collect();
            assert_eq!(names, expected);
        }
    }
}

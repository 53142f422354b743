// SPDX-License-Identifier: GPL-2.0

//! `rkprobe path FUNCTIONS`: which way do calls take through a function, and where do those that fail leave the way of
//! the others?

use std::{
    cmp::Reverse,
    collections::{
        BTreeMap,
        BTreeSet,
        HashMap, //
    },
    fmt::Write as _, //
};

use serde::Serialize;

use crate::{
    blocks::{
        self,
        Function, //
    },
    context::Context,
    counts,
    draw::{
        Bar,
        Screen, //
    },
    errno,
    failure::Result,
    functions::Method,
    hist::Hist,
    lines::Lines,
    probes,
    record::Record,
    returns::{
        self,
        Returns,
        MIN_ERROR, //
    },
    stream,
    table::{
        self,
        Cell,
        Image,
        Options,
        Question,
        Source, //
    },
    tally::{
        Hit,
        Tally, //
    },
};

/// The event of functions that return a value.
const WAYS: &str = "path";
/// The event of functions that return nothing.
const VOID: &str = "nothing";

/// The end of a path that the kernel has cut.
const CUT: &str = "...";
/// The line below such a path.
const CUT_TEXT: &str = "cut: more blocks than a record has room for";
/// The line below a path that has no decision, because it depends on blocks behind a cut.
const UNDECIDED_TEXT: &str = "undecided, because paths are cut";

/// The most places in a line.
const PLACES: usize = 10;

/// Which calls are shown.
#[derive(Clone, Copy, PartialEq)]
pub enum Calls {
    All,
    /// Those that fail. Others make no records.
    Fails,
    /// Those that fail, and where they leave the way of those that succeed.
    Diff,
}

/// A block of a path.
#[derive(Debug, Serialize)]
struct Step {
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The blocks that could follow and are not in the path. Empty if there was no choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not: Vec<String>,
}

/// Where a call that fails leaves the way of those that succeed.
#[derive(Debug, PartialEq, Serialize)]
struct Decision {
    /// The block that ends with the branch.
    at: String,
    /// The line of the branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The block that no call that succeeds comes to. Without it, the call leaves a block out.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// The other blocks that could follow.
    not: Vec<String>,
}

/// Calls of a function that took one way and had one result.
#[derive(Debug, Serialize)]
struct Way {
    function: String,
    /// The error, or nothing for a call that succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    count: u64,
    path: Vec<Step>,
    /// Whether the path has more blocks.
    is_cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Decision>,
    /// Whether the decision depends on blocks that cut paths do not show.
    is_undecided: bool,
}

/// A path, as far as a record shows it.
struct Path {
    shown: Vec<String>,
    /// The blocks that the call can have come to after the cut. Empty if the path is whole.
    hidden: BTreeSet<String>,
    is_cut: bool,
}

impl Path {
    fn parse(function: &Function, text: &str) -> Self {
        let mut shown: Vec<String> = text.split(' ').map(String::from).collect();
        let is_cut = shown.last().is_some_and(|last| last == CUT);
        shown.truncate(shown.len() - usize::from(is_cut));
        let mut hidden = match (is_cut, shown.last()) {
            (false, _) => BTreeSet::new(),
            (true, last) => function.all_after(last.map_or("", String::as_str)),
        };
        hidden.retain(|block| !shown.contains(block));
        Self {
            shown,
            hidden,
            is_cut,
        }
    }

    /// All blocks that the call can have come to, those after the cut last.
    fn possible(&self) -> Vec<String> {
        self.shown.iter().chain(&self.hidden).cloned().collect()
    }
}

/// The blocks of calls that succeed.
struct Succeeding {
    /// The blocks that one of the calls came to.
    any: BTreeSet<String>,
    /// The blocks that all of them came to.
    each: BTreeSet<String>,
}

impl Succeeding {
    fn new(paths: impl Iterator<Item = Vec<String>>) -> Self {
        let paths: Vec<Vec<String>> = paths.collect();
        let any: BTreeSet<String> = paths.iter().flatten().cloned().collect();
        let is_in_each = |block: &&String| paths.iter().all(|path| path.contains(block));
        Self {
            each: any.iter().filter(is_in_each).cloned().collect(),
            any,
        }
    }
}

/// The decision depends on blocks that cut paths do not show.
struct Undecided;

/// The question.
struct Ways<'a> {
    /// The functions, as the user chooses them.
    text: &'a str,
    /// By their names without a module, as records have them.
    functions: HashMap<String, Function>,
    calls: Calls,
    /// The lines of the debug information, with `--source`.
    lines: Option<Lines>,
    returns: Returns,
}

/// Finds the decision of a call that fails, if the paths prove one.
///
/// A cut path proves only the blocks that it shows. So this function takes the calls that succeed twice: `shown` has the
/// blocks that their paths show, and `possible` also those that can be behind a cut. What the calls really did is between
/// both, so a decision is certain if both give the same.
fn decide(
    function: &Function,
    path: &Path,
    shown: &Succeeding,
    possible: &Succeeding,
) -> std::result::Result<Option<Decision>, Undecided> {
    let least = decide_whole(function, &path.possible(), shown);
    let most = decide_whole(function, &path.shown, possible);
    match least == most {
        true => Ok(most),
        false => Err(Undecided),
    }
}

/// Finds the decision of a call that came to exactly the blocks of `path`.
fn decide_whole(function: &Function, path: &[String], others: &Succeeding) -> Option<Decision> {
    let decision = |at: &String, to: Option<&String>, not: Vec<String>| Decision {
        at: at.clone(),
        source: None,
        to: to.cloned(),
        not,
    };
    if let Some(index) = path.iter().position(|block| !others.any.contains(block)) {
        let to = &path[index];
        let at = path[..index]
            .iter()
            .rev()
            .find(|at| function.next(at).contains(to))?;
        let mut not = function.next(at);
        not.retain(|other| other != to);
        return Some(decision(at, Some(to), not));
    }
    // The call does nothing new, but leaves out what all others do.
    path.iter().find_map(|at| {
        let mut not = function.next(at);
        not.retain(|block| others.each.contains(block) && !path.contains(block));
        (!not.is_empty()).then(|| decision(at, None, not))
    })
}

impl Ways<'_> {
    /// The error of a record. `None` if the call succeeded.
    fn error(&self, record: &Record<'_>) -> Option<String> {
        let value = returns::value(record.field("value")?);
        let function = self.functions.get(&record.function())?;
        let error = self.returns.of(&function.symbol()).error(value)?;
        Some(errno::name(error.into()))
    }

    /// The first line of a block, where it begins.
    fn first_line(&self, function: &Function, at: &str) -> Option<String> {
        let (place, end) = function.range(at)?;
        self.lines.as_ref()?.find_first(&place, end)
    }

    /// The last line of a block, where it branches.
    fn last_line(&self, function: &Function, at: &str) -> Option<String> {
        let (place, end) = function.range(at)?;
        self.lines.as_ref()?.find_last(&place, end)
    }

    fn step(&self, function: &Function, path: &Path, at: &str) -> Step {
        let mut not = function.next(at);
        not.retain(|place| !path.shown.contains(place) && !path.hidden.contains(place));
        Step {
            source: self.first_line(function, at),
            place: at.into(),
            not,
        }
    }
}

impl Question for Ways<'_> {
    type Row = Way;

    const ROWS: &'static str = "paths";

    const COLUMNS: &'static [&'static str] = &["count", "name", "error"];

    fn title(&self) -> String {
        format!("path {}", self.text)
    }

    fn take(&mut self, _: usize, record: &Record<'_>) -> Vec<Hit> {
        let error = self.error(record).unwrap_or_default();
        vec![Hit {
            keys: vec![record.function(), error, record.text("path")],
            ..Hit::default()
        }]
    }

    /// The most frequent way first.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Way> {
        let rows = hists.iter().flat_map(|hist| &hist.rows);
        let mut found: BTreeMap<&str, Vec<(&str, &str, u64)>> = BTreeMap::new();
        for row in rows {
            if let [function, error, path] = &*row.keys {
                let ways = found.entry(function).or_default();
                ways.push((error, path, row.hits));
            }
        }
        let mut all_ways = Vec::new();
        for (name, mut ways) in found {
            ways.sort();
            let Some(function) = self.functions.get(name) else {
                continue;
            };
            let ways: Vec<(&str, Path, u64)> = ways
                .into_iter()
                .map(|(error, path, count)| (error, Path::parse(function, path), count))
                .collect();
            let succeeding = || ways.iter().filter(|(error, _, _)| error.is_empty());
            let shown = Succeeding::new(succeeding().map(|(_, path, _)| path.shown.clone()));
            let possible = Succeeding::new(succeeding().map(|(_, path, _)| path.possible()));
            let has_succeeding = succeeding().next().is_some();
            for (error, path, count) in &ways {
                if error.is_empty() && self.calls != Calls::All {
                    continue;
                }
                let decision = match !error.is_empty() && has_succeeding {
                    true => decide(function, path, &shown, &possible),
                    false => Ok(None),
                };
                let is_undecided = decision.is_err();
                let decision = decision.unwrap_or(None).map(|decision| Decision {
                    source: self.last_line(function, &decision.at),
                    ..decision
                });
                let steps = path.shown.iter().map(|at| self.step(function, path, at));
                all_ways.push(Way {
                    function: function.name.clone(),
                    error: (!error.is_empty()).then(|| (*error).into()),
                    count: *count,
                    path: steps.collect(),
                    is_cut: path.is_cut,
                    decision,
                    is_undecided,
                });
            }
        }
        // Ways with equal counts keep their order: those without an error come first.
        all_ways.sort_by_key(|way| Reverse(way.count));
        all_ways
    }

    fn cell<'r>(row: &'r Way, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.function),
            "error" => Cell::Text(row.result()),
            _ => row.count.into(),
        }
    }

    fn show(&self, rows: &[Way], _: Screen) -> String {
        if rows.is_empty() {
            return match self.calls {
                Calls::All => format!("{}: 0 calls\n", self.text),
                _ => format!("{}: 0 errors\n", self.text),
            };
        }
        let has_names = self.functions.len() > 1;
        let text = |way: &Way| way.text(has_names, self.lines.is_some());
        rows.iter().map(text).collect()
    }

    fn image<'r>(&'r self, rows: &'r [Way]) -> (String, Image<'r>) {
        let bar = |way: &Way| Bar {
            label: format!("{} {}: {}", way.function, way.result(), way.places()),
            value: way.count,
        };
        let title = format!("{}: ways of calls", self.text);
        (title, Image::Bars(rows.iter().map(bar).collect()))
    }
}

impl Way {
    fn result(&self) -> &str {
        self.error.as_deref().unwrap_or("no error")
    }

    /// The places of the blocks, and the mark of a cut path.
    fn each_place(&self) -> Vec<&str> {
        let places = self.path.iter().map(|step| &*step.place);
        places.chain(self.is_cut.then_some(CUT)).collect()
    }

    fn places(&self) -> String {
        self.each_place().join(" ")
    }

    /// The lines of a way. With source lines, each block has a line.
    fn text(&self, has_name: bool, has_source: bool) -> String {
        let mut text = format!("{:>8}  {:<10}", self.count, self.result());
        if has_name {
            let _ = write!(text, "  {}", self.function);
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        if has_source {
            let width = self.path.iter().map(|step| step.place.len()).max();
            let width = width.unwrap_or(0);
            for step in &self.path {
                let source = step.source.as_deref().unwrap_or("");
                let not = match step.not.is_empty() {
                    true => String::new(),
                    false => format!("  not {}", step.not.join(" ")),
                };
                let line = format!("{:width$}  {source}{not}", step.place);
                let _ = writeln!(text, "          {}", line.trim_end());
            }
            if self.is_cut {
                let _ = writeln!(text, "          {CUT}");
            }
        } else {
            for places in self.each_place().chunks(PLACES) {
                let _ = writeln!(text, "          {}", places.join(" "));
            }
        }
        if self.is_cut {
            let _ = writeln!(text, "          {CUT_TEXT}");
        }
        if let Some(decision) = &self.decision {
            let _ = writeln!(text, "          {}", decision.text());
        }
        if self.is_undecided {
            let _ = writeln!(text, "          {UNDECIDED_TEXT}");
        }
        text
    }
}

impl Decision {
    fn text(&self) -> String {
        let source = self.source.as_ref();
        let source = source.map_or(String::new(), |source| format!(", {source}"));
        let not = match self.not.is_empty() {
            true => String::new(),
            false => format!(", not {}", self.not.join(" ")),
        };
        match &self.to {
            Some(to) => format!("decided at {}{source}: to {to}{not}", self.at),
            None => format!("decided at {}{source}{not}", self.at),
        }
    }
}

/// Runs the command. If `has_source`, the blocks have source lines.
pub fn run(
    context: &Context,
    text: &str,
    calls: Calls,
    has_source: bool,
    options: &Options<'_>,
) -> Result {
    let names = context.functions.each(text, Method::Kprobe)?;
    let functions = blocks::find(context, names)?;
    let mut returns = Returns::default();
    let symbols: Vec<String> = functions.iter().map(Function::symbol).collect();
    returns.look_up(symbols.iter().map(|symbol| &**symbol));
    if let ([symbol], true) = (&*symbols, calls != Calls::All) {
        returns.check_errors(symbol, text)?;
    }
    let lines = has_source.then(|| {
        let modules = functions.iter().map(|function| &*function.module);
        Lines::open(modules)
    });
    let (not_own, and) = (counts::not_own(), context.whom.and());
    let condition = match calls {
        Calls::Fails => format!("error < 0 && error >= {MIN_ERROR} && {not_own}{and}"),
        _ => format!("{not_own}{and}"),
    };
    let command = |group: &str, function: &Function, has_value: bool| {
        let name = &function.name;
        match has_value {
            true => format!(
                "p:{group}/{WAYS} {name}%path error=$retval:s32 value=$retval:s64 if {condition}"
            ),
            false => format!("p:{group}/{VOID} {name}%path if {not_own}{and}"),
        }
    };
    for function in &functions {
        probes::check_syntax(&command("rkprobe", function, true))?;
    }
    let instance = context.start()?;
    let define = |function: &Function| {
        let define = |has_value| {
            let command = command(instance.group(), function, has_value);
            probes::define(&context.tracefs, &[command])
        };
        match define(true) {
            Err(failure) if probes::returns_nothing(&failure) && calls == Calls::All => {
                define(false)
            }
            result => result,
        }
    };
    let (mut probed, mut refused, mut last) = (HashMap::new(), 0, Ok(()));
    for function in functions {
        match define(&function) {
            Ok(()) => {
                probed.insert(function.short_name().into(), function);
            }
            Err(failure) => {
                refused += 1;
                last = Err(failure);
            }
        }
    }
    if probed.is_empty() {
        return last;
    }
    let stream = stream::Options::default();
    stream.prepare(&context.tracefs, &instance, context.is_json)?;
    for event in [WAYS, VOID] {
        // A dry run shows the first command for each function, and takes it for accepted.
        let is_used = match context.tracefs.is_dry() {
            true => event == WAYS,
            false => context
                .tracefs
                .path(&instance.event_file(event, ""))
                .exists(),
        };
        if is_used {
            context.switch_on(&instance, event)?;
        }
    }
    let source = Source::<1>::Records(Tally::new(&[WAYS, VOID], &stream));
    let question = Ways {
        text,
        functions: probed,
        calls,
        lines,
        returns,
    };
    table::run(context, &instance, source, refused, question, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        returns::Returned,
        tally, //
    };

    const BLOCKS: &str = "f+0x4 -> f+0x10 f+0x40\nf+0x10 -> f+0x20 f.cold+0x0\nf+0x20 -> f+0x30\n\
        f+0x30\nf+0x40 -> f+0x30\nf.cold+0x0 -> f+0x30\nblocks: 6, 6 can be probed\n";

    const SCREEN: Screen = Screen {
        columns: None,
        has_color: false,
        has_blocks: false,
    };

    fn function() -> Function {
        Function {
            name: "f".into(),
            module: String::new(),
            blocks: blocks::parse(BLOCKS),
        }
    }

    fn ways(calls: Calls) -> Ways<'static> {
        Ways {
            text: "f",
            functions: HashMap::from([("f".into(), function())]),
            calls,
            lines: None,
            returns: Returns::of_functions(&[("f", Returned::Int)]),
        }
    }

    fn rows(ways: &mut Ways<'_>, records: &[(&str, i64)]) -> Vec<Way> {
        let lines: Vec<String> = records
            .iter()
            .map(|(path, value)| {
                format!(
                    " cat-7 [001] ..... 6.1: path: (g+0x1/0x2 <- f) path=\"{path}\" blocks=3 \
                     error={value} value={value}"
                )
            })
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let hist = tally::table_of(&[WAYS], &lines, &mut |event, record| {
            ways.take(event, record)
        });
        ways.rows(&[hist])
    }

    const GOOD: (&str, i64) = ("+0x4 +0x10 +0x20 +0x30", 0);
    const COLD: (&str, i64) = ("+0x4 +0x10 .cold+0x0 +0x30", -22);

    #[test]
    fn a_new_block_decides() {
        let mut ways = ways(Calls::All);
        let rows = rows(&mut ways, &[GOOD, COLD, GOOD]);
        let text = ways.show(&rows, SCREEN);
        assert_eq!(
            text,
            "       2  no error\n          +0x4 +0x10 +0x20 +0x30\n\
             \x20      1  EINVAL\n          +0x4 +0x10 .cold+0x0 +0x30\n\
             \x20         decided at +0x10: to .cold+0x0, not +0x20\n"
        );
    }

    #[test]
    fn a_block_that_is_left_out_decides() {
        let mut ways = ways(Calls::Diff);
        let rows = rows(
            &mut ways,
            &[("+0x4 +0x40 +0x30", 5), GOOD, ("+0x4 +0x30", -2)],
        );
        let [way] = &rows[..] else { panic!("{rows:?}") };
        // Each of the two calls that succeed took another branch, so none is missing.
        assert_eq!((way.result(), &way.decision), ("ENOENT", &None));
        let rows = self::rows(&mut ways, &[GOOD, ("+0x4 +0x30", -2)]);
        let decision = rows[0].decision.as_ref().unwrap();
        assert_eq!(decision.text(), "decided at +0x4, not +0x10");
    }

    #[test]
    fn without_calls_that_succeed_nothing_is_decided() {
        let mut ways = ways(Calls::Fails);
        let rows = rows(&mut ways, &[COLD, ("+0x4 ...", -5)]);
        assert!(rows.iter().all(|way| way.decision.is_none()));
        assert!(ways
            .show(&rows, SCREEN)
            .contains("EIO\n          +0x4 ...\n"));
        assert_eq!(ways.show(&[], SCREEN), "f: 0 errors\n");
    }

    /// The call that fails and the one that succeeds differ at `+0x10`, but a record has no room for the blocks after it.
    #[test]
    fn a_cut_path_proves_only_what_it_shows() {
        let decision = |records: &[(&str, i64)]| {
            let rows = rows(&mut ways(Calls::Diff), records);
            let [way] = &rows[..] else { panic!("{rows:?}") };
            let decision = way.decision.as_ref().map(Decision::text);
            (decision, way.is_undecided)
        };
        let decided = |text: &str| (Some(text.to_string()), false);
        // The call that succeeds can have come to the block that is new otherwise.
        let cut = ("+0x4 +0x10 ...", 0);
        assert_eq!(decision(&[cut, COLD]), (None, true));
        assert_eq!(decision(&[cut, GOOD, COLD]), (None, true));
        // No block after the cut leads there.
        let cut = ("+0x4 +0x10 +0x20 ...", 0);
        let expected = decided("decided at +0x10: to .cold+0x0, not +0x20");
        assert_eq!(decision(&[cut, COLD]), expected);
        // The new block is shown, however the path of the call that fails goes on.
        let cut = ("+0x4 +0x10 .cold+0x0 ...", -22);
        assert_eq!(decision(&[GOOD, cut]), expected);
        // It can still come to a new block, or to one that others have.
        assert_eq!(decision(&[GOOD, ("+0x4 +0x10 ...", -22)]), (None, true));
        // Both calls that succeed can have come to what the one that fails leaves out.
        let short = ("+0x4 +0x30", -2);
        let cut = ("+0x4 ...", 0);
        assert_eq!(decision(&[cut, GOOD, short]), (None, true));
        assert_eq!(
            decision(&[GOOD, short]),
            decided("decided at +0x4, not +0x10")
        );
        // A path without a block of the function, and one with a block that the function lacks.
        for cut in ["...", "+0x4 +0x99 ..."] {
            assert_eq!(decision(&[(cut, 0), COLD]), (None, true), "{cut}");
        }
        // Only calls that fail: nothing to decide.
        assert!(rows(&mut ways(Calls::Fails), &[("+0x4 ...", -22)])
            .iter()
            .all(|way| !way.is_undecided));
    }

    #[test]
    fn a_person_sees_a_cut_path() {
        let mut ways = ways(Calls::All);
        let rows = rows(&mut ways, &[("+0x4 +0x10 ...", 0), COLD]);
        assert_eq!(
            ways.show(&rows, SCREEN),
            "       1  no error\n          +0x4 +0x10 ...\n\
             \x20         cut: more blocks than a record has room for\n\
             \x20      1  EINVAL\n          +0x4 +0x10 .cold+0x0 +0x30\n\
             \x20         undecided, because paths are cut\n"
        );
        assert!(rows[0]
            .text(false, true)
            .contains("          ...\n          cut: "));
        // `+0x20` and the cold block can be behind the cut.
        assert!(rows[0]
            .path
            .iter()
            .all(|step| step.place != "+0x10" || step.not.is_empty()));
        assert!(rows[0].places().ends_with("+0x10 ..."));
    }

    #[test]
    fn with_source_each_block_has_a_line() {
        let mut ways = ways(Calls::All);
        let rows = rows(&mut ways, &[COLD]);
        assert_eq!(
            rows[0].text(true, true),
            "       1  EINVAL      f\n          +0x4         not +0x40\n          +0x10        not +0x20\n\
             \x20         .cold+0x0\n          +0x30\n"
        );
        let json = serde_json::to_string(&rows[0]).unwrap();
        assert!(json.starts_with(
            "{\"function\":\"f\",\"error\":\"EINVAL\",\"count\":1,\"path\":[{\"place\":\"+0x4\",\"not\":[\"+0x40\"]},"
        ));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The ways of calls through a function, and where a call that fails leaves the way of those that succeed.

use std::{
    collections::BTreeSet,
    fmt::Write as _, //
};

use serde::Serialize;

use crate::{
    blocks::Function,
    errno,
    lines::Lines,
    record::Record,
    returns::{
        self,
        Returns, //
    }, //
};

/// The event of functions that return a value.
pub const EVENT: &str = "path";

/// The end of a path that the kernel has cut.
const CUT: &str = "...";
/// The line below such a path.
const CUT_TEXT: &str = "cut: more blocks than a record has room for";
/// The line below a path that has no decision, because it depends on blocks behind a cut.
const UNDECIDED_TEXT: &str = "undecided, because paths are cut";

/// The most places in a line.
const PLACES: usize = 10;

/// A block of a path.
#[derive(Debug, Serialize)]
pub struct Step {
    pub place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The blocks that could follow and are not in the path. Empty if there was no choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not: Vec<String>,
}

/// Where a call that fails leaves the way of those that succeed.
#[derive(Debug, PartialEq, Serialize)]
pub struct Decision {
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
pub struct Way {
    pub function: String,
    /// The error, or nothing for a call that succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub count: u64,
    pub path: Vec<Step>,
    /// Whether the path has more blocks.
    is_cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Whether the decision depends on blocks that cut paths do not show.
    pub is_undecided: bool,
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

/// The result of calls, which is an error or empty, their path, and their number.
pub type Calls<'a> = (&'a str, &'a str, u64);

/// The command for a probe that records the ways of calls with their results. `clause` is the condition.
pub fn command(group: &str, function: &str, clause: &str) -> String {
    format!("p:{group}/{EVENT} {function}%path error=$retval:s32 value=$retval:s64{clause}")
}

/// The error in a record of the probe. `None` if the call succeeded. `returns` knows the function.
pub fn error(record: &Record<'_>, function: &Function, returns: &Returns) -> Option<String> {
    let value = returns::value(record.field("value")?);
    let error = returns.of(&function.symbol()).error(value)?;
    Some(errno::name(error.into()))
}

/// Finds the ways of a function, in the order of `calls`. With `lines`, blocks have source lines.
pub fn find(function: &Function, lines: Option<&Lines>, calls: &[Calls<'_>]) -> Vec<Way> {
    let paths: Vec<(&str, Path, u64)> = calls
        .iter()
        .map(|(error, path, count)| (*error, Path::parse(function, path), *count))
        .collect();
    let succeeding = || paths.iter().filter(|(error, _, _)| error.is_empty());
    let shown = Succeeding::new(succeeding().map(|(_, path, _)| path.shown.clone()));
    let possible = Succeeding::new(succeeding().map(|(_, path, _)| path.possible()));
    let has_succeeding = succeeding().next().is_some();
    let way = |(error, path, count): &(&str, Path, u64)| {
        let decision = match !error.is_empty() && has_succeeding {
            true => decide(function, path, &shown, &possible),
            false => Ok(None),
        };
        let is_undecided = decision.is_err();
        let decision = decision.unwrap_or(None).map(|decision| Decision {
            source: last_line(function, lines, &decision.at),
            ..decision
        });
        let steps = path.shown.iter();
        Way {
            function: function.name.clone(),
            error: (!error.is_empty()).then(|| (*error).into()),
            count: *count,
            path: steps.map(|at| step(function, lines, path, at)).collect(),
            is_cut: path.is_cut,
            decision,
            is_undecided,
        }
    };
    paths.iter().map(way).collect()
}

fn step(function: &Function, lines: Option<&Lines>, path: &Path, at: &str) -> Step {
    let mut not = function.next(at);
    not.retain(|place| !path.shown.contains(place) && !path.hidden.contains(place));
    Step {
        source: first_line(function, lines, at),
        place: at.into(),
        not,
    }
}

/// The first line of a block, where it begins.
fn first_line(function: &Function, lines: Option<&Lines>, at: &str) -> Option<String> {
    let (place, end) = function.range(at)?;
    lines?.find_first(&place, end)
}

/// The last line of a block, where it branches.
fn last_line(function: &Function, lines: Option<&Lines>, at: &str) -> Option<String> {
    let (place, end) = function.range(at)?;
    lines?.find_last(&place, end)
}

impl Way {
    pub fn result(&self) -> &str {
        self.error.as_deref().unwrap_or("no error")
    }

    /// The places of the blocks, and the mark of a cut path.
    fn each_place(&self) -> Vec<&str> {
        let places = self.path.iter().map(|step| &*step.place);
        places.chain(self.is_cut.then_some(CUT)).collect()
    }

    pub fn places(&self) -> String {
        self.each_place().join(" ")
    }

    /// The lines of a way. With source lines, each block has a line.
    pub fn text(&self, has_name: bool, has_source: bool) -> String {
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
    pub fn text(&self) -> String {
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

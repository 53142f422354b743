// SPDX-License-Identifier: GPL-2.0

//! The ways of calls through a function, and where a call that fails leaves the way of those that succeed.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    fmt::Write as _, //
};

use serde::Serialize;

use crate::{
    blocks::Function,
    errno,
    lanes::{
        Lane,
        Lanes, //
    },
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
/// The line below a path that has no decision, because it depends on blocks after a cut.
const UNDECIDED_TEXT: &str = "undecided, because paths are cut";

/// The most places in a line, and the most blocks of a way without a decision.
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

/// The ways of a function to an error.
#[derive(Debug, Serialize)]
pub struct Failing {
    pub function: String,
    pub error: String,
    /// The number of calls that succeeded.
    succeeded: u64,
    /// Why the function cannot have a probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    paths: Vec<Way>,
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
/// blocks that their paths show, and `possible` also those that can be after a cut. What the calls really did is between
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

    /// The lines of a way. With source lines, each block has a line.
    pub fn text(&self, has_name: bool, has_source: bool) -> String {
        let mut text = format!("{:>8}  {:<10}", self.count, self.result());
        if has_name {
            let _ = write!(text, "  {}", self.function);
        }
        text.truncate(text.trim_end().len());
        text + "\n" + &self.lines(0, has_source)
    }

    /// The blocks from an index on, and what is to say about them.
    fn lines(&self, from: usize, has_source: bool) -> String {
        let mut text = String::new();
        let steps = &self.path[from..];
        if has_source {
            let width = steps.iter().map(|step| step.place.len()).max();
            let width = width.unwrap_or(0);
            for step in steps {
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
            for places in self.each_place()[from..].chunks(PLACES) {
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

/// An image of the ways of a function.
pub fn lanes<'a>(function: &str, ways: impl Iterator<Item = &'a Way>) -> Lanes {
    let ways: Vec<&Way> = ways.collect();
    let steps = ways.iter().flat_map(|way| &way.path);
    let lane = |way: &&Way| Lane {
        result: way.result().into(),
        is_failure: way.error.is_some(),
        count: way.count,
        places: way.each_place().into_iter().map(String::from).collect(),
        mark: { way.decision.as_ref() }.map(|decision| (decision.at.clone(), decision.text())),
    };
    Lanes {
        function: function.into(),
        notes: steps
            .filter_map(|step| Some((step.place.clone(), step.source.clone()?)))
            .collect(),
        lanes: ways.iter().map(lane).collect(),
    }
}

impl Failing {
    /// The ways to `error` among all ways of a function, the most frequent first.
    pub fn new(function: &str, error: String, ways: Vec<Way>) -> Self {
        let succeeding = ways.iter().filter(|way| way.error.is_none());
        let succeeded = succeeding.map(|way| way.count).sum();
        let mut paths = ways;
        paths.retain(|way| way.error.as_ref() == Some(&error));
        paths.sort_by_key(|way| Reverse(way.count));
        Self {
            function: function.into(),
            error,
            succeeded,
            refused: None,
            paths,
        }
    }

    /// A function that cannot have a probe.
    pub fn refused(function: &str, error: String, reason: String) -> Self {
        Self {
            refused: Some(reason),
            ..Self::new(function, error, Vec::new())
        }
    }

    /// The decisions, in a line.
    pub fn decided(&self) -> Option<String> {
        let decisions = self.paths.iter().filter_map(|way| way.decision.as_ref());
        let mut texts: Vec<String> = Vec::new();
        for text in decisions.map(Decision::text) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        (!texts.is_empty()).then(|| texts.join(" or "))
    }

    /// The lines about ways without a decision: the reason, and the last blocks.
    pub fn undecided(&self) -> String {
        let (function, error) = (&self.function, &self.error);
        if let Some(reason) = &self.refused {
            return format!("  {function} cannot have a probe of its path: {reason}\n");
        }
        if self.paths.is_empty() {
            return format!("  {function} did not return {error} in the second run\n");
        }
        let open = self.paths.iter().filter(|way| way.decision.is_none());
        open.map(|way| {
            let why = match (self.succeeded, way.is_undecided) {
                (0, _) => "no call succeeded".into(),
                (count, true) => format!("{count} calls succeeded"),
                (count, false) => {
                    format!("no block tells it from the {count} calls that succeeded")
                }
            };
            let blocks = way.path.len();
            let from = blocks.saturating_sub(PLACES);
            let recorded = if way.is_cut { "recorded " } else { "" };
            let what = match from {
                0 => "its way".into(),
                _ => format!("the last {PLACES} of {blocks} {recorded}blocks of its way"),
            };
            let has_source = way.path.iter().any(|step| step.source.is_some());
            let lines = way.lines(from, has_source);
            format!("  {function}, {error}: {why}; {what}:\n{lines}")
        })
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks;

    fn function() -> Function {
        let blocks: Vec<String> = (0..14)
            .map(|at| match at {
                3 => "f+0x3 -> f+0x4 f+0x20".into(),
                13 => "f+0xd".into(),
                _ => format!("f+{at:#x} -> f+{:#x}", at + 1),
            })
            .collect();
        let blocks = blocks.join("\n") + "\nf+0x20 -> f+0xd\nblocks: 15, 15 can be probed\n";
        Function {
            name: "f".into(),
            module: String::new(),
            blocks: blocks::parse(&blocks),
        }
    }

    const SHORT: &str = "+0x0 +0x1 +0x2 +0x3 +0x20 +0xd";
    const LONG: &str = "+0x0 +0x1 +0x2 +0x3 +0x4 +0x5 +0x6 +0x7 +0x8 +0x9 +0xa +0xb +0xc +0xd";

    fn failing(calls: &[Calls<'_>]) -> Failing {
        Failing::new("f", "EIO".into(), find(&function(), None, calls))
    }

    #[test]
    fn decisions_are_in_a_line() {
        let one = failing(&[("", LONG, 2), ("EIO", SHORT, 1), ("EPERM", LONG, 1)]);
        let decided = "decided at +0x3: to +0x20, not +0x4";
        assert_eq!(one.decided().unwrap(), decided);
        assert_eq!(one.undecided(), "");
        let json = serde_json::to_value(&one).unwrap();
        assert_eq!(
            (&json["error"], &json["succeeded"]),
            (&"EIO".into(), &2.into())
        );
        assert_eq!(json["paths"].as_array().unwrap().len(), 1);
        // Equal decisions of two ways are one.
        let cut = "+0x0 +0x1 +0x2 +0x3 +0x20 ...";
        let one = failing(&[("", LONG, 2), ("EIO", SHORT, 1), ("EIO", cut, 1)]);
        assert_eq!(one.decided().unwrap(), decided);
    }

    #[test]
    fn a_way_without_a_decision_has_its_last_blocks_and_a_reason() {
        let text = |calls: &[Calls<'_>]| {
            let one = failing(calls);
            assert_eq!(one.decided(), None);
            one.undecided()
        };
        assert_eq!(
            text(&[("EIO", LONG, 1), ("EPERM", SHORT, 1)]),
            "  f, EIO: no call succeeded; the last 10 of 14 blocks of its way:\n          \
             +0x4 +0x5 +0x6 +0x7 +0x8 +0x9 +0xa +0xb +0xc +0xd\n"
        );
        assert_eq!(
            text(&[("", SHORT, 3), ("EIO", SHORT, 1)]),
            "  f, EIO: no block tells it from the 3 calls that succeeded; its way:\n          \
             +0x0 +0x1 +0x2 +0x3 +0x20 +0xd\n"
        );
        assert_eq!(
            text(&[("", "+0x0 +0x1 +0x2 ...", 3), ("EIO", SHORT, 1)]),
            "  f, EIO: 3 calls succeeded; its way:\n          +0x0 +0x1 +0x2 +0x3 +0x20 +0xd\n          \
             undecided, because paths are cut\n"
        );
        let cut = format!("{LONG} ...");
        assert_eq!(
            text(&[("EIO", &cut, 1)]),
            "  f, EIO: no call succeeded; the last 10 of 14 recorded blocks of its way:\n          \
             +0x4 +0x5 +0x6 +0x7 +0x8 +0x9 +0xa +0xb +0xc +0xd\n          ...\n          \
             cut: more blocks than a record has room for\n"
        );
        assert_eq!(
            text(&[("", LONG, 1)]),
            "  f did not return EIO in the second run\n"
        );
        assert_eq!(
            Failing::refused("f", "EIO".into(), "a reason".into()).undecided(),
            "  f cannot have a probe of its path: a reason\n"
        );
    }
}

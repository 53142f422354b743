// SPDX-License-Identifier: GPL-2.0

//! Where functions return an error, and which way they take there: a second run of a command has probes at these
//! functions alone.

use std::{
    cmp::Reverse,
    collections::{
        BTreeMap,
        BTreeSet,
        HashMap, //
    }, //
};

use serde::Serialize;

use crate::{
    blocks::{
        self,
        Function, //
    },
    cause::Failed,
    context::Context,
    errno,
    failure::{
        note,
        Result, //
    },
    functions::Symbol,
    instance::Instance,
    lines::Lines,
    missing::Missing,
    probes,
    record::{
        function_of_exit,
        split_symbol,
        Record, //
    },
    returns::Returns,
    stream::Options,
    ways::{
        self,
        Failing, //
    }, //
};

/// The name of the event at the returns.
const EXITS: &str = "exits";

/// What a second run finds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sought {
    /// Where functions return an error.
    pub has_places: bool,
    /// Which way they take there.
    pub has_ways: bool,
}

impl Sought {
    pub fn is_any(self) -> bool {
        self.has_places || self.has_ways
    }
}

/// Where a function returned an error, the place with the most returns first.
#[derive(Debug, Serialize)]
struct Source {
    function: String,
    error: String,
    places: Vec<String>,
}

/// What the second run has found.
#[derive(Debug, Default, Serialize)]
pub struct Places {
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<Vec<Source>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ways: Option<Vec<Failing>>,
    missing: Missing,
}

impl Places {
    /// What a run of nothing finds.
    pub fn none(sought: Sought) -> Self {
        Self {
            sources: sought.has_places.then(Vec::new),
            ways: sought.has_ways.then(Vec::new),
            missing: Missing::default(),
        }
    }

    /// Where a function returned an error, and where it decided so.
    pub fn text(&self, failed: &Failed) -> Option<String> {
        let name = errno::name(failed.1.into());
        let mut sources = self.sources.iter().flatten();
        let source = sources.find(|source| source.function == failed.0 && source.error == name);
        let place = source.map(|source| format!("at {}", source.places.join(" or ")));
        let decided = self.ways(failed).and_then(Failing::decided);
        let texts: Vec<String> = place.into_iter().chain(decided).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// The ways of a function to an error.
    pub fn ways(&self, failed: &Failed) -> Option<&Failing> {
        let name = errno::name(failed.1.into());
        let mut ways = self.ways.iter().flatten();
        ways.find(|ways| ways.function == failed.0 && ways.error == name)
    }

    /// What is missing from the second run.
    pub fn missing(&self) -> String {
        let lines = self.missing.lines();
        lines
            .lines()
            .map(|line| format!("second run: {line}\n"))
            .collect()
    }
}

/// A second run and its functions.
struct Run<'a> {
    context: &'a Context,
    instance: &'a Instance<'a>,
    functions: &'a BTreeSet<&'a str>,
}

/// The functions with a probe of their path, by the names that records have, and why the others have none.
#[derive(Default)]
struct Probed<'a> {
    functions: HashMap<String, Function>,
    refused: BTreeMap<&'a str, String>,
}

/// The number of calls of a function by result and path.
type Counts = BTreeMap<String, BTreeMap<(String, String), u64>>;

impl<'a> Run<'a> {
    fn full_name(function: &str) -> String {
        let (name, module) = split_symbol(function);
        Symbol { name, module }.full_name()
    }

    /// Defines probes at the returns. Returns the number of functions that have one.
    fn define_exits(&self) -> usize {
        let define = |function: &&&str| {
            let command = format!(
                "p:{}/{EXITS} {}%retinsn exit=$exit:symbol value=$retval:s64{}",
                self.instance.group(),
                Self::full_name(function),
                self.context.whom.clause()
            );
            let result = probes::define(&self.context.tracefs, &[command]);
            if result.is_err() {
                note(format!(
                    "rkprobe: {function}: its return instructions cannot have a probe"
                ));
            }
            result.is_ok()
        };
        self.functions.iter().filter(define).count()
    }

    /// Defines probes of the paths.
    fn define_ways(&self) -> Probed<'a> {
        let mut probed = Probed::default();
        for function in self.functions {
            let short = split_symbol(function).0;
            if probed.functions.contains_key(short) {
                let reason = "another function of the same name has one";
                probed.refused.insert(function, reason.into());
                continue;
            }
            match self.define_way(&Self::full_name(function)) {
                Ok(found) => {
                    probed.functions.insert(short.into(), found);
                }
                Err(failure) => {
                    probed.refused.insert(function, failure.reason().into());
                }
            }
        }
        probed
    }

    fn define_way(&self, name: &str) -> Result<Function> {
        let mut found = blocks::find(self.context, vec![name.into()])?;
        let clause = self.context.whom.clause();
        let command = ways::command(self.instance.group(), name, &clause);
        probes::define(&self.context.tracefs, &[command])?;
        // Each name has an answer.
        Ok(found.remove(0))
    }
}

/// The places of the errors, those with the most returns first.
fn sources(
    failed: &BTreeSet<Failed>,
    counts: BTreeMap<Failed, BTreeMap<String, u64>>,
    lines: &Lines,
) -> Vec<Source> {
    let line = |place: String| lines.find_return(&place).unwrap_or(place);
    let source = |((function, error), places): (Failed, BTreeMap<String, u64>)| {
        let mut places: Vec<(String, u64)> = places.into_iter().collect();
        places.sort_by_key(|(_, count)| Reverse(*count));
        let mut places: Vec<String> = places.into_iter().map(|(place, _)| line(place)).collect();
        places.dedup();
        Source {
            function,
            error: errno::name(error.into()),
            places,
        }
    };
    let wanted = counts.into_iter().filter(|(key, _)| failed.contains(key));
    wanted.map(source).collect()
}

/// The ways to the errors.
fn failing(
    failed: &BTreeSet<Failed>,
    probed: &Probed<'_>,
    counts: &Counts,
    lines: &Lines,
) -> Vec<Failing> {
    let ways = |(symbol, error): &Failed| {
        let error = errno::name((*error).into());
        if let Some(reason) = probed.refused.get(&**symbol) {
            return Failing::refused(symbol, error, reason.clone());
        }
        let short = split_symbol(symbol).0;
        let calls = counts.get(short).into_iter().flatten();
        let calls: Vec<ways::Calls<'_>> = calls
            .map(|((error, path), count)| (&**error, &**path, *count))
            .collect();
        let function = probed.functions.get(short);
        let ways = function.map(|function| ways::find(function, Some(lines), &calls));
        Failing::new(symbol, error, ways.unwrap_or_default())
    };
    failed.iter().map(ways).collect()
}

/// Runs the command of `context` again, and finds where it returned these errors: as lines of the source, or as
/// instructions without debug information. `returns` knows the functions.
pub fn find(
    context: &Context,
    failed: &BTreeSet<Failed>,
    returns: &Returns,
    sought: Sought,
) -> Result<Places> {
    let functions: BTreeSet<&str> = failed.iter().map(|(name, _)| &**name).collect();
    let lines = Lines::open(functions.iter().map(|function| split_symbol(function).1));
    let again = context.again();
    let instance = again.start()?;
    let run = Run {
        context: &again,
        instance: &instance,
        functions: &functions,
    };
    let mut places = Places::none(sought);
    let has_exits = sought.has_places && run.define_exits() > 0;
    let probed = match sought.has_ways {
        true => run.define_ways(),
        false => Probed::default(),
    };
    let has_ways = !probed.functions.is_empty();
    let (mut exits, mut calls) = (BTreeMap::new(), Counts::new());
    if has_exits || has_ways {
        for (event, is_used) in [(EXITS, has_exits), (ways::EVENT, has_ways)] {
            if is_used {
                again.enable(&instance, event, &Options::default())?;
            }
        }
        again.begin_reading(&instance, None)?;
        again.read_records(&instance, &Options::default(), |entry| {
            let Some(entry) = &entry else {
                return Ok(true);
            };
            let record = entry.record();
            if *entry.event == *EXITS {
                if let Some((failed, place)) = returned(&record, &functions, returns) {
                    let of_failed: &mut BTreeMap<String, u64> = exits.entry(failed).or_default();
                    *of_failed.entry(place).or_default() += 1;
                }
            } else if let Some(function) = probed.functions.get(&record.function()) {
                let error = ways::error(&record, function, returns).unwrap_or_default();
                let of_function = calls.entry(record.function()).or_default();
                *of_function.entry((error, record.text("path"))).or_default() += 1;
            }
            Ok(true)
        })?;
        places.missing = Missing::read(&again.tracefs, &instance)?;
    }
    places.missing = places.missing.with_unprobed(probed.refused.len() as u64);
    if sought.has_places {
        places.sources = Some(sources(failed, exits, &lines));
    }
    if sought.has_ways {
        places.ways = Some(failing(failed, &probed, &calls, &lines));
    }
    Ok(places)
}

/// The error and the place of a record.
fn returned(
    record: &Record<'_>,
    functions: &BTreeSet<&str>,
    returns: &Returns,
) -> Option<(Failed, String)> {
    let value = record.field("value")?.parse::<i64>().ok()?;
    let exit = record.field("exit")?;
    let function = function_of_exit(exit);
    let error = returns.of(&function).error(value as u64)?;
    functions
        .contains(&*function)
        .then(|| ((function, error), without_size(exit)))
}

/// `FUNCTION+0x1 [MODULE]`, from `FUNCTION+0x1/0x2 [MODULE]`.
fn without_size(place: &str) -> String {
    let module = place.find(' ').map_or("", |at| &place[at..]);
    let start = place.split(['/', ' ']).next().unwrap_or(place);
    format!("{start}{module}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::returns::Returned;

    #[test]
    fn an_error_belongs_to_its_function() {
        let functions = BTreeSet::from(["f", "g [ext4]"]);
        let returns = Returns::of_functions(&[("f", Returned::Int), ("g [ext4]", Returned::Int)]);
        let of = |fields: &str| {
            let line = format!("sh-5 [000] ..... 1.0: exits: (f+0x0/0x9) {fields}");
            returned(&Record::parse(&line, EXITS)?, &functions, &returns)
        };
        assert_eq!(
            of("exit=f.cold+0x5/0x9 value=-22"),
            Some((("f".into(), 22), "f.cold+0x5".into()))
        );
        assert_eq!(
            of("exit=g+0x5/0x9 [ext4] value=-2"),
            Some((("g [ext4]".into(), 2), "g+0x5 [ext4]".into()))
        );
        assert_eq!(of("exit=f+0x5/0x9 value=0"), None);
        assert_eq!(of("exit=h+0x5/0x9 value=-22"), None);
    }
}

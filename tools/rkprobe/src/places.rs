// SPDX-License-Identifier: GPL-2.0

//! Where functions return an error: a second run of a command has a probe at the return instructions of these
//! functions alone.

use std::{
    cmp::Reverse,
    collections::{
        BTreeMap,
        BTreeSet, //
    }, //
};

use crate::{
    cause::Failed,
    context::Context,
    failure::{
        note,
        Result, //
    },
    functions::Symbol,
    lines::Lines,
    probes,
    record::{
        function_of_exit,
        split_symbol,
        Entry,
        Record, //
    },
    returns::Returns,
    stream::Options, //
};

/// The name of the event.
const EVENT: &str = "exits";

/// The places where functions returned errors, those with the most returns first.
pub type Places = BTreeMap<Failed, Vec<String>>;

/// Runs the command of `context` again, and finds where it returned these errors: as lines of the source, or as
/// instructions without debug information. `returns` knows the functions.
pub fn find(context: &Context, failed: &BTreeSet<Failed>, returns: &Returns) -> Result<Places> {
    let functions: BTreeSet<&str> = failed.iter().map(|(name, _)| &**name).collect();
    let lines = Lines::open(functions.iter().map(|function| split_symbol(function).1));
    let again = context.again();
    let instance = again.start()?;
    let mut probed = 0;
    for function in &functions {
        let (name, module) = split_symbol(function);
        let command = format!(
            "p:{}/{EVENT} {}%retinsn exit=$exit:symbol value=$retval:s64{}",
            instance.group(),
            Symbol { name, module }.full_name(),
            again.whom.clause()
        );
        match probes::define(&again.tracefs, &[command]) {
            Ok(()) => probed += 1,
            Err(_) => note(format!(
                "rkprobe: {function}: its return instructions cannot have a probe"
            )),
        }
    }
    if probed == 0 {
        return Ok(Places::new());
    }
    again.enable(&instance, EVENT, &Options::default())?;
    again.begin_reading(&instance, None)?;
    let mut counts: BTreeMap<Failed, BTreeMap<String, u64>> = BTreeMap::new();
    again.read_records(&instance, &Options::default(), |entry| {
        let record = entry.as_ref().map(Entry::record);
        let found = record.and_then(|record| returned(&record, &functions, returns));
        if let Some((failed, place)) = found {
            *counts.entry(failed).or_default().entry(place).or_default() += 1;
        }
        Ok(true)
    })?;
    let line = |place: String| lines.find_return(&place).unwrap_or(place);
    let of_failed = |(key, places): (Failed, BTreeMap<String, u64>)| {
        let mut places: Vec<(String, u64)> = places.into_iter().collect();
        places.sort_by_key(|(_, count)| Reverse(*count));
        let mut texts: Vec<String> = places.into_iter().map(|(place, _)| line(place)).collect();
        texts.dedup();
        (key, texts)
    };
    let wanted = counts.into_iter().filter(|(key, _)| failed.contains(key));
    Ok(wanted.map(of_failed).collect())
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
            returned(&Record::parse(&line, EVENT)?, &functions, &returns)
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

// SPDX-License-Identifier: GPL-2.0

//! `rkprobe path FUNCTIONS`: which way do calls take through a function, and where do those that fail leave the way of
//! the others?

use std::{
    cmp::Reverse,
    collections::{
        BTreeMap,
        HashMap, //
    }, //
};

use crate::{
    blocks::{
        self,
        Function, //
    },
    context::Context,
    counts,
    draw::Screen,
    failure::Result,
    functions::Method,
    hist::Hist,
    lines::Lines,
    probes,
    record::Record,
    returns::{
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
    ways::{
        self,
        Way, //
    }, //
};

/// The event of functions that return a value.
const WAYS: &str = ways::EVENT;
/// The event of functions that return nothing.
const VOID: &str = "nothing";

/// Which calls are shown.
#[derive(Clone, Copy, PartialEq)]
pub enum Calls {
    All,
    /// Those that fail. Others make no records.
    Fails,
    /// Those that fail, and where they leave the way of those that succeed.
    Diff,
}

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

impl Ways<'_> {
    /// The error of a record. `None` if the call succeeded.
    fn error(&self, record: &Record<'_>) -> Option<String> {
        let function = self.functions.get(&record.function())?;
        ways::error(record, function, &self.returns)
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
        let mut found: BTreeMap<&str, Vec<ways::Calls<'_>>> = BTreeMap::new();
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
            let mut ways = ways::find(function, self.lines.as_ref(), &ways);
            ways.retain(|way| self.calls == Calls::All || way.error.is_some());
            all_ways.append(&mut ways);
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
        let mut functions: Vec<&str> = rows.iter().map(|way| &*way.function).collect();
        functions.sort_unstable();
        functions.dedup();
        let of_function =
            |name: &str| ways::lanes(name, rows.iter().filter(|way| way.function == name));
        let lanes = functions.into_iter().map(of_function).collect();
        (format!("{}: ways of calls", self.text), Image::Lanes(lanes))
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
    let text = &*context.functions.by_name(text)?;
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
            true => ways::command(group, name, &format!(" if {condition}")),
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
    let source = Source::Records(Tally::new(&[WAYS, VOID], &stream));
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
        tally,
        ways::Decision, //
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
        // `+0x20` and the cold block can be after the cut.
        assert!(rows[0]
            .path
            .iter()
            .all(|step| step.place != "+0x10" || step.not.is_empty()));
        let lanes = ways::lanes("f", rows.iter());
        assert_eq!(lanes.lanes[0].places, ["+0x4", "+0x10", "..."]);
        assert!(lanes.lanes[1].is_failure);
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

// SPDX-License-Identifier: GPL-2.0

//! `rkprobe cover FUNCTIONS`: which basic blocks of functions ran? The kernel counts by block.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{
        BTreeMap,
        HashMap, //
    },
    fmt::Write as _,
    fs,
    rc::Rc, //
};

use serde::Serialize;

use crate::{
    blocks::{
        self,
        Function, //
    },
    context::Context,
    counts::{
        Count,
        Table, //
    },
    draw::{
        Bar,
        Screen, //
    },
    failure::{
        Failure,
        Result, //
    },
    functions::Method,
    hist::{
        self,
        Hist, //
    },
    lines::Lines,
    probes,
    table::{
        self,
        Cell,
        Image,
        Options,
        Question,
        Source, //
    }, //
};

/// The smallest table.
const MIN_SIZE: usize = 8192;

/// The most places in a line.
const PLACES: usize = 8;

/// A block that did not run.
#[derive(Serialize)]
struct NotRun {
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

/// How much of a function ran.
#[derive(Serialize)]
struct Cover {
    function: String,
    blocks: u64,
    ran: u64,
    not_probed: u64,
    not_run: Vec<NotRun>,
}

/// The hits of the blocks, by their places, with the module after them.
type Hits = HashMap<String, u64>;

/// The question.
struct Covered<'a> {
    /// The functions, as the user chooses them.
    text: &'a str,
    functions: Rc<Vec<Function>>,
    /// The hits of the last answer.
    hits: Rc<RefCell<Hits>>,
    lines: Option<Rc<Lines>>,
}

/// The hits of the blocks in a table.
fn hits(hist: &Hist) -> Hits {
    let place = |key: &str| {
        let name = hist::symbol(key);
        let (place, rest) = name.split_once('/').unwrap_or((name, ""));
        let module = rest.split_once(" [").map_or("", |(_, module)| module);
        match module.trim_end_matches(']') {
            "" => place.into(),
            module => format!("{place} [{module}]"),
        }
    };
    let rows = hist.rows.iter();
    rows.map(|row| (place(&row.keys[0]), row.hits)).collect()
}

impl Question for Covered<'_> {
    type Row = Cover;

    const ROWS: &'static str = "functions";

    const COLUMNS: &'static [&'static str] = &["ran", "blocks", "name"];

    const IS_SO_FAR: bool = true;

    fn title(&self) -> String {
        format!("cover {}", self.text)
    }

    /// The functions with the largest share first, and names in order where it is equal.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Cover> {
        let hits = hists.first().map(hits).unwrap_or_default();
        let row = |function: &Function| {
            let probed = function.blocks.iter().filter(|block| block.is_probed);
            let not_run = probed.clone().filter_map(|block| {
                let full = function.full_place(&block.place);
                (!hits.contains_key(&full)).then(|| NotRun {
                    place: block.place.clone(),
                    source: self.lines.as_ref().and_then(|lines| lines.find(&full)),
                })
            });
            let not_run: Vec<NotRun> = not_run.collect();
            let probed = probed.count();
            Cover {
                function: function.name.clone(),
                blocks: function.blocks.len() as u64,
                ran: (probed - not_run.len()) as u64,
                not_probed: (function.blocks.len() - probed) as u64,
                not_run,
            }
        };
        let mut rows: Vec<Cover> = self.functions.iter().map(row).collect();
        rows.sort_by_cached_key(|row| (Reverse(row.percent()), row.function.clone()));
        self.hits.replace(hits);
        rows
    }

    fn cell<'r>(row: &'r Cover, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.function),
            "blocks" => row.blocks.into(),
            _ => row.ran.into(),
        }
    }

    fn show(&self, rows: &[Cover], _: Screen) -> String {
        rows.iter().map(Cover::text).collect()
    }

    fn image<'r>(&'r self, rows: &'r [Cover]) -> (String, Image<'r>) {
        let bar = |row: &Cover| Bar {
            label: row.function.clone(),
            value: row.percent(),
        };
        let title = format!("{}: blocks that ran, in %", self.text);
        (title, Image::Bars(rows.iter().map(bar).collect()))
    }
}

impl Cover {
    fn percent(&self) -> u64 {
        self.ran * 100 / self.blocks.max(1)
    }

    /// The lines of a function. If it was not called, all its blocks did not run.
    fn text(&self) -> String {
        let (ran, blocks, percent) = (self.ran, self.blocks, self.percent());
        let mut text = format!("{percent:3} %  {ran:4} of {blocks:4}  {}", self.function);
        if self.not_probed > 0 {
            let _ = write!(text, "  ({} not probed)", self.not_probed);
        }
        text.push('\n');
        if self.ran == 0 {
            return text;
        }
        let name = self.function.rsplit(':').next().unwrap_or("");
        let place = |block: &NotRun| {
            let place = block.place.strip_prefix(name);
            place.unwrap_or(&block.place).to_string()
        };
        let (with_line, without): (Vec<&NotRun>, Vec<&NotRun>) = self
            .not_run
            .iter()
            .partition(|block| block.source.is_some());
        for block in with_line {
            let line = block.source.as_deref().unwrap_or("");
            let _ = writeln!(text, "       not run: {}  {line}", place(block));
        }
        for places in without.chunks(PLACES) {
            let places: Vec<String> = places.iter().map(|block| place(block)).collect();
            let _ = writeln!(text, "       not run: {}", places.join(" "));
        }
        text
    }
}

/// The hits of source lines in the form of lcov. A line ran as often as the block of it that ran most.
fn to_lcov(functions: &[Function], hits: &Hits, lines: &Lines) -> String {
    let mut files: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
    for function in functions {
        let blocks = &function.blocks;
        for (index, block) in blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.is_probed)
        {
            let full = function.full_place(&block.place);
            let count = hits.get(&full).copied().unwrap_or(0);
            let end = blocks.get(index + 1).map(|block| &*block.place);
            for (file, line) in lines.find_all(&full, end) {
                let known = files.entry(file).or_default().entry(line).or_default();
                *known = count.max(*known);
            }
        }
    }
    let mut text = String::new();
    for (file, lines) in files {
        let _ = writeln!(text, "TN:\nSF:{file}");
        for (line, count) in &lines {
            let _ = writeln!(text, "DA:{line},{count}");
        }
        let ran = lines.values().filter(|count| **count > 0).count();
        let _ = writeln!(text, "LF:{}\nLH:{ran}\nend_of_record", lines.len());
    }
    text
}

/// Runs the command. If `has_source`, the blocks that did not run have source lines. `lcov` is the path of a file for
/// the lines that ran. If `is_once`, each block hits once.
pub fn run(
    context: &Context,
    pattern: &str,
    has_source: bool,
    lcov: Option<&String>,
    is_once: bool,
    options: &Options<'_>,
) -> Result {
    let pattern = &*context.functions.by_name(pattern)?;
    let names = context.functions.each(pattern, Method::Kprobe)?;
    let functions = blocks::find(context, names)?;
    let has_lines = has_source || lcov.is_some();
    let lines = has_lines.then(|| {
        let modules = functions.iter().map(|function| &*function.module);
        Rc::new(Lines::open(modules))
    });
    let blocks: usize = functions.iter().map(|function| function.blocks.len()).sum();
    let size = blocks.max(MIN_SIZE).next_power_of_two();
    let count = Count {
        keys: &["func"],
        sum: None,
        size: u32::try_from(size).unwrap_or(u32::MAX),
        condition: context.whom.counted(),
    };
    let suffix = if is_once { "%blocks-once" } else { "%blocks" };
    let command = |group: &str, function: &Function| {
        format!(
            "p:{group}/cover {}{suffix}{}",
            function.name,
            count.clauses()
        )
    };
    for function in &functions {
        probes::check_syntax(&command("rkprobe", function))?;
    }
    let instance = context.start()?;
    let (mut probed, mut refused, mut last) = (Vec::new(), 0, Ok(()));
    for function in functions {
        match probes::define(&context.tracefs, &[command(instance.group(), &function)]) {
            Ok(()) => probed.push(function),
            Err(failure) => {
                refused += 1;
                last = Err(failure);
            }
        }
    }
    if probed.is_empty() {
        return last;
    }
    context.switch_on(&instance, "cover")?;
    let (functions, hits) = (Rc::new(probed), Rc::default());
    let question = Covered {
        text: pattern,
        functions: Rc::clone(&functions),
        hits: Rc::clone(&hits),
        lines: lines.clone().filter(|_| has_source),
    };
    let source = Source::Tables(vec![Table {
        event: "cover",
        keys: &["func"],
        sum: None,
    }]);
    table::run(context, &instance, source, refused, question, options)?;
    match (lcov, lines) {
        (Some(path), Some(lines)) if !context.tracefs.is_dry() => {
            let text = to_lcov(&functions, &hits.borrow(), &lines);
            fs::write(path, text).map_err(|error| Failure::file(path, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: &str = "f+0x4 -> f+0x10 f+0x20\nf+0x10\nf+0x20; not probed: a reason\n\
        f.cold+0x0 -> f+0x10\nblocks: 4, 3 can be probed\n";

    fn question(module: &str) -> Covered<'static> {
        let name = match module {
            "" => "f".into(),
            module => format!("{module}:f"),
        };
        let function = Function {
            name,
            module: module.into(),
            blocks: blocks::parse(BLOCKS),
        };
        Covered {
            text: "f",
            functions: Rc::new(vec![function]),
            hits: Rc::default(),
            lines: None,
        }
    }

    #[test]
    fn blocks_without_a_row_did_not_run() {
        for (module, suffix) in [("", ""), ("m", " [m]")] {
            let text = format!(
                "{{ func: [ffff] f+0x4/0x30{suffix}   }} hitcount: 7\n\
                 {{ func: [fffe] f.cold+0x0/0x8{suffix} }} hitcount: 2\n"
            );
            let mut question = question(module);
            let rows = question.rows(&[hist::parse(&text, &["func"], None)]);
            let text: String = rows.iter().map(Cover::text).collect();
            let name = &question.functions[0].name;
            assert_eq!(
                text,
                format!(" 50 %     2 of    4  {name}  (1 not probed)\n       not run: +0x10\n")
            );
            assert_eq!(question.hits.borrow()[&format!("f+0x4{suffix}")], 7);
        }
    }

    #[test]
    fn a_function_that_was_not_called_has_no_list_of_blocks() {
        let rows = question("").rows(&[Hist::default()]);
        assert_eq!(rows[0].text(), "  0 %     0 of    4  f  (1 not probed)\n");
        assert_eq!(rows[0].not_run.len(), 3);
    }
}

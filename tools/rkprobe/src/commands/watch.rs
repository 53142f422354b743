// SPDX-License-Identifier: GPL-2.0

//! `rkprobe watch SYMBOL|ADDRESS`: who writes it? The kernel counts by instruction and program.

use std::io;

use serde::Serialize;

use crate::{
    btf,
    context::Context,
    counts::{
        Count,
        Table, //
    },
    draw::{
        self,
        Bar,
        Screen, //
    },
    failure::{
        note,
        Failure,
        Result, //
    },
    hist::{
        self,
        Hist, //
    },
    late_texts::LateTexts,
    perfetto::{
        Call,
        Trace, //
    },
    probes,
    record::Record,
    stream,
    table::{
        self,
        Cell,
        Image,
        Options,
        Question,
        Source, //
    },
    values::Members, //
};

/// The lengths that the processor can watch, in bytes, the longest first.
const LENGTHS: [u64; 4] = [8, 4, 2, 1];

/// Whether a record has the value before the write. On arm64, the processor reports a write before it happens.
const IS_BEFORE: bool = cfg!(target_arch = "aarch64");

/// The longest length for an address, and for a variable of `size` bytes.
fn length(address: u64, size: u64) -> u64 {
    LENGTHS
        .into_iter()
        .find(|length| *length <= size && address % length == 0)
        .unwrap_or(1)
}

/// Some memory: `ADDRESS[:LENGTH]` or `[MODULE:]SYMBOL[+OFFSET][:LENGTH]`.
#[derive(Debug, PartialEq)]
struct Memory<'a> {
    /// Without the length.
    text: &'a str,
    /// The symbol without module and offset. `None` for an address.
    symbol: Option<&'a str>,
    /// The offset from the symbol, or the address.
    offset: u64,
    length: Option<u64>,
}

impl<'a> Memory<'a> {
    fn parse(text: &'a str) -> Self {
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let (text, length) = match text.rsplit_once(':') {
            Some((text, length)) if is_number(length) => (text, number(length)),
            _ => (text, None),
        };
        if is_number(text) {
            return Self {
                text,
                symbol: None,
                offset: number(text).unwrap_or(0),
                length,
            };
        }
        let name = text.rsplit(':').next().unwrap_or(text);
        let end = name.find(['+', '-']).unwrap_or(name.len());
        let (symbol, offset) = name.split_at(end);
        let offset = match offset.strip_prefix('-') {
            Some(offset) => number(offset).unwrap_or(0).wrapping_neg(),
            None => number(offset.trim_start_matches('+')).unwrap_or(0),
        };
        Self {
            text,
            symbol: Some(symbol),
            offset,
            length,
        }
    }

    /// The length: that of the user, that of the variable, or the longest for the address. `known` is what BTF knows:
    /// the size of a variable.
    fn length(&self, symbols: &str, known: impl FnOnce(&str) -> Option<u32>) -> Result<u64> {
        if let Some(length) = self.length {
            return match LENGTHS.contains(&length) {
                true => Ok(length),
                false => Err(Failure::new(format!(
                    "{length} bytes cannot be watched: a length is 1, 2, 4 or 8"
                ))),
            };
        }
        let Some(symbol) = self.symbol else {
            return Ok(length(self.offset, u64::MAX));
        };
        let (address, room) = find(symbol, symbols)?;
        let size = known(symbol).map_or(room, u64::from);
        let rest = size.wrapping_sub(self.offset);
        // An offset beyond the variable is the user's business.
        let rest = if rest > size { u64::MAX } else { rest };
        let length = length(address.wrapping_add(self.offset), rest);
        if rest > length && rest != u64::MAX {
            note(format!(
                "rkprobe: {} may have {rest} bytes: the first {length} are watched, and {symbol}+OFFSET:LENGTH watches \
                 others",
                self.text
            ));
        }
        Ok(length)
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether a symbol is a variable that a message can suggest, by the letter of its kind. Some of the kernel's data have
/// the letter of code. Code and constants are never written. What the kernel writes in its exceptions and locks, a
/// watchpoint can keep from working.
fn is_variable(kind: &str, name: &str, is_data: bool) -> bool {
    let is_variable = match kind {
        "b" | "B" | "d" | "D" => true,
        "t" | "T" => is_data,
        _ => false,
    };
    is_variable && !name.starts_with('_') && !name.contains("lock")
}

/// The address of a symbol, and the room up to the next symbol.
fn find(symbol: &str, symbols: &str) -> Result<(u64, u64)> {
    let all = || {
        symbols.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.next()?, words.next()?))
        })
    };
    let Some((address, ..)) = all().find(|(.., name)| *name == symbol) else {
        let address = |of| all().find(|(.., name)| *name == of).map(|(at, ..)| at);
        let data = address("_sdata").unwrap_or(0)..address("_edata").unwrap_or(0);
        let variables = all().filter(|(at, kind, name)| is_variable(kind, name, data.contains(at)));
        return Err(probes::no_such(
            "symbol",
            symbol,
            variables.map(|(.., name)| name),
        ));
    };
    let next = all()
        .filter(|(other, ..)| *other > address)
        .map(|(other, ..)| other)
        .min();
    Ok((address, next.map_or(u64::MAX, |next| next - address)))
}

/// An instruction that writes, and a task that executes it.
#[derive(Serialize)]
struct Writer {
    place: String,
    comm: String,
    writes: u64,
}

/// The question: the memory.
struct Writers<'a>(&'a str);

impl Question for Writers<'_> {
    type Row = Writer;

    const ROWS: &'static str = "writers";

    const COLUMNS: &'static [&'static str] = &["count", "name", "comm"];

    fn title(&self) -> String {
        format!("watch {}", self.0)
    }

    fn rows(&mut self, hists: &[Hist]) -> Vec<Writer> {
        let rows = hists.iter().flat_map(|hist| &hist.rows);
        let mut rows: Vec<Writer> = rows
            .map(|row| Writer {
                place: hist::symbol(&row.keys[0]).into(),
                comm: row.keys[1].clone(),
                writes: row.hits,
            })
            .collect();
        rows.sort_by(|a, b| {
            (b.writes.cmp(&a.writes)).then_with(|| (&a.place, &a.comm).cmp(&(&b.place, &b.comm)))
        });
        rows
    }

    fn cell<'r>(row: &'r Writer, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.place),
            "comm" => Cell::Text(&row.comm),
            _ => row.writes.into(),
        }
    }

    fn show(&self, rows: &[Writer], screen: Screen) -> String {
        match rows {
            [] => format!("{}: 0 writes\n", self.0),
            rows => draw::bars(&bars(rows), screen),
        }
    }

    fn image<'r>(&'r self, rows: &'r [Writer]) -> (String, Image<'r>) {
        (format!("{}: writes", self.0), Image::Bars(bars(rows)))
    }
}

fn bars(rows: &[Writer]) -> Vec<Bar> {
    let bar = |row: &Writer| Bar {
        label: format!("{}  {}", row.place, row.comm),
        value: row.writes,
    };
    rows.iter().map(bar).collect()
}

fn show(record: &Record<'_>, memory: &str, is_before: bool, options: &stream::Options) -> String {
    format!(
        "{}  {}  {memory} {} {}\n{}",
        options.head(record),
        record.place,
        if is_before { "was" } else { "=" },
        record.field("value").unwrap_or("?"),
        options.lines(record),
    )
}

/// The place of a write, and the value.
fn members(record: &Record<'_>, is_before: bool) -> Members {
    let value = if is_before { "old" } else { "value" };
    let members = [
        ("place", record.place),
        (value, record.field("value").unwrap_or("")),
    ];
    let members = members.map(|(name, value)| (name.into(), value.into()));
    Members::from_iter(members)
}

fn json(record: &Record<'_>, is_before: bool, options: &stream::Options) -> String {
    options.json(record, members(record, is_before))
}

/// Explains why a watchpoint cannot be enabled.
fn explain(failure: Failure) -> Failure {
    // ENOSPC.
    match failure.is_refused_as(io::ErrorKind::StorageFull) {
        true => Failure::new(
            "all breakpoint registers of a processor are in use: disable other watchpoints, or end the perf or debugger \
             that has them",
        ),
        false => failure,
    }
}

/// Runs the command. If `each` has options, prints each write.
pub fn run(
    context: &Context,
    memory: &str,
    each: Option<&stream::Options>,
    options: &Options<'_>,
) -> Result {
    // On arm64, rkprobe makes the handler of a watchpoint one.
    if each.is_some_and(|options| options.has_user_stack) {
        return Err(Failure::new(
            "the kernel takes no stack traces of programs at a write, which is a non-maskable interrupt here",
        ));
    }
    let parsed = Memory::parse(memory);
    let length = parsed.length(context.functions.symbols(), |symbol| {
        btf::with(None, |btf| btf.variable_size(symbol)).flatten()
    })?;
    let count_writes = Count {
        keys: &["func.sym-offset", "comm"],
        sum: None,
        size: 4096,
        condition: context.whom.counted(),
    };
    let rest = match each {
        Some(_) => format!(" value=+0($addr):x{}{}", length * 8, context.whom.clause()),
        None => count_writes.clauses(),
    };
    let command = |group: &str| {
        format!(
            "w:{group}/watch w@{}:{length} comm=$comm{rest}",
            parsed.text
        )
    };
    probes::check_syntax(&command("rkprobe"))?;
    let instance = context.start()?;
    probes::define(&context.tracefs, &[command(instance.group())])?;
    if let Some(each) = each {
        let mut trace = Trace::wanted(context.tracefs.is_dry(), options.perfetto, || {
            format!("rkprobe watch {memory}")
        })?;
        let options = &stream::Options {
            needs_clock: trace.is_some(),
            ..*each
        };
        options.prepare(&context.tracefs, &instance, context.is_json)?;
        context
            .enable(&instance, "watch", options)
            .map_err(explain)?;
        let none = format!("{memory}: 0 writes");
        let events = ["watch".to_string()];
        context.print_records(
            &instance,
            &events,
            &mut LateTexts::default(),
            options,
            &none,
            |_, record| {
                if let Some(trace) = &mut trace {
                    let write = members(record, IS_BEFORE);
                    trace.add(Call::of_record(record, parsed.text, 0, write))?;
                }
                Ok(if context.is_json {
                    json(record, IS_BEFORE, options)
                } else {
                    show(record, parsed.text, IS_BEFORE, options)
                })
            },
        )?;
        return trace.map_or(Ok(()), Trace::finish);
    }
    context.switch_on(&instance, "watch").map_err(explain)?;
    let table = Table {
        event: "watch",
        keys: &["func", "comm"],
        sum: None,
    };
    let source = Source::Tables(vec![table]);
    table::run(context, &instance, source, 0, Writers(memory), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_memory() {
        let memory = |text, symbol, offset, length| Memory {
            text,
            symbol,
            offset,
            length,
        };
        for (text, expected) in [
            (
                "jiffies_64",
                memory("jiffies_64", Some("jiffies_64"), 0, None),
            ),
            ("a:b+0x10:2", memory("a:b+0x10", Some("b"), 16, Some(2))),
            ("b-8", memory("b-8", Some("b"), 8u64.wrapping_neg(), None)),
            ("0xff:1", memory("0xff", None, 255, Some(1))),
            ("a:b", memory("a:b", Some("b"), 0, None)),
        ] {
            assert_eq!(Memory::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn the_length_fits_variable_and_address() {
        let symbols = "1000 d a\n1004 D b\n1008 d c\n1010 d d\n1016 d e\n1016 d f\n";
        for (text, expected) in [
            ("a", 4),
            ("c", 8),
            ("d", 4),
            ("d+4", 2),
            ("f", 2),
            ("b:1", 1),
            ("0x1002", 2),
            ("0x1001", 1),
            ("0x1010", 8),
        ] {
            let length = Memory::parse(text).length(symbols, |_| None).ok();
            assert_eq!(length, Some(expected), "{text}");
        }
        let length = Memory::parse("d").length(symbols, |_| Some(2)).ok();
        assert_eq!(length, Some(2));
        let Err(Failure::Message(text)) = Memory::parse("bb").length(symbols, |_| None) else {
            panic!();
        };
        assert_eq!(text, "the kernel has no symbol bb; similar: b");
        assert!(Memory::parse("a:3").length(symbols, |_| None).is_err());
    }

    #[test]
    fn suggestions_are_variables() {
        for (kind, name, expected) in [
            ("D", "panic_timeout", true),
            ("b", "jiffies_count", true),
            ("T", "vfs_read", false),
            ("r", "names", false),
            ("D", "tasklist_lock", false),
            ("D", "__preempt_count", false),
        ] {
            assert_eq!(is_variable(kind, name, false), expected, "{name}");
        }
        assert!(is_variable("T", "print_fatal_signals", true));
    }

    #[test]
    fn shows_who_writes() {
        let hist = hist::parse(
            "{ func: [ffff] f+0x10/0x20 [m]  , comm: cat } hitcount: 1\n\
             { func: [ffff] g+0x10, comm: sh } hitcount: 7\n",
            &["func", "comm"],
            None,
        );
        let mut question = Writers("x");
        let rows = question.rows(&[hist]);
        let bars = bars(&rows).into_iter();
        let labels: Vec<String> = bars.map(|bar| bar.label).collect();
        assert_eq!(labels, ["g+0x10  sh", "f+0x10/0x20 [m]  cat"]);
        let line = " sh-7 [001] ..... 6.1: watch: (f+0x1/0x2) value=0x6 comm=\"sh\"";
        let record = Record::parse(line, "watch").unwrap();
        for (is_before, line, value) in [
            (false, "sh-7  f+0x1/0x2  x = 0x6\n", "value"),
            (true, "sh-7  f+0x1/0x2  x was 0x6\n", "old"),
        ] {
            let options = stream::Options::default();
            assert_eq!(show(&record, "x", is_before, &options), line);
            assert!(json(&record, is_before, &options).ends_with(&format!(
                "\"comm\":\"sh\",\"pid\":7,\"place\":\"f+0x1/0x2\",\"{value}\":\"0x6\"}}\n"
            )));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The options of an answer that is a stream of records: their number, and the parts of a record.

use clap::{
    value_parser,
    Arg,
    ArgAction,
    ArgMatches, //
};

use crate::{
    stream,
    values::More, //
};

use super::{
    flag,
    words, //
};

/// The option of the number of calls.
pub fn number() -> Arg {
    Arg::new("number")
        .short('n')
        .long("number")
        .value_name("N")
        .value_parser(value_parser!(u64).range(1..))
        .help("End after N calls")
}

/// The number of `-n`.
pub fn count(matches: &ArgMatches) -> Option<u64> {
    matches.get_one("number").copied()
}

/// The option of more values.
pub fn show() -> Arg {
    Arg::new("show")
        .long("show")
        .value_name("[NAME=]FETCHARG")
        .action(ArgAction::Append)
        .help("Also show a value, such as file->f_flags or 'name=file:%pD'")
}

/// The fetch arguments of `--show`.
pub fn shown(matches: &ArgMatches) -> Vec<&str> {
    words(matches, "show")
}

/// The option of the members of structures.
pub fn deep() -> Arg {
    flag(
        "deep",
        "Show the members of the structures to which parameters point",
    )
}

/// The values to show beside the parameters: these fetch arguments of `--show`, and members with `--deep`.
pub fn more<'a>(matches: &ArgMatches, fields: &'a [&'a str]) -> More<'a> {
    More {
        fields,
        is_deep: matches.get_flag("deep"),
    }
}

/// The option of the kernel's functions.
pub fn stack() -> Arg {
    flag(
        "stack",
        "Show the stack: the functions that led there, one per line",
    )
}

/// The option of the program's functions.
pub fn user_stack() -> Arg {
    flag(
        "user-stack",
        "Show the functions of the program that led there, one per line",
    )
}

/// The option of the time of day.
pub fn time() -> Arg {
    flag("time", "Show the time of day and the CPU")
}

/// The option of the size of the trace buffers.
pub fn buffer() -> Arg {
    Arg::new("buffer")
        .long("buffer")
        .value_name("SIZE")
        .value_parser(kib)
        .help(
            "Give each CPU a trace buffer of SIZE, such as 16M, if records of a burst are missing",
        )
}

/// Parses a size such as `512K` or `16M`. Returns KiB.
fn kib(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u64); 3] = [('K', 1), ('M', 1024), ('G', 1024 * 1024)];

    let size = UNITS.iter().find_map(|(unit, factor)| {
        let number: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        number.checked_mul(*factor)
    });
    // C: `tracing_entries_write()` has the size in bytes in a word.
    let size = size.filter(|size| (1..1 << 50).contains(size));
    size.ok_or_else(|| format!("{text} is no size: write 512K, 16M or 1G"))
}

/// The option of a file for Perfetto.
pub fn perfetto() -> Arg {
    Arg::new("perfetto")
        .long("perfetto")
        .value_name("FILE")
        .help("Also write the answer with its times into FILE, which ui.perfetto.dev opens")
}

/// The options of a command that shows each call with its values.
pub fn of_calls() -> [Arg; 8] {
    [
        number(),
        show(),
        deep(),
        stack(),
        user_stack(),
        time(),
        perfetto(),
        buffer(),
    ]
}

/// The options of a stream of records.
pub fn stream(matches: &ArgMatches) -> stream::Options {
    stream::Options {
        count: count(matches),
        has_stack: matches.get_flag("stack"),
        has_user_stack: matches.get_flag("user-stack"),
        has_time: matches.get_flag("time"),
        ..stream::Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit() {
        for (text, expected) in [("4K", 4), ("16M", 16384), ("2G", 2 << 20)] {
            assert_eq!(kib(text), Ok(expected));
        }
        for wrong in [
            "",
            "M",
            "0M",
            "16",
            "-1K",
            "1.5M",
            "16m",
            "18446744073709551615G",
        ] {
            assert!(kib(wrong).is_err(), "{wrong}");
        }
    }
}

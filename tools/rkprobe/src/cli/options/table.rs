// SPDX-License-Identifier: GPL-2.0

//! The options of an answer that is a table: its order, its intervals, its pictures.

use std::time::Duration;

use clap::{
    builder::PossibleValuesParser,
    value_parser,
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    duration,
    table, //
};

use super::{
    flag,
    has_flag, //
};

/// Adds the options of a command whose answer is a table with these columns.
pub fn tabulates(command: Command, columns: &'static [&'static str]) -> Command {
    let interval = interval("Print a table every SECONDS, with the calls since the previous one");
    sorts(command, columns).arg(interval)
}

/// Adds the options of a command whose answer is a table with these columns, which is always that of the run so far.
pub fn tabulates_so_far(command: Command, columns: &'static [&'static str]) -> Command {
    let interval = interval("Print the table so far every SECONDS");
    sorts(command, columns).arg(interval)
}

fn interval(help: &'static str) -> Arg {
    Arg::new("interval")
        .long("interval")
        .short('i')
        .value_name("SECONDS")
        .value_parser(parse_interval)
        .help(help)
}

/// Adds the options of a command whose answer is a table with these columns, and has no intervals.
fn sorts(command: Command, columns: &'static [&'static str]) -> Command {
    command.args([
        svg(),
        Arg::new("sort")
            .long("sort")
            .value_name("COLUMN")
            .value_parser(PossibleValuesParser::new(columns))
            .help("Sort the rows by this column"),
        Arg::new("top")
            .long("top")
            .value_name("N")
            .value_parser(value_parser!(u64).range(1..))
            .help("Show only the first N rows, and the number of the others"),
        flag(
            "plain",
            "Print the answer as text even on a terminal, instead of a table that fills it",
        ),
    ])
}

/// The option of a picture.
pub fn svg() -> Arg {
    Arg::new("svg")
        .long("svg")
        .value_name("FILE")
        .help("Also draw the answer into FILE: stacks as a flame graph, and others as bars")
}

/// Parses the value of `-i`.
fn parse_interval(text: &str) -> std::result::Result<Duration, String> {
    match duration::parse(text, "s")? {
        0 => Err("an interval is longer than 0".into()),
        ns => Ok(Duration::from_nanos(ns)),
    }
}

/// The options of a table.
pub fn table(matches: &ArgMatches) -> table::Options<'_> {
    let top = matches.get_one::<u64>("top");
    table::Options {
        sort: matches.get_one::<String>("sort").map(String::as_str),
        top: top.map(|top| usize::try_from(*top).unwrap_or(usize::MAX)),
        interval: matches.try_get_one("interval").ok().flatten().copied(),
        image: matches.get_one("svg"),
        perfetto: matches.try_get_one("perfetto").ok().flatten(),
        heat: matches.try_get_one("heat").ok().flatten(),
        has_user_stack: has_flag(matches, "user-stack"),
    }
}

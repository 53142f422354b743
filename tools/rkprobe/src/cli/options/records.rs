// SPDX-License-Identifier: GPL-2.0

//! The options of an answer that is a stream of records: their number, and the parts of a record.

use clap::{
    value_parser,
    Arg,
    ArgAction,
    ArgMatches, //
};

use crate::stream;

use super::flag;

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
        .value_name("NAME=FETCHARG")
        .action(ArgAction::Append)
        .help("Also show a value, such as 'name=file:%pD'")
}

/// The fetch arguments of `--show`.
pub fn shown(matches: &ArgMatches) -> Vec<&str> {
    let all = matches.get_many::<String>("show").into_iter().flatten();
    all.map(String::as_str).collect()
}

/// The option of the kernel's functions.
pub fn stack() -> Arg {
    flag("stack", "Show the functions that led to it, one a line")
}

/// The option of the program's functions.
pub fn user_stack() -> Arg {
    flag(
        "user-stack",
        "Show the functions of the program that led to it, one a line",
    )
}

/// The option of the time of day.
pub fn time() -> Arg {
    flag("time", "Show the time of day and the CPU")
}

/// The option of a file for Perfetto.
pub fn perfetto() -> Arg {
    Arg::new("perfetto")
        .long("perfetto")
        .value_name("FILE")
        .help("Also write the calls into FILE, which ui.perfetto.dev opens")
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

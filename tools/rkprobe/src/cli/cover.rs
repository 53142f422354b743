// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe cover`.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::cover,
    context::Context,
    failure::Result, //
};

use super::options::{
    flag,
    functions,
    source,
    table::{
        table,
        tabulates_so_far, //
    },
    text,
    whom::traces, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(tabulates_so_far(
        Command::new("cover")
            .about("Which parts of functions ran, and which did not?")
            .arg(functions())
            .arg(source())
            .arg(
                Arg::new("lcov")
                    .long("lcov")
                    .value_name("FILE")
                    .help("Also write the lines that ran into FILE, for genhtml and editors"),
            )
            .arg(flag(
                "once",
                "Count each block only once, and disarm its probe then, so that only the first calls are slow",
            )),
        &["ran", "blocks", "name"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    cover::run(
        context,
        text(matches, "FUNCTIONS"),
        matches.get_flag("source"),
        matches.get_one("lcov"),
        matches.get_flag("once"),
        &table(matches),
    )
}

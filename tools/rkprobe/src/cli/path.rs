// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe path`.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::path::{
        self,
        Calls, //
    },
    context::Context,
    failure::Result, //
};

use super::options::{
    flag,
    functions,
    source,
    table::{
        table,
        tabulates, //
    },
    text,
    whom::traces, //
};

/// The groups of calls that can be compared.
const GROUPS: &str = "fails,succeeds";

/// The command and its options.
pub fn options() -> Command {
    traces(tabulates(
        Command::new("path")
            .about("Which way do calls take through a function, and where do those that fail leave it?")
            .arg(functions())
            .arg(flag("fails", "Only the calls that return an error"))
            .arg(
                Arg::new("diff")
                    .long("diff")
                    .value_name("GROUPS")
                    .value_parser([GROUPS])
                    .conflicts_with("fails")
                    .help("Only the calls that fail, with the place where they leave the way of those that succeed"),
            )
            .arg(source()),
        &["count", "name", "error"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let calls = match (matches.get_flag("fails"), matches.contains_id("diff")) {
        (true, _) => Calls::Fails,
        (_, true) => Calls::Diff,
        _ => Calls::All,
    };
    path::run(
        context,
        text(matches, "FUNCTIONS"),
        calls,
        matches.get_flag("source"),
        &table(matches),
    )
}

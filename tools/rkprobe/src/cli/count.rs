// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe count`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::count,
    context::Context,
    failure::Result, //
};

use super::options::{
    functions_or_events,
    groups::{
        by,
        divided_by, //
    },
    records::{
        buffer,
        user_stack, //
    },
    table::{
        table,
        tabulates, //
    },
    text,
    waits,
    whom::traces, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(tabulates(
        waits(Command::new("count"))
            .about("Which functions are called how often?")
            .arg(functions_or_events())
            .arg(by("Divide the calls by program name, thread, CPU or stack"))
            .arg(buffer().requires("user-stack"))
            .arg(user_stack().help("With --by stack: show the functions of the program, too")),
        &["count", "name", "group"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    count::run(
        context,
        text(matches, "FUNCTIONS"),
        divided_by(matches),
        &table(matches),
    )
}

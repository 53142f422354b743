// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe fails`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::fails,
    context::Context,
    failure::Result, //
};

use super::options::{
    functions,
    groups::{
        by,
        divided_by, //
    },
    records::{
        stack,
        user_stack, //
    },
    source,
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
        waits(Command::new("fails"))
            .about("Which functions return errors, which errors, how often, and to whom?")
            .arg(functions())
            .arg(by(
                "Divide the errors by who gets them: program name (the default), thread, CPU or stack",
            ))
            .args([source(), stack(), user_stack().conflicts_with("source")]),
        &["count", "name", "error", "group"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    fails::run(
        context,
        text(matches, "FUNCTIONS"),
        divided_by(matches),
        matches.get_flag("source"),
        matches.get_flag("stack"),
        &table(matches),
    )
}

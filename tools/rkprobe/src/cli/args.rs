// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe args`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::args,
    context::Context,
    failure::Result, //
};

use super::options::{
    functions,
    records::{
        buffer,
        number,
        show,
        shown,
        stack,
        stream,
        time,
        user_stack, //
    },
    text,
    waits,
    whom::traces, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(
        waits(Command::new("args"))
            .about("With which arguments are functions called?")
            .arg(functions())
            .args([number(), show(), stack(), user_stack(), time(), buffer()]),
    )
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    args::run(
        context,
        text(matches, "FUNCTIONS"),
        &shown(matches),
        &stream(matches),
    )
}

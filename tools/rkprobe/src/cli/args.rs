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
    functions_or_events,
    records::{
        more,
        of_calls,
        shown,
        stream, //
    },
    text,
    waits,
    whom::traces,
    word,
    words, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(
        waits(Command::new("args"))
            .about("With which arguments are functions called, or which values do variables have at a line?")
            .arg(functions_or_events())
            .arg(
                word(
                    "VARIABLES",
                    "Fields of trace events, or variables at a place in the source (FILE:LINE, FUNCTION:N, FUNCTION@FILE, \
                     FUNCTION%return, ...), such as file->f_flags or NAME=file->f_flags:x32. The default is all that can \
                     be read. A place needs debug information",
                )
                .required(false)
                .num_args(0..),
            )
            .args(of_calls()),
    )
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    args::run(
        context,
        text(matches, "FUNCTIONS"),
        &words(matches, "VARIABLES"),
        more(matches, &shown(matches)),
        &stream(matches),
        matches.get_one("perfetto"),
    )
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe slow`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::slow,
    context::Context,
    duration,
    failure::Result, //
};

use super::options::{
    functions,
    records::{
        more,
        of_calls,
        shown,
        stream, //
    },
    text,
    waits,
    whom::traces,
    word, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(
        waits(Command::new("slow"))
            .about("Which calls of functions take longer than a limit?")
            .arg(functions())
            .arg(
                word("LIMIT", "A duration, such as 10ms")
                    .value_parser(|text: &str| duration::parse(text, "ms")),
            )
            .args(of_calls()),
    )
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let limit = matches.get_one::<u64>("LIMIT").copied().unwrap_or(0);
    slow::run(
        context,
        text(matches, "FUNCTIONS"),
        limit,
        more(matches, &shown(matches)),
        &stream(matches),
        matches.get_one("perfetto"),
    )
}

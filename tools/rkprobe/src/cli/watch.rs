// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe watch`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::watch,
    context::Context,
    failure::Result, //
};

use super::options::{
    flag,
    records::{
        buffer,
        number,
        perfetto,
        stack,
        stream,
        time,
        user_stack, //
    },
    table::{
        table,
        tabulates, //
    },
    text,
    whom::traces,
    word, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(tabulates(
        Command::new("watch")
            .about("Who writes to a variable or to other memory of the kernel?")
            .arg(word(
                "MEMORY",
                "[MODULE:]SYMBOL[+OFFSET][:LENGTH] or ADDRESS[:LENGTH]",
            ))
            .arg(flag(
                "each",
                "Print each write with the new value (on arm64, the old one), instead of counting",
            )
            .conflicts_with_all(["svg", "sort", "top", "interval"]))
            .arg(number().requires("each").help("End after N writes"))
            .args([stack(), user_stack(), time(), perfetto(), buffer()].map(|arg| arg.requires("each"))),
        &["count", "name", "comm"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    watch::run(
        context,
        text(matches, "MEMORY"),
        matches.get_flag("each").then(|| stream(matches)).as_ref(),
        &table(matches),
    )
}

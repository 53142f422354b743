// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe exits`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::exits,
    context::Context,
    failure::Result, //
};

use super::options::{
    source,
    text,
    word, //
};

/// The command and its options.
pub fn options() -> Command {
    Command::new("exits")
        .about("Where does a function leave?")
        .arg(word(
            "FUNCTION",
            "A function of the kernel, or MODULE:FUNCTION",
        ))
        .arg(source())
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    exits::run(
        context,
        text(matches, "FUNCTION"),
        matches.get_flag("source"),
    )
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe list`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::list,
    context::Context,
    failure::Result, //
};

use super::options::{
    functions_or_events,
    text, //
};

/// The command and its options.
pub fn options() -> Command {
    Command::new("list")
        .about("Which functions can be probed, and why not the others?")
        .arg(functions_or_events())
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    list::run(context, text(matches, "FUNCTIONS"))
}

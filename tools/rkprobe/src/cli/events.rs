// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe events`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::events,
    context::Context,
    failure::Result, //
};

use super::options::flag;

/// The command and its options.
pub fn options() -> Command {
    Command::new("events")
        .about("Which events exist, where are they enabled, and what do they miss?")
        .arg(flag(
            "live",
            "If the output is a terminal, fill it with a table that changes each second",
        ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    events::run(context, matches.get_flag("live"))
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe names`.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::names,
    context::Context,
    failure::Result, //
};

use super::options::{
    text,
    word, //
};

/// The command and its options.
pub fn options() -> Command {
    Command::new("names")
        .about("Print names that a shell completes")
        .hide(true)
        .arg(word("KIND", "What has the names").value_parser([
            "events",
            "functions",
            "structures",
            "symbols",
        ]))
        .arg(Arg::new("PREFIX").help("How the names start"))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    names::run(context, text(matches, "KIND"), text(matches, "PREFIX"))
}

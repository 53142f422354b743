// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe vars`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::vars,
    context::Context,
    failure::Result, //
};

use super::options::{
    text,
    word, //
};

/// The command and its options.
pub fn options() -> Command {
    Command::new("vars")
        .about("Which variables can be read at a place in the source?")
        .arg(word(
            "PLACE",
            "FILE:LINE, the name of a function, FUNCTION:N for its Nth line after the declaration, FUNCTION+OFFSET, \
             FUNCTION%return for its returns, or FUNCTION%inline for its copies in others. FUNCTION@FILE is the function of \
             this file. MODULE: can be in front",
        ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    vars::run(context, text(matches, "PLACE"))
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe tree`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::tree,
    context::Context,
    failure::Result,
    trees, //
};

use super::options::{
    text,
    trees::{
        asked_trees,
        draws_trees, //
    },
    whom::traces,
    word, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(draws_trees(
        Command::new("tree")
            .about("What happens below the calls of a function?")
            .arg(word("ROOT", "The function whose calls are shown")),
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    tree::run(
        context,
        &asked_trees(matches, "tree", text(matches, "ROOT"), trees::Wanted::All),
    )
}

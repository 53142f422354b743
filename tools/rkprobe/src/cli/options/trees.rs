// SPDX-License-Identifier: GPL-2.0

//! The options of an answer that is call trees.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    places::Sought,
    stream,
    trees::{
        self,
        Question,
        Wanted, //
    }, //
};

use super::{
    records::{
        buffer,
        count,
        number,
        perfetto,
        time, //
    },
    table::svg,
    text, //
};

/// Adds the options of a command whose answer is call trees.
pub fn draws_trees(command: Command) -> Command {
    command.args([
        Arg::new("FUNCTIONS").value_name("FUNCTIONS").help(
            "The functions that are steps: a list as in other commands, or *N for the functions that direct calls reach, \
             to depth N. The default is all functions",
        ),
        number(),
        time(),
        svg().help("Also draw a flame graph of the functions' own time into FILE"),
        perfetto(),
        buffer(),
    ])
}

/// The question about call trees that the options ask.
pub fn asked_trees<'a>(
    matches: &'a ArgMatches,
    event: &'static str,
    root: &'a str,
    wanted: Wanted,
) -> Question<'a> {
    let functions = text(matches, "FUNCTIONS");
    let is_why = event == "why";
    let is_whole = !is_why || matches.get_flag("whole");
    Question {
        event,
        root,
        functions: match functions {
            "" => trees::ALL,
            functions => functions,
        },
        wanted,
        is_whole,
        is_late: false,
        options: stream::Options {
            count: count(matches),
            has_time: matches.get_flag("time"),
            ..stream::Options::default()
        },
        again: Sought {
            has_places: is_why && matches.get_flag("source"),
            has_ways: is_why && matches.get_flag("path"),
        },
        svg: matches.get_one("svg"),
        perfetto: matches.get_one("perfetto"),
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe leaks`.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::leaks,
    context::Context,
    duration,
    failure::Result, //
};

use super::options::{
    records::buffer,
    table::{
        table,
        tabulates_so_far, //
    },
    text,
    whom::traces,
    word, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(tabulates_so_far(
        Command::new("leaks")
            .about("Which objects have more gets than puts, and where are the gets without a put?")
            .arg(word(
                "STRUCT",
                "The type of the object: a structure, such as inode",
            ))
            .arg(buffer())
            .args([
                place("get", "The functions that get a reference, such as ihold"),
                place("put", "The functions that put a reference, such as iput").required(true),
                place(
                    "from",
                    "Count only objects that begin in these functions, each with its first reference",
                ),
                place("until", "The functions where an object ends"),
            ])
            .arg(
                Arg::new("older")
                    .long("older")
                    .value_name("TIME")
                    .value_parser(|text: &str| duration::parse(text, "s"))
                    .help("Only gets that have had no put for this time, such as 10s"),
            ),
        &["count", "name", "age"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let given = |name| matches.get_one::<String>(name).map(String::as_str);
    let asked = leaks::Asked {
        structure: text(matches, "STRUCT"),
        get: given("get"),
        put: text(matches, "put"),
        from: given("from"),
        until: given("until"),
        min_age: matches.get_one("older").copied().unwrap_or(0),
    };
    leaks::run(context, asked, &table(matches))
}

fn place(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FUNCTION[=FETCHARG],...")
        .help(help)
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe stuck`.

use clap::{
    value_parser,
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::stuck,
    context::Context,
    duration,
    failure::Result, //
};

use super::options::{
    flag,
    whom::duration_option, //
};

/// The command and its options.
pub fn options() -> Command {
    Command::new("stuck")
        .about("Which threads do not move, since when and where, and who holds the lock that they wait for?")
        .arg(
            Arg::new("PID")
                .value_name("PID")
                .num_args(0..)
                .value_parser(value_parser!(u32).range(1..))
                .help(
                    "Processes or threads. Without them, all threads that wait for a lock, or cannot be \
                     interrupted",
                ),
        )
        .arg(
            Arg::new("min")
                .long("for")
                .value_name("TIME")
                .value_parser(|text: &str| duration::parse(text, "s"))
                .help("Only threads that wait for at least this time, such as 10s"),
        )
        .args([
            flag("stack", "Show the functions in which the threads wait, one per line"),
            flag("until-it-moves", "Afterwards, wait until these calls return"),
        ])
        .arg(duration_option().requires("until-it-moves"))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let asked = stuck::Asked {
        pids: matches
            .get_many("PID")
            .into_iter()
            .flatten()
            .copied()
            .collect(),
        min: matches.get_one("min").copied().unwrap_or(0),
        has_stack: matches.get_flag("stack"),
        until_moves: matches.get_flag("until-it-moves"),
        is_dry: matches.get_flag("dry-run"),
    };
    stuck::run(context, &asked)
}

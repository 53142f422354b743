// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe why`.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::why,
    context::Context,
    duration,
    errno,
    failure::{
        Failure,
        Result, //
    },
    syscalls,
    trees, //
};

use super::options::{
    flag,
    records::count,
    text,
    trees::{
        asked_trees,
        draws_trees, //
    },
    whom::traces, //
};

/// The value of `--fails` for all errors.
const ANY: &str = "any error";

/// The command and its options.
pub fn options() -> Command {
    traces(draws_trees(
        Command::new("why")
            .about("Why do calls fail, or take so long?")
            .arg(
                Arg::new("ROOT")
                    .value_name("ROOT")
                    .required_unless_present_any(["COMMAND", "pid", "comm", "cgroup"])
                    .help(
                        "The function whose calls fail or are slow. Without it, all system calls of COMMAND, or \
                         of the tasks that -p, --comm or --cgroup choose",
                    ),
            )
            .arg(
                Arg::new("fails")
                    .long("fails")
                    .value_name("ERROR")
                    .num_args(0..=1)
                    .default_missing_value(ANY)
                    .help("Only calls that return this error, such as EACCES. The default is any error"),
            )
            .arg(
                Arg::new("slow")
                    .long("slow")
                    .value_name("TIME")
                    .value_parser(|text: &str| duration::parse(text, "ms"))
                    .conflicts_with("fails")
                    .help("Only calls that take longer than this, such as 10ms"),
            )
            .args([
                flag("whole", "Show all steps, instead of only those that explain the failure or the time"),
                flag(
                    "all",
                    "Show each failure of a command as a tree, instead of only those that most likely made it fail",
                ),
                flag(
                    "source",
                    "Run the command a second time, without its output, to find where the functions return the \
                     errors: source lines, if the kernel's debug information is present",
                )
                .requires("COMMAND"),
                flag(
                    "path",
                    "Run the command a second time, without its output, to find where the calls that fail leave the \
                     way of those that succeed",
                )
                .requires("COMMAND"),
            ]),
    ))
}

/// Asks why calls fail or are slow.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let wanted = match (
        matches.get_one::<u64>("slow"),
        matches.get_one::<String>("fails"),
    ) {
        (Some(ns), _) => trees::Wanted::Slow(*ns),
        (_, Some(name)) if name != ANY => {
            trees::Wanted::Failed(Some(errno::number(name).map_err(Failure::new)?))
        }
        _ => trees::Wanted::Failed(None),
    };
    let shows_all = matches.get_flag("all");
    let root = text(matches, "ROOT");
    let question = |root| asked_trees(matches, "why", root, wanted);
    match root {
        "" => {
            let is_late = count(matches).is_none() && !context.whom.command.is_empty();
            let question = trees::Question {
                is_late,
                ..question(syscalls::ALL)
            };
            why::run(context, &question, shows_all)
        }
        root => {
            let question = question(root);
            let is_late = question.again.is_any();
            why::run(
                context,
                &trees::Question {
                    is_late,
                    ..question
                },
                shows_all,
            )
        }
    }
}

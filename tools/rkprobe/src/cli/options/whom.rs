// SPDX-License-Identifier: GPL-2.0

//! Whom a run traces, and how long.

use std::ffi::OsString;

use clap::{
    value_parser,
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    duration,
    failure::Result,
    whom::{
        Options,
        Whom, //
    }, //
};

use super::flag;

/// The option of the duration of the run.
pub fn duration_option() -> Arg {
    Arg::new("duration")
        .long("duration")
        .short('d')
        .value_name("TIME")
        .value_parser(|text: &str| duration::parse(text, "s"))
        .help("End the run after this time: 10, 500ms, 2m. Without this option, ctrl-C ends it")
}

/// Adds the options of a command that traces: when it ends, and whom it traces.
pub fn traces(command: Command) -> Command {
    const HEADING: &str = "Whom";

    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .help_heading(HEADING)
            .help(help)
    };
    command
        .arg(duration_option())
        .arg(
            text(
                "pid",
                "PID,...",
                "Only these processes. The run ends when they have ended",
            )
            .short('p')
            .value_delimiter(',')
            .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            flag("children", "With -p: also their children, now and later")
                .requires("pid")
                .help_heading(HEADING),
        )
        .arg(text(
            "comm",
            "GLOB",
            "Only tasks with this name, which can have *, ? and [...]",
        ))
        .arg(text(
            "cgroup",
            "PATH",
            "Only tasks of this cgroup and of those below it",
        ))
        .arg(text(
            "cpu",
            "LIST",
            "Only calls on these CPUs, such as 0,2-3",
        ))
        .arg(text(
            "if",
            "CONDITION",
            "Only calls that fulfil this condition, in the language of the module's commands, such as 'count > 100'",
        ))
        .arg(
            Arg::new("COMMAND")
                .value_name("COMMAND")
                .last(true)
                .num_args(1..)
                .conflicts_with("pid")
                .value_parser(value_parser!(OsString))
                .help("Start this command, trace it and its children, and end with it"),
        )
}

/// Whom the options of a command choose.
pub fn whom(matches: &ArgMatches) -> Result<Whom> {
    // The other commands lack these options.
    let Ok(Some(with_children)) = matches.try_get_one::<bool>("children") else {
        return Ok(Whom::default());
    };
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    Whom::new(Options {
        processes: matches
            .get_many("pid")
            .into_iter()
            .flatten()
            .copied()
            .collect(),
        with_children: *with_children,
        comm: text("comm"),
        cgroup: text("cgroup"),
        cpus: text("cpu"),
        condition: text("if"),
        command: matches
            .get_many("COMMAND")
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
    })
}

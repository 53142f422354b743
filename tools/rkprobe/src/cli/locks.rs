// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe locks`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::locks,
    context::Context,
    failure::Result, //
};

use super::options::{
    flag,
    groups::{
        by_task,
        task, //
    },
    least,
    records::{
        buffer,
        perfetto, //
    },
    table::{
        table,
        tabulates, //
    },
    whom::traces, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(tabulates(
        Command::new("locks")
            .about("Who waits for which mutex or semaphore, how long, and who holds it?")
            .arg(flag("stack", "Count each stack on its own"))
            .args([buffer(), perfetto()])
            .arg(by_task(
                ["comm", "pid", "cpu", "holder"],
                "Divide the waits for a holder by program name (the default), thread or CPU. The value holder does not divide them",
            ))
            .arg(least()),
        &["total", "count", "name", "holder", "place", "avg", "max"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let asked = locks::Asked {
        by: task(matches),
        with_stack: matches.get_flag("stack"),
        min: matches.get_one("min").copied().unwrap_or(0),
    };
    locks::run(context, asked, &table(matches))
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe net`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::net,
    context::Context,
    failure::Result, //
};

use super::options::{
    groups::{
        by_task,
        task, //
    },
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
        Command::new("net")
            .about(
                "Which programs make and accept TCP connections, what is sent again, and what is dropped?",
            )
            .args([buffer(), perfetto()])
            .arg(by_task(
                ["comm", "pid", "cpu", "place"],
                "Divide the connections to a place by program name (the default), thread or CPU. The value place does not divide them",
            )),
        &["count", "name", "place", "avg", "max"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    net::run(context, task(matches), &table(matches))
}

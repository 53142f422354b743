// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe disk`.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::disk,
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
        Command::new("disk")
            .about("Which programs make requests of disks, and how long do these take?")
            .arg(
                Arg::new("disk")
                    .long("disk")
                    .value_name("GLOB")
                    .help("Only disks with this name, which can have *, ? and [...]"),
            )
            .args([buffer(), perfetto()])
            .arg(by_task(
                ["comm", "pid", "cpu", "disk"],
                "Divide the requests to a disk by program name (the default), thread or CPU. The value disk does not divide them",
            )),
        &[
            "total", "count", "disk", "name", "bytes", "queued", "p50", "p99", "max",
        ],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    disk::run(
        context,
        matches.get_one::<String>("disk").map(String::as_str),
        task(matches),
        &table(matches),
    )
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe offcpu`.

use clap::{
    ArgMatches,
    Command, //
};

use crate::{
    commands::offcpu,
    context::Context,
    failure::Result, //
};

use super::options::{
    flag,
    least,
    table::{
        table,
        tabulates, //
    },
    whom::traces, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(tabulates(
        Command::new("offcpu")
            .about("Where do threads wait, and how long?")
            .arg(flag(
                "threads",
                "Count each thread on its own, instead of each program name",
            ))
            .arg(flag("kernel", "Also count the threads of the kernel"))
            .arg(least()),
        &["total", "count", "name", "avg", "max"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let asked = offcpu::Asked {
        by_thread: matches.get_flag("threads"),
        with_kernel: matches.get_flag("kernel"),
        min: matches.get_one("min").copied().unwrap_or(0),
    };
    offcpu::run(context, asked, &table(matches))
}

// SPDX-License-Identifier: GPL-2.0

//! How calls are divided, by tasks and by buckets.

use clap::{
    Arg,
    ArgMatches, //
};

use crate::{
    by::By,
    spread::Scale, //
};

/// The option that divides calls.
pub fn by(help: &'static str) -> Arg {
    Arg::new("by")
        .long("by")
        .value_name("WHAT")
        .value_parser(["comm", "pid", "cpu", "stack"])
        .help(help)
}

/// The option of a question about tasks. The last of its values makes rows that are not divided by tasks.
pub fn by_task(values: [&'static str; 4], help: &'static str) -> Arg {
    by(help).value_parser(values)
}

/// The value of `--by`. `None` without the option, or if the value is no property of a task.
pub fn divided_by(matches: &ArgMatches) -> Option<By> {
    By::parse(matches.get_one::<String>("by")?)
}

/// The value of `--by` in a question about tasks, whose rows are divided by the name of the task without it.
pub fn task(matches: &ArgMatches) -> Option<By> {
    match matches.contains_id("by") {
        true => divided_by(matches),
        false => Some(By::Comm),
    }
}

/// The buckets of a histogram.
pub fn scale(matches: &ArgMatches) -> Scale {
    matches.get_one("buckets").cloned().unwrap_or(Scale::Log2)
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe hist`.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::hist,
    context::Context,
    failure::Result,
    spread::Scale, //
};

use super::options::{
    functions_or_events,
    groups::{
        by,
        divided_by,
        scale, //
    },
    table::{
        table,
        tabulates, //
    },
    text,
    waits,
    whom::traces,
    word, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(tabulates(
        waits(Command::new("hist"))
            .about("How are the values of an argument or of the result of functions distributed?")
            .arg(functions_or_events())
            .arg(word(
                "VALUE",
                "A number: a parameter, $retval, or another fetch argument such as 'file->f_inode->i_size'. Of a trace \
                 event: a field. At a place in the source (FILE:LINE, FUNCTION:N, ...): a variable there",
            ))
            .arg(
                Arg::new("buckets")
                    .long("buckets")
                    .value_name("NUMBER,...")
                    .value_parser(Scale::parse_numbers)
                    .help(
                        "The rows of the histogram begin at 0 and at these values: 512,4096. One number is the \
                         width of all rows",
                    ),
            )
            .arg(by(
                "One histogram for each program name, thread, CPU or stack",
            )),
        &["count", "name", "avg", "total", "p50", "p99", "max"],
    ))
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let asked = hist::Asked {
        functions: text(matches, "FUNCTIONS"),
        value: text(matches, "VALUE"),
        by: divided_by(matches),
        scale: scale(matches),
    };
    hist::run(context, &asked, &table(matches))
}

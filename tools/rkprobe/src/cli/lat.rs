// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe lat`.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::{
        between,
        lat, //
    },
    context::Context,
    failure::Result,
    spread::Scale, //
};

use super::options::{
    functions,
    groups::{
        by,
        divided_by,
        scale, //
    },
    keyword,
    records::{
        buffer,
        perfetto, //
    },
    table::{
        table,
        tabulates, //
    },
    text,
    until,
    waits,
    whom::traces, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(tabulates(
        waits(Command::new("lat"))
            .about("How long do calls of functions take, or how long does an object take from one function to another?")
            .override_usage(
                "rkprobe lat [OPTIONS] FUNCTIONS [-- COMMAND...]\n       \
                 rkprobe lat [OPTIONS] STRUCT from FUNCTION until FUNCTION [-- COMMAND...]",
            )
            .arg(functions())
            .args([buffer(), perfetto()].map(|arg| arg.requires("from")))
            .args(from_until())
            .arg(
                Arg::new("buckets")
                    .long("buckets")
                    .value_name("TIME,...")
                    .value_parser(Scale::parse)
                    .conflicts_with("heat")
                    .help(
                        "The rows of the histogram end at these durations: 1ms,5ms,20ms. One duration is the \
                         width of all rows",
                    ),
            )
            .arg(by(
                "One histogram for each program name, thread, CPU or stack",
            ))
            .arg(
                Arg::new("heat")
                    .long("heat")
                    .value_name("FILE")
                    .help("Also draw a heat map into FILE: the durations in each second, or in each interval of -i"),
            ),
        &["count", "name", "avg", "total", "p50", "p99", "max"],
    ))
}

/// The words of `lat STRUCT from FUNCTION until FUNCTION`, and the options about the object.
fn from_until() -> [Arg; 6] {
    let function =
        |name: &'static str, help: &'static str| Arg::new(name).value_name(name).help(help);
    let object = |name: &'static str, long: &'static str, help: &'static str| {
        Arg::new(name)
            .long(long)
            .value_name("FETCHARG")
            .requires("from")
            .help(help)
    };
    [
        keyword(
            "from",
            "several functions have commas between them; for the time of an object, here comes \"from\"",
        )
        .requires("END")
        .help("The word \"from\". FUNCTIONS is then the type of the object: a structure, such as request"),
        function(
            "START",
            "The first function that returns or receives the object",
        ),
        until(),
        function("END", "The last function that returns or receives the object"),
        object(
            "object",
            "object",
            "The object at START, instead of the one that BTF suggests: a parameter, or $retval",
        ),
        object("end-object", "end", "The object at END"),
    ]
}

/// Asks how long calls take, or objects from one function to another.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let (by, scale) = (divided_by(matches), scale(matches));
    let given = |name| matches.get_one::<String>(name).map(String::as_str);
    let first = text(matches, "FUNCTIONS");
    let (Some(from), Some(until)) = (given("START"), given("END")) else {
        return lat::run(context, first, by, scale, &table(matches));
    };
    let asked = between::Asked {
        structure: first,
        from,
        until,
        object: given("object"),
        end: given("end-object"),
        by,
        scale,
    };
    between::run(context, asked, &table(matches))
}

// SPDX-License-Identifier: GPL-2.0

//! The options of `rkprobe follow`.

use clap::{
    Arg,
    ArgMatches,
    Command, //
};

use crate::{
    commands::follow,
    context::Context,
    failure::Result, //
};

use super::options::{
    flag,
    keyword,
    records::{
        buffer,
        count,
        number,
        perfetto,
        show,
        shown,
        time, //
    },
    text,
    until,
    whom::traces,
    word, //
};

/// The command and its options.
pub fn options() -> Command {
    traces(
        Command::new("follow")
            .about("What happens to an object, from its start to its end?")
            .override_usage(
                "rkprobe follow [OPTIONS] STRUCT from PLACE [until PLACE] [-- COMMAND...]",
            )
            .arg(word(
                "STRUCT",
                "The type of the object: a structure, such as inode",
            ))
            .arg(
                keyword(
                    "from",
                    "here comes \"from\", and after it the function or the line where the object starts",
                )
                .required(true)
                .help("The word \"from\""),
            )
            .arg(word(
                "START",
                "The function that returns or receives a new object, or a source line that has it in a variable",
            ))
            .arg(until().requires("END"))
            .arg(
                Arg::new("END")
                    .value_name("END")
                    .help("The last function that returns or receives the object, or a source line that has it in a variable"),
            )
            .arg(
                Arg::new("object")
                    .long("object")
                    .value_name("FETCHARG")
                    .help("The object at START, instead of the one that BTF suggests: a parameter, or $retval"),
            )
            .arg(
                Arg::new("end-object")
                    .long("end")
                    .value_name("FETCHARG")
                    .requires("END")
                    .help("The object at END"),
            )
            .arg(
                Arg::new("only")
                    .long("only")
                    .value_name("PATTERN,...")
                    .help("Show only the calls of these functions"),
            )
            .args([time(), buffer()])
            .arg(show().help("Show a value at each call, such as 'mode=$obj->i_mode:x16'"))
            .arg(
                flag(
                    "changes",
                    "Show a call only if a value of --show has changed",
                )
                .requires("show"),
            )
            .arg(perfetto().help("Also write the steps into FILE, which ui.perfetto.dev opens"))
            .arg(
                number()
                    .requires("END")
                    .help("End after N objects have ended"),
            ),
    )
}

/// Asks the question of the options.
pub fn ask(context: &Context, matches: &ArgMatches) -> Result {
    let given = |name| matches.get_one::<String>(name).map(String::as_str);
    let question = follow::Question {
        structure: text(matches, "STRUCT"),
        from: text(matches, "START"),
        until: given("END"),
        object: given("object"),
        end: given("end-object"),
        only: given("only"),
        fields: shown(matches),
        only_changes: matches.get_flag("changes"),
        count: count(matches),
        has_time: matches.get_flag("time"),
        perfetto: matches.get_one("perfetto"),
    };
    follow::run(context, &question)
}

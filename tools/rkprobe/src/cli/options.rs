// SPDX-License-Identifier: GPL-2.0

//! The options that several commands share. Those of a subject are in a file below this one.

use std::{
    ffi::OsStr,
    iter, //
};

use clap::{
    builder::{
        PossibleValue,
        TypedValueParser, //
    },
    error::ErrorKind,
    Arg,
    ArgAction,
    ArgMatches,
    Command, //
};

use crate::duration;

pub mod groups;
pub mod records;
pub mod table;
pub mod trees;
pub mod whom;

/// An option without a value.
pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

/// A word that a command needs.
pub fn word(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(name).required(true).help(help)
}

/// A fixed word between two others. If another word is in its place, the error says what is `expected`.
pub fn keyword(word: &'static str, expected: &'static str) -> Arg {
    Arg::new(word)
        .value_name(word)
        .value_parser(Keyword { word, expected })
        .hide_possible_values(true)
}

/// The word before the function where the object ends.
pub fn until() -> Arg {
    let expected = "here comes \"until\", and after it the function where the object ends";
    keyword("until", expected).help("The word \"until\"")
}

#[derive(Clone)]
struct Keyword {
    word: &'static str,
    expected: &'static str,
}

impl TypedValueParser for Keyword {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        given: &OsStr,
    ) -> Result<String, clap::Error> {
        if given == self.word {
            return Ok(self.word.into());
        }
        let text = format!("{}: {}\n", given.to_string_lossy(), self.expected);
        Err(clap::Error::raw(ErrorKind::InvalidValue, text).with_cmd(command))
    }

    /// For the completion of a shell.
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(iter::once(PossibleValue::new(self.word))))
    }
}

/// The help for a list of functions.
const FUNCTIONS: &str = "Names of functions, and patterns with *, ? and [...], with commas between them. MODULE: in \
    front chooses a module, and ! excludes: 'vfs_*,!vfs_stat*'. FUNCTION@FILE is the function that this file defines";

/// The functions or the trace events of a command.
pub fn functions_or_events() -> Arg {
    functions().help(format!(
        "{FUNCTIONS}. Or trace events, as SYSTEM:NAME: 'sched:*,!sched:sched_stat*'"
    ))
}

/// The functions of a command that can have several.
pub fn functions() -> Arg {
    word("FUNCTIONS", FUNCTIONS)
}

/// Adds the option of a command that can wait for a module.
pub fn waits(command: Command) -> Command {
    command.arg(flag(
        "wait",
        "Wait for the module of MODULE:FUNCTION if it is not loaded",
    ))
}

/// The option of a question about waits.
pub fn least() -> Arg {
    Arg::new("min")
        .long("min")
        .value_name("TIME")
        .value_parser(|text: &str| duration::parse(text, "ms"))
        .help("Only waits of at least this duration, such as 10ms")
}

/// The option of an answer that can have source lines.
pub fn source() -> Arg {
    flag(
        "source",
        "Show source lines, from the debug information of the kernel",
    )
}

/// The text of a word or of an option. Empty without it.
pub fn text<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.get_one::<String>(name).map_or("", |text| text)
}

/// The words of an argument that can have several.
pub fn words<'a>(matches: &'a ArgMatches, name: &str) -> Vec<&'a str> {
    let all = matches.get_many::<String>(name).into_iter().flatten();
    all.map(String::as_str).collect()
}

/// Whether a flag is given, which other commands may lack.
pub fn has_flag(matches: &ArgMatches, name: &str) -> bool {
    matches
        .try_get_one(name)
        .is_ok_and(|value| value == Some(&true))
}

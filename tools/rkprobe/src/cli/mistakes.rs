// SPDX-License-Identifier: GPL-2.0

//! What the user may have meant by a command line with an unknown word.

use std::borrow::Cow;

use clap::{
    error::{
        ContextKind,
        ContextValue,
        ErrorKind, //
    },
    Arg,
    Command,
    Error, //
};

use crate::similar::similar;

/// How many commands a message names.
const MOST: usize = 4;

/// Adds what the user may have meant to clap's error. `all` has the commands and their options,
/// and `words` is the command line.
pub fn advise(mut error: Error, mut all: Command, words: &[Cow<'_, str>]) -> Error {
    all.build();
    if let Some(name) = context(&error, ContextKind::InvalidSubcommand) {
        if context(&error, ContextKind::SuggestedSubcommand).is_none() {
            let names = shown(&all).map(Command::get_name);
            let names = similar(&name, names, 1).into_iter().map(String::from);
            let names: Vec<String> = names.collect();
            if !names.is_empty() {
                error.insert(
                    ContextKind::SuggestedSubcommand,
                    ContextValue::Strings(names),
                );
            }
        }
        return error;
    }
    let Some(option) = context(&error, ContextKind::InvalidArg) else {
        return error;
    };
    let command = words.iter().find_map(|word| all.find_subcommand(&**word));
    let Some(command) = command.filter(|_| is_unknown_option(&error, &option)) else {
        return error;
    };
    // The text that clap suggests would start a program with the name of the option.
    error.remove(ContextKind::Suggested);
    let tips = tips(&option, command, &all);
    if !tips.is_empty() {
        error.remove(ContextKind::SuggestedArg);
        let tips = tips.into_iter().map(Into::into).collect();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    } else if error.get(ContextKind::SuggestedArg).is_none() {
        let names = command.get_arguments().filter_map(Arg::get_long);
        if let [name] = similar(option.trim_start_matches('-'), names, 1)[..] {
            let name = ContextValue::String(format!("--{name}"));
            error.insert(ContextKind::SuggestedArg, name);
        }
    }
    error
}

fn is_unknown_option(error: &Error, option: &str) -> bool {
    error.kind() == ErrorKind::UnknownArgument && option.starts_with('-')
}

/// A word of the error. `None` if it is empty.
fn context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(word) => Some(word.clone()),
        ContextValue::Strings(words) => words.first().cloned(),
        _ => None,
    }
}

/// The commands that the help lists.
fn shown(all: &Command) -> impl Iterator<Item = &Command> {
    all.get_subcommands()
        .filter(|command| !command.is_hide_set())
}

fn has(command: &Command, option: &str) -> bool {
    command.get_arguments().any(|arg| {
        let is_short = |short| option == format!("-{short}");
        let is_long = |long| option == format!("--{long}");
        arg.get_short().is_some_and(is_short) || arg.get_long().is_some_and(is_long)
    })
}

/// Which other commands have the option, and which option of this command has its name as a value.
fn tips(option: &str, command: &Command, all: &Command) -> Vec<String> {
    let name = command.get_name();
    if has(command, option) {
        return vec![format!("{option} comes after {name}")];
    }
    let value = option.trim_start_matches('-');
    let has_value = |arg: &&Arg| {
        let values = arg.get_possible_values();
        values.iter().any(|of| of.get_name() == value)
    };
    let longs = command.get_arguments().filter(has_value);
    let as_value = longs.filter_map(Arg::get_long);
    let mut tips: Vec<String> = as_value
        .map(|long| format!("'--{long} {value}' exists"))
        .collect();
    let others: Vec<&str> = shown(all)
        .filter(|command| has(command, option))
        .map(Command::get_name)
        .collect();
    let more = match others.len() > MOST {
        true => " and others",
        false => "",
    };
    if !others.is_empty() {
        let others = others[..others.len().min(MOST)].join(", ");
        tips.push(format!(
            "{option} is an option of {others}{more}, not of {name}"
        ));
    }
    tips
}

// SPDX-License-Identifier: GPL-2.0

//! Commands for probes: their syntax, and the kernel's answer to them.

use probe::{
    command::{
        EventsFile,
        Line, //
    },
    error::ErrorKind, //
};

use crate::{
    btf,
    failure::{
        Failure,
        Result, //
    },
    similar::similar,
    tracefs::{
        Tracefs,
        EVENTS, //
    }, //
};

/// Checks the syntax of a command. The error has the caret that the kernel's error log would have.
pub fn check_syntax(command: &str) -> Result {
    let error = match EventsFile::DynamicEvents.parse(command) {
        Ok(Line::Create(parsed)) => match parsed.name(|_| 0) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        },
        Ok(_) => return Err(Failure::new(format!("{command} makes no probe"))),
        Err(error) => error,
    };
    Err(Failure::new(error.entry(command).to_string()))
}

/// Whether the kernel refused a probe because the function returns nothing. Its error number, ENOENT, does not tell: it
/// has this number for a function that it cannot trace, too.
pub fn returns_nothing(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(text, _) if text.starts_with(ErrorKind::NoRetval.text()))
}

/// The most calls in flight for which `r` can have memory.
pub const MAXACTIVE: u32 = 4096;

/// The commands for a probe at the return of a function, without arguments, the best first.
///
/// `f` has memory for all calls in flight. But it would probe all functions of the name, and not the function of a
/// module that is loaded again.
pub fn at_return(name: &str, group: &str, event: &str) -> Vec<String> {
    let by_ftrace = format!("f:{group}/{event} {name}%return");
    let by_kretprobe = format!("r{MAXACTIVE}:{group}/{event} {name}");
    match name.contains([':', '+', '%']) {
        true => vec![by_kretprobe],
        false => vec![by_ftrace, by_kretprobe],
    }
}

/// The commands of [`at_return`] for a probe whose stack matters. The stack of `f` can end early, at a caller whose
/// frame depends on a register that ftrace does not save, and on arm64 it lacks the caller. That of `r` is whole.
pub fn at_return_with_stack(name: &str, group: &str, event: &str) -> Vec<String> {
    let mut commands = at_return(name, group, event);
    commands.reverse();
    commands
}

/// The commands for a probe at the entry of a function, without arguments, the best first: see [`at_return`].
pub fn at_entry(name: &str, group: &str, event: &str) -> Vec<String> {
    let by_kprobe = format!("p:{group}/{event} {name}");
    match name.contains([':', '+', '%']) {
        true => vec![by_kprobe],
        false => vec![format!("f:{group}/{event} {name}"), by_kprobe],
    }
}

/// A failure that names similar names.
pub fn no_such<'s>(what: &str, name: &str, names: impl Iterator<Item = &'s str>) -> Failure {
    let mut text = format!("the kernel has no {what} {name}");
    let names = similar(name, names.filter(|name| !name.is_empty()), 3);
    if !names.is_empty() {
        text += &format!("; similar: {}", names.join(", "));
    }
    Failure::new(text)
}

/// Checks the syntax of all commands of [`define_all`].
pub fn check_all(probes: &[Vec<String>]) -> Result {
    probes
        .iter()
        .flatten()
        .try_for_each(|command| check_syntax(command))
}

/// Defines several probes, each by the first of its commands that the kernel accepts.
pub fn define_all(tracefs: &Tracefs, probes: &[Vec<String>]) -> Result {
    probes
        .iter()
        .try_for_each(|commands| define(tracefs, commands))
}

/// Defines a probe by the first of the commands that the kernel accepts. The last command's error counts.
///
/// All commands are checked for their syntax before one is written.
pub fn define(tracefs: &Tracefs, commands: &[String]) -> Result {
    for command in commands {
        check_syntax(command)?;
    }
    let mut result = Ok(());
    for command in commands {
        match tracefs.append(EVENTS, command) {
            Ok(()) => return Ok(()),
            Err(error) => {
                let text =
                    last_error(tracefs, command).unwrap_or_else(|| format!("{command}: {error}"));
                result = Err(Failure::Refused(text, error.kind()));
            }
        }
    }
    result
}

/// The newest entry of the error log, if it is about the command.
fn last_error(tracefs: &Tracefs, command: &str) -> Option<String> {
    let log = tracefs
        .read("rkprobe_error_log")
        .or_else(|_| tracefs.read("error_log"));
    newest(&log.ok()?, command)
}

fn newest(log: &str, command: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let [.., error, about, caret] = lines[..] else {
        return None;
    };
    let (_, error) = error.split_once("error: ")?;
    (about.trim_start().strip_prefix("Command: ")? == command)
        .then(|| format!("{error}\n{about}\n{caret}"))
}

/// The failure with only the word of the command line in which its error is, because the user has
/// not written the rest of the probe's command, and with the parameters that a wrong name may mean.
pub fn in_words(failure: Failure, words: &[String]) -> Failure {
    let in_words = |text: String| shorten(&text, words, parameters).unwrap_or(text);
    match failure {
        Failure::Message(text) => Failure::Message(in_words(text)),
        Failure::Refused(text, kind) => Failure::Refused(in_words(text), kind),
        Failure::ClosedPipe => failure,
    }
}

/// The parameters of what a probe takes for a function.
fn parameters(target: &str) -> Vec<String> {
    let (module, function) = match target.split_once(':') {
        Some((module, function)) => (Some(module), function),
        None => (None, target),
    };
    let function = function.split(['+', '%']).next().unwrap_or(function);
    btf::with(module, |btf| {
        let found = btf.function(function);
        let names = found.iter().flat_map(|function| function.params());
        names.map(|param| param.name.into()).collect()
    })
    .unwrap_or_default()
}

/// Whether no letter or digit comes directly before or after a part of a command.
fn is_whole(command: &str, start: usize, part: &str) -> bool {
    let is_inner =
        |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (before, rest) = command.split_at(start);
    let after = &rest[part.len()..];
    !(is_inner(part.chars().next()) && is_inner(before.chars().next_back())
        || is_inner(part.chars().next_back()) && is_inner(after.chars().next()))
}

/// `None` if the text has no command with a caret, or the user has not written the word at it.
fn shorten(
    text: &str,
    words: &[String],
    parameters: impl Fn(&str) -> Vec<String>,
) -> Option<String> {
    let [error, about, caret] = text.lines().collect::<Vec<_>>()[..] else {
        return None;
    };
    let command = about.trim_start().strip_prefix("Command: ")?;
    let at = caret.find('^')?.checked_sub(about.len() - command.len())?;
    let values = words.iter().filter_map(|word| word.split_once('='));
    let all = words.iter().map(|word| &**word);
    let places = all.chain(values.map(|(_, value)| value)).flat_map(|word| {
        let starts = command.match_indices(word).map(|(start, _)| start);
        starts
            .filter(|start| is_whole(command, *start, word))
            .map(move |start| (start, word))
    });
    let (start, word) = places
        .filter(|(start, word)| (*start..=start + word.len()).contains(&at) && !word.is_empty())
        .max_by_key(|(_, word)| word.len())?;
    let mut error = error.to_string();
    if error == ErrorKind::NoBtfarg.text() {
        let is_end = |character: char| !character.is_alphanumeric() && character != '_';
        let name = command.get(at..)?.split(is_end).next()?;
        let parameters = parameters(command.split(' ').nth(1)?);
        let names = similar(name, parameters.iter().map(|name| &**name), 3);
        if !names.is_empty() {
            error += &format!("; similar: {}", names.join(", "));
        }
    }
    Some(format!("{error}\n  {word}\n  {:1$}^", "", at - start))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn shows_the_caret_of_a_syntax_error() {
        for command in [
            "p:a/b vfs_read x=%ax",
            "r:a/b vfs_read",
            "f:a/b vfs_*%return",
        ] {
            assert!(check_syntax(command).is_ok(), "{command}");
        }
        let Err(Failure::Message(text)) = check_syntax("r0 vfs_read") else {
            panic!();
        };
        assert_eq!(
            text,
            "Invalid maxactive number\n  Command: r0 vfs_read\n            ^\n"
        );
        assert!(check_syntax("-:a/b").is_err());
    }

    #[test]
    fn a_return_probe_has_memory_for_all_calls_if_it_can() {
        let commands = |name| at_return(name, "g", "e");
        assert_eq!(
            commands("vfs_read"),
            ["f:g/e vfs_read%return", "r4096:g/e vfs_read"]
        );
        let whole = at_return_with_stack("vfs_read", "g", "e");
        assert_eq!(whole[0], "r4096:g/e vfs_read");
        assert_eq!(commands("name_show%all"), ["r4096:g/e name_show%all"]);
        assert_eq!(commands("a:b"), ["r4096:g/e a:b"]);
        for command in commands("vfs_read") {
            assert!(check_syntax(&command).is_ok(), "{command}");
        }
    }

    #[test]
    fn an_error_is_in_the_word_of_the_user() {
        let command = "f:g/count vfs_write by func if (coumt == 777) && common_pid != 3";
        let shown = |error: &str, at: usize, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            let text = format!("{error}\n  Command: {command}\n           {:at$}^\n", "");
            shorten(&text, &words, |target| {
                assert_eq!(target, "vfs_write");
                vec!["file".into(), "count".into()]
            })
        };
        let unknown = ErrorKind::NoBtfarg.text();
        let expected = format!("{unknown}; similar: count\n  coumt == 777\n  ^");
        let at = command.find("coumt").unwrap();
        for words in [
            &["count", "vfs_write", "--if", "coumt == 777", "-d", "3"][..],
            &["count", "vfs_write", "--if=coumt == 777"],
        ] {
            assert_eq!(shown(unknown, at, words).as_ref(), Some(&expected));
        }
        assert_eq!(
            shown("Bad", at + 6, &["coumt == 777"]).unwrap(),
            "Bad\n  coumt == 777\n        ^"
        );
        assert_eq!(shown("Bad", at, &["vfs_write", "3", ""]), None);
        for part in ["c", "t", "coum"] {
            assert_eq!(shown("Bad", at, &[part]), None, "{part}");
        }
        assert_eq!(shorten("Bad", &["Bad".into()], |_| Vec::new()), None);
    }

    #[test]
    fn takes_the_newest_error_of_the_command() {
        let log = "[1.0] trace_kprobe: error: Old\n  Command: a\n           ^\n\
            [2.0] trace_kprobe: error: New\n  Command: b c\n             ^\n";
        assert_eq!(
            newest(log, "b c").unwrap(),
            "New\n  Command: b c\n             ^"
        );
        assert_eq!(newest(log, "a"), None);
        assert_eq!(newest("", "a"), None);
    }

    #[test]
    fn knows_why_a_function_is_left_out() {
        let entry = "  Command: p:a/b f%retinsn error=$retval:s32\n             ^\n";
        for (error, expected) in [
            ("This function returns 'void' type", true),
            ("Function leaves by a tail call; use %return", false),
        ] {
            let failure = Failure::Refused(format!("{error}\n{entry}"), io::ErrorKind::NotFound);
            assert_eq!(returns_nothing(&failure), expected);
        }
    }
}

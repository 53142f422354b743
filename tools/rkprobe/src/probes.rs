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

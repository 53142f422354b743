// SPDX-License-Identifier: GPL-2.0

//! Commands for probes: their syntax, and the kernel's answer to them.

use std::fs;

use probe::command::{
    EventsFile,
    Line, //
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

/// Whether a name is a pattern for many functions.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Checks that a function exists. `name` can start with the name of a module and a colon.
pub fn check_function(name: &str) -> Result {
    if is_pattern(name) {
        return Err(Failure::new(format!(
            "{name} is a pattern: this command takes one function"
        )));
    }
    let function = name.rsplit(':').next().unwrap_or(name);
    let function = function.split(['+', '%']).next().unwrap_or(function);
    let Ok(symbols) = fs::read_to_string("/proc/kallsyms") else {
        return Ok(());
    };
    match unknown(function, &symbols) {
        Some(text) => Err(Failure::new(text)),
        None => Ok(()),
    }
}

fn unknown(function: &str, symbols: &str) -> Option<String> {
    let functions = || {
        symbols.lines().filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let kind = words.next()?;
            matches!(kind, "t" | "T" | "w" | "W").then(|| words.next())?
        })
    };
    if functions().any(|name| name == function) {
        return None;
    }
    let mut text = format!("the kernel has no function {function}");
    let names = similar(function, functions(), 3);
    if !names.is_empty() {
        text += &format!("; similar: {}", names.join(", "));
    }
    Some(text)
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
                result = Err(Failure::new(text));
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
    fn knows_functions() {
        let symbols = "ffff t vfs_read\nffff T vfs_write\t[mod]\nffff d vfs_data\n";
        assert_eq!(unknown("vfs_write", symbols), None);
        let text = unknown("vfs_raed", symbols).unwrap();
        assert_eq!(
            text,
            "the kernel has no function vfs_raed; similar: vfs_read"
        );
        assert!(unknown("vfs_data", symbols).is_some());
        assert!(check_function("vfs_*").is_err());
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
}

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

/// The most calls in flight for which `r` can have memory.
const MAXACTIVE: u32 = 4096;

/// A function that exists.
pub struct Function<'a> {
    /// The name, maybe with a module and a colon in front.
    pub name: &'a str,
    /// Whether no other function has the name.
    pub is_unique: bool,
}

impl Function<'_> {
    /// The commands for a probe at the return of the function, without arguments, the best first.
    ///
    /// `f` has memory for all calls in flight. But it would probe all functions of the name, and not the function of a
    /// module that is loaded again.
    pub fn at_return(&self, group: &str, event: &str) -> Vec<String> {
        let name = self.name;
        let by_ftrace = format!("f:{group}/{event} {name}%return");
        let by_kretprobe = format!("r{MAXACTIVE}:{group}/{event} {name}");
        match self.is_unique && !name.contains([':', '+', '%']) {
            true => vec![by_ftrace, by_kretprobe],
            false => vec![by_kretprobe],
        }
    }
}

/// Checks that a function exists. `name` can start with the name of a module and a colon.
pub fn check_function(name: &str) -> Result<Function<'_>> {
    if is_pattern(name) {
        return Err(Failure::new(format!(
            "{name} is a pattern: this command takes one function"
        )));
    }
    let (module, function) = match name.split_once(':') {
        Some((module, function)) => (Some(module), function),
        None => (None, name),
    };
    let function = function.split(['+', '%']).next().unwrap_or(function);
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let is_unique = functions_in(&symbols, None)
        .filter(|name| *name == function)
        .nth(1)
        .is_none();
    if symbols.is_empty() {
        return Ok(Function { name, is_unique });
    }
    match unknown(module, function, &symbols) {
        Some(failure) => Err(failure),
        None => Ok(Function { name, is_unique }),
    }
}

/// Checks a pattern, or that the function exists. The commands with patterns use `f`, which takes no module.
pub fn check_pattern(pattern: &str) -> Result {
    if let Some((_, name)) = pattern.split_once(':') {
        return Err(Failure::new(format!(
            "{pattern}: this command takes no module: write {name}"
        )));
    }
    match is_pattern(pattern) {
        true => Ok(()),
        false => check_function(pattern).map(|_| ()),
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

/// The names of the functions, or of those of one module.
fn functions_in<'s>(symbols: &'s str, module: Option<&'s str>) -> impl Iterator<Item = &'s str> {
    symbols.lines().filter_map(move |line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, name) = (words.next()?, words.next()?);
        let of = words.next().map(|of| of.trim_matches(['[', ']']));
        (matches!(kind, "t" | "T" | "w" | "W") && (module.is_none() || of == module))
            .then_some(name)
    })
}

fn unknown(module: Option<&str>, function: &str, symbols: &str) -> Option<Failure> {
    let functions = || functions_in(symbols, module);
    if functions().any(|name| name == function) {
        return None;
    }
    match module {
        Some(module) if functions().next().is_none() => {
            Some(Failure::new(format!("no module {module} is loaded")))
        }
        _ => Some(no_such("function", function, functions())),
    }
}

/// The functions that a pattern matches, or the function itself. More than `limit` are a failure.
pub fn matching(tracefs: &Tracefs, pattern: &str, limit: usize) -> Result<Vec<String>> {
    if !is_pattern(pattern) {
        return Ok(vec![pattern.into()]);
    }
    let names = tracefs.read("available_filter_functions")?;
    let names = matching_in(&names, pattern);
    match names.len() {
        0 => Err(Failure::new(format!("no function matches {pattern}"))),
        count if count > limit => Err(Failure::new(format!(
            "{count} functions match {pattern}: with --source, at most {limit} can"
        ))),
        _ => Ok(names),
    }
}

/// Each name once: a name of several functions is refused anyway.
fn matching_in(names: &str, pattern: &str) -> Vec<String> {
    let mut found: Vec<String> = names
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            let module = words.next().map(|module| module.trim_matches(['[', ']']));
            matches(pattern.as_bytes(), name.as_bytes()).then(|| match module {
                Some(module) => format!("{module}:{name}"),
                None => name.into(),
            })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Whether a text matches a pattern with `*`, `?` and `[...]`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return text.is_empty();
    };
    let Some((byte, after)) = text.split_first() else {
        return *first == b'*' && matches(rest, text);
    };
    match *first {
        b'*' => matches(rest, text) || matches(pattern, after),
        b'?' => matches(rest, after),
        b'[' => match rest.iter().position(|byte| *byte == b']') {
            Some(end) => is_in(&rest[..end], *byte) && matches(&rest[end + 1..], after),
            None => false,
        },
        _ => first == byte && matches(rest, after),
    }
}

/// Whether a byte is in a set such as `a-c_` or `!x`.
fn is_in(set: &[u8], byte: u8) -> bool {
    let (is_negated, mut set) = match set.strip_prefix(b"!") {
        Some(set) => (true, set),
        None => (false, set),
    };
    let mut is_found = false;
    while let [low, rest @ ..] = set {
        let (high, rest) = match rest {
            [b'-', high, rest @ ..] => (high, rest),
            _ => (low, rest),
        };
        is_found |= (*low..=*high).contains(&byte);
        set = rest;
    }
    is_found != is_negated
}

/// The module of a function, from `MODULE:FUNCTION` or the list of symbols. `None` if the kernel itself has it.
pub fn module_of(function: &str) -> Option<String> {
    if let Some((module, _)) = function.split_once(':') {
        return Some(module.into());
    }
    module_in(function, &fs::read_to_string("/proc/kallsyms").ok()?)
}

fn module_in(function: &str, symbols: &str) -> Option<String> {
    symbols.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(2);
        (words.next() == Some(function))
            .then(|| words.next())?
            .map(|module| module.trim_matches(['[', ']']).into())
    })
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

/// Defines a probe of all functions that a pattern matches. The failure says if no function matches.
pub fn define_pattern(tracefs: &Tracefs, pattern: &str, command: String) -> Result {
    define(tracefs, &[command]).map_err(|failure| {
        matching(tracefs, pattern, usize::MAX)
            .err()
            .unwrap_or(failure)
    })
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
        assert!(unknown(None, "vfs_write", symbols).is_none());
        assert!(unknown(Some("mod"), "vfs_write", symbols).is_none());
        for (module, function, expected) in [
            (
                None,
                "vfs_raed",
                "the kernel has no function vfs_raed; similar: vfs_read",
            ),
            (
                Some("mod"),
                "vfs_read",
                "the kernel has no function vfs_read",
            ),
            (Some("none"), "vfs_write", "no module none is loaded"),
        ] {
            let Some(Failure::Message(text)) = unknown(module, function, symbols) else {
                panic!();
            };
            assert_eq!(text, expected);
        }
        assert!(unknown(None, "vfs_data", symbols).is_some());
        assert!(check_function("vfs_*").is_err());
    }

    #[test]
    fn a_return_probe_has_memory_for_all_calls_if_it_can() {
        let commands = |name, is_unique| Function { name, is_unique }.at_return("g", "e");
        assert_eq!(
            commands("vfs_read", true),
            ["f:g/e vfs_read%return", "r4096:g/e vfs_read"]
        );
        assert_eq!(commands("name_show", false), ["r4096:g/e name_show"]);
        assert_eq!(commands("a:b", true), ["r4096:g/e a:b"]);
        for command in commands("vfs_read", true) {
            assert!(check_syntax(&command).is_ok(), "{command}");
        }
    }

    #[test]
    fn a_pattern_has_no_module() {
        assert!(check_pattern("vfs_*").is_ok());
        for name in ["ext4_sync_file", "ext4_*"] {
            let Err(Failure::Message(text)) = check_pattern(&format!("ext4:{name}")) else {
                panic!();
            };
            assert_eq!(
                text,
                format!("ext4:{name}: this command takes no module: write {name}")
            );
        }
    }

    #[test]
    fn finds_the_functions_of_a_pattern() {
        let names = "vfs_read\next4_a [ext4]\next4_b [ext4]\nvfs_write\nvfs_read\n";
        assert_eq!(matching_in(names, "vfs_*"), ["vfs_read", "vfs_write"]);
        assert_eq!(matching_in(names, "*_[a]"), ["ext4:ext4_a"]);
        assert_eq!(matching_in(names, "*4_?"), ["ext4:ext4_a", "ext4:ext4_b"]);
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a?", "a", false),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "bx", false),
            ("[a-c-]x", "-x", true),
            ("[a", "a", false),
            ("**a*", "ba", true),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn knows_modules() {
        let symbols = "ffff t vfs_read\nffff T mod_write\t[mod]\n";
        assert_eq!(module_in("mod_write", symbols).unwrap(), "mod");
        assert_eq!(module_in("vfs_read", symbols), None);
        assert_eq!(module_of("a:b").unwrap(), "a");
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

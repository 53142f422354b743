// SPDX-License-Identifier: GPL-2.0

//! What to write instead of a command that rkprobe refuses.
//!
//! The texts of the errors are those of the kernel, so what rkprobe knows beyond them is a hint,
//! which goes to the kernel's log.

use core::fmt;

use crate::error::ErrorKind;

use super::{
    error::Error,
    parse::EventsFile,
    target::ProbeKind,
    words::Words, //
};

/// A hint for a refused command. `Display` writes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint<'a> {
    /// The target of a `p` or an `r` is a list of functions.
    List(&'a str),
    /// [`EventsFile::DynamicEvents`] takes commands with this first word.
    OtherFile(&'a str),
    /// Several functions have this name, and the command could probe all of them.
    AllNamed(&'a str),
    /// Several functions have this name, and the command can probe only one.
    OneNamed(&'a str),
    /// The type in a typecast has a keyword of C.
    Typecast {
        /// `struct` or `union`.
        keyword: &'a str,
        /// The name of the type.
        name: &'a str,
    },
    /// The kernel has another name for the register.
    Register {
        /// The name in the command.
        written: &'a str,
        /// The kernel's name.
        name: &'static str,
    },
}

impl<'a> Hint<'a> {
    /// Finds a hint for a refused command. `line` is the parsed line. `register` finds the kernel's
    /// name of a register by another name.
    pub fn new(
        file: EventsFile,
        line: &'a str,
        error: &Error,
        register: impl FnOnce(&str) -> Option<&'static str>,
    ) -> Option<Self> {
        let mut words = Words::new(line).skip(error.at.word);
        let word = words.next()?;
        let is_kprobe = matches!(
            file.kind(line),
            Some(ProbeKind::Kprobe | ProbeKind::Kretprobe)
        );
        match error.kind {
            ErrorKind::NoMatchingType => {
                let is_whole = matches!(word.as_bytes(), [_] | [_, b':', ..] | [b'!', ..]);
                let is_taken =
                    word.starts_with('!') || EventsFile::DynamicEvents.kind(word).is_some();
                (file == EventsFile::KprobeEvents && is_whole && is_taken)
                    .then_some(Self::OtherFile(word))
            }
            ErrorKind::BadProbeAddr if is_kprobe => {
                let list = before(word, |c| c == '%');
                list.contains(['*', '?', '[', ','])
                    .then_some(Self::List(list))
            }
            ErrorKind::NonUniqSymbol if is_kprobe && !word.contains('+') => {
                let (name, suffix) = word.split_once('%').unwrap_or((word, ""));
                Some(match (file.kind(line), suffix) {
                    (_, "") | (Some(ProbeKind::Kretprobe), "return") => Self::AllNamed(name),
                    // `%all` has no other suffix beside it.
                    _ => Self::OneNamed(name),
                })
            }
            ErrorKind::DerefOpenBrace => {
                let (_, keyword) = word.rsplit_once('(')?;
                let name = before(words.next()?, |c| c == ')');
                matches!(keyword, "struct" | "union").then_some(Self::Typecast { keyword, name })
            }
            ErrorKind::BadRegName => {
                let written = word.get(error.at.offset..)?.strip_prefix('%')?;
                let written = before(written, |c: char| !c.is_ascii_alphanumeric());
                register(written).map(|name| Self::Register { written, name })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::List(list) => write!(
                f,
                "{list}: p and r have no patterns and lists; use f in rkprobe_dynamic_events"
            ),
            Self::OtherFile(word) => {
                write!(f, "{word}: write this command to rkprobe_dynamic_events")
            }
            Self::AllNamed(name) => write!(
                f,
                "{name}: write {name}%all for all of them, or an address of /proc/kallsyms"
            ),
            Self::OneNamed(name) => write!(f, "{name}: write an address of /proc/kallsyms"),
            Self::Typecast { keyword, name } => {
                write!(f, "({keyword} {name}): write ({name})")
            }
            Self::Register { written, name } => write!(f, "%{written}: write %{name}"),
        }
    }
}

/// The text before the first character that satisfies `end`, or all of it.
fn before(text: &str, end: impl FnMut(char) -> bool) -> &str {
    text.split(end).next().unwrap_or(text)
}

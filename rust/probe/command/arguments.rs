// SPDX-License-Identifier: GPL-2.0

//! Parses an argument of a command: `[NAME=]BODY[:TYPE]`.
//!
//! C: `traceprobe_parse_probe_arg()` in `kernel/trace/trace_probe.c`.

use crate::{
    argument::Name,
    error::{
        Errno,
        ErrorKind, //
    },
};

use super::{
    body::WrittenBody,
    error::{
        ArgumentError,
        Error, //
    },
    name::is_valid_field,
    words::Position, //
};

/// Maximum number of arguments of a command.
pub const MAX_ARGUMENTS: usize = 128;

/// The number of the task, for conditions and as a key. No argument can have this name.
pub(super) const COMMON_PID: &str = "common_pid";

/// Maximum length of an argument's name, in bytes.
pub(super) const MAX_ARGUMENT_NAME: usize = 32;

/// An argument, as the user wrote it, or as another argument expanded to it. Nothing in it depends
/// on the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenArgument<'a> {
    pub(super) word: &'a str,
    /// The name before the `=`.
    pub(super) given: Option<&'a str>,
    /// The name of the field.
    pub(super) name: Name<'a>,
    /// The text after the name.
    pub(super) body: &'a str,
    pub(super) written: WrittenBody,
    place: Place<'a>,
}

/// The place of an argument in the user's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place<'a> {
    /// The word with this index.
    Word(usize),
    /// The argument is the whole expansion of the word with this index and text.
    Expanded(usize, &'a str),
    /// The argument is a part of the expansion of the word with this index.
    Part(usize),
    /// The argument is an operand of the condition, and starts here.
    Operand(Position),
}

impl<'a> WrittenArgument<'a> {
    /// Parses the argument `word`, which is the word `at` of the command. `index` is its number,
    /// counted from 0. `is_event` is whether the probe is an event probe.
    pub(super) fn parse(word: &'a str, at: usize, index: usize, is_event: bool) -> Self {
        let (given, body) = match word.split_once('=') {
            Some((name, body)) => (Some(name), body),
            None => (None, word),
        };
        Self {
            word,
            given,
            name: name(given, body, index),
            body,
            written: WrittenBody::parse(body, is_event),
            place: Place::Word(at),
        }
    }

    /// Parses the operand `body` of a condition, or a key, which starts at `at`. `is_event` is
    /// whether the probe is an event probe.
    pub(super) fn operand(body: &'a str, at: Position, is_event: bool) -> Self {
        Self {
            word: body,
            given: None,
            name: name(None, body, 0),
            body,
            written: WrittenBody::operand(body, is_event),
            place: Place::Operand(at),
        }
    }

    /// Parses an argument to which this argument expands, as one of `count`. `index` is its number,
    /// counted from 0.
    pub(super) fn expanded(
        &self,
        word: &'a str,
        count: usize,
        index: usize,
        is_event: bool,
    ) -> Self {
        let at = match self.place {
            Place::Word(at) | Place::Expanded(at, _) | Place::Part(at) => at,
            Place::Operand(at) => at.word,
        };
        Self {
            place: match count {
                1 => Place::Expanded(at, self.word),
                _ => Place::Part(at),
            },
            ..Self::parse(word, at, index, is_event)
        }
    }

    /// Returns this argument as number `index`, counted from 0. Without a name and without a
    /// variable whose name it takes, its name is its number.
    pub(super) fn numbered(&self, index: usize) -> Self {
        Self {
            name: name(self.given, self.body, index),
            ..self.clone()
        }
    }

    /// The whole word.
    pub fn word(&self) -> &'a str {
        self.word
    }

    /// The name of the field.
    pub fn name(&self) -> Name<'a> {
        self.name
    }

    /// Whether the argument needs [`TypeInfo`](super::TypeInfo).
    pub fn needs_types(&self) -> bool {
        let needs_types = || self.written.needs_types(self.body);
        self.word.starts_with("$arg") || self.word != COMMON_PID && needs_types()
    }

    /// The names of structures in the typecasts of the argument.
    pub fn structures(&self) -> impl Iterator<Item = &'a str> {
        self.written.structures(self.body)
    }

    /// Checks the name that the user gave.
    pub(super) fn check_name(&self) -> Result<(), Error> {
        let Some(name) = self.given else {
            return Ok(());
        };
        // The listing also writes an implied name before the body. An implied name can be longer.
        let is_too_long = name.len() > MAX_ARGUMENT_NAME && implied_name(self.body) != Some(name);
        let wrong = if is_too_long {
            ErrorKind::ArgNameTooLong
        } else if name.is_empty() {
            ErrorKind::NoArgName
        } else if !is_valid_field(name.as_bytes()) {
            ErrorKind::BadArgName
        } else {
            return Ok(());
        };
        Err(self.error(wrong, Errno::EINVAL))
    }

    /// Creates an error of the whole argument.
    pub fn error(&self, kind: ErrorKind, errno: Errno) -> Error {
        self.error_at(kind, 0, errno)
    }

    /// Creates an error in the body of the argument.
    pub(super) fn error_in_body(&self, error: ArgumentError) -> Error {
        let before = self.word.len().saturating_sub(self.body.len());
        self.error_at(error.kind, before.saturating_add(error.offset), error.errno)
    }

    /// Creates an error at byte `offset` of the argument. If the argument is an expansion, and the
    /// byte is in the common start or the common end of both texts, the error is at the same byte
    /// of the user's argument. Otherwise it is at the start of the replaced part.
    fn error_at(&self, kind: ErrorKind, offset: usize, errno: Errno) -> Error {
        let (at, offset) = match self.place {
            Place::Word(at) => (at, offset),
            Place::Expanded(at, original) => (at, offset_before(original, self.word, offset)),
            Place::Part(at) => (at, 0),
            Place::Operand(at) => (at.word, at.offset.saturating_add(offset)),
        };
        Error::new(kind, at, offset, errno)
    }
}

/// The byte offset in the original word that corresponds to `offset` in the expanded word.
fn offset_before(original: &str, expanded: &str, offset: usize) -> usize {
    if original == expanded {
        return offset;
    }
    let alike =
        |pairs: &mut dyn Iterator<Item = (u8, u8)>| pairs.take_while(|(a, b)| a == b).count();
    let before = alike(&mut original.bytes().zip(expanded.bytes()));
    let behind = alike(&mut original.bytes().rev().zip(expanded.bytes().rev()));
    let from_end = expanded.len().saturating_sub(offset);
    if offset > before && from_end <= behind {
        original.len().saturating_sub(from_end)
    } else {
        offset.min(before)
    }
}

/// The name of an argument. `given` is the name before the `=`.
fn name<'a>(given: Option<&'a str>, body: &'a str, index: usize) -> Name<'a> {
    given
        .or_else(|| implied_name(body))
        .map_or(Name::Numbered(index.saturating_add(1)), Name::Given)
}

/// The name of an argument without a given name: the name of the parameter or field that it reads.
///
/// C: `generate_probe_arg_name()`.
fn implied_name(body: &str) -> Option<&str> {
    let value = body.split_once(':').map_or(body, |(value, _)| value);
    is_valid_field(value.as_bytes()).then_some(value)
}

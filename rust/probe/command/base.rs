// SPDX-License-Identifier: GPL-2.0

//! Parses the base of a fetch: the value inside all levels.
//!
//! C: `parse_probe_arg_leaf()` and `parse_probe_vars()` in `kernel/trace/trace_probe.c`.

use crate::error::{
    Errno,
    ErrorKind, //
};

use super::{
    error::ArgumentError,
    level::{
        Span,
        Text, //
    },
    number, //
};

/// The number of words in a kernel stack. C limits `$stackN` and `$argN` to this number.
const STACK_WORDS: u16 = 16384 / 8;

/// Variables with a type in BTF.
pub(super) const RETVAL: &str = "$retval";
pub(super) const CURRENT: &str = "$current";
pub(super) const OBJ: &str = "$obj";

/// A base, as the user wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenBase {
    /// `%NAME`: the name.
    Register(Span),
    /// `@ADDR`.
    Memory(u64),
    /// `@SYM[+|-OFF]`: the text after the `@`.
    Symbol(Span),
    /// `\IMM`.
    Immediate(u64),
    /// `\"TEXT"`: the text between the quotes.
    Text(Span),
    /// The name of a parameter, or `$retval`, with the fields that follow.
    Typed(Span),
    /// `$current`, with the fields that follow.
    Current(Span),
    /// `$obj`, with the fields that follow.
    Object(Span),
    /// The name of a field of an event.
    Field(Span),
    /// `$FIELD` of an event, with the `$`. A field can have the name of a variable.
    FieldVariable(Span),
    /// `$stack`.
    StackPointer,
    /// `$stackN`.
    Stack(u16),
    /// `$argN`, counted from 0.
    Argument(u16),
    /// `$comm`.
    Comm,
    /// `$elapsed`.
    Elapsed,
    /// `$caller`.
    Caller,
    /// `$exit`.
    Exit,
    /// `$addr`.
    Watched,
    /// `$parameter`.
    Parameter,
    /// `$unchanged`.
    Unchanged,
}

impl WrittenBase {
    /// Parses a base. `is_event` is whether the probe is an event probe.
    pub(super) fn parse(text: Text<'_>, is_event: bool) -> Result<Self, ArgumentError> {
        let rest = text.skip(1);
        let at = text.at;
        Ok(match text.text.bytes().next() {
            Some(b'$') if is_event => Self::FieldVariable(Span::of(text)),
            Some(b'$') if rest.text.starts_with("retval") => Self::Typed(Span::of(text)),
            Some(b'$') if rest.text.starts_with("current") => Self::Current(Span::of(text)),
            Some(b'$') if rest.text.starts_with("obj") => Self::Object(Span::of(text)),
            Some(b'$') => variable(rest.text, at)?,
            Some(b'%') => Self::Register(Span::of(rest)),
            Some(b'@') => memory(rest, at)?,
            Some(b'\\') => immediate(rest)?,
            Some(b'_' | b'a'..=b'z' | b'A'..=b'Z') if is_event => Self::Field(Span::of(text)),
            Some(b'_' | b'a'..=b'z' | b'A'..=b'Z') => Self::Typed(Span::of(text)),
            _ => return Err(ArgumentError::invalid(ErrorKind::BadFetchArg, at)),
        })
    }

    /// Whether BTF can have a type for the base. `body` is the body that contains it.
    pub(super) fn needs_types(self, body: &str) -> bool {
        match self {
            Self::Typed(_) | Self::Field(_) => true,
            Self::Current(span) => has_fields(span.of_body(body).text, CURRENT),
            Self::FieldVariable(span) => {
                let name = span.of_body(body).text;
                name.starts_with(RETVAL) || has_fields(name, CURRENT)
            }
            Self::Register(_)
            | Self::Memory(_)
            | Self::Symbol(_)
            | Self::Immediate(_)
            | Self::Text(_)
            | Self::Object(_)
            | Self::StackPointer
            | Self::Stack(_)
            | Self::Argument(_)
            | Self::Comm
            | Self::Elapsed
            | Self::Caller
            | Self::Exit
            | Self::Watched
            | Self::Parameter
            | Self::Unchanged => false,
        }
    }
}

/// Whether a `-` follows the variable.
fn has_fields(text: &str, variable: &str) -> bool {
    let rest = text.strip_prefix(variable);
    rest.is_some_and(|rest| rest.starts_with('-'))
}

/// Parses a variable without its `$`. The variable starts at byte `at`.
fn variable(name: &str, at: usize) -> Result<WrittenBase, ArgumentError> {
    let bad = ArgumentError::invalid(ErrorKind::BadVar, at);
    let bad_number = |errno| ArgumentError::new(ErrorKind::BadVar, at, errno);
    if let Some(index) = name.strip_prefix("stack") {
        if index.is_empty() {
            return Ok(WrittenBase::StackPointer);
        }
        // C accepts a sign in `$argN` but not in `$stackN`.
        if !index.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(bad);
        }
        let index = number::unsigned(index, 10).map_err(bad_number)?;
        return match u16::try_from(index) {
            Ok(index) if index <= STACK_WORDS => Ok(WrittenBase::Stack(index)),
            _ => Err(ArgumentError::invalid(ErrorKind::BadStackNum, at)),
        };
    }
    match name {
        "comm" | "COMM" => return Ok(WrittenBase::Comm),
        "elapsed" => return Ok(WrittenBase::Elapsed),
        "caller" => return Ok(WrittenBase::Caller),
        "exit" => return Ok(WrittenBase::Exit),
        "addr" => return Ok(WrittenBase::Watched),
        "parameter" => return Ok(WrittenBase::Parameter),
        "unchanged" => return Ok(WrittenBase::Unchanged),
        _ => {}
    }
    let number = name.strip_prefix("arg").ok_or(bad)?;
    let number = number::unsigned(number, 10).map_err(bad_number)?;
    u16::try_from(number)
        .ok()
        .filter(|number| *number <= STACK_WORDS)
        .and_then(|number| number.checked_sub(1))
        .map(WrittenBase::Argument)
        .ok_or(ArgumentError::invalid(ErrorKind::BadArgNum, at))
}

/// Parses `@ADDR` or `@SYM[+|-OFF]` without the `@`, which is at byte `at`.
fn memory(text: Text<'_>, at: usize) -> Result<WrittenBase, ArgumentError> {
    match text.text.bytes().next() {
        Some(b'0'..=b'9') => number::unsigned(text.text, 0)
            .map(WrittenBase::Memory)
            .map_err(|errno| ArgumentError::new(ErrorKind::BadMemAddr, at, errno)),
        Some(b'+') => Err(ArgumentError::invalid(ErrorKind::FileOnKprobe, at)),
        _ => Ok(WrittenBase::Symbol(Span::of(text))),
    }
}

/// Parses `\IMM` or `\"TEXT"` without the backslash.
fn immediate(text: Text<'_>) -> Result<WrittenBase, ArgumentError> {
    let rest = text.skip(1);
    let number = text.text;
    let value = match number.bytes().next() {
        Some(b'"') => {
            return match rest.text.strip_suffix('"') {
                Some(quoted) => Ok(WrittenBase::Text(Span::of(Text {
                    text: quoted,
                    ..rest
                }))),
                None => Err(ArgumentError::invalid(ErrorKind::ImmstrNoClose, rest.end())),
            };
        }
        Some(b'0'..=b'9') => number::unsigned(number, 0),
        Some(b'-') => number::signed(number).map(|value| value as u64),
        Some(b'+') => number::signed(rest.text).map(|value| value as u64),
        _ => Err(Errno::EINVAL),
    };
    value
        .map(WrittenBase::Immediate)
        .map_err(|errno| ArgumentError::new(ErrorKind::BadImm, text.at, errno))
}

// SPDX-License-Identifier: GPL-2.0

//! Parses a line, without asking the kernel.
//!
//! C: `create_or_delete_trace_kprobe()` and `trace_kprobe_create_internal()` in
//! `kernel/trace/trace_kprobe.c`, `parse_symbol_and_return()` in `kernel/trace/trace_fprobe.c`,
//! `create_dyn_event()` in `kernel/trace/trace_dynevent.c`.

use core::num::NonZero;

use crate::error::ErrorKind;

use super::{
    arguments::count,
    create::{
        Command,
        MAX_MAXACTIVE, //
    },
    delete::Delete,
    error::Error,
    name::{
        Label,
        MAX_NAME, //
    },
    number,
    object::ObjectTarget,
    parse_object::parse_object,
    symbol::split_symbol,
    target::{
        Kind,
        Target,
        Watched, //
    },
    words::Words, //
};

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// An empty line, or only a comment.
    Nothing,
    /// A command that creates a probe.
    Create(Command<'a>),
    /// A command that deletes events.
    Delete(Delete<'a>),
}

/// The kind of file that a line is written to. It decides which commands are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsFile {
    /// `rkprobe_events` and `kprobe_events`: kprobes and kretprobes.
    KprobeEvents,
    /// `rkprobe_dynamic_events` and `dynamic_events`: probes of all kinds.
    DynamicEvents,
}

/// Parses a line of [`EventsFile::KprobeEvents`].
///
/// # Errors
///
/// The errors of [`EventsFile::parse`].
pub fn parse(line: &str) -> Result<Line<'_>, Error> {
    EventsFile::KprobeEvents.parse(line)
}

impl EventsFile {
    /// Parses a line, with or without its newline.
    ///
    /// # Errors
    ///
    /// An invalid character, letter or number, a missing or malformed target, a delete without a
    /// name. All are EINVAL.
    pub fn parse(self, line: &str) -> Result<Line<'_>, Error> {
        let mut words = Words::new(line);
        for (index, word) in words.clone().enumerate() {
            // For C, a NUL ends the string. C then reports that the line is too long.
            if let Some(offset) = word.find('\0') {
                return Err(Error::invalid(ErrorKind::NulCharacter, index, offset));
            }
        }

        let no_match = Error::invalid(ErrorKind::NoMatchingType, 0, 0);
        let Some(head) = words.next() else {
            return Ok(Line::Nothing);
        };
        let kind = match (head.bytes().next(), self) {
            (Some(b'-'), _) | (Some(b'!'), Self::DynamicEvents) => {
                return Delete::parse(head, words).map(Line::Delete);
            }
            (Some(b'p'), _) => Kind::Probe,
            (Some(b'r'), _) => Kind::Return,
            (Some(b'f'), Self::DynamicEvents) => Kind::Entry,
            (Some(b't'), Self::DynamicEvents) => Kind::Tracepoint,
            (Some(b'e'), Self::DynamicEvents) => Kind::Event,
            (Some(b'w'), Self::DynamicEvents) => Kind::Watch,
            (Some(b'o'), Self::DynamicEvents) => Kind::Object,
            _ => return Err(no_match),
        };
        let Some(target) = words.next() else {
            return Err(match self {
                Self::KprobeEvents => Error::invalid(ErrorKind::NoTarget, 1, 0),
                Self::DynamicEvents => no_match,
            });
        };

        let (maxactive, label) = match kind {
            Kind::Probe | Kind::Return | Kind::ReturnInsn => parse_head(head, kind)?,
            Kind::Entry | Kind::Exit | Kind::Tracepoint | Kind::Object => {
                (None, parse_short_head(head, ErrorKind::BadMaxact)?)
            }
            Kind::Watch => (None, parse_short_head(head, ErrorKind::BadMaxactType)?),
            Kind::Event => (None, parse_event_head(head)?),
        };
        let place_at = target.find('@').map_or(0, |at| at.saturating_add(1));
        let (target, kind) = match kind {
            Kind::Probe | Kind::Return | Kind::ReturnInsn => parse_target(target, kind)?,
            Kind::Entry | Kind::Exit => parse_functions(target, &words)?,
            Kind::Tracepoint => (parse_tracepoint(target, &words)?, kind),
            Kind::Event => (parse_event(target)?, kind),
            Kind::Watch => (Target::Memory(Watched::parse(target)?), kind),
            Kind::Object => (Target::Object(parse_object(target, &mut words)?), kind),
        };
        if let Target::Object(ObjectTarget {
            changes: Some(word),
            ..
        }) = target
        {
            if words.clone().next().is_none() {
                return Err(Error::invalid(ErrorKind::NoChangingValue, word, 0));
            }
        }
        if kind == Kind::ReturnInsn && maxactive.is_some() {
            return Err(Error::invalid(ErrorKind::MaxactOnRetinsn, 0, 1));
        }
        let (arguments, filter) = match kind {
            Kind::Event => words.split_at("if"),
            _ => (words, None),
        };
        // For other kinds, C counts the arguments after it has found the target.
        if kind == Kind::Event {
            count(&arguments)?;
        }
        Ok(Line::Create(Command {
            kind,
            maxactive,
            target,
            place_at,
            label,
            arguments,
            filter,
        }))
    }

    /// The name of the subsystem in front of the message in the error log. `line` is the parsed
    /// line.
    ///
    /// C: `trace_probe_log_init()`, `create_dyn_event()`.
    pub fn subsystem(self, line: &str, error: &Error) -> &'static str {
        let letter = Words::new(line).next().and_then(|word| word.bytes().next());
        match (self, letter) {
            (Self::KprobeEvents, _) => "trace_kprobe",
            _ if error.kind == ErrorKind::NoMatchingType => "dynevent",
            (Self::DynamicEvents, Some(b'p' | b'r')) => "trace_kprobe",
            (Self::DynamicEvents, Some(b'f' | b't')) => "trace_fprobe",
            (Self::DynamicEvents, Some(b'e')) => "event_probe",
            (Self::DynamicEvents, Some(b'w')) => "wprobe",
            (Self::DynamicEvents, Some(b'o')) => "object_probe",
            (Self::DynamicEvents, _) => "dynevent",
        }
    }
}

/// Parses the first word, of a kprobe: `LETTER[MAXACTIVE][:LABEL]`. As in C, text in front of the
/// `:` that is not a number is ignored.
fn parse_head(head: &str, kind: Kind) -> Result<(Option<NonZero<u16>>, Option<Label<'_>>), Error> {
    let rest = head.get(1..).unwrap_or("");
    let (number, label) = match rest.split_once(':') {
        Some((number, text)) => {
            let offset = number.len().saturating_add(2);
            (number, Some(Label { text, offset }))
        }
        None => (rest, None),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok((None, label));
    }

    if kind == Kind::Probe {
        return Err(Error::invalid(ErrorKind::BadMaxactType, 0, 1));
    }
    // C parses 32 bits, so a number that does not fit is invalid, and not too big. C interprets the
    // upper half of these as negative, which passes its check. Here these numbers are too big.
    let maxactive = Some(number)
        .filter(|number| number.len() <= MAX_NAME)
        .and_then(|number| number::unsigned(number, 0).ok())
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number != 0)
        .ok_or(Error::invalid(ErrorKind::BadMaxact, 0, 1))?;
    let maxactive = u16::try_from(maxactive)
        .ok()
        .filter(|number| *number <= MAX_MAXACTIVE)
        .ok_or(Error::invalid(ErrorKind::MaxactTooBig, 0, 1))?;
    Ok((NonZero::new(maxactive), label))
}

/// The target, and the kind of the probe, which a suffix can change.
fn parse_target(word: &str, kind: Kind) -> Result<(Target<'_>, Kind), Error> {
    if let Ok(address) = number::unsigned(word, 0) {
        return Ok((Target::Address(address), kind));
    }
    if word.contains('/') && word.contains(':') {
        return Err(Error::invalid(ErrorKind::UserTarget, 1, 0));
    }

    let (symbol, kind) = match word.split_once('%') {
        Some((name, "all")) if !name.is_empty() && !name.contains(['+', '-']) => {
            return Ok((Target::AllNamed(name), kind));
        }
        None => (word, kind),
        Some((symbol, "return")) => (symbol, Kind::Return),
        Some((symbol, "retinsn")) => (symbol, Kind::ReturnInsn),
        Some((symbol, _)) => {
            let offset = symbol.len();
            return Err(Error::invalid(ErrorKind::BadAddrSuffix, 1, offset));
        }
    };
    split_symbol(symbol)
        .ok()
        .filter(|(symbol, _)| !symbol.is_empty())
        .and_then(|(symbol, offset)| {
            let offset = u32::try_from(offset).ok()?;
            Some((Target::Symbol { symbol, offset }, kind))
        })
        .ok_or(Error::invalid(ErrorKind::BadProbeAddr, 1, 0))
}

/// Parses the first word of an `f`, a `t` or a `w`: `LETTER[:LABEL]`. `wrong` is the error of
/// something between the two.
fn parse_short_head(head: &str, wrong: ErrorKind) -> Result<Option<Label<'_>>, Error> {
    match head.split_at_checked(1) {
        None | Some((_, "")) => Ok(None),
        Some((_, rest)) => match rest.strip_prefix(':') {
            Some(text) => Ok(Some(Label { text, offset: 2 })),
            None => Err(Error::invalid(wrong, 0, 1)),
        },
    }
}

/// Parses the first word of an `e`: `LETTER[:LABEL]`. As in C, text in front of the `:` is ignored,
/// and the label is checked before the target.
fn parse_event_head(head: &str) -> Result<Option<Label<'_>>, Error> {
    let Some((before, text)) = head.split_once(':') else {
        return Ok(None);
    };
    let offset = before.len().saturating_add(1);
    let label = Label { text, offset };
    label.parse()?;
    Ok(Some(label))
}

/// `SYSTEM.NAME` or `SYSTEM/NAME`. What is wrong with either C tells first, and then
/// [`ErrorKind::NoEventInfo`], too.
fn parse_event(word: &str) -> Result<Target<'_>, Error> {
    let label = Label {
        text: word,
        offset: 0,
    };
    match label.parse() {
        Ok((Some(system), Some(name))) => Ok(Target::Event { system, name }),
        Ok(_) => Err(Error::invalid(ErrorKind::NoEventInfo, 1, 0)),
        Err(error) => Err(Error::invalid(error.kind, 1, error.at.offset)),
    }
}

/// `PATTERN[%return]`. With `$retval` among its arguments it is one for the exit anyway.
///
/// C: `parse_symbol_and_return()`.
fn parse_functions<'a>(word: &'a str, arguments: &Words<'a>) -> Result<(Target<'a>, Kind), Error> {
    let (pattern, is_return) = match word.split_once('%') {
        None => (word, find_retval(arguments).is_some()),
        Some((pattern, "return")) => (pattern, true),
        Some((pattern, _)) => {
            let offset = pattern.len();
            return Err(Error::invalid(ErrorKind::BadAddrSuffix, 1, offset));
        }
    };
    let kind = if is_return { Kind::Exit } else { Kind::Entry };
    Ok((Target::Functions(pattern), kind))
}

/// The name of a tracepoint, without its system.
///
/// C: `parse_symbol_and_return()`.
fn parse_tracepoint<'a>(word: &'a str, arguments: &Words<'a>) -> Result<Target<'a>, Error> {
    if let Some(offset) = word.find('%') {
        return Err(Error::invalid(ErrorKind::BadAddrSuffix, 1, offset));
    }
    if let Some(offset) = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        return Err(Error::invalid(ErrorKind::BadTpName, 1, offset));
    }
    if let Some((index, offset)) = find_retval(arguments) {
        let word = index.saturating_add(2);
        return Err(Error::invalid(ErrorKind::RetvalOnProbe, word, offset));
    }
    Ok(Target::Tracepoint(word))
}

/// The first argument that has a `$retval` in it, and where. As in C only the first of an argument
/// is looked at.
fn find_retval(arguments: &Words<'_>) -> Option<(usize, usize)> {
    arguments.clone().enumerate().find_map(|(index, word)| {
        let (before, after) = word.split_once("$retval")?;
        let goes_on = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        (!goes_on).then_some((index, before.len()))
    })
}

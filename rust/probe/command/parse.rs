// SPDX-License-Identifier: GPL-2.0

//! Parses a line. Needs no data from the kernel.
//!
//! C: `create_or_delete_trace_kprobe()` and `trace_kprobe_create_internal()` in
//! `kernel/trace/trace_kprobe.c`, `parse_symbol_and_return()` in `kernel/trace/trace_fprobe.c`,
//! `create_dyn_event()` in `kernel/trace/trace_dynevent.c`.

use core::num::NonZero;

use crate::error::{
    Errno,
    ErrorKind, //
};

use super::{
    arguments::MAX_ARGUMENTS,
    check_list::check_list,
    create::{
        Command,
        MAX_MAXACTIVE, //
    },
    delete::Delete,
    error::Error,
    function_list::target_functions,
    name::{
        Label,
        MAX_NAME, //
    },
    number,
    object::ObjectTarget,
    parse_call_tree::parse_call_tree,
    parse_object::parse_object,
    path::PATH,
    spec::split_clauses,
    symbol::split_symbol,
    target::{
        ProbeKind,
        Target,
        Watched, //
    },
    words::{
        Position,
        Words,
        TARGET, //
    },
};

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The line has no words.
    Nothing,
    /// A command that creates a probe.
    Create(Command<'a>),
    /// A command that removes events.
    Delete(Delete<'a>),
}

/// The file that the user writes a line to. The file decides which commands are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsFile {
    /// `rkprobe_events` and `kprobe_events`: kprobes and kretprobes.
    KprobeEvents,
    /// `rkprobe_dynamic_events` and `dynamic_events`: probes of all kinds.
    DynamicEvents,
}

/// The position of the first word.
const HEAD: Position = Position { word: 0, offset: 0 };

/// Parses a line of [`EventsFile::KprobeEvents`], without its comment.
///
/// # Errors
///
/// The errors of [`EventsFile::parse`].
pub fn parse(line: &str) -> Result<Line<'_>, Error> {
    EventsFile::KprobeEvents.parse(line)
}

impl EventsFile {
    /// Parses a line without its comment, with or without its newline.
    ///
    /// # Errors
    ///
    /// EINVAL for an invalid character, letter or number, a missing or malformed target, and a
    /// command that removes events but has no name.
    pub fn parse(self, line: &str) -> Result<Line<'_>, Error> {
        let mut words = Words::new(line);
        for (index, word) in words.clone().enumerate() {
            // In C, a NUL ends the string. C then reports that the line is too long.
            if let Some(offset) = word.find('\0') {
                return Err(Error::invalid(ErrorKind::NulCharacter, index, offset));
            }
        }

        let no_match = Error::invalid(ErrorKind::NoMatchingType, 0, 0);
        let Some(head) = words.next() else {
            return Ok(Line::Nothing);
        };
        if head.starts_with('-') || self == Self::DynamicEvents && head.starts_with('!') {
            return Delete::parse(head, words).map(Line::Delete);
        }
        let kind = self.kind(head).ok_or(no_match)?;
        let Some(target) = words.next() else {
            return Err(match self {
                Self::KprobeEvents => Error::invalid(ErrorKind::NoTarget, 1, 0),
                Self::DynamicEvents => no_match,
            });
        };

        let (maxactive, label) = match kind {
            ProbeKind::Kprobe
            | ProbeKind::Kretprobe
            | ProbeKind::Kretinsn
            | ProbeKind::Blocks { .. }
            | ProbeKind::Path => parse_head(head, kind, target)?,
            ProbeKind::FprobeEntry
            | ProbeKind::FprobeExit
            | ProbeKind::Tracepoint
            | ProbeKind::Object
            | ProbeKind::ObjectReturn
            | ProbeKind::CallTree => (None, parse_short_head(head, ErrorKind::BadMaxact)?),
            ProbeKind::Watchpoint => (None, parse_short_head(head, ErrorKind::BadMaxactType)?),
            ProbeKind::EventProbe => (None, parse_event_head(head)?),
        };
        // The text before an `@` in the target of a watchpoint is the access.
        let place_at = match kind {
            ProbeKind::Watchpoint => {
                TARGET.skip(target.find('@').map_or(0, |at| at.saturating_add(1)))
            }
            _ => TARGET,
        };
        let (mut words, by, filter) = split_clauses(words);
        let clauses = [by.as_ref(), filter.as_ref()];
        let (target, kind) = parse_target(kind, target, &mut words, clauses)?;
        if let Target::Object(ObjectTarget {
            changes: Some(word),
            ..
        }) = target
        {
            if words.clone().next().is_none() {
                return Err(Error::invalid(ErrorKind::NoChangingValue, word, 0));
            }
        }
        if kind == ProbeKind::Kretinsn && maxactive.is_some() {
            return Err(Error::invalid(ErrorKind::MaxactOnRetinsn, 0, 1));
        }
        // For other kinds, C counts the arguments after it finds the target.
        if kind == ProbeKind::EventProbe && words.clone().count() > MAX_ARGUMENTS {
            return Err(Error::new(ErrorKind::TooManyArgs, 2, 0, Errno::E2BIG));
        }
        Ok(Line::Create(Command {
            kind,
            maxactive,
            target,
            place_at,
            label,
            arguments: words,
            by,
            filter,
        }))
    }

    /// The kind of the probe that a line creates, by its letter. `None` if the file has no such
    /// kind.
    pub(super) fn kind(self, line: &str) -> Option<ProbeKind> {
        let letter = Words::new(line).next()?.bytes().next()?;
        let kind = match letter {
            b'p' => ProbeKind::Kprobe,
            b'r' => ProbeKind::Kretprobe,
            b'f' => ProbeKind::FprobeEntry,
            b't' => ProbeKind::Tracepoint,
            b'e' => ProbeKind::EventProbe,
            b'w' => ProbeKind::Watchpoint,
            b'o' => ProbeKind::Object,
            b'c' => ProbeKind::CallTree,
            _ => return None,
        };
        self.lists(kind).then_some(kind)
    }

    /// Whether the file lists the probes of a kind, and creates them.
    pub fn lists(self, kind: ProbeKind) -> bool {
        self == Self::DynamicEvents || kind.is_kprobe()
    }

    /// The name of the subsystem before the message in the error log. `line` is the parsed line.
    ///
    /// C: `trace_probe_log_init()`, `create_dyn_event()`.
    pub fn subsystem(self, line: &str, error: &Error) -> &'static str {
        match (self, self.kind(line)) {
            (Self::KprobeEvents, _) => "trace_kprobe",
            _ if error.kind == ErrorKind::NoMatchingType => "dynevent",
            (Self::DynamicEvents, Some(kind)) => kind.subsystem(),
            (Self::DynamicEvents, None) => "dynevent",
        }
    }
}

/// Parses the first word of a kprobe: `LETTER[MAXACTIVE][:LABEL]`. As in C, text before the `:`
/// that is not a number has no effect, and a kprobe can have no number, except for paths.
fn parse_head<'a>(
    head: &'a str,
    kind: ProbeKind,
    target: &str,
) -> Result<(Option<NonZero<u16>>, Option<Label<'a>>), Error> {
    let rest = head.get(1..).unwrap_or("");
    let (number, label) = match rest.split_once(':') {
        Some((number, text)) => {
            let at = HEAD.skip(number.len()).skip("p:".len());
            (number, Some(Label { text, at }))
        }
        None => (rest, None),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok((None, label));
    }

    let is_path = matches!(target.split_once('%'), Some((_, PATH)));
    if kind == ProbeKind::Kprobe && !is_path {
        return Err(Error::invalid(ErrorKind::BadMaxactType, 0, 1));
    }
    // C parses 32 bits, so it reports that a number that does not fit is invalid, and not too big.
    // C interprets the upper half of the 32-bit numbers as negative, and accepts them. Here these
    // numbers are too big.
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

/// Parses the target that starts with `word`. Takes the other words of the target from `words`.
/// `clauses` has the words after `by` and those after `if`. A suffix of the target, an argument or
/// a clause can change the kind.
///
/// # Errors
///
/// A malformed target (EINVAL).
fn parse_target<'a>(
    kind: ProbeKind,
    word: &'a str,
    words: &mut Words<'a>,
    clauses: [Option<&Words<'a>>; 2],
) -> Result<(Target<'a>, ProbeKind), Error> {
    Ok(match kind {
        ProbeKind::Kprobe
        | ProbeKind::Kretprobe
        | ProbeKind::Kretinsn
        | ProbeKind::Blocks { .. }
        | ProbeKind::Path => parse_instruction(word, kind)?,
        ProbeKind::FprobeEntry | ProbeKind::FprobeExit => parse_functions(word, words, clauses)?,
        ProbeKind::Tracepoint => (parse_tracepoint(word, words)?, kind),
        ProbeKind::EventProbe => (parse_event(word)?, kind),
        ProbeKind::Watchpoint => (Target::Memory(Watched::parse(word)?), kind),
        ProbeKind::Object | ProbeKind::ObjectReturn => {
            let target = parse_object(word, words)?;
            let kind = match target.returns {
                Some(_) => ProbeKind::ObjectReturn,
                None => ProbeKind::Object,
            };
            (Target::Object(target), kind)
        }
        ProbeKind::CallTree => (Target::CallTree(parse_call_tree(word, words)?), kind),
    })
}

/// Parses the target of a kprobe. A suffix of the target can change the kind of the probe.
fn parse_instruction(word: &str, kind: ProbeKind) -> Result<(Target<'_>, ProbeKind), Error> {
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
        Some((symbol, "return")) => (symbol, ProbeKind::Kretprobe),
        Some((symbol, "retinsn")) => (symbol, ProbeKind::Kretinsn),
        Some((symbol, "blocks")) if kind == ProbeKind::Kprobe => {
            (symbol, ProbeKind::Blocks { is_once: false })
        }
        Some((symbol, "blocks-once")) if kind == ProbeKind::Kprobe => {
            (symbol, ProbeKind::Blocks { is_once: true })
        }
        Some((symbol, PATH)) if kind == ProbeKind::Kprobe => (symbol, ProbeKind::Path),
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

/// Parses the first word of an `f`, a `t` or a `w`: `LETTER[:LABEL]`. `wrong` is the error for text
/// between the letter and the label.
fn parse_short_head(head: &str, wrong: ErrorKind) -> Result<Option<Label<'_>>, Error> {
    match head.split_at_checked(1) {
        None | Some((_, "")) => Ok(None),
        Some((_, rest)) => match rest.strip_prefix(':') {
            Some(text) => Ok(Some(Label {
                text,
                at: HEAD.skip("f:".len()),
            })),
            None => Err(Error::invalid(wrong, 0, 1)),
        },
    }
}

/// Parses the first word of an `e`: `LETTER[:LABEL]`. As in C, text before the `:` has no effect,
/// and the check of the label precedes the check of the target.
fn parse_event_head(head: &str) -> Result<Option<Label<'_>>, Error> {
    let Some((before, text)) = head.split_once(':') else {
        return Ok(None);
    };
    let label = Label {
        text,
        at: HEAD.skip(before.len()).skip(":".len()),
    };
    label.parse()?;
    Ok(Some(label))
}

/// Parses `SYSTEM.NAME` or `SYSTEM/NAME`. C reports an error of either name before
/// [`ErrorKind::NoEventInfo`].
fn parse_event(word: &str) -> Result<Target<'_>, Error> {
    let label = Label {
        text: word,
        at: TARGET,
    };
    match label.parse()? {
        (Some(system), Some(name)) => Ok(Target::Event { system, name }),
        _ => Err(Error::at(ErrorKind::NoEventInfo, TARGET, Errno::EINVAL)),
    }
}

/// Parses a list of functions, and `%return` after it. `$retval` in an argument or in a clause also
/// selects the exit.
///
/// C: `parse_symbol_and_return()`.
fn parse_functions<'a>(
    word: &'a str,
    arguments: &Words<'a>,
    clauses: [Option<&Words<'a>>; 2],
) -> Result<(Target<'a>, ProbeKind), Error> {
    let (list, is_return) = match word.split_once('%') {
        None => {
            let in_arguments = find_retval(arguments).is_some();
            (
                word,
                in_arguments || clauses.into_iter().flatten().any(has_retval),
            )
        }
        Some((list, "return")) => (list, true),
        Some((list, _)) => {
            let offset = list.len();
            return Err(Error::invalid(ErrorKind::BadAddrSuffix, 1, offset));
        }
    };
    // As in C, the kernel refuses an empty pattern, because it finds no function.
    if !list.is_empty() {
        check_list(list, TARGET.word)?;
    }
    if target_functions(list).all(|item| item.is_excepted) {
        return Err(Error::at(ErrorKind::NoPattern, TARGET, Errno::EINVAL));
    }
    let kind = if is_return {
        ProbeKind::FprobeExit
    } else {
        ProbeKind::FprobeEntry
    };
    Ok((Target::Functions(list), kind))
}

/// Parses the name of a tracepoint, without its system.
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

/// Whether a clause has `$retval` outside of quotes.
fn has_retval(clause: &Words<'_>) -> bool {
    let mut rest = clause.text();
    while let Some(start) = rest.find(['"', '\'']) {
        let (before, quoted) = rest.split_at_checked(start).unwrap_or((rest, ""));
        if find_retval(&Words::new(before)).is_some() {
            return true;
        }
        let mut parts = quoted.splitn(3, |c| quoted.starts_with(c));
        rest = parts.nth(2).unwrap_or("");
    }
    find_retval(&Words::new(rest)).is_some()
}

/// Finds the first argument with `$retval`. Returns the argument's index and the byte offset of
/// `$retval`. As in C, only the first `$retval` of an argument counts.
fn find_retval(arguments: &Words<'_>) -> Option<(usize, usize)> {
    arguments.clone().enumerate().find_map(|(index, word)| {
        let (before, after) = word.split_once("$retval")?;
        let goes_on = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        (!goes_on).then_some((index, before.len()))
    })
}

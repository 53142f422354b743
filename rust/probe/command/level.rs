// SPDX-License-Identifier: GPL-2.0

//! Parses the levels of a fetch around its base.
//!
//! - `+|-[u]OFF(FETCH)` reads memory.
//! - `this_cpu_read(FETCH)` reads a per-CPU variable. `this_cpu_ptr(FETCH)` gives the address of
//!   the variable.
//! - `(STRUCT[,FIELD])FETCH->FIELDS` treats the value as a pointer to a structure, or to a field of
//!   the structure, and reads other fields. FETCH is in parentheses, or starts with another level,
//!   or ends at the first `-`.
//!
//! C: `parse_probe_arg_nested()`, `parse_probe_arg_deref()`, `parse_this_cpu()` and
//! `handle_typecast()` in `kernel/trace/trace_probe.c`.

use crate::{
    argument::{
        Deref,
        Steps, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    types::Space, //
};

use super::{
    error::ArgumentError,
    number,
    parse_context::{
        ParseContext,
        TypeInfo, //
    },
    probe_point::ProbePoint,
};

const THIS_CPU_PTR: &str = "this_cpu_ptr(";
const THIS_CPU_READ: &str = "this_cpu_read(";

/// Maximum number of levels of a fetch: one for each step that an argument can have.
///
/// C: `TRACEPROBE_MAX_NESTED_LEVEL`, which is 8 since linux 7.3. Before, only the number of fetch
/// instructions limited the levels, and tools use more than 8.
const MAX_LEVELS: usize = Steps::MAX;

/// A part of a body, and the byte offset in the body where it starts.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Text<'a> {
    /// Splits the text at byte `at`.
    pub(super) fn split(self, at: usize) -> (&'a str, Self) {
        let (before, text) = self.text.split_at_checked(at).unwrap_or((self.text, ""));
        let at = self.at.saturating_add(before.len());
        (before, Self { text, at })
    }

    /// The text after the first `len` bytes.
    pub(super) fn skip(self, len: usize) -> Self {
        self.split(len).1
    }

    /// The text before byte `end`.
    fn until(self, end: usize) -> Self {
        let text = self.split(end).0;
        Self { text, ..self }
    }

    /// Byte offset of the text in the body, for a part that keeps it.
    pub(super) fn offset(self) -> u16 {
        to_u16(self.at)
    }

    /// Byte offset of the end of the text in the body.
    pub(super) fn end(self) -> usize {
        self.at.saturating_add(self.text.len())
    }
}

/// A part of a body: byte offsets from the start of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u16,
    end: u16,
}

impl Span {
    /// The span of a part.
    pub(super) fn of(text: Text<'_>) -> Self {
        Self {
            start: to_u16(text.at),
            end: to_u16(text.end()),
        }
    }

    /// The part of `body`, from which the parser made the span.
    pub(super) fn of_body(self, body: &str) -> Text<'_> {
        let (start, end) = (usize::from(self.start), usize::from(self.end));
        Text {
            // A span that is not of this body is a mistake of the caller, and gives no text.
            text: body.get(start..end).unwrap_or(""),
            at: start,
        }
    }
}

/// Converts a byte offset in a body. A body is a part of a word, and a word has less than 4,096
/// bytes, so nothing is lost.
fn to_u16(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

/// A level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) kind: LevelKind,
    /// Byte offset in the body of the level.
    start: u16,
    /// Byte offset in the body of the text inside the level.
    inside: u16,
}

/// The action of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LevelKind {
    Deref(Deref),
    ThisCpu {
        is_read: bool,
    },
    /// The text between the parentheses, and the text of the fields.
    Cast {
        structure: Span,
        fields: Span,
    },
}

/// The levels of a fetch, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels {
    items: [Option<Level>; MAX_LEVELS],
}

impl Levels {
    /// Parses all levels of `text`. Returns them and the text inside. In place of the text, the
    /// first error in a level: the levels around it are complete, so they can be checked before it
    /// is reported.
    pub(super) fn parse(text: Text<'_>) -> (Self, Result<Text<'_>, ArgumentError>) {
        let mut this = Self::default();
        let mut inner = text;
        let mut free = this.items.iter_mut();
        while Level::starts(inner.text) {
            let Some(slot) = free.next() else {
                let kind = ErrorKind::TooManyNested;
                let error = ArgumentError::new(kind, inner.at, Errno::E2BIG);
                return (this, Err(error));
            };
            let (level, inside) = Level::parse(inner);
            *slot = level;
            inner = match inside {
                Ok(inside) => inside,
                Err(error) => return (this, Err(error)),
            };
        }
        (this, Ok(inner))
    }

    /// The levels, outermost first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Level> {
        self.items.iter().flatten()
    }

    /// The levels, outermost first.
    pub(super) fn into_iter(self) -> impl Iterator<Item = Level> {
        self.items.into_iter().flatten()
    }
}

impl Level {
    /// Whether `text` starts with a level.
    pub(super) fn starts(text: &str) -> bool {
        text.starts_with(['+', '-', '(']) || is_this_cpu(text)
    }

    /// Parses the outermost level of `text`. Returns the level and the text inside. After an error,
    /// there is a level if [`check`](Self::check) comes before the error.
    pub(super) fn parse(text: Text<'_>) -> (Option<Self>, Result<Text<'_>, ArgumentError>) {
        let (kind, inner) = match text.text.bytes().next() {
            Some(b'+' | b'-') => match parse_deref(text) {
                Ok((deref, inner)) => (LevelKind::Deref(deref), Ok(inner)),
                Err(error) => return (None, Err(error)),
            },
            Some(b'(') => match parse_cast(text) {
                Ok((structure, fields, inner)) => {
                    (LevelKind::Cast { structure, fields }, Ok(inner))
                }
                Err(error) => {
                    let (structure, fields) = Default::default();
                    (LevelKind::Cast { structure, fields }, Err(error))
                }
            },
            _ => {
                let is_read = text.text.starts_with(THIS_CPU_READ);
                let head = if is_read { THIS_CPU_READ } else { THIS_CPU_PTR };
                let inner = within_braces(text.skip(head.len()));
                (LevelKind::ThisCpu { is_read }, inner)
            }
        };
        let level = Self {
            kind,
            start: to_u16(text.at),
            inside: inner.as_ref().map_or(0, |inner| to_u16(inner.at)),
        };
        (Some(level), inner)
    }

    /// Byte offset in the body of the text inside the level.
    pub(super) fn inside(&self) -> usize {
        self.inside.into()
    }

    /// Checks that the level is available at the probe point.
    pub(super) fn check(&self, context: &ParseContext<'_>) -> Result<(), ArgumentError> {
        let at = usize::from(self.start);
        let has_types = !matches!(
            context.types,
            TypeInfo::Unsupported | TypeInfo::Event(_, None)
        );
        match self.kind {
            // A record does not contain the addresses of per-CPU variables.
            LevelKind::ThisCpu { .. } if context.point == ProbePoint::Event => {
                Err(ArgumentError::invalid(ErrorKind::NosupPercpu, at))
            }
            LevelKind::Cast { .. } if !has_types || context.point == ProbePoint::Inside => Err(
                ArgumentError::new(ErrorKind::NosupBtfarg, at, Errno::EOPNOTSUPP),
            ),
            LevelKind::Deref(_) | LevelKind::ThisCpu { .. } | LevelKind::Cast { .. } => Ok(()),
        }
    }
}

fn is_this_cpu(text: &str) -> bool {
    text.starts_with(THIS_CPU_PTR) || text.starts_with(THIS_CPU_READ)
}

/// Parses `+|-[u]OFF(FETCH)`. As in C, the parser ignores the text after the last parenthesis.
fn parse_deref(text: Text<'_>) -> Result<(Deref, Text<'_>), ArgumentError> {
    let Some(open) = text.text.find('(') else {
        return Err(ArgumentError::invalid(ErrorKind::DerefNeedBrace, text.at));
    };
    let (head, rest) = text.split(open);
    let (sign, digits) = head.split_at_checked(1).unwrap_or((head, ""));
    let (space, digits) = match digits.strip_prefix('u') {
        Some(digits) => (Space::User, digits),
        None => (Space::Kernel, digits),
    };
    let offset = match sign {
        "-" => number::negative(digits),
        _ => number::signed(digits),
    }
    .map_err(|errno| ArgumentError::new(ErrorKind::BadDerefOffs, text.at, errno))?;
    let deref = Deref {
        space,
        // As in C, the upper 32 bits have no effect.
        offset: offset as i32,
    };
    Ok((deref, within_braces(rest.skip(1))?))
}

/// The text before the last `)`.
fn within_braces(text: Text<'_>) -> Result<Text<'_>, ArgumentError> {
    match text.text.rfind(')') {
        Some(end) => Ok(text.until(end)),
        None => Err(ArgumentError::invalid(
            ErrorKind::DerefOpenBrace,
            text.end(),
        )),
    }
}

/// Parses `(STRUCT[,FIELD])FETCH->FIELDS`. Returns the spans of the text between the parentheses
/// and of the fields, and the text of FETCH.
fn parse_cast(text: Text<'_>) -> Result<(Span, Span, Text<'_>), ArgumentError> {
    let open = ErrorKind::DerefOpenBrace;
    let end = text.text.find(')');
    let end = end.ok_or(ArgumentError::invalid(open, text.end()))?;
    let structure = Span::of(text.until(end).skip(1));
    let value = text.skip(end.saturating_add(1));

    let (inner, behind) = if value.text.starts_with('(') {
        let close = matching_brace(value.text, 0).ok_or(ArgumentError::invalid(open, value.at))?;
        (
            value.until(close).skip(1),
            value.skip(close.saturating_add(1)),
        )
    } else if Level::starts(value.text) {
        let brace = value.text.find('(');
        let brace = brace.ok_or(ArgumentError::invalid(ErrorKind::DerefNeedBrace, value.at))?;
        let close = matching_brace(value.text, brace);
        let close = close.ok_or(ArgumentError::invalid(open, value.end()))?;
        let end = close.saturating_add(1);
        (value.until(end), value.skip(end))
    } else {
        if has_symbol_offset(value.text) {
            let kind = ErrorKind::TypecastSymOffset;
            return Err(ArgumentError::invalid(kind, value.at));
        }
        let end = value
            .text
            .find('-')
            .filter(|end| value.skip(*end).text.starts_with("->"));
        let end = end.unwrap_or(value.text.len());
        (value.until(end), value.skip(end))
    };
    if !behind.text.starts_with("->") {
        let kind = ErrorKind::TypecastReqField;
        return Err(ArgumentError::invalid(kind, behind.at));
    }
    let fields = Span::of(behind.skip(2));
    Ok((structure, fields, inner))
}

/// Whether the string is `@SYM+OFF...` or `@SYM-OFF...`.
fn has_symbol_offset(text: &str) -> bool {
    let sign = text.strip_prefix('@').and_then(|symbol| {
        let sign = symbol.find(['+', '-'])?;
        symbol.get(sign.saturating_add(1)..)
    });
    sign.is_some_and(|offset| offset.starts_with(|c: char| c.is_ascii_digit()))
}

/// The position of the `)` that closes the `(` at byte `open`.
///
/// C: `find_matched_close_paren()`.
fn matching_brace(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'(' => depth = depth.saturating_add(1),
            b')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

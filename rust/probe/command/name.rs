// SPDX-License-Identifier: GPL-2.0

//! The group and the event of a command. The command names them, or rkprobe derives them.
//!
//! C: `traceprobe_parse_event_name()` in `kernel/trace/trace_probe.c`, `is_good_name()` and
//! `sanitize_event_name()` in `kernel/trace/trace.h`.

use core::fmt::{
    self,
    Write as _, //
};

use crate::error::{
    Errno,
    ErrorKind, //
};

use super::{
    error::Error,
    function_list::target_functions,
    target::{
        Place,
        ProbeKind,
        Target,
        Watched, //
    },
    words::Position,
};

/// Maximum length of the name of a group or an event, in bytes. C: `MAX_EVENT_NAME_LEN`, which
/// includes the NUL.
pub const MAX_NAME: usize = 63;

/// The name of an event, with its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventName<'a> {
    /// The group: a directory in `events/`.
    pub group: &'a str,
    /// The event: a directory in the group's directory. Its `Display` writes the name.
    pub event: Event<'a>,
}

/// The name of an event within its group. `Display` writes it, at most [`MAX_NAME`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The name that the command contains.
    Given(&'a str),
    /// A name that derives from the target: `p_SYM_OFF`, `r_SYM_OFF`, `SYM__entry` or `SYM__exit`.
    /// For tracepoints and event probes, the name of the tracepoint or the event. For watchpoints,
    /// the watched symbol. For object probes, `EVENT_FIELD`. For call trees, `SYM__calls`.
    Automatic(ProbeKind, Target<'a>),
    /// A name that derives from the hash of an address: `p_0xHASH`, `r_0xHASH`. Every user who can
    /// list a directory of tracefs sees the name, so the name does not contain the address. C
    /// prints a hash, too (`%p`).
    Hashed(ProbeKind, u32),
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Given(name) => f.write_str(name),
            Self::Hashed(kind, hash) => write!(f, "{}_0x{hash:016x}", letter(kind)),
            Self::Automatic(kind, target) => {
                let mut out = Sanitized {
                    out: f,
                    room: MAX_NAME,
                };
                let letter = letter(kind);
                match target {
                    Target::Symbol { symbol, offset } => {
                        write!(out, "{letter}_{symbol}_")?;
                        match kind {
                            ProbeKind::Blocks { is_once: false } => out.write_str("blocks"),
                            ProbeKind::Blocks { is_once: true } => out.write_str("blocks_once"),
                            ProbeKind::Path => out.write_str("path"),
                            _ => write!(out, "{offset}"),
                        }
                    }
                    Target::AllNamed(name) => write!(out, "{letter}_{name}_all"),
                    // `Command::name` creates `Hashed` for an address.
                    Target::Address(_) => write!(out, "{letter}_0x"),
                    Target::Functions(list) => {
                        for (index, item) in target_functions(list).enumerate() {
                            out.write_str(if index > 0 { "_" } else { "" })?;
                            out.write_str(item.pattern)?;
                        }
                        out.write_str(if kind.is_return() {
                            "__exit"
                        } else {
                            "__entry"
                        })
                    }
                    Target::Tracepoint(name) if name.starts_with(|c: char| c.is_ascii_digit()) => {
                        write!(out, "_{name}")
                    }
                    Target::Object(target) => {
                        let source = target.sources.first();
                        write!(out, "{}_{}", source.event, source.field)?;
                        out.write_str(if kind.is_return() { "__exit" } else { "" })
                    }
                    Target::CallTree(target) => write!(out, "{}__calls", target.root),
                    Target::Tracepoint(name) | Target::Event { name, .. } => out.write_str(name),
                    Target::Memory(Watched {
                        place: Place::Symbol { symbol, .. },
                        ..
                    }) => out.write_str(symbol),
                    // Every user can read the name, so the name does not contain the address.
                    Target::Memory(_) => out.write_str("wprobe"),
                }
            }
        }
    }
}

/// The first letter of an automatic name.
fn letter(kind: ProbeKind) -> char {
    if kind.is_return() {
        'r'
    } else {
        'p'
    }
}

/// Truncates a long name. Replaces the characters that a symbol can contain but a name cannot. As
/// in C, keeps the first character.
struct Sanitized<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    room: usize,
}

impl fmt::Write for Sanitized<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| self.write_char(c))
    }

    fn write_char(&mut self, c: char) -> fmt::Result {
        let Some(room) = self.room.checked_sub(c.len_utf8()) else {
            // After a truncation, the name gets no further parts.
            self.room = 0;
            return Ok(());
        };
        let is_first = self.room == MAX_NAME;
        self.room = room;
        self.out.write_char(match c {
            ':' | '.' | '*' if !is_first => '_',
            c => c,
        })
    }
}

/// Whether `name` is valid for a group: at most [`MAX_NAME`] letters, digits, `_` and `-`, with no
/// digit first.
pub const fn is_valid_group(name: &[u8]) -> bool {
    name.len() <= MAX_NAME && is_good_name(name, true)
}

/// Whether `name` is valid for an event: a C identifier of at most [`MAX_NAME`] bytes.
pub const fn is_valid_event(name: &[u8]) -> bool {
    name.len() <= MAX_NAME && is_good_name(name, false)
}

/// Whether `name` can be the directory of an event: at most [`MAX_NAME`] visible ASCII characters,
/// with no `/`, and no `.` first. The automatic name of an event can contain a pattern, as in C:
/// `*_sys_uma?k__entry`.
pub const fn is_valid_event_directory(name: &[u8]) -> bool {
    let mut rest = name;
    while let [byte, tail @ ..] = rest {
        if !byte.is_ascii_graphic() || *byte == b'/' {
            return false;
        }
        rest = tail;
    }
    !matches!(name, [] | [b'.', ..]) && name.len() <= MAX_NAME
}

/// Whether `name` is valid for a field: a C identifier.
pub const fn is_valid_field(name: &[u8]) -> bool {
    is_good_name(name, false)
}

/// Whether `name` has the characters of a name. Groups and events also have a maximum length.
const fn is_good_name(name: &[u8], allows_hyphen: bool) -> bool {
    let mut rest = name;
    let mut is_first = true;
    while let [byte, tail @ ..] = rest {
        let is_good = byte.is_ascii_alphabetic()
            || *byte == b'_'
            || allows_hyphen && *byte == b'-'
            || !is_first && byte.is_ascii_digit();
        if !is_good {
            return false;
        }
        is_first = false;
        rest = tail;
    }
    !is_first
}

/// The label after the `:` of a command: `[GROUP/][EVENT]` or `[GROUP.][EVENT]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label<'a> {
    pub(super) text: &'a str,
    /// The position of the text.
    pub(super) at: Position,
}

impl<'a> Label<'a> {
    /// Parses the group and the event. Returns at least one of them.
    pub(super) fn parse(self) -> Result<(Option<&'a str>, Option<&'a str>), Error> {
        let Self { text, at } = self;
        let split = text.split_once('/').or_else(|| text.split_once('.'));
        let Some((group, event)) = split else {
            if text.is_empty() {
                return Err(Error::at(ErrorKind::NoEventName, at, Errno::EINVAL));
            }
            return Ok((None, Some(event_name(text, at)?)));
        };

        let wrong = if group.is_empty() {
            Some(ErrorKind::NoGroupName)
        } else if group.len() > MAX_NAME {
            Some(ErrorKind::GroupTooLong)
        } else if !is_valid_group(group.as_bytes()) {
            Some(ErrorKind::BadGroupName)
        } else {
            None
        };
        if let Some(kind) = wrong {
            return Err(Error::at(kind, at, Errno::EINVAL));
        }

        if event.is_empty() {
            return Ok((Some(group), None));
        }
        let at = at.skip(group.len()).skip("/".len());
        Ok((Some(group), Some(event_name(event, at)?)))
    }
}

fn event_name(name: &str, at: Position) -> Result<&str, Error> {
    if name.len() > MAX_NAME {
        return Err(Error::at(ErrorKind::EventTooLong, at, Errno::EINVAL));
    }
    if !is_valid_event(name.as_bytes()) {
        return Err(Error::at(ErrorKind::BadEventName, at, Errno::EINVAL));
    }
    Ok(name)
}

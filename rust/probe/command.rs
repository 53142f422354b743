// SPDX-License-Identifier: GPL-2.0

//! The text of a command, and what it says.
//!
//! The kernel checks some of a command itself, and its checks fall between those of the text; the
//! first error found is the one that is told. Hence the parts of a command are read one by one:
//!
//! 1. [`parse`]: the kind, MAXACTIVE, the form of the target;
//! 2. the caller: whether the target exists, is unique, is the entry of a function;
//! 3. [`Command::name`]: the group and the event;
//! 4. [`Command::arguments`]: what concerns all arguments, then one after the other;
//! 5. the caller: the symbols in the arguments, other probes of the event, the registration.
//!
//! Before all this, [`WithFileNames`] writes `%pd` and `%pD` out, which changes the line itself.
//!
//! What the caller finds is told by the constructors of [`Error`]. Everything is borrowed from the
//! line.
//!
//! C: `create_or_delete_trace_kprobe()` and `trace_kprobe_create_internal()` in
//! `kernel/trace/trace_kprobe.c`.
//!
//! # Examples
//!
//! ```
//! use probe::command::argument::Place;
//! use probe::command::{parse, Line};
//!
//! let Ok(Line::Create(command)) = parse("r:mine vfs_read ret=$retval:s64 # a comment") else {
//!     panic!();
//! };
//! let name = command.name().unwrap();
//! assert_eq!(name.group, "kprobes");
//!
//! let mut listing = String::new();
//! command.write_listing(&name, &mut listing).unwrap();
//! assert_eq!(listing, "r:kprobes/mine vfs_read ret=$retval:s64");
//!
//! let no_registers = |_: &str| None;
//! for argument in command.arguments(Place::Return, no_registers).unwrap() {
//!     assert_eq!(argument.unwrap().body, "$retval:s64");
//! }
//!
//! let error = parse("r0 vfs_read").unwrap_err();
//! assert_eq!(
//!     error.entry("r0 vfs_read").to_string(),
//!     "Invalid maxactive number\n  Command: r0 vfs_read\n            ^\n",
//! );
//! ```

use core::fmt;
use core::num::NonZero;

pub mod argument;
mod arguments;
mod body;
mod delete;
mod error;
mod file_names;
mod name;
mod number;
mod types;
mod words;

pub use arguments::Arguments;
pub use arguments::Registers;
pub use arguments::MAX_ARGUMENTS;
pub use delete::Delete;
pub use error::Entry;
pub use error::Errno;
pub use error::Error;
pub use error::ErrorKind;
pub use error::Normalized;
pub use error::Position;
pub use file_names::FileOffsets;
pub use file_names::WithFileNames;
pub use name::Event;
pub use name::EventName;
pub use name::DEFAULT_GROUP;
pub use name::MAX_NAME;
pub use words::Words;

use argument::Place;
use name::Label;

/// The most instances of a return probe that may be asked for.
pub const MAX_MAXACTIVE: u16 = 4096;

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// It is empty, or a comment.
    Nothing,
    /// A probe.
    Create(Command<'a>),
    /// That events go.
    Delete(Delete<'a>),
}

/// When a probe hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Before an instruction.
    Probe,
    /// After the return of a function.
    Return,
}

impl Kind {
    /// The letter that starts a command of this kind.
    pub const fn letter(self) -> char {
        match self {
            Self::Probe => 'p',
            Self::Return => 'r',
        }
    }
}

/// Where a probe goes. `Display` writes it as the listing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `[MOD:]SYM[+OFFSET]`.
    Symbol {
        /// The symbol, with its module where that is written; never empty.
        symbol: &'a str,
        /// In bytes from there.
        offset: u32,
    },
    /// An address.
    Address(u64),
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Symbol { symbol, offset: 0 } => f.write_str(symbol),
            Self::Symbol { symbol, offset } => write!(f, "{symbol}+{offset}"),
            // C prints a hashed pointer: its listing cannot be written back.
            Self::Address(address) => write!(f, "0x{address:x}"),
        }
    }
}

/// A command that makes a probe: `p` or `r`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// When the probe hits.
    pub kind: Kind,
    /// How many instances of a return probe there are, up to [`MAX_MAXACTIVE`], where that is
    /// said.
    pub maxactive: Option<NonZero<u16>>,
    /// Where the probe goes.
    pub target: Target<'a>,
    label: Option<Label<'a>>,
    arguments: Words<'a>,
}

impl<'a> Command<'a> {
    /// The group and the event, given or made.
    ///
    /// # Errors
    ///
    /// The kinds from [`ErrorKind::NoGroupName`] to [`ErrorKind::BadEventName`].
    pub fn name(&self) -> Result<EventName<'a>, Error> {
        let (group, event) = match self.label {
            Some(label) => label.parse()?,
            None => (None, None),
        };
        Ok(EventName {
            group: group.unwrap_or(DEFAULT_GROUP),
            event: event.map_or(Event::Automatic(self.kind, self.target), Event::Given),
        })
    }

    /// The arguments. `place` is what the kernel says of the target; in C an address as the target
    /// is [`Place::Inside`], whatever is there. `registers` finds a register by its name without
    /// the `%`.
    ///
    /// # Errors
    ///
    /// What concerns all of them: `$argN` and `$arg*` in the wrong place, their number, and a `%pd`
    /// that was left as it is. The iterator gives the errors of each.
    pub fn arguments(&self, place: Place, registers: Registers) -> Result<Arguments<'a>, Error> {
        Arguments::new(self.arguments.clone(), place, registers)
    }

    /// Writes the command as the events file lists it, without a newline. What it writes can be
    /// parsed again, and then writes the same.
    ///
    /// C: `trace_kprobe_show()`.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_listing<W>(&self, name: &EventName<'_>, out: &mut W) -> fmt::Result
    where
        W: fmt::Write + ?Sized,
    {
        out.write_char(self.kind.letter())?;
        if let Some(maxactive) = self.maxactive {
            write!(out, "{maxactive}")?;
        }
        write!(out, ":{}/{} {}", name.group, name.event, self.target)?;
        for (index, word) in self.arguments.clone().enumerate() {
            let (name, body) = arguments::split(word, index);
            write!(out, " {name}={body}")?;
        }
        Ok(())
    }
}

/// Reads one line, with or without its newline, up to where the kernel has to be asked.
///
/// # Errors
///
/// A character, a letter or a number that cannot be, a missing or malformed target, a delete
/// without a name. All are EINVAL.
pub fn parse(line: &str) -> Result<Line<'_>, Error> {
    let mut words = Words::new(line);
    for (index, word) in words.clone().enumerate() {
        // It ends the text for C, which then says that the line is too long.
        if let Some(offset) = word.find('\0') {
            return Err(Error::invalid(ErrorKind::NulCharacter, index, offset));
        }
    }

    let Some(head) = words.next() else {
        return Ok(Line::Nothing);
    };
    let kind = match head.bytes().next() {
        Some(b'-') => return Delete::parse(head, words).map(Line::Delete),
        Some(b'p') => Kind::Probe,
        Some(b'r') => Kind::Return,
        _ => return Err(Error::invalid(ErrorKind::NoMatchingType, 0, 0)),
    };
    let Some(target) = words.next() else {
        return Err(Error::invalid(ErrorKind::NoTarget, 1, 0));
    };

    let (maxactive, label) = parse_head(head, kind)?;
    let (target, kind) = parse_target(target, kind)?;
    Ok(Line::Create(Command {
        kind,
        maxactive,
        target,
        label,
        arguments: words,
    }))
}

/// What follows the letter: `[MAXACTIVE][:LABEL]`. As in C, something else than a number in front
/// of the `:` means nothing.
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
    // C reads it as 32 bits: what does not fit is not too big but wrong. It then takes the upper
    // half of these for negative, which passes its check; here that is too big.
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
        None => (word, kind),
        Some((symbol, "return")) => (symbol, Kind::Return),
        Some((symbol, _)) => {
            let offset = symbol.len();
            return Err(Error::invalid(ErrorKind::BadAddrSuffix, 1, offset));
        }
    };
    argument::split_symbol(symbol)
        .ok()
        .filter(|(symbol, _)| !symbol.is_empty())
        .and_then(|(symbol, offset)| {
            let offset = u32::try_from(offset).ok()?;
            Some((Target::Symbol { symbol, offset }, kind))
        })
        .ok_or(Error::invalid(ErrorKind::BadProbeAddr, 1, 0))
}

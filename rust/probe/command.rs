// SPDX-License-Identifier: GPL-2.0

//! The text of a command, and what it says.
//!
//! The kernel checks some of a command itself, and its checks fall between those of the text; the
//! first error found is the one that is told. Hence the parts of a command are read one by one:
//!
//! 1. [`parse`]: the kind, MAXACTIVE, the form of the target;
//! 2. the caller: whether the target exists, is unique, is the entry of a function;
//! 3. [`Command::name`]: the group and the event;
//! 4. [`Command::expand`]: the arguments that stand for others, which the caller writes out;
//! 5. [`Command::arguments`]: what concerns all arguments, then one after the other;
//! 6. the caller: the symbols in the arguments, other probes of the event, the registration.
//!
//! What the caller finds is told by the constructors of [`Error`]. Everything is borrowed from the
//! line. What is accepted becomes a [`ProbeSpec`], which owns what it says.
//!
//! For functions by ftrace and for tracepoints the kernel is asked last, with the registration.
//!
//! C: `create_or_delete_trace_kprobe()` and `trace_kprobe_create_internal()` in
//! `kernel/trace/trace_kprobe.c`, `trace_fprobe_create_internal()` in
//! `kernel/trace/trace_fprobe.c`, `__trace_eprobe_create()` in `kernel/trace/trace_eprobe.c`,
//! `create_dyn_event()` in `kernel/trace/trace_dynevent.c`.
//!
//! # Examples
//!
//! ```
//! use probe::command::{parse, Line, ParseContext, ProbePoint, ProbeSpec, TypeInfo};
//!
//! let Ok(Line::Create(command)) = parse("r:mine vfs_read ret=$retval:s64 # a comment") else {
//!     panic!();
//! };
//! let name = command.name(|_| 0).unwrap();
//! assert_eq!(name.group, "kprobes");
//!
//! let text = |text: std::fmt::Arguments<'_>| Ok::<_, ()>(text.to_string());
//! let probe = ProbeSpec::new(&command, &name, text).unwrap();
//! assert_eq!(probe.to_string(), "r:kprobes/mine vfs_read ret=$retval:s64");
//! assert_eq!(probe.command().kind, command.kind);
//!
//! let no_registers = |_: &str| None;
//! let context = ParseContext { point: ProbePoint::Return, types: TypeInfo::Unsupported };
//! for argument in command.arguments(context, no_registers).unwrap() {
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

mod arguments;
mod body;
mod delete;
mod error;
mod expansion;
mod masked;
mod name;
mod number;
mod parse_context;
mod spec;
mod symbol;
mod types;
mod words;

pub use arguments::Arguments;
pub use arguments::Registers;
pub use arguments::MAX_ARGUMENTS;
pub use delete::Delete;
pub use error::Entry;
pub use error::Error;
pub use error::Normalized;
pub use error::Position;
pub use expansion::Expansion;
pub use expansion::FileOffsets;
pub use masked::has_address;
pub use masked::Masked;
pub use name::Event;
pub use name::EventName;
pub use name::MAX_NAME;
pub use parse_context::ParseContext;
pub use parse_context::ProbePoint;
pub use parse_context::RecordFields;
pub use parse_context::TypeInfo;
pub use spec::ProbeSpec;
pub use symbol::split_symbol;
pub use words::Words;

use name::Label;

use crate::error::ErrorKind;

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

/// When a probe hits, and by which part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Before an instruction: a kprobe.
    Probe,
    /// After the return of a function: a kretprobe.
    Return,
    /// Before each instruction with which a function returns: kprobes. Ours; C has no such.
    ReturnInsn,
    /// At the entry of functions: an fprobe.
    Entry,
    /// At the exit of functions: an fprobe.
    Exit,
    /// At a tracepoint.
    Tracepoint,
    /// When a trace event is recorded: an event probe.
    Event,
}

impl Kind {
    /// The letter that starts a command of this kind.
    pub const fn letter(self) -> char {
        match self {
            Self::Probe | Self::ReturnInsn => 'p',
            Self::Return => 'r',
            Self::Entry | Self::Exit => 'f',
            Self::Tracepoint => 't',
            Self::Event => 'e',
        }
    }

    /// The group of the events whose command names none.
    pub const fn default_group(self) -> &'static str {
        match self {
            Self::Probe | Self::Return | Self::ReturnInsn => "kprobes",
            Self::Entry | Self::Exit => "fprobes",
            Self::Tracepoint => "tracepoints",
            Self::Event => "eprobes",
        }
    }

    /// Does it hit when a function returns?
    pub const fn is_return(self) -> bool {
        matches!(self, Self::Return | Self::ReturnInsn | Self::Exit)
    }

    /// Is the probe registered only while its event is enabled?
    pub const fn is_registered_with_event(self) -> bool {
        matches!(self, Self::Entry | Self::Exit | Self::Tracepoint)
    }

    /// Is it in the file of the kprobes? Only probes of which this says the same can share an
    /// event.
    pub const fn is_kprobe(self) -> bool {
        matches!(self, Self::Probe | Self::Return | Self::ReturnInsn)
    }
}

/// The kind of file that a line is written to. It decides which commands are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsFile {
    /// `rkprobe_events` and `kprobe_events`: kprobes and kretprobes.
    KprobeEvents,
    /// `rkprobe_dynamic_events` and `dynamic_events`: probes of all kinds.
    DynamicEvents,
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
    /// The functions whose names match a pattern.
    Functions(&'a str),
    /// The tracepoint of this name.
    Tracepoint(&'a str),
    /// The trace event `SYSTEM.NAME`, or `SYSTEM/NAME`.
    Event {
        /// Its group.
        system: &'a str,
        /// Its name there.
        name: &'a str,
    },
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Symbol { symbol, offset: 0 } => f.write_str(symbol),
            Self::Symbol { symbol, offset } => write!(f, "{symbol}+{offset}"),
            // C prints a hashed pointer: its listing cannot be written back.
            Self::Address(address) => write!(f, "0x{address:x}"),
            Self::Functions(name) | Self::Tracepoint(name) => f.write_str(name),
            Self::Event { system, name } => write!(f, "{system}.{name}"),
        }
    }
}

/// A command that makes a probe: `p`, `r`, `f`, `t` or `e`.
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
    /// What follows the `if` of an event probe.
    filter: Option<Words<'a>>,
}

impl<'a> Command<'a> {
    /// The group and the event, given or made. `hash` makes a number of an address from which
    /// nobody can find the address out.
    ///
    /// # Errors
    ///
    /// The kinds from [`ErrorKind::NoGroupName`] to [`ErrorKind::BadEventName`].
    pub fn name(&self, hash: impl FnOnce(u64) -> u32) -> Result<EventName<'a>, Error> {
        let (group, event) = match self.label {
            Some(label) => label.parse()?,
            None => (None, None),
        };
        let event = match (event, self.target) {
            (Some(name), _) => Event::Given(name),
            (None, Target::Address(address)) => Event::Hashed(self.kind, hash(address)),
            (None, target) => Event::Automatic(self.kind, target),
        };
        Ok(EventName {
            group: group.unwrap_or(self.kind.default_group()),
            event,
        })
    }

    /// Which records of the event an event probe is for, if not for all: the filter's `Display`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoEpFilter`] where none follows the `if`. C says so when it has found the
    /// event.
    pub fn filter(&self) -> Result<Option<Normalized<'a>>, Error> {
        let Some(filter) = self.filter.clone() else {
            return Ok(None);
        };
        let filter = filter.text();
        if filter.trim_start_matches(words::is_space).is_empty() {
            // The words so far, and the `if`.
            let word = self.arguments.clone().count().saturating_add(3);
            return Err(Error::invalid(ErrorKind::NoEpFilter, word, 0));
        }
        Ok(Some(Normalized(filter)))
    }

    /// Whether an argument needs [`TypeInfo`].
    pub fn needs_types(&self) -> bool {
        self.arguments.clone().any(body::needs_types)
    }

    /// Writes out the arguments that stand for others; `None` where there are none. The command
    /// then goes on [with the text](Self::with_arguments).
    ///
    /// # Errors
    ///
    /// `$argN` and `$arg*` in the wrong place or with a wrong number, and what there is no room
    /// for.
    pub fn expand<'c>(
        &'c self,
        context: ParseContext<'c>,
        offsets: FileOffsets,
    ) -> Result<Option<Expansion<'c>>, Error> {
        // In C an event probe has none of them.
        if self.kind == Kind::Event {
            return Ok(None);
        }
        Expansion::new(self.arguments.clone(), context, offsets)
    }

    /// The same command with other arguments.
    pub fn with_arguments<'c>(&self, arguments: &'c str) -> Command<'c>
    where
        'a: 'c,
    {
        Command {
            arguments: Words::new(arguments),
            ..self.clone()
        }
    }

    /// Moves an error of `expanded`, which was made of this command, to its position in this
    /// command.
    pub fn error_before_expansion(&self, expanded: &Command<'_>, error: Error) -> Error {
        expansion::error_before_expansion(&self.arguments, &expanded.arguments, error)
    }

    /// The arguments. The caller derives `context` from what the kernel knows about the target. As
    /// in C, the point of a target that is an address is always [`ProbePoint::Inside`].
    /// `registers` finds a register by its name without the `%`.
    ///
    /// # Errors
    ///
    /// Their number. The iterator gives the errors of each.
    pub fn arguments<'c>(
        &self,
        context: ParseContext<'c>,
        registers: Registers,
    ) -> Result<Arguments<'c>, Error>
    where
        'a: 'c,
    {
        // Of the others the kernel saves only some.
        let registers = self.kind.is_kprobe().then_some(registers);
        Arguments::new(self.arguments.clone(), context, registers)
    }
}

/// Reads one line of [`EventsFile::KprobeEvents`], see [`EventsFile::parse`].
///
/// # Errors
///
/// As there.
pub fn parse(line: &str) -> Result<Line<'_>, Error> {
    EventsFile::KprobeEvents.parse(line)
}

impl EventsFile {
    /// Reads one line, with or without its newline, up to where the kernel has to be asked.
    ///
    /// # Errors
    ///
    /// A character, a letter or a number that cannot be, a missing or malformed target, a delete
    /// without a name. All are EINVAL.
    pub fn parse(self, line: &str) -> Result<Line<'_>, Error> {
        let mut words = Words::new(line);
        for (index, word) in words.clone().enumerate() {
            // It ends the text for C, which then says that the line is too long.
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
            Kind::Entry | Kind::Exit | Kind::Tracepoint => (None, parse_short_head(head)?),
            Kind::Event => (None, parse_event_head(head)?),
        };
        let (target, kind) = match kind {
            Kind::Probe | Kind::Return | Kind::ReturnInsn => parse_target(target, kind)?,
            Kind::Entry | Kind::Exit => parse_functions(target, &words)?,
            Kind::Tracepoint => (parse_tracepoint(target, &words)?, kind),
            Kind::Event => (parse_event(target)?, kind),
        };
        if kind == Kind::ReturnInsn && maxactive.is_some() {
            return Err(Error::invalid(ErrorKind::MaxactOnRetinsn, 0, 1));
        }
        let (arguments, filter) = match kind {
            Kind::Event => words.split_at("if"),
            _ => (words, None),
        };
        // Of the others C counts the arguments when it has found the target.
        if kind == Kind::Event {
            arguments::count(&arguments)?;
        }
        Ok(Line::Create(Command {
            kind,
            maxactive,
            target,
            label,
            arguments,
            filter,
        }))
    }

    /// Whose error this is, as the error log says it in front of the text. `line` is what was
    /// parsed.
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
            (Self::DynamicEvents, _) => "dynevent",
        }
    }
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

/// What follows the letter of an `f` or a `t`: `[:LABEL]`.
fn parse_short_head(head: &str) -> Result<Option<Label<'_>>, Error> {
    match head.split_at_checked(1) {
        None | Some((_, "")) => Ok(None),
        Some((_, rest)) => match rest.strip_prefix(':') {
            Some(text) => Ok(Some(Label { text, offset: 2 })),
            None => Err(Error::invalid(ErrorKind::BadMaxact, 0, 1)),
        },
    }
}

/// What follows the letter of an `e`: `[:LABEL]`. As in C, anything in front of the `:` means
/// nothing. A label is looked at before the target is.
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

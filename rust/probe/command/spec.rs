// SPDX-License-Identifier: GPL-2.0

//! A probe as a value: the content of its command, after all checks.
//!
//! The listing is written from it, two probes are compared by it, a delete command is matched with
//! it, and the probe is registered from it as often as that is needed.

use core::{
    fmt,
    num::NonZero, //
};

use super::{
    arguments::WrittenArgument,
    create::Command,
    delete::Delete,
    error::Normalized,
    name::EventName,
    target::{
        ProbeKind,
        Target, //
    },
    target_parts::{
        to_u16,
        TargetParts, //
    },
    words::{
        is_space,
        Length,
        Position,
        Words, //
    },
};

/// The content of a command, as spans in a string of its own. In this string, the event and each
/// argument have a name, and one space separates two words.
///
/// `T` is a string in the user's memory, see [`SpecText`]. `Display` writes the command in
/// canonical form, for the listing. Parsing this form gives the same probe, except if the automatic
/// name of a pattern is not a valid name, such as `*_open__entry`, or if a symbol looks like a
/// number.
///
/// C: `trace_kprobe_show()`, `trace_fprobe_show()`, `eprobe_dyn_event_show()`, which leaves the
/// filter out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSpec<T> {
    kind: ProbeKind,
    maxactive: Option<NonZero<u16>>,
    /// The ends of the group and the event in the string. A name has at most
    /// [`MAX_NAME`](super::MAX_NAME) bytes.
    name_ends: [u8; 2],
    /// The end of the target in the string.
    target_end: u16,
    /// `GROUP/EVENT TARGET[%SUFFIX] NAME=BODY... [by KEYS] [if CONDITION]`
    text: T,
}

/// A string in the user's memory, with the parts of the target that is in it.
pub trait SpecText {
    /// The string.
    fn text(&self) -> &str;

    /// The parts of the target.
    fn target(&self) -> TargetParts;
}

/// Any string, beside the parts.
impl<T: AsRef<str>> SpecText for (T, TargetParts) {
    fn text(&self) -> &str {
        self.0.as_ref()
    }

    fn target(&self) -> TargetParts {
        self.1
    }
}

impl<T: SpecText> ProbeSpec<T> {
    /// Makes the value of a command with these arguments, whose event gets this name. `make` makes
    /// the string.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub fn new<E>(
        command: &Command<'_>,
        arguments: &[WrittenArgument<'_>],
        name: &EventName<'_>,
        make: impl FnOnce(fmt::Arguments<'_>, TargetParts) -> Result<T, E>,
    ) -> Result<Self, E> {
        let suffix = match (command.kind, command.target) {
            (_, Target::AllNamed(_)) => "%all",
            (ProbeKind::FprobeExit, _) => "%return",
            (ProbeKind::Kretinsn, _) => "%retinsn",
            (ProbeKind::Blocks { is_once: false }, _) => "%blocks",
            (ProbeKind::Blocks { is_once: true }, _) => "%blocks-once",
            (ProbeKind::Path, _) => "%path",
            _ => "",
        };
        let arguments = Listed(arguments);
        let by = Clause(BY, command.by.as_ref());
        let filter = Clause(IF, command.filter.as_ref());
        let group = len(format_args!("{}", name.group));
        let event = after(group, 1, format_args!("{}", name.event));
        let target = after(event, 1, format_args!("{}{suffix}", command.target));
        let text = make(
            format_args!(
                "{}/{} {}{suffix}{arguments}{by}{filter}",
                name.group, name.event, command.target,
            ),
            TargetParts::of(&command.target),
        )?;
        Ok(Self {
            kind: command.kind,
            maxactive: command.maxactive,
            name_ends: [to_u8(group), to_u8(event)],
            target_end: to_u16(target),
            text,
        })
    }

    /// The same value with a copy of the string, which `copy` makes.
    ///
    /// # Errors
    ///
    /// The errors of `copy`.
    pub fn try_clone<E>(&self, copy: impl FnOnce(&T) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self {
            text: copy(&self.text)?,
            ..*self
        })
    }

    /// When it hits.
    pub const fn kind(&self) -> ProbeKind {
        self.kind
    }

    /// The number of instances of a return probe that the command requests.
    pub const fn maxactive(&self) -> Option<NonZero<u16>> {
        self.maxactive
    }

    /// The directory of its event below `events/`.
    pub fn group(&self) -> &str {
        let [group, _] = self.name_ends;
        self.span(0, group.into())
    }

    /// The name of its event.
    pub fn event(&self) -> &str {
        let [group, event] = self.name_ends;
        self.span(usize::from(group).saturating_add(1), event.into())
    }

    /// The target.
    pub fn target(&self) -> Target<'_> {
        self.text.target().target(self.target_text())
    }

    /// The command: resolving it again gives the same probe, where the kernel still says the same.
    pub fn command(&self) -> Command<'_> {
        let words = Words::new(self.span(self.target_end.into(), self.text().len()));
        let (arguments, by, filter) = split_clauses(words);
        let target = self.target();
        let access = match target {
            Target::Memory(watched) => watched.access.text().len().saturating_add("@".len()),
            _ => 0,
        };
        Command {
            kind: self.kind,
            maxactive: self.maxactive,
            target,
            place_at: Position {
                word: 1,
                offset: access,
            },
            label: None,
            arguments,
            by,
            filter,
        }
    }

    /// Whether both are the same probe of an event: the same target with the same arguments.
    ///
    /// C: `trace_kprobe_has_same_kprobe()`, `trace_fprobe_has_same_fprobe()`.
    pub fn is_same_probe<U: SpecText>(&self, other: &ProbeSpec<U>) -> bool {
        self.without_name() == other.without_name()
    }

    /// Whether a delete command matches the probe.
    pub fn is_deleted_by(&self, delete: &Delete<'_>) -> bool {
        self.matches(delete.group, delete.event, delete.words.clone())
    }

    /// Whether the probe has this group, if given, and this event, if not empty, and begins with
    /// these words: first its target, then its arguments from the first on.
    ///
    /// The memory that a watchpoint watches also matches without its length.
    ///
    /// An argument is written as `NAME=BODY`, so one without its name does not match. Unlike in C,
    /// a target of more than 63 bytes can match, and one with its `%return`.
    pub fn matches<'w>(
        &self,
        group: Option<&str>,
        event: &str,
        mut words: impl Iterator<Item = &'w str>,
    ) -> bool {
        let is_target = |word: &str| {
            let target = self.target_text();
            target == word
                || target.strip_suffix("%return") == Some(word)
                || self.kind == ProbeKind::EventProbe
                    && target.split_once('.') == word.split_once('/')
                || self.kind == ProbeKind::Watchpoint && without_length(target) == word
                || (self.kind.is_object() || self.kind == ProbeKind::CallTree)
                    && Words::new(target).next() == Some(word)
        };
        let mut listed = Words::new(self.without_name()).skip(1);
        (event.is_empty() || event == self.event())
            && group.is_none_or(|group| group == self.group())
            && words.next().is_none_or(is_target)
            && words.all(|word| listed.next() == Some(word))
    }

    /// The line of the listing, without the letter, MAXACTIVE and the `:`.
    pub fn text(&self) -> &str {
        self.text.text()
    }

    /// The target in the form of the listing: with the suffix of its kind.
    pub fn target_text(&self) -> &str {
        let [_, event] = self.name_ends;
        self.span(usize::from(event).saturating_add(1), self.target_end.into())
    }

    fn without_name(&self) -> &str {
        let [_, event] = self.name_ends;
        let start = usize::from(event).saturating_add(1);
        self.text().get(start..).unwrap_or("")
    }

    /// A part of the string. All spans come from `new()`, which made the string, too.
    fn span(&self, start: usize, end: usize) -> &str {
        self.text().get(start..end).unwrap_or("")
    }
}

impl<T: SpecText> fmt::Display for ProbeSpec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind.letter())?;
        if let Some(maxactive) = self.maxactive {
            write!(f, "{maxactive}")?;
        }
        write!(f, ":{}", self.text())
    }
}

/// The memory that a watchpoint watches, without `:LEN`.
fn without_length(target: &str) -> &str {
    match target.rsplit_once(':') {
        Some((place, len)) if len.starts_with(|c: char| c.is_ascii_digit()) => place,
        _ => target,
    }
}

/// Arguments as `NAME=BODY`, with a space in front of each.
struct Listed<'a>(&'a [WrittenArgument<'a>]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for argument in self.0 {
            write!(f, " {}={}", argument.name, argument.body)?;
        }
        Ok(())
    }
}

/// The word before the condition.
const IF: &str = "if";

/// The word before the keys.
const BY: &str = "by";

/// Splits the words after the target into the arguments, the words after `by`, and those after
/// `if`.
pub(super) fn split_clauses(words: Words<'_>) -> (Words<'_>, Option<Words<'_>>, Option<Words<'_>>) {
    let (words, filter) = words.split_at(IF);
    let (words, by) = words.split_at(BY);
    (words, by, filter)
}

/// A clause after the arguments, if the command has it: its first word, and the others.
struct Clause<'a>(&'static str, Option<&'a Words<'a>>);

impl fmt::Display for Clause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(words) = self.1 else {
            return Ok(());
        };
        write!(f, " {}", self.0)?;
        match words.text().trim_start_matches(is_space) {
            "" => Ok(()),
            text => write!(f, " {}", Normalized(text)),
        }
    }
}

/// The length of the string in bytes.
fn len(text: fmt::Arguments<'_>) -> usize {
    let mut length = Length(0);
    // This does not fail.
    let _ = fmt::write(&mut length, text);
    length.0
}

/// The end of a name. The names of a group and an event have at most 63 bytes each, so nothing is
/// lost.
fn to_u8(end: usize) -> u8 {
    u8::try_from(end).unwrap_or(u8::MAX)
}

/// The end of a string that starts `gap` bytes after `end`.
fn after(end: usize, gap: usize, text: fmt::Arguments<'_>) -> usize {
    end.saturating_add(gap).saturating_add(len(text))
}

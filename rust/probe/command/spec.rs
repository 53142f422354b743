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
    parse::parse_target,
    target::{
        ProbeKind,
        Target, //
    },
    words::{
        Length,
        Position,
        Words, //
    },
};

/// The content of a command, as spans in a string of its own. In this string, the event and each
/// argument have a name, and one space separates two words.
///
/// `T` is a string in the user's memory. `Display` writes the command in canonical form, for the
/// listing. Parsing this form gives the same probe, except if the automatic name of a pattern is
/// not a valid name, such as `*_open__entry`.
///
/// C: `trace_kprobe_show()`, `trace_fprobe_show()`, `eprobe_dyn_event_show()`, which leaves the
/// filter out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSpec<T> {
    kind: ProbeKind,
    maxactive: Option<NonZero<u16>>,
    /// The ends of the group, the event and the target in the string. A line has at most 4,095
    /// bytes, but an expansion can make the arguments longer.
    ends: [u16; 3],
    /// The end of the arguments in the string.
    arguments_end: u32,
    /// `GROUP/EVENT TARGET[%SUFFIX] NAME=BODY... [if FILTER]`
    text: T,
}

impl<T: AsRef<str>> ProbeSpec<T> {
    /// Makes the value of a command with these arguments, whose event gets this name. `make` makes
    /// the text.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub fn new<E>(
        command: &Command<'_>,
        arguments: &[WrittenArgument<'_>],
        name: &EventName<'_>,
        make: impl FnOnce(fmt::Arguments<'_>) -> Result<T, E>,
    ) -> Result<Self, E> {
        let suffix = match (command.kind, command.target) {
            (_, Target::AllNamed(_)) => "%all",
            (ProbeKind::FprobeExit, _) => "%return",
            (ProbeKind::Kretinsn, _) => "%retinsn",
            _ => "",
        };
        let arguments = Listed(arguments);
        let (before_filter, filter) = match &command.filter {
            Some(filter) => (" if ", filter.text()),
            None => ("", ""),
        };
        let group = len(format_args!("{}", name.group));
        let event = after(group, 1, format_args!("{}", name.event));
        let target = after(event, 1, format_args!("{}{suffix}", command.target));
        let arguments_end = after(target, 0, format_args!("{arguments}"));
        let text = make(format_args!(
            "{}/{} {}{suffix}{arguments}{before_filter}{}",
            name.group,
            name.event,
            command.target,
            Normalized(filter),
        ))?;
        Ok(Self {
            kind: command.kind,
            maxactive: command.maxactive,
            ends: [to_u16(group), to_u16(event), to_u16(target)],
            arguments_end,
            text,
        })
    }

    /// The same value with a copy of the text, which `copy` makes.
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
        let [group, ..] = self.ends;
        self.span(0, group.into())
    }

    /// The name of its event.
    pub fn event(&self) -> &str {
        let [group, event, ..] = self.ends;
        self.span(u32::from(group).saturating_add(1), event.into())
    }

    /// The target.
    pub fn target(&self) -> Target<'_> {
        let mut words = Words::new(self.target_text());
        let word = words.next().unwrap_or("");
        match parse_target(self.kind, word, &mut words) {
            Ok((target, _)) => target,
            // This does not happen, because the text was written from a target.
            Err(_) => Target::Functions(""),
        }
    }

    /// The command: resolving it again gives the same probe, where the kernel still says the same.
    pub fn command(&self) -> Command<'_> {
        let [.., target_end] = self.ends;
        let end = self.arguments_end;
        let rest = self.text.as_ref().get(end as usize..).unwrap_or("");
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
            arguments: Words::new(self.span(target_end.into(), end)),
            filter: rest.strip_prefix(" if ").map(Words::new),
        }
    }

    /// Whether both are the same probe of an event: the same target with the same arguments.
    ///
    /// C: `trace_kprobe_has_same_kprobe()`, `trace_fprobe_has_same_fprobe()`.
    pub fn is_same_probe<U: AsRef<str>>(&self, other: &ProbeSpec<U>) -> bool {
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
                || self.kind.is_object() && Words::new(target).next() == Some(word)
        };
        let mut listed = Words::new(self.without_name()).skip(1);
        (event.is_empty() || event == self.event())
            && group.is_none_or(|group| group == self.group())
            && words.next().is_none_or(is_target)
            && words.all(|word| listed.next() == Some(word))
    }

    /// The line of the listing, without the letter, MAXACTIVE and the `:`.
    pub fn text(&self) -> &str {
        self.text.as_ref()
    }

    /// The target in the form of the listing: with the suffix of its kind.
    pub fn target_text(&self) -> &str {
        let [_, event, target] = self.ends;
        self.span(u32::from(event).saturating_add(1), target.into())
    }

    fn without_name(&self) -> &str {
        let [_, event, ..] = self.ends;
        let start = usize::from(event).saturating_add(1);
        self.text.as_ref().get(start..).unwrap_or("")
    }

    fn span(&self, start: u32, end: u32) -> &str {
        let text = self.text.as_ref();
        text.get(start as usize..end as usize).unwrap_or("")
    }
}

impl<T: AsRef<str>> fmt::Display for ProbeSpec<T> {
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

/// The length of the string in bytes.
fn len(text: fmt::Arguments<'_>) -> u32 {
    let mut length = Length(0);
    // This does not fail.
    let _ = fmt::write(&mut length, text);
    u32::try_from(length.0).unwrap_or(u32::MAX)
}

/// The number in 16 bits. A line is shorter than 64 KiB, so this loses nothing.
fn to_u16(len: u32) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// The end of a string that starts `gap` bytes after `end`.
fn after(end: u32, gap: u32, text: fmt::Arguments<'_>) -> u32 {
    end.saturating_add(gap).saturating_add(len(text))
}

// SPDX-License-Identifier: GPL-2.0

//! Parses the text after `by`: `[KEY,KEY...] [sum FIELD,...] [min FIELD,...] [max FIELD,...]
//! [size=N]`.
//!
//! A KEY is `VALUE[.MODIFIER]`, with the modifiers of the kernel's histograms. The parser needs no
//! data from the kernel: see [`Command::resolve_keys`](super::Command::resolve_keys).
//!
//! C: `parse_hist_trigger_attrs()` and `parse_field()` in `kernel/trace/trace_events_hist.c`.

use core::{
    iter,
    num::NonZeroU64, //
};

use crate::{
    count_value::Operation,
    counting::Modifier,
    error::{
        Errno,
        ErrorKind, //
    },
};

use super::{
    arguments::WrittenArgument,
    error::Error,
    number,
    words::{
        Position,
        Words, //
    },
};

/// Maximum number of keys.
pub const MAX_KEYS: usize = 4;

/// Maximum number of fields of an operation.
const MAX_FIELDS: usize = 4;

/// The number of entries of a table without a `size`.
///
/// C: `TRACING_MAP_BITS_DEFAULT`.
const DEFAULT_TABLE_SIZE: u32 = 2048;

/// The smallest size of a table.
///
/// C: `TRACING_MAP_BITS_MIN`.
const MIN_TABLE_SIZE: u32 = 128;

/// The start of the word with the size of the table.
const SIZE: &str = "size=";

/// A key or a field, as the user wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// The text without the modifier.
    pub(super) text: &'a str,
    at: Position,
    pub(super) modifier: Modifier,
}

impl<'a> Item<'a> {
    /// An item without a modifier, which is at `at`.
    const fn plain(text: &'a str, at: Position) -> Self {
        Self {
            text,
            at,
            modifier: Modifier::None,
        }
    }

    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        self.error_at(kind, 0)
    }

    /// Creates an error of the modifier, which is after the text and a `.`.
    pub(super) fn modifier_error(&self, kind: ErrorKind) -> Error {
        self.error_at(kind, self.text.len().saturating_add(1))
    }

    /// Creates an error at byte `offset`.
    pub(super) fn error_at(&self, kind: ErrorKind, offset: usize) -> Error {
        Error::at(kind, self.at.skip(offset), Errno::EINVAL)
    }

    fn operand(&self, is_event: bool) -> WrittenArgument<'a> {
        WrittenArgument::operand(self.text, self.at, is_event)
    }
}

/// A list of items. It keeps only the text, because the kernel's stack is small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Items<'a> {
    /// `None` if the command does not contain the list.
    text: Option<&'a str>,
    at: Position,
}

impl<'a> Items<'a> {
    /// Parses the items. `parse_item` parses one.
    fn each(self, parse_item: ParseItem<'a>) -> impl Iterator<Item = Result<Item<'a>, Error>> {
        let Self { mut text, mut at } = self;
        iter::from_fn(move || {
            let (item, rest) = split_item(text?);
            let parsed = parse_item(item, at);
            text = rest;
            at = at.skip(item.len()).skip(",".len());
            Some(parsed)
        })
    }

    /// Checks that there are at most `max` items, that they differ, and that none is empty.
    fn check(
        self,
        parse_item: ParseItem<'a>,
        max: usize,
        none: ErrorKind,
        too_many: ErrorKind,
    ) -> Result<(), Error> {
        for (index, item) in self.each(parse_item).enumerate() {
            let item = item?;
            if item.text.is_empty() {
                return Err(item.error(none));
            }
            let mut earlier = self.each(parse_item).take(index).flatten();
            if earlier.any(|earlier| earlier.text == item.text) {
                return Err(item.error(ErrorKind::SameKey));
            }
            if index >= max {
                return Err(item.error(too_many));
            }
        }
        Ok(())
    }
}

/// Parses the text of an item. The position is that of the text in the command.
type ParseItem<'a> = fn(&'a str, Position) -> Result<Item<'a>, Error>;

/// The keys, the fields and the size of a table, as the user wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By<'a> {
    keys: Items<'a>,
    /// The fields of each [operation](Operation::ALL).
    fields: [Items<'a>; Operation::ALL.len()],
    size: u32,
    /// Whether the probe is an event probe.
    is_event: bool,
}

impl<'a> By<'a> {
    /// Parses `words`. The first one has the index `first_word` in the command. `is_event` is
    /// whether the probe is an event probe.
    ///
    /// # Errors
    ///
    /// The kinds from [`ErrorKind::NoKey`] to [`ErrorKind::BadTableSize`], all EINVAL.
    pub(super) fn parse(
        words: Words<'a>,
        first_word: usize,
        is_event: bool,
    ) -> Result<Self, Error> {
        let mut by = Self {
            keys: Items::default(),
            fields: Default::default(),
            size: DEFAULT_TABLE_SIZE,
            is_event,
        };
        let mut words = words.enumerate().peekable();
        let at = |index| Position {
            word: first_word.saturating_add(index),
            offset: 0,
        };
        let is_operation = |word: &str| Operation::ALL.iter().any(|of| of.word() == word);
        let is_key = |word: &str| !is_operation(word) && !word.starts_with(SIZE);
        if let Some((index, word)) = words.next_if(|(_, word)| is_key(word)) {
            by.keys = Items {
                text: Some(word),
                at: at(index),
            };
            let (none, too_many) = (ErrorKind::NoKey, ErrorKind::TooManyKeys);
            by.keys.check(parse_key, MAX_KEYS, none, too_many)?;
        }
        for (operation, fields) in Operation::ALL.iter().zip(&mut by.fields) {
            let Some((index, _)) = words.next_if(|(_, word)| *word == operation.word()) else {
                continue;
            };
            let word = words.next_if(|(_, word)| !word.starts_with(SIZE));
            *fields = Items {
                text: Some(word.map_or("", |(_, word)| word)),
                at: at(index.saturating_add(1)),
            };
            let (none, too_many) = (ErrorKind::NoField, ErrorKind::TooManyFields);
            fields.check(parse_field, MAX_FIELDS, none, too_many)?;
        }
        if let Some((index, word)) = words.next_if(|(_, word)| word.starts_with(SIZE)) {
            let size = word.strip_prefix(SIZE).unwrap_or(word);
            let wrong = Error::at(
                ErrorKind::BadTableSize,
                at(index).skip(SIZE.len()),
                Errno::EINVAL,
            );
            by.size = number::unsigned(size, 0)
                .ok()
                .and_then(|size| u32::try_from(size).ok())
                .filter(|size| size.is_power_of_two())
                .filter(|size| (MIN_TABLE_SIZE..=crate::count_table::MAX_CAPACITY).contains(size))
                .ok_or(wrong)?;
        }
        match words.next() {
            Some((index, _)) => Err(Error::at(ErrorKind::BadBy, at(index), Errno::EINVAL)),
            None => Ok(by),
        }
    }

    /// The maximum number of entries of the table.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The values of the keys, in their order, without their modifiers.
    pub fn key_operands(&self) -> impl Iterator<Item = WrittenArgument<'a>> + use<'a, '_> {
        self.keys().map(|item| item.operand(self.is_event))
    }

    /// The fields of all operations, in their order.
    pub fn field_operands(&self) -> impl Iterator<Item = WrittenArgument<'a>> + use<'a, '_> {
        self.fields().map(|(_, item)| item.operand(self.is_event))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Item<'a>> + use<'a> {
        // `parse` has checked the items.
        self.keys.each(parse_key).flatten()
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (Operation, Item<'a>)> + use<'a, '_> {
        let lists = Operation::ALL.into_iter().zip(&self.fields);
        lists.flat_map(|(operation, items)| {
            let fields = items.each(parse_field).flatten();
            fields.map(move |field| (operation, field))
        })
    }
}

/// Parses a key, which is at `at`.
///
/// A fetch can contain a `.`, too. So only the name of a modifier after the last `.` is a modifier.
fn parse_key(text: &str, at: Position) -> Result<Item<'_>, Error> {
    let plain = Item::plain(text, at);
    let Some((value, suffix)) = text.rsplit_once('.') else {
        return Ok(plain);
    };
    let item = |modifier| Item {
        modifier,
        ..Item::plain(value, at)
    };
    Ok(match suffix {
        "hex" => item(Modifier::Hex),
        "sym" => item(Modifier::Sym),
        "sym-offset" => item(Modifier::SymOffset),
        "execname" => item(Modifier::Execname),
        "syscall" => item(Modifier::Syscall),
        "log2" => item(Modifier::Log2),
        _ => {
            let Some(size) = suffix
                .strip_prefix("buckets=")
                .or_else(|| suffix.strip_prefix("bucket="))
            else {
                return Ok(plain);
            };
            let offset = text.len().saturating_sub(size.len());
            let size = number::unsigned(size, 0).ok().and_then(NonZeroU64::new);
            let wrong = plain.error_at(ErrorKind::BadBuckets, offset);
            item(Modifier::Buckets(size.ok_or(wrong)?))
        }
    })
}

/// Parses a field, which is at `at`.
fn parse_field(text: &str, at: Position) -> Result<Item<'_>, Error> {
    Ok(Item::plain(text, at))
}

/// Splits a list at its first comma. A comma in parentheses is a part of a typecast.
fn split_item(text: &str) -> (&str, Option<&str>) {
    let mut depth = 0usize;
    let comma = text.find(|c| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    match comma.and_then(|comma| text.split_at_checked(comma)) {
        Some((item, rest)) => (item, rest.strip_prefix(',')),
        None => (text, None),
    }
}

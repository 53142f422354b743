// SPDX-License-Identifier: GPL-2.0

//! Parses the target of an object probe:
//! `[(STRUCT)]FIELDS [FUNCTIONS[%return]] [%return] [until=FIELDS] [objects=N] [hits=N]
//! [changes]`, with FIELDS as `GRP/EVENT.FIELD[,GRP/EVENT.FIELD]...`.

use core::num::NonZero;

use crate::{
    error::ErrorKind,
    object_table::MAX_OBJECTS, //
};

use super::{
    check_list::check_list,
    error::Error,
    name::{
        is_valid_event,
        is_valid_field,
        is_valid_group, //
    },
    number,
    object::{
        EventFields,
        ObjectTarget,
        CHANGES,
        PATTERNS,
        RETURN,
        SOURCE,
        UNTIL, //
    },
    words::{
        Position,
        Words, //
    },
};

/// Parses the target that starts with the word `source`. Takes the words of the target from
/// `words`.
pub(super) fn parse_object<'a>(
    source: &'a str,
    words: &mut Words<'a>,
) -> Result<ObjectTarget<'a>, Error> {
    let (structure, at) = match source.strip_prefix('(').map(|rest| rest.split_once(')')) {
        None => (None, 0),
        Some(None) => {
            let kind = ErrorKind::DerefOpenBrace;
            return Err(Error::invalid(kind, SOURCE, source.len()));
        }
        Some(Some((name, _))) if !is_valid_field(name.as_bytes()) => {
            return Err(Error::invalid(ErrorKind::NoPtrStrct, SOURCE, 1));
        }
        Some(Some((name, _))) => (Some(name), name.len().saturating_add(2)),
    };
    let mut target = ObjectTarget {
        structure,
        sources: parse_fields(source, SOURCE, at)?,
        ..ObjectTarget::default()
    };
    let mut index = SOURCE;
    loop {
        index = index.saturating_add(1);
        let mut rest = words.clone();
        let Some(word) = rest.next() else {
            break;
        };
        let twice = Error::invalid(ErrorKind::OptionTwice, index, 0);
        if word.starts_with(UNTIL) {
            if target.until.is_some() {
                return Err(twice);
            }
            target.until = Some(parse_fields(word, index, UNTIL.len())?);
        } else if let Some(text) = word.strip_prefix(OBJECTS) {
            if target.objects.is_some() {
                return Err(twice);
            }
            let objects = parse_count(text).filter(|number| number.get() <= MAX_OBJECTS);
            let wrong = Error::invalid(ErrorKind::BadObjectCount, index, OBJECTS.len());
            target.objects = Some(objects.ok_or(wrong)?);
        } else if let Some(text) = word.strip_prefix(HITS) {
            if target.hits.is_some() {
                return Err(twice);
            }
            let wrong = Error::invalid(ErrorKind::BadHitCount, index, HITS.len());
            target.hits = Some(parse_count(text).ok_or(wrong)?);
        } else if word == CHANGES {
            if target.changes.is_some() {
                return Err(twice);
            }
            target.changes = Some(index);
        } else if word == RETURN {
            if target.returns.is_some() {
                return Err(twice);
            }
            target.returns = Some(index);
        } else if word.starts_with("%ret") {
            // No register has such a name.
            return Err(Error::invalid(ErrorKind::BadAddrSuffix, index, 0));
        } else if index == PATTERNS && is_patterns(word) {
            let (patterns, is_return) = parse_patterns(word)?;
            target.functions = Some(patterns);
            target.returns = is_return.then_some(index);
        } else {
            break;
        }
        *words = rest;
    }
    Ok(target)
}

const OBJECTS: &str = "objects=";
const HITS: &str = "hits=";

/// Parses a number that is not 0.
fn parse_count(text: &str) -> Option<NonZero<u32>> {
    let number = number::unsigned(text, 0).ok()?;
    NonZero::new(u32::try_from(number).ok()?)
}

/// Parses a list of functions, and `%return` after it. Returns the list, and whether `%return`
/// follows.
fn parse_patterns(word: &str) -> Result<(&str, bool), Error> {
    let (patterns, is_return) = match word.strip_suffix(RETURN) {
        Some(patterns) => (patterns, true),
        None => (word, false),
    };
    check_list(patterns, PATTERNS)?;
    Ok((patterns, is_return))
}

/// Whether `word` is a list of patterns, and no fetch argument. A fetch argument of an object probe
/// has a name, or starts with another character.
fn is_patterns(word: &str) -> bool {
    let is_start =
        |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '*' | '?' | '[' | ',' | '!');
    word.starts_with(is_start) && !word.contains(['=', '(', ':'])
}

/// Parses `GRP/EVENT.FIELD[,GRP/EVENT.FIELD]...`, which starts at byte `start` of a word.
fn parse_fields(word: &str, index: usize, start: usize) -> Result<EventFields<'_>, Error> {
    let text = word.get(start..).unwrap_or("");
    let mut at = start;
    for field in text.split(',') {
        check_field(field).map_err(|offset| {
            let offset = at.saturating_add(offset);
            Error::invalid(ErrorKind::BadEventField, index, offset)
        })?;
        at = at.saturating_add(field.len()).saturating_add(1);
    }
    Ok(EventFields {
        text,
        at: Position {
            word: index,
            offset: start,
        },
    })
}

/// Checks `GRP/EVENT.FIELD`. Returns the offset of the first mistake.
fn check_field(text: &str) -> Result<(), usize> {
    let (group, rest) = text.split_once('/').ok_or(0usize)?;
    let event_at = group.len().saturating_add(1);
    let (event, field) = rest.split_once('.').ok_or(event_at)?;
    let field_at = event_at.saturating_add(event.len()).saturating_add(1);
    if !is_valid_group(group.as_bytes()) {
        return Err(0);
    }
    if !is_valid_event(event.as_bytes()) {
        return Err(event_at);
    }
    if !is_valid_field(field.as_bytes()) {
        return Err(field_at);
    }
    Ok(())
}

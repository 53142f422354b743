// SPDX-License-Identifier: GPL-2.0

//! Parses the target of a call tree: `[MOD:]SYM|PATTERN [ITEM[,ITEM]...] [calls=N] [steps=N]`, with
//! ITEM as `PATTERN`, `!PATTERN`, `*N` or `*`.

use core::num::NonZero;

use crate::error::{
    Errno,
    ErrorKind, //
};

use super::{
    call_tree::{
        CallItem,
        CallTreeTarget,
        CALLS,
        FUNCTIONS,
        MAX_CALLS,
        MAX_STEPS,
        STEPS, //
    },
    check_list::check_list,
    error::Error,
    function_list,
    number,
    words::Words, //
};

/// Parses the target that starts with the word `root`. Takes the words of the target from `words`.
pub(super) fn parse_call_tree<'a>(
    root: &'a str,
    words: &mut Words<'a>,
) -> Result<CallTreeTarget<'a>, Error> {
    if let Some(offset) = root.find('%') {
        return Err(Error::invalid(ErrorKind::BadAddrSuffix, 1, offset));
    }
    // A pattern is one for names, without a module.
    let is_pattern = root.contains(['*', '?', '[']);
    let is_wrong = |c| match c {
        ',' | '!' | '+' | '/' | '"' => true,
        '-' => !is_pattern,
        ':' => is_pattern,
        _ => false,
    };
    if root.contains(is_wrong) {
        return Err(Error::invalid(ErrorKind::BadProbeAddr, 1, 0));
    }
    let mut target = CallTreeTarget {
        root,
        ..CallTreeTarget::default()
    };
    let mut index = FUNCTIONS;
    loop {
        let mut rest = words.clone();
        let Some(word) = rest.next() else {
            break;
        };
        let error = |kind, offset| Error::invalid(kind, index, offset);
        if let Some(text) = word.strip_prefix(CALLS) {
            if target.calls.is_some() {
                return Err(error(ErrorKind::OptionTwice, 0));
            }
            let calls = parse_count(text, MAX_CALLS);
            target.calls = Some(calls.ok_or(error(ErrorKind::BadCallCount, CALLS.len()))?);
        } else if let Some(text) = word.strip_prefix(STEPS) {
            if target.steps.is_some() {
                return Err(error(ErrorKind::OptionTwice, 0));
            }
            let steps = parse_count(text, MAX_STEPS);
            target.steps = Some(steps.ok_or(error(ErrorKind::BadStepCount, STEPS.len()))?);
        } else if index == FUNCTIONS && is_list(word) {
            check_functions(word)?;
            target.functions = Some(word);
        } else {
            break;
        }
        if target.max_calls().saturating_mul(target.max_steps()) > MAX_STEPS {
            let offset = word.find('=').map_or(0, |at| at.saturating_add(1));
            return Err(error(ErrorKind::BadStepCount, offset));
        }
        index = index.saturating_add(1);
        *words = rest;
    }
    Ok(target)
}

/// Parses a number from 1 to `max`.
fn parse_count(text: &str, max: u32) -> Option<NonZero<u32>> {
    let number = number::unsigned(text, 0).ok()?;
    let number = NonZero::new(u32::try_from(number).ok()?)?;
    (number.get() <= max).then_some(number)
}

/// Whether `word` is a list of functions, and no fetch argument. A fetch argument of a call tree
/// has a name, or starts with another character.
fn is_list(word: &str) -> bool {
    let is_start =
        |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '*' | '?' | '[' | ',' | '!');
    word.starts_with(is_start) && !word.contains(['=', '(', ':', '>'])
}

/// Checks the items of a list of functions.
fn check_functions(list: &str) -> Result<(), Error> {
    check_list(list, FUNCTIONS)?;
    for item in function_list::items(list, FUNCTIONS) {
        if CallItem::parse(&item).is_none() {
            let depth = item.at.skip("*".len());
            return Err(Error::at(ErrorKind::BadCallDepth, depth, Errno::EINVAL));
        }
    }
    Ok(())
}

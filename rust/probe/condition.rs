// SPDX-License-Identifier: GPL-2.0

//! A resolved condition: comparisons, and the way from each one to the next.
//!
//! The parser creates a [`Comparison`]. The compiler turns it into a
//! [`Test`](crate::fetch::Test).
//!
//! C: `struct filter_pred` and `struct prog_entry` in `kernel/trace/trace_events_filter.c`.

use core::{
    fmt,
    mem, //
};

use crate::{
    argument::{
        Argument,
        Base, //
    },
    types::Width, //
};

/// A comparison of an operand with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// The operand. Its name has no meaning.
    pub operand: Argument<'a>,
    /// The values of the operand that fulfil the comparison.
    pub check: Check<'a>,
    /// The way to the next comparison.
    pub branches: Branches,
}

impl<'a> Comparison<'a> {
    /// The operand as a return probe reads it at the entry of the call. `None` if its value at the
    /// return can be another one.
    ///
    /// Of the memory that a call can change, only the task counts as constant: its name, and the
    /// memory behind `$current`.
    pub fn operand_at_entry(&self) -> Option<Argument<'a>> {
        let steps = self.operand.fetch.steps.as_slice();
        let base = match self.operand.fetch.base {
            Base::EntryArgument(n) if steps.is_empty() => Base::Argument(n),
            Base::EntryCaller if steps.is_empty() => Base::Caller,
            base @ (Base::Comm | Base::Current | Base::Pid) => base,
            _ => return None,
        };
        let mut operand = self.operand.clone();
        operand.fetch.base = base;
        Some(operand)
    }
}

/// The values that fulfil a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check<'a> {
    /// Numbers in a range.
    Range(Range),
    /// Numbers with a bit of this mask.
    Bits(u64),
    /// Strings.
    String(StringCheck<'a>),
}

/// The strings that fulfil a comparison. As between the words of a command, several spaces count as
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringCheck<'a> {
    /// This string.
    Equal(OneSpaced<'a>),
    /// Strings that match a pattern.
    ///
    /// C: `glob_match()`.
    Glob(OneSpaced<'a>),
}

/// A string. `Display` writes one space in place of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneSpaced<'a>(pub &'a str);

impl fmt::Display for OneSpaced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_space = |c: char| c.is_ascii_whitespace() || c == '\x0b';
        let mut rest = self.0;
        while let Some((before, behind)) = rest.split_once(is_space) {
            write!(f, "{before} ")?;
            rest = behind.trim_start_matches(is_space);
        }
        f.write_str(rest)
    }
}

/// Numbers of one type in a range. The range contains at least one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The map of the numbers.
    pub keys: Keys,
    /// The key of the first number.
    pub first: u64,
    /// The difference between the keys of the last and the first number.
    pub span: u64,
}

impl Range {
    /// The numbers between two [keys](Keys::of). `first` must not be greater than `last`.
    pub const fn new(keys: Keys, first: u64, last: u64) -> Self {
        Self {
            keys,
            first,
            span: last.wrapping_sub(first),
        }
    }

    /// Whether the range contains a number. Bits of `number` above the width have no effect.
    #[inline(always)]
    pub const fn contains(&self, number: u64) -> bool {
        self.keys.of(number).wrapping_sub(self.first) <= self.span
    }
}

/// Maps the numbers of a type to unsigned numbers of 64 bits, so that the order stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The number of bits, of 64, that the type does not have.
    pub unused: u8,
    /// Whether the numbers are signed.
    pub is_signed: bool,
}

impl Keys {
    /// Creates the map for numbers of a width.
    pub const fn new(width: Width, is_signed: bool) -> Self {
        Self {
            unused: 64u8.wrapping_sub((width.bytes() as u8).wrapping_mul(8)),
            is_signed,
        }
    }

    /// The key of a number. Bits above the width have no effect.
    #[inline(always)]
    pub const fn of(self, number: u64) -> u64 {
        number.wrapping_shl(self.unused as u32) ^ (self.is_signed as u64).wrapping_shl(63)
    }
}

/// The way from a comparison to the next one, for both results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches {
    /// After a fulfilled comparison.
    pub if_true: Branch,
    /// After another one.
    pub if_false: Branch,
    /// Whether an odd number of `!` applies to the comparison.
    is_negated: bool,
}

/// The step to the next comparison. All steps lead forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Skips this number of comparisons.
    Skip(u8),
    /// Leaves the condition, which is fulfilled or not.
    Leave(bool),
}

impl Default for Branches {
    /// The way from the only comparison of a condition.
    fn default() -> Self {
        Self {
            if_true: Branch::Leave(true),
            if_false: Branch::Leave(false),
            is_negated: false,
        }
    }
}

impl Branches {
    /// The way after a comparison with this result.
    #[inline(always)]
    pub const fn after(&self, result: bool) -> Branch {
        if result {
            self.if_true
        } else {
            self.if_false
        }
    }

    /// The way that can fulfil the condition, if one of both can. If all comparisons with an
    /// unknown result take it, the condition is fulfilled unless the others exclude this.
    pub const fn hopeful(&self) -> Branch {
        self.after(!self.is_negated)
    }

    /// Negates the part of a condition that contains the comparison.
    pub(crate) fn negate(&mut self) {
        for branch in [&mut self.if_true, &mut self.if_false] {
            if let Branch::Leave(result) = branch {
                *result = !*result;
            }
        }
        self.is_negated = !self.is_negated;
    }

    /// Exchanges the results of the comparison.
    pub(crate) fn swap(&mut self) {
        mem::swap(&mut self.if_true, &mut self.if_false);
        self.is_negated = !self.is_negated;
    }

    /// Lets the way that leaves the condition with `result` go on at `next`.
    pub(crate) fn go_on(&mut self, result: bool, next: Branch) {
        for branch in [&mut self.if_true, &mut self.if_false] {
            if *branch == Branch::Leave(result) {
                *branch = next;
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Values that a table of counts has for each key: sums, minima and maxima of a field.
//!
//! A minimum or a maximum is a word that only grows. The word of a number has the same bits, or
//! inverted ones, so that the greater word is that of the smaller or of the greater number. No
//! number has a smaller word than 0, so a new table needs no other words than zeros.
//!
//! C: `hist_trigger_elt_update()` and `check_track_val_max()` in
//! `kernel/trace/trace_events_hist.c`.
//!
//! # Examples
//!
//! ```
//! use probe::{
//!     count_value::{
//!         raise,
//!         Operation,
//!         ValueForm, //
//!     },
//!     object_table::Word,
//!     types::FetchType, //
//! };
//!
//! fn has_the_smaller_number<W: Word>() -> bool {
//!     let form = ValueForm::of(Operation::Min, FetchType::from_name("s64").unwrap());
//!     let minimum = W::default();
//!     for number in [3, -5i64 as u64, 7] {
//!         raise(&minimum, form.word(number));
//!     }
//!     form.number(minimum.load()) as i64 == -5
//! }
//! ```

use core::fmt;

use crate::{
    argument::Argument,
    counting::Extend,
    object_table::Word,
    types::FetchType, //
};

/// The number of times that a hit compares its number with a word that other hits raise meanwhile.
const MAX_RACES: usize = 64;

/// How a table combines the numbers of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Their sum.
    Sum,
    /// The smallest one.
    Min,
    /// The greatest one.
    Max,
}

impl Operation {
    /// All operations, in the order of a command and of an entry.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Min, Self::Max];

    /// The word before the fields in a command.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
        }
    }

    /// The text before the name of a field in an entry. A sum has only the name, as in the kernel.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Sum => "",
            Self::Min => "min_",
            Self::Max => "max_",
        }
    }
}

/// A value of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// How the table combines the numbers.
    pub operation: Operation,
    /// The field, a number. Its name is its text in the command.
    pub argument: Argument<'a>,
}

impl Value<'_> {
    /// The form of the value in the table.
    pub const fn form(&self) -> ValueForm {
        ValueForm::of(self.operation, self.argument.ty)
    }
}

/// The form of a value in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueForm {
    operation: Operation,
    is_signed: bool,
}

impl ValueForm {
    /// The form of the number of hits.
    pub const HITS: Self = Self {
        operation: Operation::Sum,
        is_signed: false,
    };

    /// The form of a value of numbers of a type.
    pub const fn of(operation: Operation, ty: FetchType) -> Self {
        let is_signed = Extend::of(ty).is_signed();
        Self {
            operation,
            is_signed,
        }
    }

    /// How the table combines the numbers.
    pub const fn operation(self) -> Operation {
        self.operation
    }

    /// The word of a number, which has 64 bits, with its sign.
    #[inline(always)]
    pub const fn word(self, number: u64) -> u64 {
        number ^ self.inverted()
    }

    /// The number of a word.
    pub const fn number(self, word: u64) -> u64 {
        word ^ self.inverted()
    }

    /// The bits of a number that are inverted in its word.
    #[inline(always)]
    const fn inverted(self) -> u64 {
        match (self.operation, self.is_signed) {
            (Operation::Sum, _) | (Operation::Max, false) => 0,
            (Operation::Max, true) => 1 << 63,
            (Operation::Min, false) => u64::MAX,
            (Operation::Min, true) => u64::MAX >> 1,
        }
    }

    /// The word of all numbers of two words.
    pub fn merge(self, first: u64, second: u64) -> u64 {
        match self.operation {
            Operation::Sum => first.wrapping_add(second),
            Operation::Min | Operation::Max => first.max(second),
        }
    }

    /// Prints the number of a word, with at least 10 characters.
    ///
    /// As in the kernel, a sum has no sign.
    pub(crate) fn print(self, word: u64, out: &mut impl fmt::Write) -> fmt::Result {
        let number = self.number(word);
        match self.operation {
            Operation::Min | Operation::Max if self.is_signed => {
                write!(out, "{:>10}", number as i64)
            }
            _ => write!(out, "{number:>10}"),
        }
    }
}

/// Raises a word to a number, if it is smaller. Any context.
///
/// Another hit may raise the word between the comparison and the replacement, which then fails, and
/// the number is compared again. Returns false after 64 failures: so often, a hit has raised the
/// word, but not to the number. If each CPU has a word of its own, each of these hits has
/// interrupted this one, within a few instructions.
#[inline(always)]
#[must_use]
pub fn raise(word: &impl Word, number: u64) -> bool {
    let before = word.load();
    before >= number || replace(word, before, number)
}

/// Replaces the smaller number `before`.
#[inline(always)]
fn replace(word: &impl Word, mut before: u64, number: u64) -> bool {
    for _ in 0..MAX_RACES {
        match word.replace(before, number) {
            Ok(()) => return true,
            Err(now) if now >= number => return true,
            Err(now) => before = now,
        }
    }
    false
}

// SPDX-License-Identifier: GPL-2.0

//! The functions whose arguments have fewer words than the steps of a call tree show.

/// The number of words of a step.
pub const STEP_WORDS: usize = 4;

/// The greatest distance of a call site of ftrace from the start of its function, in bytes.
const MAX_SITE_OFFSET: u64 = 8;

/// The bits of a [`FewWords`] that hold the number of words.
const COUNT_BITS: u32 = STEP_WORDS.trailing_zeros();

/// A function whose arguments have less than [`STEP_WORDS`] words. The order is that of the
/// addresses.
///
/// The number of words replaces the upper bits of the address, which all functions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FewWords(u64);

impl FewWords {
    /// The function at `address`. `None` if its arguments have [`STEP_WORDS`] words or more.
    pub const fn new(address: u64, words: usize) -> Option<Self> {
        if words >= STEP_WORDS {
            return None;
        }
        Some(Self(address << COUNT_BITS | words as u64))
    }

    /// The number of words of the arguments of a function, at most [`STEP_WORDS`], by its call
    /// site. `functions` must be sorted. A function that is not among them has all words. Any
    /// context.
    #[inline(always)]
    pub fn count(functions: &[Self], site: u64) -> usize {
        let last = Self(site << COUNT_BITS | (STEP_WORDS as u64 - 1));
        let after = functions.partition_point(|function| *function <= last);
        let found = after.checked_sub(1).and_then(|index| functions.get(index));
        match found {
            Some(Self(word)) if (last.0.wrapping_sub(*word) >> COUNT_BITS) <= MAX_SITE_OFFSET => {
                *word as usize % STEP_WORDS
            }
            _ => STEP_WORDS,
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The values that a return probe keeps from the entry of a call to its return.
//!
//! C: `store_trace_entry_data()` in `kernel/trace/trace_probe.c`.

use crate::arch::Slot;

use super::Context;

/// A value that a return probe keeps from the entry of a call: an argument of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryValue(pub(super) Slot);

/// Keeps the values at the entry of a call: each goes to the word of its index. Ignores a value
/// without a word.
///
/// Runs in any context, like [`Context`].
#[inline]
pub fn keep<C: Context>(values: &[EntryValue], ctx: &C, to: &mut [u64]) {
    for (word, value) in to.iter_mut().zip(values) {
        *word = match value.0 {
            Slot::Register(register) => ctx.register(register),
            Slot::Stack(n) => ctx.stack(n),
        };
    }
}

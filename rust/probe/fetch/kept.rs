// SPDX-License-Identifier: GPL-2.0

//! What a return probe keeps of a call from its entry to its return.
//!
//! C: `store_trace_entry_data()` in `kernel/trace/trace_probe.c`.

use crate::arch::Slot;

use super::Context;

/// A value that is there at the entry only: an argument of the function, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep(pub(super) Slot);

/// Takes the values at the entry of a call, each to the word of its index. What finds no word is
/// left out.
///
/// Runs in any context, like [`Context`].
#[inline]
pub fn keep<C: Context>(values: &[Keep], ctx: &C, to: &mut [u64]) {
    for (word, value) in to.iter_mut().zip(values) {
        *word = match value.0 {
            Slot::Register(register) => ctx.register(register),
            Slot::Stack(n) => ctx.stack(n),
        };
    }
}

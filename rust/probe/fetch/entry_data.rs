// SPDX-License-Identifier: GPL-2.0

//! Entry data: the arguments that a return probe saves at the entry of a call.
//!
//! C: `store_trace_entry_data()` in `kernel/trace/trace_probe.c`.

use crate::{
    arch::{
        current,
        Slot, //
    },
    argument::{
        Argument,
        Base, //
    },
};

use super::context::Context;

/// An argument of a function that a return probe saves at the entry of a call.
///
/// C: `struct probe_entry_arg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryArgument(Slot);

impl EntryArgument {
    /// The value of a function's argument with this index.
    pub(super) fn nth(n: u16) -> Self {
        Self(current::argument(n))
    }

    /// What a fetch argument needs from the entry of the call.
    pub fn of(argument: &Argument<'_>) -> Option<Self> {
        match argument.fetch.base {
            Base::EntryArgument(n) => Some(Self::nth(n)),
            _ => None,
        }
    }
}

/// Saves the arguments at the entry of a call. Each argument goes to the word of its index.
/// Ignores an argument without a word.
///
/// Runs in any context, like [`Context`].
#[inline(always)]
pub fn save_entry_data<C: Context + Copy>(arguments: &[EntryArgument], ctx: C, to: &mut [u64]) {
    for (word, argument) in to.iter_mut().zip(arguments) {
        let Slot::Register(register) = argument.0 else {
            // In the end, so that the registers of this function need not be saved.
            return save_any_entry_data(arguments, ctx, to);
        };
        *word = ctx.register(register);
    }
}

/// Does what [`save_entry_data`] does, also for arguments on the stack.
#[cold]
#[inline(never)]
fn save_any_entry_data<C: Context>(arguments: &[EntryArgument], ctx: C, to: &mut [u64]) {
    for (word, argument) in to.iter_mut().zip(arguments) {
        *word = match argument.0 {
            Slot::Register(register) => ctx.register(register),
            Slot::Stack(n) => ctx.stack(n),
        };
    }
}

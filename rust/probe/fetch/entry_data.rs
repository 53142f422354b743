// SPDX-License-Identifier: GPL-2.0

//! Entry data: the arguments and the return address that a return probe saves at the entry of a
//! call.
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

/// A value that a return probe saves at the entry of a call: an argument, or the return address.
///
/// C: `struct probe_entry_arg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryArgument(Option<Slot>);

impl EntryArgument {
    /// The address that the function returns to.
    pub(super) const CALLER: Self = Self(None);

    /// The argument `n` of the function, counted from 0.
    pub(super) fn nth(n: u16) -> Self {
        Self(Some(current::argument(n)))
    }

    /// The entry argument that a fetch argument needs. `None` if it needs none.
    pub fn of(argument: &Argument<'_>) -> Option<Self> {
        match argument.fetch.base {
            Base::EntryArgument(n) => Some(Self::nth(n)),
            Base::EntryCaller => Some(Self::CALLER),
            _ => None,
        }
    }
}

/// Saves the arguments at the entry of a call. Stores each argument in the word of its index.
/// Ignores an argument without a word.
///
/// Runs in any context, like [`Context`].
#[inline(always)]
pub fn save_entry_data<C: Context + Copy>(arguments: &[EntryArgument], ctx: C, to: &mut [u64]) {
    for (word, argument) in to.iter_mut().zip(arguments) {
        let Some(Slot::Register(register)) = argument.0 else {
            // This is a tail call, so that this function need not save registers.
            return save_any_entry_data(arguments, ctx, to);
        };
        *word = ctx.register(register);
    }
}

/// Saves arguments as [`save_entry_data`] does, including those that are not in registers.
#[cold]
#[inline(never)]
fn save_any_entry_data<C: Context>(arguments: &[EntryArgument], ctx: C, to: &mut [u64]) {
    for (word, argument) in to.iter_mut().zip(arguments) {
        *word = match argument.0 {
            Some(Slot::Register(register)) => ctx.register(register),
            Some(Slot::Stack(n)) => ctx.stack(n),
            None => ctx.caller(),
        };
    }
}

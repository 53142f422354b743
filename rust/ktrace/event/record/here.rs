// SPDX-License-Identifier: GPL-2.0

//! Plain code as the origin of a record: code in a module outside the handlers of probes.

use core::{
    marker::PhantomData,
    ptr, //
};

use kernel::{
    bindings::pt_regs,
    types::NotThreadSafe, //
};

use crate::{
    arch,
    hit::registers::{
        Register,
        RegisterFile, //
    },
};

use super::origin::{
    Origin,
    Sealed,
    State, //
};

extern "C" {
    fn ktrace_place_regs(room: *mut pt_regs, code: usize, frame: usize) -> *mut pt_regs;
    fn ktrace_preempt_disable();
    fn ktrace_preempt_enable();
}

/// Keeps preemption disabled. C: `guard(preempt_notrace)()`.
struct PreemptGuard(NotThreadSafe);

impl PreemptGuard {
    #[inline(always)]
    fn new() -> Self {
        // SAFETY: The function has no requirements. `drop` enables preemption again.
        unsafe { ktrace_preempt_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for PreemptGuard {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: `new` disabled preemption.
        unsafe { ktrace_preempt_enable() };
    }
}

/// A place in plain code.
///
/// # Invariants
///
/// Preemption is disabled for `'a`.
#[derive(Clone, Copy)]
pub(in crate::event) struct Here<'a> {
    place: arch::CodePlace,
    _guard: PhantomData<&'a PreemptGuard>,
}

/// Runs `f` with preemption disabled. Any context.
#[inline(always)]
pub(in crate::event) fn with_here<R>(place: arch::CodePlace, f: impl FnOnce(&Here<'_>) -> R) -> R {
    let _guard = PreemptGuard::new();
    // INVARIANT: The guard lives until the end of this function.
    f(&Here {
        place,
        _guard: PhantomData,
    })
}

/// The registers of plain code. A record has none of them, so each is 0.
#[derive(Clone, Copy)]
pub(in crate::event) struct NoRegisters<'a>(PhantomData<&'a PreemptGuard>);

impl RegisterFile for NoRegisters<'_> {
    #[inline(always)]
    fn get(self, _register: Register) -> u64 {
        0
    }
}

impl<'a> Origin for Here<'a> {
    #[inline(always)]
    fn state(&self) -> State<NoRegisters<'a>> {
        // SAFETY: By the type invariant, preemption is disabled for `'a`.
        unsafe { State::new(NoRegisters(PhantomData)) }
    }
}

impl<'a> Sealed for Here<'a> {
    type Registers = NoRegisters<'a>;

    const NEEDS_ROOM: bool = true;

    #[inline(always)]
    fn whole(&self) -> *mut pt_regs {
        ptr::null_mut()
    }

    /// # Safety
    ///
    /// The caller must meet the requirements of the trait.
    unsafe fn for_perf(&self, room: *mut pt_regs) -> *mut pt_regs {
        // SAFETY: The caller guarantees that `room` is valid for a `struct pt_regs`, and unshared.
        unsafe { ktrace_place_regs(room, self.place.code, self.place.frame) }
    }
}

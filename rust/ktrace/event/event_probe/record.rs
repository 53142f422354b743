// SPDX-License-Identifier: GPL-2.0

//! The record of an event that has an event probe.

use core::ptr;

use kernel::{
    bindings::pt_regs,
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

use crate::{
    event::record::origin::{
        Origin,
        Sealed,
        State, //
    },
    hit::registers::Registers, //
};

/// A record of an event.
///
/// # Invariants
///
/// Preemption is disabled for `'a`.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    bytes: &'a [u8],
    _here: NotThreadSafe,
}

extern "C" {
    static ktrace_no_registers: Opaque<pt_regs>;

    fn ktrace_fetch_caller_regs(room: *mut pt_regs) -> *mut pt_regs;
}

impl<'a> Record<'a> {
    /// # Safety
    ///
    /// Preemption must be disabled for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(bytes: &'a [u8]) -> Self {
        // INVARIANT: The caller guarantees that preemption is disabled for `'a`.
        Self {
            bytes,
            _here: NotThreadSafe,
        }
    }

    /// The bytes of the record, from its header to the end of its fields. Data that the fields
    /// locate follows these bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// A record has no registers, so each register and each word of the stack is 0.
impl<'a> Origin for Record<'a> {
    #[inline(always)]
    fn state(&self) -> State<&'a Registers> {
        // SAFETY: `rust/helpers/event_probe.c` defines these registers as a constant.
        let none =
            unsafe { Registers::from_raw((&raw const ktrace_no_registers).cast_mut().cast()) };
        // SAFETY: By the type invariant of `Record`, preemption is disabled for `'a`.
        unsafe { State::new(none) }
    }
}

impl<'a> Sealed for Record<'a> {
    type Registers = &'a Registers;

    const NEEDS_ROOM: bool = true;

    #[inline(always)]
    fn whole(&self) -> *mut pt_regs {
        ptr::null_mut()
    }

    /// # Safety
    ///
    /// The caller must meet the requirements of the trait.
    unsafe fn for_perf(&self, room: *mut pt_regs) -> *mut pt_regs {
        // SAFETY: The caller guarantees that `room` is valid for a `pt_regs`, and unshared during
        // the call.
        unsafe { ktrace_fetch_caller_regs(room) }
    }
}

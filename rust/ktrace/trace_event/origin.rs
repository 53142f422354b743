// SPDX-License-Identifier: GPL-2.0

//! What a record is made of: a hit of a probe, of whatever kind.

use kernel::{
    bindings::pt_regs,
    types::NotThreadSafe, //
};

use crate::{
    context::Atomic,
    registers::{
        self,
        Register,
        RegisterFile, //
    },
};

/// A hit of a probe, of whatever kind, in its handler: [`kprobe::Hit`](crate::kprobe::Hit) or
/// [`function::Call`](crate::function::Call).
pub trait Origin: Copy + Sealed {
    /// The state that a record can have.
    fn state(&self) -> State<Self::Registers>;
}

/// The registers and the stack at a hit, without the place.
///
/// # Invariants
///
/// Preemption is disabled for as long as the registers can be read.
#[derive(Clone, Copy)]
pub struct State<R> {
    registers: R,
    _here: NotThreadSafe,
}

impl<R: RegisterFile> State<R> {
    /// # Safety
    ///
    /// Preemption must be disabled for as long as the registers can be read.
    #[inline(always)]
    pub(crate) unsafe fn new(registers: R) -> Self {
        // INVARIANT: The caller guarantees that preemption is disabled for that time.
        Self {
            registers,
            _here: NotThreadSafe,
        }
    }

    /// The value of a register. Where not all are saved, any other than those for arguments, the
    /// return value and the stack pointer means nothing.
    #[inline(always)]
    pub fn register(&self, register: Register) -> u64 {
        self.registers.get(register)
    }

    /// The Nth word of the kernel stack, and 0 beyond its end.
    #[inline(always)]
    pub fn stack(&self, n: u16) -> u64 {
        registers::stack(self.registers, n)
    }

    /// Evidence of the context.
    #[inline(always)]
    pub fn atomic(&self) -> &Atomic {
        // SAFETY: Preemption is disabled while the registers can be read, by the type invariant,
        // and this borrows them.
        unsafe { Atomic::new() }
    }
}

/// The registers that the kernel gets.
pub trait Sealed {
    /// The registers that there are.
    type Registers: RegisterFile;

    /// Does [`for_perf`](Self::for_perf) need room?
    const NEEDS_ROOM: bool;

    /// The registers, from which the kernel takes a stack trace, or NULL where not all are there.
    fn whole(&self) -> *mut pt_regs;

    /// The registers for perf: at least the instruction and the stack pointer.
    ///
    /// # Safety
    ///
    /// `room` must be valid for a `struct pt_regs`, for as long as the result is used, where
    /// [`NEEDS_ROOM`](Self::NEEDS_ROOM).
    unsafe fn for_perf(&self, room: *mut pt_regs) -> *mut pt_regs;
}

// SPDX-License-Identifier: GPL-2.0

//! The origin of a record: a hit of a probe of any kind, or plain code.

use kernel::{
    bindings::pt_regs,
    types::NotThreadSafe, //
};

use crate::hit::{
    context::Atomic,
    registers::{
        self,
        Register,
        RegisterFile, //
    },
};

/// A hit of a probe, in its handler: [`kprobe::Hit`](crate::kprobe::Hit) or
/// [`function::Call`](crate::function::Call).
pub trait Origin: Copy + Sealed {
    /// The registers and the stack that a record can read.
    fn state(&self) -> State<Self::Registers>;
}

/// The registers and the stack at a hit, without the place of the hit.
///
/// # Invariants
///
/// Preemption is disabled while the registers can be read.
#[derive(Clone, Copy)]
pub struct State<R> {
    registers: R,
    _here: NotThreadSafe,
}

impl<R: RegisterFile> State<R> {
    /// # Safety
    ///
    /// Preemption must be disabled while the registers can be read.
    #[inline(always)]
    pub(crate) unsafe fn new(registers: R) -> Self {
        // INVARIANT: The caller guarantees that preemption is disabled while the registers can be
        // read.
        Self {
            registers,
            _here: NotThreadSafe,
        }
    }

    /// The value of a register. If the hit saved only some registers, the value is meaningless for
    /// any register except the argument registers, the return value and the stack pointer.
    #[inline(always)]
    pub fn register(&self, register: Register) -> u64 {
        self.registers.get(register)
    }

    /// The Nth word of the kernel stack, or 0 beyond the end of the stack.
    #[inline(always)]
    pub fn stack(&self, n: u16) -> u64 {
        registers::stack(self.registers, n)
    }

    /// Proof of the atomic context.
    #[inline(always)]
    pub fn atomic(&self) -> &Atomic {
        // SAFETY: By the type invariant, preemption is disabled while the registers can be read.
        // The result borrows `self`, which holds the registers.
        unsafe { Atomic::new() }
    }
}

/// The parts of an origin that the kernel reads.
pub trait Sealed {
    /// The type of the registers.
    type Registers: RegisterFile;

    /// Whether [`for_perf`](Self::for_perf) needs `room`.
    const NEEDS_ROOM: bool;

    /// The registers from which the kernel takes a stack trace, or NULL if the origin did not save
    /// all registers.
    fn whole(&self) -> *mut pt_regs;

    /// The registers for perf: at least the instruction pointer and the stack pointer.
    ///
    /// # Safety
    ///
    /// If [`NEEDS_ROOM`](Self::NEEDS_ROOM) is set, `room` must be valid for a `struct pt_regs` for
    /// as long as the result is used.
    unsafe fn for_perf(&self, room: *mut pt_regs) -> *mut pt_regs;
}

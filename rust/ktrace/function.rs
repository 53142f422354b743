// SPDX-License-Identifier: GPL-2.0

//! What a handler on ftrace sees of a call of a function.
//!
//! C header: [`include/linux/ftrace_regs.h`](srctree/include/linux/ftrace_regs.h)

use kernel::bindings::ftrace_regs;

use crate::context::Atomic;
use crate::registers::Registers;

/// A call of a function, at its entry or its exit.
pub struct Call<'a> {
    function: usize,
    caller: usize,
    registers: &'a Registers,
    atomic: Atomic,
}

impl<'a> Call<'a> {
    /// # Safety
    ///
    /// Only for the time of a handler: preemption is disabled, and `regs` stays as it is, for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(function: usize, caller: usize, regs: *mut ftrace_regs) -> Self {
        Self {
            function,
            caller,
            // C: `arch_ftrace_regs()`: a `struct pt_regs` of which only some fields are filled in.
            // SAFETY: By the safety requirement.
            registers: unsafe { Registers::from_raw(regs.cast()) },
            // SAFETY: By the safety requirement.
            atomic: unsafe { Atomic::new() },
        }
    }

    /// The address of the function; behind its landing pad (ENDBR) where it has one.
    #[inline(always)]
    pub fn function(&self) -> usize {
        self.function
    }

    /// The address that it returns to.
    #[inline(always)]
    pub fn caller(&self) -> usize {
        self.caller
    }

    /// Argument `n` of the function, counted from 0; at its entry only.
    ///
    /// C: `ftrace_regs_get_argument()`.
    #[inline(always)]
    pub fn argument(&self, n: u16) -> u64 {
        self.registers.argument(n)
    }

    /// What the function returned; at its exit only.
    ///
    /// C: `ftrace_regs_get_return_value()`.
    #[inline(always)]
    pub fn return_value(&self) -> u64 {
        self.registers.return_value()
    }

    /// The stack pointer. C: `ftrace_regs_get_stack_pointer()`.
    #[inline(always)]
    pub fn stack_pointer(&self) -> u64 {
        self.registers.stack_pointer()
    }

    /// Evidence of the context.
    #[inline(always)]
    pub fn atomic(&self) -> &Atomic {
        &self.atomic
    }
}

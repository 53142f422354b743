// SPDX-License-Identifier: GPL-2.0

//! The view of a function call in a handler on ftrace.
//!
//! C header: [`include/linux/ftrace_regs.h`](srctree/include/linux/ftrace_regs.h)

use kernel::{
    bindings::ftrace_regs,
    types::NotThreadSafe, //
};

use crate::{
    arch::{
        self,
        CallRegisters, //
    },
    hit::{
        context::Atomic,
        registers::{
            self,
            Value, //
        },
    },
};

/// A call of a function, at its entry or its exit.
///
/// # Invariants
///
/// Preemption is disabled for `'a`.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    function: usize,
    caller: usize,
    registers: CallRegisters<'a>,
    _here: NotThreadSafe,
}

impl<'a> Call<'a> {
    /// # Safety
    ///
    /// For `'a`, preemption must be disabled, and `regs` must be valid and must not change.
    #[inline(always)]
    pub(crate) unsafe fn new(function: usize, caller: usize, regs: *mut ftrace_regs) -> Self {
        // INVARIANT: The caller guarantees that preemption is disabled for `'a`.
        Self {
            function,
            caller,
            // SAFETY: The caller guarantees that `regs` is valid and does not change for `'a`.
            registers: unsafe { arch::call_registers(regs) },
            _here: NotThreadSafe,
        }
    }

    /// Creates the call at its entry. Reads the return address from the registers or the stack.
    ///
    /// # Safety
    ///
    /// The requirements of [`new`](Self::new). The stack pointer must be valid.
    #[inline(always)]
    pub(crate) unsafe fn at_entry(function: usize, regs: *mut ftrace_regs) -> Self {
        // SAFETY: The caller guarantees that `regs` is valid and preemption is disabled for `'a`.
        let mut this = unsafe { Self::new(function, 0, regs) };
        // SAFETY: The caller guarantees that this is an entry and that the stack pointer is valid.
        this.caller = unsafe { arch::return_address(this.registers) };
        this
    }

    /// Creates the call at its exit.
    ///
    /// # Safety
    ///
    /// The requirements of [`new`](Self::new). ftrace must have saved `regs` at the exit of a
    /// function.
    #[inline(always)]
    pub(crate) unsafe fn at_exit(function: usize, caller: usize, regs: *mut ftrace_regs) -> Self {
        // SAFETY: The caller guarantees that ftrace saved `regs` at the exit of a function.
        unsafe { arch::complete_at_exit(regs) };
        // SAFETY: The caller guarantees that `regs` is valid and preemption is disabled for `'a`.
        unsafe { Self::new(function, caller, regs) }
    }

    /// The address of the ftrace site, which stands for the function. This is the first instruction
    /// after a landing pad. On arm64, it is one instruction further.
    #[inline(always)]
    pub fn function(&self) -> usize {
        self.function
    }

    /// The return address.
    #[inline(always)]
    pub fn caller(&self) -> usize {
        self.caller
    }

    /// Argument `n` of the function, counted from 0, as a value of its type. Valid only at the
    /// entry of the function.
    ///
    /// C: `ftrace_regs_get_argument()`.
    #[inline(always)]
    pub fn arg<T: Value>(&self, n: u16) -> T {
        T::from_register(registers::argument(self.registers, n))
    }

    /// The return value of the function, as a value of its type. Valid only at the exit of the
    /// function.
    ///
    /// C: `ftrace_regs_get_return_value()`.
    #[inline(always)]
    pub fn ret<T: Value>(&self) -> T {
        T::from_register(registers::return_value(self.registers))
    }

    /// The stack pointer. C: `ftrace_regs_get_stack_pointer()`.
    #[inline(always)]
    pub fn stack_pointer(&self) -> u64 {
        registers::stack_pointer(self.registers)
    }

    /// The Nth word of the stack, and 0 beyond its end.
    ///
    /// C: `ftrace_regs_get_kernel_stack_nth()`.
    #[inline]
    pub fn stack(&self, n: u16) -> u64 {
        registers::stack(self.registers, n)
    }

    /// A token for functions that need atomic context.
    #[inline(always)]
    pub fn atomic(&self) -> &Atomic {
        // SAFETY: By the type invariant, preemption is disabled for `'a`.
        unsafe { Atomic::new() }
    }

    /// The call as the origin of a record, without its addresses. It has one word. So a handler
    /// that rarely makes a record can pass it to another function in a register.
    #[inline(always)]
    pub fn origin(&self) -> CallOrigin<'a> {
        // INVARIANT: By the invariant of `Call`, preemption is disabled for `'a`.
        CallOrigin {
            registers: self.registers,
            _here: NotThreadSafe,
        }
    }
}

/// A call as the origin of a record. See [`Call::origin`].
///
/// # Invariants
///
/// Preemption is disabled for `'a`.
#[derive(Clone, Copy)]
pub struct CallOrigin<'a> {
    registers: CallRegisters<'a>,
    _here: NotThreadSafe,
}

impl<'a> CallOrigin<'a> {
    /// The registers that ftrace saved.
    #[inline(always)]
    pub(crate) fn registers(&self) -> CallRegisters<'a> {
        self.registers
    }
}

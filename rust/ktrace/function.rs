// SPDX-License-Identifier: GPL-2.0

//! What a handler on ftrace sees of a call of a function.
//!
//! C header: [`include/linux/ftrace_regs.h`](srctree/include/linux/ftrace_regs.h)

use kernel::{
    bindings::{
        ftrace_regs,
        pt_regs, //
    },
    ffi::c_void,
    types::NotThreadSafe, //
};

use crate::{
    arch,
    context::Atomic,
    registers::Registers,
    trace_event::{
        origin,
        Origin,
        State, //
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
    registers: &'a Registers,
    _here: NotThreadSafe,
}

impl<'a> Call<'a> {
    /// # Safety
    ///
    /// Only for the time of a handler: preemption is disabled, and `regs` stays as it is, for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new(function: usize, caller: usize, regs: *mut ftrace_regs) -> Self {
        // INVARIANT: The caller guarantees that preemption is disabled for `'a`.
        Self {
            function,
            caller,
            // C: `arch_ftrace_regs()`: a `struct pt_regs` of which only some fields are filled in.
            // SAFETY: The caller guarantees that `regs` stays as it is for `'a`.
            registers: unsafe { Registers::from_raw(regs.cast()) },
            _here: NotThreadSafe,
        }
    }

    /// The same at an entry, where the stack tells the caller.
    ///
    /// # Safety
    ///
    /// As for [`new`](Self::new); the stack pointer must be valid.
    #[inline(always)]
    pub(crate) unsafe fn at_entry(function: usize, regs: *mut pt_regs) -> Self {
        // SAFETY: The caller guarantees that `regs` stays, and preemption disabled, for `'a`.
        let mut this = unsafe { Self::new(function, 0, regs.cast()) };
        let place = this.stack_pointer() as usize as *const usize;
        // SAFETY: The caller guarantees that the stack pointer is valid. At an entry it points at
        // the return address.
        this.caller = unsafe { *place };
        this
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

    /// The Nth word of the stack, and 0 beyond its end; at an entry word 0 is the return address.
    ///
    /// C: `ftrace_regs_get_kernel_stack_nth()`.
    #[inline]
    pub fn stack(&self, n: u16) -> u64 {
        self.registers.stack(n)
    }

    /// Evidence of the context.
    #[inline(always)]
    pub fn atomic(&self) -> &Atomic {
        // SAFETY: Preemption is disabled for `'a`, by the type invariant.
        unsafe { Atomic::new() }
    }
}

extern "C" {
    fn ktrace_fill_perf_regs(fregs: *mut c_void, room: *mut pt_regs) -> *mut pt_regs;
}

/// Only the registers are there that hold arguments, the return value and the stack pointer.
impl Origin for Call<'_> {
    #[inline(always)]
    fn state(&self) -> State<'_> {
        // SAFETY: Preemption is disabled for `'a`, by the type invariant.
        unsafe { State::new(self.registers) }
    }
}

impl origin::Sealed for Call<'_> {
    const NEEDS_ROOM: bool = true;

    #[inline(always)]
    fn whole(&self) -> *mut pt_regs {
        // SAFETY: These are what ftrace filled in.
        unsafe { arch::whole_registers(self.registers.as_ptr()) }
    }

    /// # Safety
    ///
    /// The requirements of the trait.
    unsafe fn for_perf(&self, room: *mut pt_regs) -> *mut pt_regs {
        // SAFETY: The registers are those from ftrace. The caller guarantees that the room is
        // valid.
        unsafe { ktrace_fill_perf_regs(self.registers.as_ptr().cast(), room) }
    }
}

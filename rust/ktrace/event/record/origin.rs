// SPDX-License-Identifier: GPL-2.0

//! The origin of a record: a hit of a probe of any kind, or plain code.

use kernel::{
    bindings::pt_regs,
    ffi::c_void,
    types::NotThreadSafe, //
};

use crate::{
    arch::{
        self,
        CallRegisters, //
    },
    hit::{
        context::Atomic,
        function::{
            Call,
            CallOrigin, //
        },
        registers::{
            self,
            Register,
            RegisterFile,
            Registers, //
        },
    },
    probes::{
        kprobe,
        watchpoint, //
    },
};

use super::callers::{
    caller,
    callers, //
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

    /// The address that the function returns to, at its entry or at an instruction that returns.
    /// Elsewhere, the value is meaningless.
    ///
    /// A return probe of the function replaces this address by that of the kernel's code. After
    /// [`prepare_callers`](super::callers::prepare_callers), this method finds the replaced one.
    pub fn caller(&self) -> usize {
        caller(self.registers)
    }

    /// Writes the addresses of the callers to `to`, the innermost first, and 0 after the last one.
    /// Writes at most 16.
    ///
    /// `probe` is the address of the probe. At a return, `caller` is the address that the function
    /// returns to, and the first one. C: `stack_trace_save_regs()`.
    pub fn callers(&self, probe: usize, caller: Option<usize>, to: &mut [u64]) {
        callers(self.registers, probe, caller, to);
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

extern "C" {
    fn ktrace_fill_perf_regs(fregs: *mut c_void, room: *mut pt_regs) -> *mut pt_regs;
}

impl<'a> Origin for kprobe::Hit<'a> {
    #[inline(always)]
    fn state(&self) -> State<&'a Registers> {
        // SAFETY: By the invariant of `kprobe::Hit`, preemption is disabled for `'a`.
        unsafe { State::new(self.registers()) }
    }
}

impl<'a> Sealed for kprobe::Hit<'a> {
    type Registers = &'a Registers;

    const NEEDS_ROOM: bool = false;

    #[inline(always)]
    fn whole(&self) -> *mut pt_regs {
        self.registers().as_ptr()
    }

    /// # Safety
    ///
    /// None, because [`NEEDS_ROOM`](Self::NEEDS_ROOM) is not set.
    #[inline(always)]
    unsafe fn for_perf(&self, _room: *mut pt_regs) -> *mut pt_regs {
        self.registers().as_ptr()
    }
}

impl<'a> Origin for watchpoint::Hit<'a> {
    #[inline(always)]
    fn state(&self) -> State<&'a Registers> {
        // SAFETY: A `watchpoint::Hit` is a `kprobe::Hit`. By the invariant of `kprobe::Hit`,
        // preemption is disabled for `'a`.
        unsafe { State::new(self.registers()) }
    }
}

impl<'a> Sealed for watchpoint::Hit<'a> {
    type Registers = &'a Registers;

    const NEEDS_ROOM: bool = false;

    #[inline(always)]
    fn whole(&self) -> *mut pt_regs {
        self.registers().as_ptr()
    }

    /// # Safety
    ///
    /// None, because [`NEEDS_ROOM`](Self::NEEDS_ROOM) is not set.
    #[inline(always)]
    unsafe fn for_perf(&self, _room: *mut pt_regs) -> *mut pt_regs {
        self.registers().as_ptr()
    }
}

/// Only the registers of arguments, of the return value and of the stack pointer are valid.
impl<'a> Origin for Call<'a> {
    #[inline(always)]
    fn state(&self) -> State<CallRegisters<'a>> {
        self.origin().state()
    }
}

impl<'a> Sealed for Call<'a> {
    type Registers = CallRegisters<'a>;

    const NEEDS_ROOM: bool = CallOrigin::NEEDS_ROOM;

    #[inline(always)]
    fn whole(&self) -> *mut pt_regs {
        self.origin().whole()
    }

    /// # Safety
    ///
    /// The requirements of [`for_perf`](Sealed::for_perf).
    unsafe fn for_perf(&self, room: *mut pt_regs) -> *mut pt_regs {
        // SAFETY: The caller guarantees that `room` is valid.
        unsafe { self.origin().for_perf(room) }
    }
}

impl<'a> Origin for CallOrigin<'a> {
    #[inline(always)]
    fn state(&self) -> State<CallRegisters<'a>> {
        // SAFETY: By the invariant of `CallOrigin`, preemption is disabled for `'a`.
        unsafe { State::new(self.registers()) }
    }
}

impl<'a> Sealed for CallOrigin<'a> {
    type Registers = CallRegisters<'a>;

    const NEEDS_ROOM: bool = true;

    #[inline(always)]
    fn whole(&self) -> *mut pt_regs {
        // SAFETY: ftrace has set these registers.
        unsafe { arch::whole_registers(self.registers()) }
    }

    /// # Safety
    ///
    /// The requirements of [`for_perf`](Sealed::for_perf).
    unsafe fn for_perf(&self, room: *mut pt_regs) -> *mut pt_regs {
        // SAFETY: The registers are from ftrace. The caller guarantees that `room` is valid.
        unsafe { ktrace_fill_perf_regs(self.registers().as_ptr().cast(), room) }
    }
}

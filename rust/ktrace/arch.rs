// SPDX-License-Identifier: GPL-2.0

//! Code that depends on the processor. Each processor has a file with the same items. The C code
//! for these files is in `rust/helpers/arch.c`.
//!
//! These files use no other file of this crate except `bindings.rs`.

use core::arch::asm;

use kernel::{
    bindings,
    types::Opaque, //
};

use probe::arch::Register;

#[cfg(CONFIG_ARM64)]
mod arm64;
#[cfg(CONFIG_X86_64)]
mod x86_64;

#[cfg(CONFIG_ARM64)]
pub(crate) use arm64::*;
#[cfg(CONFIG_X86_64)]
pub(crate) use x86_64::*;

/// Keeps the compiler from moving memory accesses across this call. C: `barrier()`.
#[inline(always)]
pub(crate) fn barrier() {
    // SAFETY: There is no instruction. The compiler assumes that it accesses any memory.
    unsafe { asm!("", options(nostack, preserves_flags)) };
}

/// The first instructions of the code that a function with a return probe returns to, or 0. C code
/// reads this.
#[repr(C)]
pub(crate) struct ReturnCode {
    /// The code of kretprobes.
    pub(crate) kretprobe: usize,
    /// The code of function graphs, for fprobes at exits.
    pub(crate) graph: usize,
}

extern "C" {
    fn ktrace_true_caller(address: usize, place: u64, code: &ReturnCode) -> usize;
}

/// The address that a function returns to, if return probes have replaced it by `address`, and
/// `address` otherwise. `place` is what the kernel knows the call by: on x86-64 the place of the
/// return address on the stack, on arm64 the frame pointer at the entry.
pub(crate) fn true_caller(address: usize, place: u64, code: &ReturnCode) -> usize {
    // SAFETY: C only reads the lists of calls of the current task, which no other task changes. An
    // interrupt leaves them as they were.
    unsafe { ktrace_true_caller(address, place, code) }
}

/// Registers that a handler reads: all registers, or only the registers that ftrace saves.
pub trait RegisterFile: Copy {
    /// The value of a register. See [`State::register`](crate::trace_event::State::register).
    fn get(self, register: Register) -> u64;
}

/// The registers at the hit of a probe.
///
/// A handler cannot change the registers.
///
/// # Invariants
///
/// The value is a `struct pt_regs` that no code changes while it is borrowed.
#[repr(transparent)]
pub struct Registers(Opaque<bindings::pt_regs>);

impl Registers {
    /// Borrows the registers that the kernel passed to a handler.
    ///
    /// # Safety
    ///
    /// `regs` must be valid for reads for `'a`, and must not change during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw<'a>(regs: *mut bindings::pt_regs) -> &'a Self {
        // SAFETY: The caller guarantees that the pointer is valid. Both types have the same layout.
        unsafe { &*regs.cast() }
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::pt_regs {
        self.0.get()
    }

    /// The value of a register. C: `regs_get_register()`.
    #[inline(always)]
    pub fn get(&self, register: Register) -> u64 {
        // SAFETY: By the invariant of `Register`, the offset is the offset of a word in `pt_regs`.
        // The assertions in the processor's file compare the table of registers with the structure.
        // The structure is valid by the type invariant.
        unsafe { *self.0.get().byte_add(register.offset()).cast::<u64>() }
    }
}

impl RegisterFile for &Registers {
    #[inline(always)]
    fn get(self, register: Register) -> u64 {
        Registers::get(self, register)
    }
}

/// Reads the code at `address`. `None` if it cannot be read. Any context.
/// C: `copy_from_kernel_nofault()`.
fn code_at<const N: usize>(address: usize) -> Option<[u8; N]> {
    let mut code = [0; N];
    // SAFETY: The array has `N` writable bytes. `address` may have any value.
    let failed = unsafe {
        bindings::copy_from_kernel_nofault(code.as_mut_ptr().cast(), address as *const _, N)
    };
    (failed == 0).then_some(code)
}

/// A place in running code. perf walks the stack from this place.
#[derive(Clone, Copy)]
pub struct CodePlace {
    /// The address of an instruction.
    pub(crate) code: usize,
    /// The address of a slot on the stack for the return address of a call from that instruction.
    /// On arm64, the frame pointer.
    pub(crate) frame: usize,
}

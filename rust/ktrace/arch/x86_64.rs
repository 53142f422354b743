// SPDX-License-Identifier: GPL-2.0

//! x86-64.

use core::{
    arch::asm,
    ptr, //
};

use kernel::bindings::pt_regs;

use crate::{
    nofault,
    registers::Registers, //
};

pub(crate) use probe::insn::x86::{
    is_indirect_thunk,
    is_return_thunk,
    X86 as Decoder, //
};

/// Adds one to this CPU's copy of a per-CPU number: a single instruction, so neither an interrupt
/// nor a move to another CPU can come in between. C: `raw_cpu_inc()`.
///
/// # Safety
///
/// `counter` must be a live per-CPU allocation of a `u64`.
#[inline(always)]
pub(crate) unsafe fn percpu_increment(counter: *mut u64) {
    // SAFETY: GS holds the offset of this CPU's area, and the caller vouches for the pointer.
    unsafe { asm!("inc qword ptr gs:[{}]", in(reg) counter, options(nostack)) }
}

/// Reads this CPU's copy of a per-CPU pointer. C: `raw_cpu_read()`.
///
/// # Safety
///
/// `pointer` must be a live per-CPU allocation of a pointer.
#[inline(always)]
pub(crate) unsafe fn percpu_read<T>(pointer: *const *mut T) -> *mut T {
    let value;
    // SAFETY: GS holds the offset of this CPU's area, and the caller vouches for the pointer.
    unsafe {
        asm!("mov {}, qword ptr gs:[{}]", out(reg) value, in(reg) pointer,
             options(nostack, readonly, preserves_flags))
    };
    value
}

/// The registers where ftrace saved them all, else NULL. C: `arch_ftrace_get_regs()`.
///
/// # Safety
///
/// `regs` must be what ftrace filled in.
#[inline(always)]
pub(crate) unsafe fn whole_registers(regs: *mut pt_regs) -> *mut pt_regs {
    // SAFETY: The caller guarantees that ftrace filled them in. It clears the code segment if it
    // did not save all.
    if unsafe { (*regs).__bindgen_anon_1.cs } == 0 {
        ptr::null_mut()
    } else {
        regs
    }
}

/// ENDBR64, and the instruction that the kernel writes over one that nobody needs
/// (`gen_endbr_poison()` in `arch/x86/include/asm/ibt.h`).
pub(crate) const LANDING_PADS: [[u8; 4]; 2] = [[0xf3, 0x0f, 0x1e, 0xfa], [0x0f, 0x1f, 0x40, 0xd6]];

/// Where ftrace finds the entry of the function at `address`: behind its landing pad, if it has
/// one. C: `ftrace_location()`.
pub(crate) fn behind_landing_pad(address: usize) -> usize {
    let mut code = [0; 4];
    match nofault::read_kernel(address, &mut code) {
        Ok(()) if LANDING_PADS.contains(&code) => address.wrapping_add(code.len()),
        _ => address,
    }
}

/// The address that a function returns to, where it is about to.
///
/// # Safety
///
/// `registers` must be those in front of an instruction that returns.
#[inline(always)]
pub(crate) unsafe fn return_address(registers: &Registers) -> usize {
    let place = registers.stack_pointer() as usize as *const usize;
    // SAFETY: The instruction is about to take it from there, by the safety requirement.
    unsafe { place.read() }
}

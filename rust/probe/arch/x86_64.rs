// SPDX-License-Identifier: GPL-2.0

//! The registers of x86-64.
//!
//! C: `arch/x86/include/asm/ptrace.h`, `arch/x86/kernel/ptrace.c`.

use super::register::{
    find,
    known_name,
    Register,
    Slot, //
};

/// The size of `struct pt_regs`, in bytes.
pub const PT_REGS_BYTES: usize = REGISTERS.len() * WORD;

/// The size of a register, in bytes.
const WORD: usize = 8;

/// The registers with their names for `%REG`, in the order of `struct pt_regs`.
///
/// C: `regoffset_table`.
pub const REGISTERS: &[(&str, Register)] = &[
    ("r15", word(0)),
    ("r14", word(1)),
    ("r13", word(2)),
    ("r12", word(3)),
    ("bp", word(4)),
    ("bx", word(5)),
    ("r11", word(6)),
    ("r10", word(7)),
    ("r9", R9),
    ("r8", R8),
    ("ax", AX),
    ("cx", CX),
    ("dx", DX),
    ("si", SI),
    ("di", DI),
    ("orig_ax", word(15)),
    ("ip", IP),
    ("cs", word(17)),
    ("flags", word(18)),
    ("sp", SP),
    ("ss", word(20)),
];

const R9: Register = word(8);
const R8: Register = word(9);
const AX: Register = word(10);
const CX: Register = word(11);
const DX: Register = word(12);
const SI: Register = word(13);
const DI: Register = word(14);
const IP: Register = word(16);
const SP: Register = word(19);

/// Whether a watchpoint can watch reads alone.
pub const WATCHES_READS: bool = false;

/// The register that contains the return value of a function. `$retval` reads it.
///
/// C: `regs_return_value()`.
pub const RETURN_VALUE: Register = AX;

/// The stack pointer. `$stack` reads it.
///
/// C: `kernel_stack_pointer()`.
pub const STACK_POINTER: Register = SP;

/// The instruction pointer.
///
/// C: `instruction_pointer()`.
pub const INSTRUCTION_POINTER: Register = IP;

/// The register with this name, or `None` if no register has this name.
///
/// C: `regs_query_register_offset()`.
pub const fn register(name: &str) -> Option<Register> {
    find(REGISTERS, name)
}

/// The kernel's name of a register that assemblers call `name`: `ax` for `rax` and `eax`, `r8` for
/// `r8d`.
pub fn kernel_name(name: &str) -> Option<&'static str> {
    let known = |name| known_name(REGISTERS, name);
    known(name.strip_prefix(['r', 'e'])).or_else(|| known(name.strip_suffix(['d', 'w', 'b'])))
}

/// The place of argument `n`, counted from 0, at the first instruction of a function.
///
/// The word at the stack pointer is the return address. The arguments on the stack follow it.
///
/// C: `regs_get_kernel_argument()`. As in C, the place is wrong after structures passed by value,
/// and in other special cases of the ABI.
pub const fn argument(n: u16) -> Slot {
    match n {
        0 => Slot::Register(DI),
        1 => Slot::Register(SI),
        2 => Slot::Register(DX),
        3 => Slot::Register(CX),
        4 => Slot::Register(R8),
        5 => Slot::Register(R9),
        n => Slot::Stack(n.wrapping_sub(5)),
    }
}

/// The register at word N of `struct pt_regs`.
const fn word(n: u16) -> Register {
    Register::new(n * (WORD as u16))
}

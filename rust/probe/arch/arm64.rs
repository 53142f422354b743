// SPDX-License-Identifier: GPL-2.0

//! arm64.
//!
//! C: `arch/arm64/include/asm/ptrace.h`, `arch/arm64/kernel/ptrace.c`.

use super::register::{
    find,
    Register,
    Slot, //
};

/// The size of the registers within `struct pt_regs` in bytes. The last one is `pstate`.
pub const PT_REGS_BYTES: usize = 34 * WORD;

/// The size of a register in bytes.
const WORD: usize = 8;

/// The registers with the names that `%REG` takes, in the order of `struct pt_regs`. `lr` is
/// another name of `x30`.
///
/// C: `regoffset_table`.
pub const REGISTERS: &[(&str, Register)] = &[
    ("x0", word(0)),
    ("x1", word(1)),
    ("x2", word(2)),
    ("x3", word(3)),
    ("x4", word(4)),
    ("x5", word(5)),
    ("x6", word(6)),
    ("x7", word(7)),
    ("x8", word(8)),
    ("x9", word(9)),
    ("x10", word(10)),
    ("x11", word(11)),
    ("x12", word(12)),
    ("x13", word(13)),
    ("x14", word(14)),
    ("x15", word(15)),
    ("x16", word(16)),
    ("x17", word(17)),
    ("x18", word(18)),
    ("x19", word(19)),
    ("x20", word(20)),
    ("x21", word(21)),
    ("x22", word(22)),
    ("x23", word(23)),
    ("x24", word(24)),
    ("x25", word(25)),
    ("x26", word(26)),
    ("x27", word(27)),
    ("x28", word(28)),
    ("x29", FRAME_POINTER),
    ("x30", LINK),
    ("lr", LINK),
    ("sp", STACK_POINTER),
    ("pc", INSTRUCTION_POINTER),
    ("pstate", word(33)),
];

/// The register in which a function returns its value. `$retval` reads it.
///
/// C: `regs_return_value()`.
pub const RETURN_VALUE: Register = word(0);

/// The stack pointer. `$stack` reads it.
///
/// C: `kernel_stack_pointer()`.
pub const STACK_POINTER: Register = word(31);

/// The instruction pointer.
///
/// C: `instruction_pointer()`.
pub const INSTRUCTION_POINTER: Register = word(32);

/// The frame pointer, `x29`.
///
/// C: `frame_pointer()`.
pub const FRAME_POINTER: Register = word(29);

/// The link register, `x30`: a call puts the return address there.
///
/// C: `procedure_link_pointer()`.
pub const LINK: Register = word(30);

/// The register with this name, or `None` if no register has it.
///
/// C: `regs_query_register_offset()`.
pub const fn register(name: &str) -> Option<Register> {
    find(REGISTERS, name)
}

/// The place of argument `n`, counted from 0, at the first instruction of a function.
///
/// A call puts nothing on the stack: the first word there is the ninth argument.
///
/// C: `regs_get_kernel_argument()`, which returns 0 for the arguments on the stack. Structures
/// passed by value and arguments of 16 bytes move those behind them.
pub const fn argument(n: u16) -> Slot {
    match n {
        0..=7 => Slot::Register(word(n)),
        n => Slot::Stack(n.wrapping_sub(8)),
    }
}

/// The register that is the Nth word of `struct pt_regs`.
const fn word(n: u16) -> Register {
    Register::new(n * (WORD as u16))
}

// SPDX-License-Identifier: GPL-2.0

//! The registers of arm64.
//!
//! C: `arch/arm64/include/asm/ptrace.h`, `arch/arm64/kernel/ptrace.c`.

use super::register::{
    find,
    known_name,
    Register,
    Slot, //
};

/// The size of the registers in `struct pt_regs`, in bytes. The last register is `pstate`.
pub const PT_REGS_BYTES: usize = 34 * WORD;

/// The size of a register, in bytes.
const WORD: usize = 8;

/// The registers with their names for `%REG`, in the order of `struct pt_regs`. `lr` is another
/// name for `x30`.
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

/// Whether a watchpoint can watch reads alone.
pub const WATCHES_READS: bool = true;

/// The register that contains the return value of a function. `$retval` reads it.
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

/// The link register, `x30`. A call stores the return address in it.
///
/// C: `procedure_link_pointer()`.
pub const LINK: Register = word(30);

/// The register with this name, or `None` if no register has this name.
///
/// C: `regs_query_register_offset()`.
pub const fn register(name: &str) -> Option<Register> {
    find(REGISTERS, name)
}

/// The kernel's name of a register that assemblers call `name`: `x0` for `w0`, and `x29` for `fp`.
pub fn kernel_name(name: &str) -> Option<&'static str> {
    if name == "fp" {
        return known_name(REGISTERS, Some("x29"));
    }
    let number = name.strip_prefix('w')?;
    let mut names = REGISTERS.iter().map(|(known, _)| *known);
    names.find(|known| known.strip_prefix('x') == Some(number))
}

/// The place of argument `n`, counted from 0, at the first instruction of a function.
///
/// A call stores nothing on the stack, so the first word of the stack is the ninth argument.
///
/// C: `regs_get_kernel_argument()`, which returns 0 for the arguments on the stack. Structures
/// passed by value and arguments of 16 bytes shift the places of later arguments. This function
/// ignores that.
pub const fn argument(n: u16) -> Slot {
    match n {
        0..=7 => Slot::Register(word(n)),
        n => Slot::Stack(n.wrapping_sub(8)),
    }
}

/// The register at word N of `struct pt_regs`.
const fn word(n: u16) -> Register {
    Register::new(n * (WORD as u16))
}

// SPDX-License-Identifier: GPL-2.0

//! Registers, and the places of a function's arguments.

/// A register, as its offset in `struct pt_regs`, in bytes.
///
/// C: `regs_get_register()` takes such an offset.
///
/// # Invariants
///
/// The offset is the offset of a whole word in the `struct pt_regs` of an architecture. Only the
/// tables of the architectures create registers. ktrace compares these tables with the real
/// structure at compile time, and reads registers without a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register(u16);

impl Register {
    /// Creates the register at an offset, in bytes. Only the tables of the architectures use it.
    pub(super) const fn new(offset: u16) -> Self {
        // INVARIANT: The caller takes the offset from the `struct pt_regs` of its architecture.
        Self(offset)
    }

    /// The offset in `struct pt_regs`, in bytes.
    #[inline]
    pub const fn offset(self) -> usize {
        self.0 as usize
    }
}

/// The place of an argument at the entry of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The argument is in a register.
    Register(Register),
    /// The argument is word N on the stack, counted from 0 at the stack pointer.
    Stack(u16),
}

/// Finds a register by its name.
pub(super) const fn find(registers: &[(&str, Register)], name: &str) -> Option<Register> {
    let mut rest = registers;
    while let [(candidate, register), others @ ..] = rest {
        if same(candidate.as_bytes(), name.as_bytes()) {
            return Some(*register);
        }
        rest = others;
    }
    None
}

/// The name of a register as the table has it, if the table has the name.
pub(super) fn known_name(
    registers: &[(&'static str, Register)],
    name: Option<&str>,
) -> Option<&'static str> {
    let mut names = registers.iter().map(|(known, _)| *known);
    names.find(|known| Some(*known) == name)
}

/// Whether two byte strings are equal. A `const fn` cannot use `==` for them.
const fn same(mut a: &[u8], mut b: &[u8]) -> bool {
    while let ([first, a_rest @ ..], [second, b_rest @ ..]) = (a, b) {
        if *first != *second {
            return false;
        }
        (a, b) = (a_rest, b_rest);
    }
    a.is_empty() && b.is_empty()
}

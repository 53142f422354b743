// SPDX-License-Identifier: GPL-2.0

//! The memory that instructions name.

/// Memory that an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The address in the instruction.
    pub address: u64,
    /// The maximum number of bytes that the instruction accesses there.
    pub len: u8,
    /// What the instruction does with the memory.
    pub usage: Use,
}

/// What an instruction does with the memory that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads it.
    Read,
    /// Writes it. May read it, too.
    Write,
    /// Takes the address, or adds registers to the address. So this or another instruction may read
    /// and write any part of the variable at the address.
    Any,
}

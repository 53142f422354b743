// SPDX-License-Identifier: GPL-2.0

//! Code that depends on the processor. Each processor has a file with the same items. The C code
//! for these files is in `rust/helpers/arch.c`.

#[cfg(CONFIG_ARM64)]
mod arm64;
#[cfg(CONFIG_X86_64)]
mod x86_64;

#[cfg(CONFIG_ARM64)]
pub(crate) use arm64::*;
#[cfg(CONFIG_X86_64)]
pub(crate) use x86_64::*;

/// A place in running code. perf walks the stack from this place.
#[derive(Clone, Copy)]
pub struct CodePlace {
    /// The address of an instruction.
    pub(crate) code: usize,
    /// The address of a slot on the stack for the return address of a call from that instruction.
    /// On arm64, the frame pointer.
    pub(crate) frame: usize,
}

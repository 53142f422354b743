// SPDX-License-Identifier: GPL-2.0

//! The code that depends on the processor. Each processor has a file with the same items. Its C is
//! in `rust/helpers/arch.c`.

#[cfg(CONFIG_ARM64)]
mod arm64;
#[cfg(CONFIG_X86_64)]
mod x86_64;

#[cfg(CONFIG_ARM64)]
pub(crate) use arm64::*;
#[cfg(CONFIG_X86_64)]
pub(crate) use x86_64::*;

/// A place in running code, from which perf walks the stack.
#[derive(Clone, Copy)]
pub struct CodePlace {
    /// The address of an instruction.
    pub(crate) code: usize,
    /// The place of the return address of a call from there, or the frame pointer on arm64.
    pub(crate) frame: usize,
}

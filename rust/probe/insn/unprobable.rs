// SPDX-License-Identifier: GPL-2.0

//! Instructions that a kprobe cannot replace.

use core::fmt;

/// The reason why a kprobe cannot be at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprobable {
    /// The kernel can neither execute the instruction at another address nor emulate it.
    Instruction {
        /// The mnemonic, without suffixes that do not matter for the reason.
        name: &'static str,
        /// The sort of instruction.
        reason: &'static str,
    },
    /// The instruction is between an exclusive load and its store. A breakpoint there makes the
    /// store fail.
    ExclusiveAccess {
        /// The mnemonic of the load.
        load: &'static str,
    },
    /// No instruction starts at this address.
    Misaligned,
    /// ftrace changes this instruction to call its handlers.
    FtraceSite,
    /// Handlers read memory by the function, and the instruction is not the function's entry.
    Reader,
}

impl Unprobable {
    /// Maximum distance, in bytes, of an earlier instruction that matters.
    pub const BYTES_BEFORE: usize = 128;

    pub(super) const fn new(name: &'static str, reason: &'static str) -> Self {
        Self::Instruction { name, reason }
    }
}

impl fmt::Display for Unprobable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instruction { name, reason } => {
                write!(f, "a kprobe cannot replace `{name}`: {reason}")
            }
            Self::ExclusiveAccess { load } => {
                write!(
                    f,
                    "a kprobe cannot be between `{load}` and its exclusive store"
                )
            }
            Self::Misaligned => f.write_str("no instruction starts there"),
            Self::FtraceSite => f.write_str("a kprobe cannot be where ftrace calls from"),
            Self::Reader => f.write_str(
                "only the entry of a function by which handlers read memory can be probed",
            ),
        }
    }
}

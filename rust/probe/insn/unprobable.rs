// SPDX-License-Identifier: GPL-2.0

//! Instructions that a kprobe cannot replace.

use core::fmt;

/// Why a kprobe cannot be at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprobable {
    /// The kernel can neither execute the instruction in another place nor imitate it.
    Instruction {
        /// The mnemonic, without suffixes that say nothing about the reason.
        name: &'static str,
        /// The sort of the instruction.
        reason: &'static str,
    },
    /// A breakpoint between an exclusive load and its store makes the store fail.
    ExclusiveAccess {
        /// The mnemonic of the load.
        load: &'static str,
    },
    /// Instructions start at other addresses.
    Misaligned,
    /// ftrace calls from there, and changes the instruction for that.
    FtraceSite,
}

impl Unprobable {
    /// The most bytes in front of an instruction that matter.
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
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! An instruction, and the interface of a decoder.

use super::unprobable::Unprobable;

/// An instruction: its length, and where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// Its length in bytes, never 0.
    pub len: u8,
    /// The instructions that can follow it.
    pub flow: Flow,
}

/// The instructions that can follow an instruction. Targets are addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Continues at the next instruction.
    Next,
    /// Continues at the next instruction and does nothing, such as the padding between functions.
    Nop,
    /// Continues at the next instruction, and marks a target of indirect calls or jumps: `endbr64`,
    /// `bti`.
    Landing,
    /// Continues at the next instruction, and reads data in the text.
    Literal(u64),
    /// Calls the function, and continues at the next instruction.
    Call(u64),
    /// Calls an unknown function, and continues at the next instruction.
    IndirectCall,
    /// Jumps to the target.
    Jump(u64),
    /// Jumps to the target, or continues at the next instruction.
    Branch(u64),
    /// Jumps to an unknown address.
    IndirectJump,
    /// Returns to the caller.
    Return,
    /// Returns to the caller, and removes arguments from the stack.
    ReturnPop,
    /// Enters another privilege level or code segment: `iret`, `sysret`, `eret`, a far jump or
    /// return.
    FarReturn,
    /// Into a trap: `ud2`, `brk`, `udf`. The kernel's `BUG()` ends there; after `WARN()` it goes on
    /// behind it.
    Trap,
    /// Into that of kprobes and debuggers: `int3`, `brk #4`. One of them hides an instruction
    /// there, or it fills the space behind the ends of a function.
    Breakpoint,
}

impl Flow {
    /// The target, where the instruction names one.
    pub const fn target(self) -> Option<u64> {
        match self {
            Self::Call(target) | Self::Jump(target) | Self::Branch(target) => Some(target),
            _ => None,
        }
    }
}

/// The instructions of an architecture.
pub trait Decoder {
    /// All of them start at a multiple of this many bytes.
    const UNIT: usize;

    /// The first instruction of `text`, which is at `address`.
    ///
    /// `None` where it is not defined, or goes on beyond the text.
    fn decode(text: &[u8], address: u64) -> Option<Insn>;

    /// Why a kprobe cannot be `offset` bytes into `text`, the text of a function from its start,
    /// which is aligned to [`UNIT`](Self::UNIT). More than
    /// [`BYTES_BEFORE`](Unprobable::BYTES_BEFORE) bytes in front of the instruction do not matter.
    ///
    /// `None` if the instruction is no reason to refuse the probe, or is not defined.
    fn unprobable(text: &[u8], offset: usize) -> Option<Unprobable>;
}

// SPDX-License-Identifier: GPL-2.0

//! A decoded instruction, and the interface of a decoder.

use super::unprobable::Unprobable;

/// A decoded instruction: its length and its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// The length of the instruction, in bytes. Never 0.
    pub len: u8,
    /// The instructions that can follow this instruction.
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
    /// Traps: `ud2`, `brk`, `udf`. The kernel's `BUG()` ends at the trap. After a `WARN()`, the
    /// kernel continues at the next instruction.
    Trap,
    /// Enters kprobes or a debugger: `int3`, `brk #4`. A kprobe or a debugger hides an instruction
    /// there. Or the breakpoint fills the space after a function.
    Breakpoint,
}

impl Flow {
    /// The target, if the instruction contains one.
    pub const fn target(self) -> Option<u64> {
        match self {
            Self::Call(target) | Self::Jump(target) | Self::Branch(target) => Some(target),
            _ => None,
        }
    }
}

/// The decoder of an architecture.
pub trait Decoder {
    /// The alignment of instructions, in bytes.
    const UNIT: usize;

    /// Decodes the first instruction of `text`, which is at `address`.
    ///
    /// Returns `None` if the instruction is undefined, or exceeds the text.
    fn decode(text: &[u8], address: u64) -> Option<Insn>;

    /// The reason why a kprobe cannot be at byte `offset` of `text`. `text` contains the text of a
    /// function from its start, which is aligned to [`UNIT`](Self::UNIT). The caller can leave out
    /// bytes that are more than [`BYTES_BEFORE`](Unprobable::BYTES_BEFORE) bytes before the
    /// instruction.
    ///
    /// Returns `None` if the instruction is no reason to refuse the probe, or is undefined.
    fn unprobable(text: &[u8], offset: usize) -> Option<Unprobable>;
}

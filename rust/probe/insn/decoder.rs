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
    /// To the next one.
    Next,
    /// To the next one, and it does nothing: what fills the space between functions, among others.
    Nop,
    /// To the next one, and it is where an indirect call or jump may arrive: `endbr64`, `bti`.
    Landing,
    /// To the next one, and it reads data that stands in the text.
    Literal(u64),
    /// To the function, and from there to the next one.
    Call(u64),
    /// To a function that only the processor knows, and from there to the next one.
    IndirectCall,
    /// To the target.
    Jump(u64),
    /// To the target, or to the next one.
    Branch(u64),
    /// To a place that only the processor knows.
    IndirectJump,
    /// To the caller.
    Return,
    /// To the caller, whose arguments it takes off the stack.
    ReturnPop,
    /// To another privilege level or code segment: `iret`, `sysret`, `eret`, a far jump or return.
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

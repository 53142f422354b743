// SPDX-License-Identifier: GPL-2.0

//! Decodes instructions: their lengths, their targets, and the exits of functions.
//!
//! - [`x86`] and [`arm64`] decode one instruction, with tables.
//! - [`recover_probed_instructions`] recovers the instructions that kprobes replaced.
//! - [`exits`] sweeps a function, and finds its exits.
//! - [`blocks`] finds the basic blocks of a swept function.
//! - [`outside_targets`] finds what a function calls.
//! - [`Reference`] is the memory that an instruction names.
//! - [`Unprobable`] is the reason why a kprobe cannot replace an instruction.
//!
//! The decoders know only instructions that a kernel's text can contain. They refuse uncertain
//! instructions, because a probe that is not at an instruction boundary destroys the function.
//! Callers may call all functions in any context. The functions read copied bytes and trust none of
//! them. They end, and do not panic, with any input.

pub mod arm64;
pub mod blocks;
pub mod exits;
pub mod route;
pub mod x86;

mod callees;
mod decoder;
mod recover;
mod reference;
mod unprobable;

pub use callees::outside_targets;
pub use decoder::{
    Decoder,
    Flow,
    Insn, //
};
pub use recover::recover_probed_instructions;
pub use reference::{
    Reference,
    Use, //
};
pub use unprobable::Unprobable;

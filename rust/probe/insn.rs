// SPDX-License-Identifier: GPL-2.0

//! Instructions: how long each is, where it leads, and where a function leaves.
//!
//! - [`x86`] and [`arm64`] decode one instruction, by tables;
//! - [`recover_probed_instructions`] recovers the instructions that kprobes replaced;
//! - [`exits`] sweeps a function, and finds the ways out of it;
//! - [`Unprobable`] says why a kprobe cannot replace an instruction.
//!
//! Only what a kernel's text can hold is decoded, and what is not certain is refused: a probe that
//! is put beside a boundary destroys the function. All of it may be called in any context, takes
//! bytes that have been copied, and believes none of them: it ends, and does not panic, on any.

pub mod arm64;
pub mod exits;
pub mod x86;

mod decoder;
mod recover;
mod unprobable;

pub use decoder::{
    Decoder,
    Flow,
    Insn, //
};
pub use recover::recover_probed_instructions;
pub use unprobable::Unprobable;

// SPDX-License-Identifier: GPL-2.0

//! Probes: a file for each kind, and what several kinds share.
//!
//! - [`registration`]: how kprobes and kretprobes are registered, owned and unregistered;
//! - [`pointers`]: handlers behind a pointer;
//! - [`once`]: kprobes that are disarmed after a hit;
//! - [`readers`]: functions in which a probe would kill the kernel;
//! - [`text`], [`exits`]: the kernel's code, and the return instructions that [`kretinsn`] probes;
//! - [`unseen_jumps`]: jumps that are not in the code.

pub mod callees;
pub mod exits;
pub mod fprobe;
pub mod ftrace;
pub mod kprobe;
pub mod kretinsn;
pub mod kretprobe;
pub mod once;
pub mod rethook;
pub mod tracepoint;
pub mod watchpoint;

pub(crate) mod pointers;
pub(crate) mod readers;
pub(crate) mod registration;
pub(crate) mod text;
pub(crate) mod unseen_jumps;

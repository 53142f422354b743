// SPDX-License-Identifier: GPL-2.0

//! The logic of rkprobe that does not need the kernel.
//!
//! The parser turns the text of a command into a typed [`command::Command`]. The compiler turns its
//! arguments into [`fetch::Program`]s. A program turns a hit into the bytes of a trace record. This
//! crate does not allocate, lock, sleep or panic, and does not call the kernel. Callers pass facts
//! about the kernel through traits, or as the bytes of its BTF. So the crate also runs on the host,
//! where its tests run.

// The kernel's build system sets `no_std` itself.
#![cfg_attr(not(CONFIG_RUST), no_std)]
#![forbid(unsafe_code)]

pub mod arch;
pub mod argument;
pub mod argument_words;
pub mod btf;
pub mod call_tree;
pub mod command;
pub mod condition;
pub mod count_table;
pub mod count_value;
pub mod counting;
pub mod error;
pub mod event_format;
pub mod fetch;
pub mod hash;
pub mod histogram;
pub mod insn;
pub mod kallsyms;
pub mod object_table;
pub mod path;
pub mod sort;
mod task_slots;
pub mod types;
pub mod vmcoreinfo;

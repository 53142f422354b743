// SPDX-License-Identifier: GPL-2.0

//! The logic of rkprobe that needs no kernel.
//!
//! The text of a command becomes a typed [`command::Command`], its arguments become
//! [`fetch::Program`]s, and a program turns a hit into the bytes of a trace record. Nothing here
//! allocates, locks, sleeps or panics, and nothing calls the kernel. Facts about the kernel come
//! through traits, or as the bytes of its BTF. So the crate also runs on the host, where its tests
//! are.

// The kernel's build system says so by itself.
#![cfg_attr(not(CONFIG_RUST), no_std)]
#![forbid(unsafe_code)]

pub mod arch;
pub mod argument;
pub mod btf;
pub mod command;
pub mod error;
pub mod fetch;
pub mod hash;
pub mod insn;
pub mod kallsyms;
pub mod object_table;
pub mod types;
pub mod vmcoreinfo;

// SPDX-License-Identifier: GPL-2.0

//! Symbols and types of the kernel and its modules.

pub mod btf;
pub mod symbol;
pub mod vfs;

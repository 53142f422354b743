// SPDX-License-Identifier: GPL-2.0

//! Files that modules create in tracefs, files of the kernel that ktrace reads, and the kernel's
//! `error_log`.

pub mod error_log;
pub mod tracefs;

pub(crate) mod file;

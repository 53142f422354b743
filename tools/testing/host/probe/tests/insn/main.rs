// SPDX-License-Identifier: GPL-2.0

//! `probe::insn`: instructions, and where functions leave.

mod any;
mod arm64;
mod builder;
mod callees;
mod exits;
mod oracle;
mod properties;
mod recover;
mod reference;
mod unprobable;
mod x86;

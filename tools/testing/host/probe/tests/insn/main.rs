// SPDX-License-Identifier: GPL-2.0

//! `probe::insn`: instructions, where functions leave, their blocks, and which of
//! them need a probe.

mod any;
mod arm64;
mod blocks;
mod builder;
mod callees;
mod exits;
mod oracle;
mod properties;
mod recover;
mod reference;
mod route;
mod unprobable;
mod x86;

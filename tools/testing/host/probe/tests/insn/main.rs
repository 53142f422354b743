// SPDX-License-Identifier: GPL-2.0

//! `probe::insn`: instructions, where functions leave, and their blocks.

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
mod unprobable;
mod x86;

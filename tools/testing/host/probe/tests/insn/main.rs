// SPDX-License-Identifier: GPL-2.0

//! `probe::insn`: instructions, and where functions leave.

mod oracle;
mod real;
mod x86;

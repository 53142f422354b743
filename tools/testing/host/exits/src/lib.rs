// SPDX-License-Identifier: GPL-2.0

//! The instructions of a kernel and the exits of its functions, by `probe::insn` and by llvm-objdump,
//! which is not ours, and what the two differ in.
//!
//! Text comes from ELF files, or from the memory of the kernel that runs ([`live`]). It becomes an
//! [`image`], which the disassembler gets as an ELF file of its own making: both see the same bytes at
//! the same addresses, with the same symbols. From the disassembler's text ([`listing`]) it is
//! found out a second time where functions leave ([`oracle`]), and [`compare`] holds one against the other. [`paths`] compares the
//! paths of calls with the instructions that were executed.

pub mod compare;
pub mod image;
pub mod listing;
pub mod live;
pub mod oracle;
pub mod paths;

// SPDX-License-Identifier: GPL-2.0

//! The same commands by the kernel's own implementation and by ours: what is to be the same.
//!
//! The cases are in `tools/testing/parity`. Binary `parity` runs them, in a virtual machine that has
//! both; binary `generate` writes those that are made from the grammar.

pub mod arch;
pub mod case;
pub mod difference;
pub mod generate;
pub mod observe;
pub mod workload;

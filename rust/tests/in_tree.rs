// SPDX-License-Identifier: GPL-2.0

//! Suites for the parts of ktrace that only the kernel's own tree supports.

mod dyn_event;
#[cfg(CONFIG_RETHOOK)]
mod rethook;

// SPDX-License-Identifier: GPL-2.0

//! What depends on the processor: one file for each.

#[cfg(CONFIG_X86_64)]
mod x86_64;
#[cfg(CONFIG_X86_64)]
pub(crate) use x86_64::*;

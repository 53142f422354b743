// SPDX-License-Identifier: GPL-2.0

//! What depends on where this crate is built: outside of the kernel's tree, with what any module
//! may use, or in it, with what `rust/built_in.c` opens. The rest of the crate does not know.

#[cfg(CONFIG_RKPROBE_EXPORTS)]
mod in_tree;
#[cfg(not(CONFIG_RKPROBE_EXPORTS))]
mod outside;

#[cfg(CONFIG_RKPROBE_EXPORTS)]
pub use in_tree::*;
#[cfg(not(CONFIG_RKPROBE_EXPORTS))]
pub use outside::*;

// SPDX-License-Identifier: GPL-2.0

//! The part of ktrace that depends on the kernel tree. In the tree, ktrace uses the exports of
//! `rust/helpers/built_in.c`. An out-of-tree module has only the kernel's own exports. The rest of
//! the crate is identical in both builds.

#[cfg(CONFIG_RKPROBE_EXPORTS)]
mod in_tree;
#[cfg(not(CONFIG_RKPROBE_EXPORTS))]
mod out_of_tree;

#[cfg(CONFIG_RKPROBE_EXPORTS)]
pub use in_tree::*;
#[cfg(not(CONFIG_RKPROBE_EXPORTS))]
pub use out_of_tree::*;

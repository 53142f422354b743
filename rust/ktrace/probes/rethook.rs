// SPDX-License-Identifier: GPL-2.0

//! A handler at the return of many functions.
//!
//! A rethook works like a [`kretprobe`](crate::kretprobe), but the calls of all functions share the
//! handler and the memory. Each [`Kretprobe`](crate::kretprobe::Kretprobe) has its own memory, and
//! most of this memory is never used at the same time.
//!
//! A rethook [needs](IS_SUPPORTED) a build in the kernel tree, on an architecture with rethook. In
//! other builds, [`Rethook::new`] fails with `EOPNOTSUPP`, and no [`Rethook`] can exist.
//!
//! C header: [`include/linux/rethook.h`](srctree/include/linux/rethook.h)

use crate::support::{
    tree_variants,
    IN_TREE, //
};

pub use super::{
    kretprobe::{
        Call,
        Handler, //
    },
    registration::Target, //
};
pub use tree::Rethook;

tree_variants!(CONFIG_RETHOOK);

/// Whether a [`Rethook`] can exist: true if rkprobe is built in the kernel tree and the kernel has
/// rethook.
pub const IS_SUPPORTED: bool = IN_TREE && cfg!(CONFIG_RETHOOK);

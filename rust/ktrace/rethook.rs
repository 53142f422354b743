// SPDX-License-Identifier: GPL-2.0

//! A handler at the return of many functions.
//!
//! Works like a [`kretprobe`](crate::kretprobe), but the calls of all functions share the handler
//! and the memory. Each [`Kretprobe`](crate::kretprobe::Kretprobe) has memory of its own, and most
//! of it is never used at the same time.
//!
//! Only the kernel's own tree [supports](IS_SUPPORTED) it, on architectures that have rethook.
//! Elsewhere [`Rethook::new`] fails with `EOPNOTSUPP`, and no [`Rethook`] can exist.
//!
//! C header: [`include/linux/rethook.h`](srctree/include/linux/rethook.h)

use crate::tree;

pub use crate::{
    kretprobe::{
        Call,
        Handler, //
    },
    registration::Target,
    tree::Rethook, //
};

/// Whether a [`Rethook`] can exist. This is true if rkprobe is a part of the kernel's tree, and the
/// kernel has rethook.
pub const IS_SUPPORTED: bool = tree::HAS_RETHOOK;

// SPDX-License-Identifier: GPL-2.0

//! A handler at the return of many functions.
//!
//! As a [`kretprobe`](crate::kretprobe), but the calls of all functions share the handler and the
//! room: a [`Kretprobe`](crate::kretprobe::Kretprobe) has room for its own calls, of which most are
//! never in flight at a time.
//!
//! Only the kernel's own tree [supports](IS_SUPPORTED) it, on architectures that have rethook.
//! Elsewhere [`Rethook::register`] fails with `EOPNOTSUPP`, and no [`Rethook`] can exist.
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

/// Whether a [`Rethook`] can exist: rkprobe is a part of the kernel's tree, which has rethook.
pub const IS_SUPPORTED: bool = tree::HAS_RETHOOK;

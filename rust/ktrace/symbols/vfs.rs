// SPDX-License-Identifier: GPL-2.0

//! The offsets of a file's name in the kernel's structures.
//!
//! C headers: [`include/linux/dcache.h`](srctree/include/linux/dcache.h),
//! [`include/linux/fs.h`](srctree/include/linux/fs.h)

use crate::bindings;

/// The offset in a `struct dentry` of the pointer to its name, in bytes. C: `d_name.name`.
pub const NAME_IN_DENTRY: usize = bindings::DENTRY_NAME_OFFSET;

/// The offset in a `struct file` of the pointer to its dentry, in bytes. C: `f_path.dentry`.
pub const DENTRY_IN_FILE: usize = bindings::FILE_DENTRY_OFFSET;

// SPDX-License-Identifier: GPL-2.0

//! Reads of memory that may be unmapped, from any context.
//!
//! C header: [`include/linux/uaccess.h`](srctree/include/linux/uaccess.h)

use kernel::bindings;

/// The error of a read of unreadable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Reads kernel memory. C: `copy_from_kernel_nofault()`.
///
/// `address` may have any value: a user address or an unmapped address results in a [`Fault`].
/// After a fault, a part of `to` may be overwritten. Any context, including NMI.
#[inline(always)]
pub fn read_kernel(address: usize, to: &mut [u8]) -> Result<(), Fault> {
    // SAFETY: `to` is writable for its whole length. `address` may have any value.
    let ret = unsafe {
        bindings::copy_from_kernel_nofault(to.as_mut_ptr().cast(), address as *const _, to.len())
    };
    if ret == 0 {
        Ok(())
    } else {
        Err(Fault)
    }
}

/// Reads memory of the current process. C: `copy_from_user_nofault()`.
///
/// A page that is not resident results in a [`Fault`], and so does a kernel address. Any context.
#[inline(always)]
pub fn read_user(address: usize, to: &mut [u8]) -> Result<(), Fault> {
    // SAFETY: `to` is writable for its whole length. `address` may have any value.
    let ret = unsafe {
        bindings::copy_from_user_nofault(to.as_mut_ptr().cast(), address as *const _, to.len())
    };
    if ret == 0 {
        Ok(())
    } else {
        Err(Fault)
    }
}

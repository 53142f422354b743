// SPDX-License-Identifier: GPL-2.0

//! Reads of memory that may not be there, from any context.
//!
//! C header: [`include/linux/uaccess.h`](srctree/include/linux/uaccess.h)

use kernel::bindings;

/// The memory could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Reads kernel memory. C: `copy_from_kernel_nofault()`.
///
/// Any address will do: user addresses and unmapped ones are a [`Fault`]. On a fault part of `to`
/// may have been written. Any context, NMI included.
#[inline(always)]
pub fn read_kernel(address: usize, to: &mut [u8]) -> Result<(), Fault> {
    // SAFETY: `to` is writable for its whole length; `address` may be anything.
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
/// A page that is not resident is a [`Fault`], as is a kernel address. Any context.
#[inline(always)]
pub fn read_user(address: usize, to: &mut [u8]) -> Result<(), Fault> {
    // SAFETY: `to` is writable for its whole length; `address` may be anything.
    let ret = unsafe {
        bindings::copy_from_user_nofault(to.as_mut_ptr().cast(), address as *const _, to.len())
    };
    if ret == 0 {
        Ok(())
    } else {
        Err(Fault)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Reads of memory that may not be there, from any context.
//!
//! C header: [`include/linux/uaccess.h`](srctree/include/linux/uaccess.h)

use kernel::bindings;

use probe::types::Width;

use crate::arch;

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

/// Whether [`try_read_number`] reads most kernel addresses.
pub const READS_NUMBERS: bool = arch::READS_NUMBERS;

/// Reads a number of kernel memory with fewer instructions than [`read_kernel`]. After a fault, the
/// number is 0. The bytes above its width are 0. Returns `None` for an address that only
/// [`read_kernel`] can read. Any context, NMI included. C: `get_kernel_nofault()`.
#[inline(always)]
pub fn try_read_number(address: usize, width: Width) -> Option<u64> {
    arch::read_number(address, width)
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

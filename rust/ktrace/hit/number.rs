// SPDX-License-Identifier: GPL-2.0

//! Quick reads of numbers in memory that may be unmapped, on processors that allow them.
//!
//! [`crate::nofault`] reads memory of any length and at any address.
//!
//! C header: [`include/linux/uaccess.h`](srctree/include/linux/uaccess.h)

use probe::types::Width;

use crate::arch;

/// Whether [`try_read`] reads most kernel addresses.
pub const READS_NUMBERS: bool = arch::READS_NUMBERS;

/// Reads a number from kernel memory with fewer instructions than
/// [`read_kernel`](crate::nofault::read_kernel). After a fault, the number is 0. The bytes above
/// its width are 0. Returns `None` for an address that only `read_kernel` can read. Any context,
/// including NMI. C: `get_kernel_nofault()`.
#[inline(always)]
pub fn try_read(address: usize, width: Width) -> Option<u64> {
    arch::read_number(address, width)
}

// SPDX-License-Identifier: GPL-2.0

//! The kinds of accesses.

use kernel::ffi::c_uint;

/// The accesses that hit a watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads. x86-64 has no watchpoint for reads alone.
    Read,
    /// Writes.
    Write,
    /// Reads and writes.
    ReadWrite,
    /// The execution of the instruction at the address.
    Execute,
}

impl Access {
    /// C: `HW_BREAKPOINT_R`, `HW_BREAKPOINT_W`, `HW_BREAKPOINT_RW`, `HW_BREAKPOINT_X`.
    pub(super) const fn raw(self) -> c_uint {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::ReadWrite => 3,
            Self::Execute => 4,
        }
    }
}

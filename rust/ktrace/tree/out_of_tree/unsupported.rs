// SPDX-License-Identifier: GPL-2.0

//! The error of functions that only the kernel's tree supports.

use kernel::{
    bindings,
    error::Error,
    ffi::c_int, //
};

/// `EOPNOTSUPP`.
pub(super) fn unsupported() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as c_int))
}

// SPDX-License-Identifier: GPL-2.0

//! The error of functions that this kernel or processor does not support.

use kernel::{
    bindings,
    error::Error,
    ffi::c_int, //
};

/// `EOPNOTSUPP`. The kernel crate of Linux 7.2 has no constant for this error.
pub(crate) fn unsupported() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as c_int))
}

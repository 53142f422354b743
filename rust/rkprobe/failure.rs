// SPDX-License-Identifier: GPL-2.0

//! Why a command fails.

use kernel::prelude::*;

use probe::{
    command,
    error::{
        Errno,
        ErrorKind, //
    },
};

/// Why a command fails.
pub(crate) enum Failure {
    /// Something in the command: it is told in the error log, with its place.
    Command(command::Error),
    /// Something else, such as no memory.
    Other(Error),
}

impl From<command::Error> for Failure {
    fn from(error: command::Error) -> Self {
        Self::Command(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<kernel::alloc::AllocError> for Failure {
    fn from(error: kernel::alloc::AllocError) -> Self {
        Self::Other(error.into())
    }
}

impl Failure {
    /// The kernel's error.
    pub(crate) fn errno(&self) -> Error {
        match self {
            Self::Command(error) => to_kernel(error.errno),
            Self::Other(error) => *error,
        }
    }
}

/// The kernel's error for a number of crate `probe`.
pub(crate) fn to_kernel(errno: Errno) -> Error {
    Error::from_errno(-i32::from(errno.0))
}

/// The number of a kernel's error, for crate `probe`.
pub(crate) fn from_kernel(error: Error) -> Errno {
    Errno(u16::try_from(error.to_errno().unsigned_abs()).unwrap_or(Errno::EINVAL.0))
}

/// What the kernel said of a probe.
pub(crate) fn at_target(error: Error) -> Failure {
    if error == ENOMEM {
        return error.into();
    }
    let errno = from_kernel(error);
    let kind = match errno {
        Errno::EILSEQ => ErrorKind::BadInsnBndry,
        Errno::ENOENT => ErrorKind::BadProbeAddr,
        _ => ErrorKind::FailRegProbe,
    };
    command::Error::at_target(kind, errno).into()
}

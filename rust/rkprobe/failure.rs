// SPDX-License-Identifier: GPL-2.0

//! The reasons why a command fails.

use kernel::prelude::*;

use probe::{
    command::{
        self,
        Position, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

/// The reason why a command fails.
pub(crate) enum Failure {
    /// An error in the command. The error log shows it with its position.
    Command(command::Error),
    /// Any other error, such as a lack of memory.
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
    /// The error as an error of the kernel.
    pub(crate) fn errno(&self) -> Error {
        match self {
            Self::Command(error) => to_kernel(error.errno),
            Self::Other(error) => *error,
        }
    }
}

/// Converts an error number of crate `probe` into an error of the kernel.
pub(crate) fn to_kernel(errno: Errno) -> Error {
    Error::from_errno(-i32::from(errno.0))
}

/// Converts an error of the kernel into an error number of crate `probe`.
pub(crate) fn from_kernel(error: Error) -> Errno {
    Errno(u16::try_from(error.to_errno().unsigned_abs()).unwrap_or(Errno::EINVAL.0))
}

/// Converts the kernel's error for a probe into an error of the target. Keeps `ENOMEM`.
pub(crate) fn at_target(error: Error) -> Failure {
    at_function(error, Position { word: 1, offset: 0 })
}

/// Converts the kernel's error for a probe into an error of a function in the target. Keeps
/// `ENOMEM`.
pub(crate) fn at_function(error: Error, at: Position) -> Failure {
    if error == ENOMEM {
        return error.into();
    }
    let errno = from_kernel(error);
    let kind = match errno {
        Errno::EILSEQ => ErrorKind::BadInsnBndry,
        Errno::ENOENT => ErrorKind::BadProbeAddr,
        _ => ErrorKind::FailRegProbe,
    };
    command::Error::at(kind, at, errno).into()
}

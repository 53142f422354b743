// SPDX-License-Identifier: GPL-2.0

//! The reasons why a command ends early.

use std::{
    fmt::Display,
    io::{
        self,
        Write, //
    }, //
};

/// The result of everything that can fail.
pub type Result<T = ()> = std::result::Result<T, Failure>;

/// Why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// The reader of the output has gone. This is no error.
    ClosedPipe,
    /// A text for the user.
    Message(String),
    /// The kernel refused an operation: a text for the user, and the kind of its error.
    Refused(String, io::ErrorKind),
}

impl Failure {
    /// A failure with a text for the user.
    pub fn new(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }

    /// A failed operation on the file `name`.
    pub fn file(name: impl Display, error: &io::Error) -> Self {
        Self::Refused(format!("{name}: {error}"), error.kind())
    }

    /// The first line of the text for the user. The lines below it can have the place of an error in a command.
    pub fn reason(&self) -> &str {
        match self {
            Self::ClosedPipe => "",
            Self::Message(text) | Self::Refused(text, _) => text.lines().next().unwrap_or(""),
        }
    }

    /// Whether the kernel refused an operation with an error of this kind.
    pub fn is_refused_as(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Refused(_, refused) if *refused == kind)
    }
}

/// Writes a line to the standard error. Its reader can have gone, and the run must still clean up.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// An error of the standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::file("standard output", &error),
        }
    }
}

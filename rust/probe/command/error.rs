// SPDX-License-Identifier: GPL-2.0

//! Errors in a command, and their positions.
//!
//! As in the kernel, a position is a word of the command and a byte offset in this word. Some of
//! C's carets point to the wrong part. The positions here are correct: C does not count the `u` of
//! `+uOFF(...)` and the second sign of `+-OFF(...)`. After a dereference, C adds the start of the
//! inner argument to the position of a type.
//!
//! C: `__trace_probe_log_err()` in `kernel/trace/trace_probe.c`.

use core::fmt;

use crate::{
    btf,
    error::{
        Errno,
        ErrorKind, //
    },
};

use super::{
    target::ProbeKind,
    words::{
        Position,
        Words, //
    },
};

/// The reason why rkprobe refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The position.
    pub at: Position,
    /// The error number that `write(2)` returns.
    pub errno: Errno,
}

impl Error {
    /// Creates an error at byte `offset` of word `word`.
    pub(super) const fn new(kind: ErrorKind, word: usize, offset: usize, errno: Errno) -> Self {
        Self {
            kind,
            at: Position { word, offset },
            errno,
        }
    }

    /// Creates an error for a malformed command: EINVAL.
    pub(super) const fn invalid(kind: ErrorKind, word: usize, offset: usize) -> Self {
        Self::new(kind, word, offset, Errno::EINVAL)
    }

    /// Creates an error at this position.
    pub const fn at(kind: ErrorKind, at: Position, errno: Errno) -> Self {
        Self { kind, at, errno }
    }

    /// Creates an error of the command as a whole. The executor of the command finds these errors:
    /// [`ErrorKind::EventExist`], [`ErrorKind::DiffProbeType`], [`ErrorKind::SameProbe`] (EEXIST);
    /// [`ErrorKind::NoSuchEvent`] (ENOENT); [`ErrorKind::EventBusy`] (EBUSY).
    ///
    /// C: `register_trace_kprobe()`, `append_trace_kprobe()`.
    pub const fn at_command(kind: ErrorKind, errno: Errno) -> Self {
        Self::new(kind, 0, 0, errno)
    }

    /// Creates an error of the target. The kernel finds these errors. The position is the second
    /// word.
    ///
    /// C: `trace_kprobe_create_internal()`.
    pub const fn at_target(kind: ErrorKind, errno: Errno) -> Self {
        Self::new(kind, 1, 0, errno)
    }

    /// Returns this error with the error number that the registration of a probe of this kind
    /// returns. For some kinds, this number is always EINVAL.
    ///
    /// C: `trace_fprobe_create_internal()`.
    pub const fn at_registration(mut self, kind: ProbeKind) -> Self {
        if kind.registration_is_einval() {
            self.errno = Errno::EINVAL;
        }
        self
    }

    /// The column of the error in the [`Normalized`] form of the parsed line `text`, in bytes.
    pub fn column(&self, text: &str) -> usize {
        self.at.column(text)
    }

    /// The entry for the error log. Excludes the time and the subsystem, which come before the
    /// entry. `text` is the parsed line.
    pub const fn entry<'a>(&self, text: &'a str) -> Entry<'a> {
        Entry { error: *self, text }
    }
}

/// The reason why rkprobe refuses the body of an argument. The argument knows its place in the
/// command: see [`WrittenArgument`](super::WrittenArgument).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArgumentError {
    pub(super) kind: ErrorKind,
    /// Byte offset in the body.
    pub(super) offset: usize,
    pub(super) errno: Errno,
}

impl ArgumentError {
    /// Creates an error at byte `offset` of the body.
    pub(super) const fn new(kind: ErrorKind, offset: usize, errno: Errno) -> Self {
        Self {
            kind,
            offset,
            errno,
        }
    }

    /// Creates an error for a malformed argument: EINVAL.
    pub(super) const fn invalid(kind: ErrorKind, offset: usize) -> Self {
        Self::new(kind, offset, Errno::EINVAL)
    }

    /// Creates an error from an error of BTF. The position of `error` is relative to byte `start`
    /// of the body.
    pub(super) const fn in_btf(error: btf::Error, start: usize) -> Self {
        Self::new(error.kind, start.saturating_add(error.at), error.errno)
    }
}

/// Writes a command in the form of the error log, with one space between words.
#[derive(Clone, Copy, Debug)]
pub struct Normalized<'a>(pub &'a str);

impl fmt::Display for Normalized<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in Words::new(self.0).enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

/// Three lines of the error log: the message, the command and the caret. A newline ends each line.
///
/// C: `tracing_err_log_seq_show()` in `kernel/trace/trace.c`.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    error: Error,
    text: &'a str,
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LABEL: &str = "  Command: ";

        writeln!(f, "{}", self.error.kind.text())?;
        writeln!(f, "{LABEL}{}", Normalized(self.text))?;
        for _ in 0..LABEL.len().saturating_add(self.error.column(self.text)) {
            f.write_str(" ")?;
        }
        f.write_str("^\n")
    }
}

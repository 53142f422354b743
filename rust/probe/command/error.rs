// SPDX-License-Identifier: GPL-2.0

//! An error in a command, and its position.
//!
//! Positions are those of the kernel: a word of the command, and a byte in this word. Where C's
//! caret misses the wrong part, the position here is correct: C does not count the `u` of
//! `+uOFF(...)` and the second sign of `+-OFF(...)`, and after a dereference, it adds the start of
//! the inner argument to the position of a type.
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
    target::Kind,
    words::Words, //
};

/// A place in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The word, counted from 0: the command is 0, its target 1, its arguments come from 2 on. A
    /// number that no word has is the place behind the last word.
    pub word: usize,
    /// The byte within the word.
    pub offset: usize,
}

impl Position {
    /// The column of the caret below [`Normalized`], counted from 0, in bytes.
    pub fn column(self, text: &str) -> usize {
        let mut start = 0usize;
        for (index, word) in Words::new(text).enumerate() {
            if index == self.word {
                return start.saturating_add(self.offset);
            }
            start = start.saturating_add(word.len()).saturating_add(1);
        }
        start
    }
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The position.
    pub at: Position,
    /// The error of `write(2)`.
    pub errno: Errno,
}

impl Error {
    /// An error at byte `offset` of word `word`.
    pub(super) const fn new(kind: ErrorKind, word: usize, offset: usize, errno: Errno) -> Self {
        Self {
            kind,
            at: Position { word, offset },
            errno,
        }
    }

    /// A malformed command: EINVAL.
    pub(super) const fn invalid(kind: ErrorKind, word: usize, offset: usize) -> Self {
        Self::new(kind, word, offset, Errno::EINVAL)
    }

    /// An error of the command as a whole, found by its executor: [`ErrorKind::EventExist`],
    /// [`ErrorKind::DiffProbeType`], [`ErrorKind::SameProbe`] (EEXIST);
    /// [`ErrorKind::NoSuchEvent`] (ENOENT), [`ErrorKind::EventBusy`] (EBUSY).
    ///
    /// C: `register_trace_kprobe()`, `append_trace_kprobe()`.
    pub const fn at_command(kind: ErrorKind, errno: Errno) -> Self {
        Self::new(kind, 0, 0, errno)
    }

    /// An error of the target, found by the kernel. Before the name is looked at:
    /// [`ErrorKind::BadProbeAddr`], [`ErrorKind::NonUniqSymbol`], [`ErrorKind::BadRetprobe`]
    /// (EINVAL), [`ErrorKind::BadAttachEvent`] (ENODEV). At the registration:
    /// [`ErrorKind::BadInsnBndry`] (EILSEQ), [`ErrorKind::BadProbeAddr`] (ENOENT),
    /// [`ErrorKind::FailRegProbe`] (what the kernel said), [`ErrorKind::TailCall`],
    /// [`ErrorKind::NoRetInsn`], [`ErrorKind::BadText`], [`ErrorKind::RetInsnRefused`] (EINVAL),
    /// [`ErrorKind::NosupRetinsn`] (EOPNOTSUPP).
    ///
    /// C: `trace_kprobe_create_internal()`.
    pub const fn at_target(kind: ErrorKind, errno: Errno) -> Self {
        Self::new(kind, 1, 0, errno)
    }

    /// An error of the argument `index`, counted from 0: [`ErrorKind::DiffArgType`] (EEXIST). The
    /// index behind the last argument is where one is missing.
    ///
    /// C: `append_trace_kprobe()`.
    pub const fn at_argument(index: usize, kind: ErrorKind, errno: Errno) -> Self {
        Self::new(kind, index.saturating_add(2), 0, errno)
    }

    /// The same error as the registration of a probe of this kind returns it: for some it is
    /// always EINVAL.
    ///
    /// C: `trace_fprobe_create_internal()`.
    pub const fn at_registration(mut self, kind: Kind) -> Self {
        if kind.is_registered_with_event() {
            self.errno = Errno::EINVAL;
        }
        self
    }

    /// The byte of the [`Normalized`] line that was parsed, `text`, that the error is at.
    pub fn column(&self, text: &str) -> usize {
        self.at.column(text)
    }

    /// The entry for the error log, without the time and the subsystem that precede it there.
    /// `text` is the line that was parsed.
    pub const fn entry<'a>(&self, text: &'a str) -> Entry<'a> {
        Entry { error: *self, text }
    }
}

/// Why an argument is refused.
#[derive(Clone, Copy)]
pub(super) struct ArgumentError {
    kind: ErrorKind,
    /// The byte within the word.
    offset: usize,
    errno: Errno,
}

impl ArgumentError {
    /// An error at byte `offset` of the word.
    pub(super) const fn new(kind: ErrorKind, offset: usize, errno: Errno) -> Self {
        Self {
            kind,
            offset,
            errno,
        }
    }

    /// A malformed argument: EINVAL.
    pub(super) const fn invalid(kind: ErrorKind, offset: usize) -> Self {
        Self::new(kind, offset, Errno::EINVAL)
    }

    /// An error in a text that starts at byte `start` of the word.
    pub(super) const fn in_btf(error: btf::Error, start: usize) -> Self {
        Self::new(error.kind, start.saturating_add(error.at), error.errno)
    }

    /// The same error as one of the command, whose argument `index` is wrong, counted from 0.
    pub(super) const fn of_argument(self, index: usize) -> Error {
        Error::new(self.kind, index.saturating_add(2), self.offset, self.errno)
    }
}

/// A command in the form of the error log: with one space between two words.
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

/// Three lines of the error log: the message, the command, the caret. Each ends in a newline.
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

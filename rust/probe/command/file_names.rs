// SPDX-License-Identifier: GPL-2.0

//! `%pd` and `%pD`: the name of a file, from a pointer to its dentry or to its `struct file`.
//!
//! They are no types of their own: `ARG:%pd` stands for `+0x0(+0xOFF(ARG)):string`, which is what
//! the probe then has and lists.
//!
//! C: `traceprobe_expand_dentry_args()` in `kernel/trace/trace_probe.c`.

use core::fmt;
use core::fmt::Write as _;

use super::words::Words;

/// The room for all arguments that are written out, each with a NUL, in bytes.
///
/// C: `MAX_DENTRY_ARGS_LEN`.
const ROOM: usize = 256;

/// Where the kernel has the name of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOffsets {
    /// The pointer to the name in a `struct dentry`.
    pub name: usize,
    /// The pointer to the dentry in a `struct file`.
    pub dentry: usize,
}

/// A line with `%pd` and `%pD` written out: its `Display`.
///
/// What there is no room for is left as it is, for
/// [`Command::arguments`](super::Command::arguments) to refuse it.
///
/// # Examples
///
/// ```
/// use probe::command::{FileOffsets, WithFileNames};
///
/// let offsets = FileOffsets { name: 40, dentry: 64 };
/// let line = WithFileNames::new("p  vfs_read file=$arg1:%pD # a comment", offsets).unwrap();
/// assert_eq!(line.to_string(), "p vfs_read file=+0x0(+0x28(+0x40($arg1))):string");
/// assert!(WithFileNames::new("p vfs_read $arg1", offsets).is_none());
/// ```
#[derive(Clone, Debug)]
pub struct WithFileNames<'a> {
    words: Words<'a>,
    offsets: FileOffsets,
}

impl<'a> WithFileNames<'a> {
    /// `None` where the line stays as it is.
    pub fn new(line: &'a str, offsets: FileOffsets) -> Option<Self> {
        let words = Words::new(line);
        let mut arguments = words.clone();
        // What is deleted is named as it is listed.
        let is_command = arguments.next()?.starts_with(|c| c != '-');
        arguments.next()?;
        // A NUL is told where it was written.
        let stays = !arguments.any(is_file_name) || words.clone().any(|word| word.contains('\0'));
        (is_command && !stays).then_some(Self { words, offsets })
    }
}

/// Whether an argument asks for the name of a file.
pub(super) fn is_file_name(word: &str) -> bool {
    Asked::parse(word).is_some()
}

/// An argument that asks for the name of a file.
struct Asked<'a> {
    /// The name with its `=`, or nothing.
    name: &'a str,
    /// Where the dentry, or the file, is.
    value: &'a str,
    /// Whether it is a file.
    is_file: bool,
}

impl<'a> Asked<'a> {
    fn parse(word: &'a str) -> Option<Self> {
        let (text, is_file) = match word.strip_suffix(":%pd") {
            Some(text) => (text, false),
            None => (word.strip_suffix(":%pD")?, true),
        };
        let start = text.find('=').map_or(0, |at| at.saturating_add(1));
        let (name, value) = text.split_at_checked(start)?;
        Some(Self {
            name,
            value,
            is_file,
        })
    }

    fn write(&self, offsets: FileOffsets, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { name, value, .. } = self;
        let FileOffsets {
            name: in_dentry,
            dentry: in_file,
        } = offsets;
        if self.is_file {
            write!(
                out,
                "{name}+0x0(+{in_dentry:#x}(+{in_file:#x}({value}))):string"
            )
        } else {
            write!(out, "{name}+0x0(+{in_dentry:#x}({value})):string")
        }
    }
}

impl fmt::Display for WithFileNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = Some(ROOM);
        for (index, word) in self.words.clone().enumerate() {
            if index > 0 {
                f.write_char(' ')?;
            }
            let Some(asked) = Asked::parse(word).filter(|_| index >= 2) else {
                f.write_str(word)?;
                continue;
            };
            let mut length = Length(1);
            asked.write(self.offsets, &mut length)?;
            // Behind one that does not fit there is no room for shorter ones either.
            room = room.and_then(|room| room.checked_sub(length.0));
            match room {
                Some(_) => asked.write(self.offsets, f)?,
                None => f.write_str(word)?,
            }
        }
        Ok(())
    }
}

/// How many bytes were written to it.
struct Length(usize);

impl fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.saturating_add(text.len());
        Ok(())
    }
}

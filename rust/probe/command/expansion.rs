// SPDX-License-Identifier: GPL-2.0

//! Meta arguments, which stand for others: `$arg*`, `$argN`, `%pd` and `%pD`.
//!
//! - `$arg*` is all parameters of the function, by their names in BTF;
//! - `$argN[:TYPE]` is the Nth of them by its name, where BTF has the function: `$arg1:u8` of
//!   `vfs_read` is `file:u8`;
//! - `ARG:%pd` and `ARG:%pD`, the name of a file from a pointer to its dentry or to its
//!   `struct file`, are `+0x0(+0xOFF(ARG)):string`.
//!
//! A probe has, and lists, the arguments that they stand for.
//!
//! C: `traceprobe_expand_meta_args()` and `traceprobe_expand_dentry_args()` in
//! `kernel/trace/trace_probe.c`.

use core::fmt::{
    self,
    Write as _, //
};

use crate::{
    btf::{
        Function,
        Param, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use super::{
    error::Error,
    parse_context::{
        ParseContext,
        ProbePoint, //
    },
    words::{
        Length,
        Words, //
    },
};

/// The maximum length of the names of parameters that `$arg*` and `$argN` stand for, each with a
/// NUL, in bytes.
///
/// C: `MAX_BTF_ARGS_LEN`.
const MAX_PARAMETERS_LEN: usize = 128;

/// The maximum length of the expansions of all arguments with `%pd` and `%pD`, each with a NUL, in
/// bytes.
///
/// C: `MAX_DENTRY_ARGS_LEN`.
const MAX_FILE_NAMES_LEN: usize = 256;

/// Where the kernel has the name of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOffsets {
    /// The pointer to the name in a `struct dentry`.
    pub name: usize,
    /// The pointer to the dentry in a `struct file`.
    pub dentry: usize,
}

/// The arguments of a command written out: its `Display`.
///
/// Made by [`Command::expand`](super::Command::expand).
#[derive(Clone, Debug)]
pub struct Expansion<'a> {
    words: Words<'a>,
    /// The function, where it has parameters.
    function: Option<Function<'a>>,
    offsets: FileOffsets,
}

impl<'a> Expansion<'a> {
    /// `None` where the arguments stay as they are.
    pub(super) fn new(
        words: Words<'a>,
        context: ParseContext<'a>,
        offsets: FileOffsets,
    ) -> Result<Option<Self>, Error> {
        check_variables(&words, context.point)?;
        let function = context.types.function();
        let this = Self {
            words,
            function: function.filter(|function| function.params().next().is_some()),
            offsets,
        };
        let mut has_meta = false;
        let mut parameters_left = Some(MAX_PARAMETERS_LEN);
        let mut file_names_left = Some(MAX_FILE_NAMES_LEN);
        for (index, word) in this.words.clone().enumerate() {
            let error = |kind, errno| Error::new(kind, index.saturating_add(2), 0, errno);
            let meta = this
                .parse(word)
                .map_err(|(kind, errno)| error(kind, errno))?;
            let Some(meta) = meta else {
                continue;
            };
            has_meta = true;
            let (left, full) = match meta {
                MetaArgument::AllParameters(_) | MetaArgument::Parameter(..) => (
                    &mut parameters_left,
                    error(ErrorKind::Args2Long, Errno::E2BIG),
                ),
                MetaArgument::FileName(_) => (
                    &mut file_names_left,
                    error(ErrorKind::FileNamesTooLong, Errno::ENOMEM),
                ),
            };
            let mut length = Length(1);
            // It does not fail.
            let _ = meta.write(offsets, &mut length);
            *left = left.and_then(|left| left.checked_sub(length.0));
            if left.is_none() {
                return Err(full);
            }
        }
        Ok(has_meta.then_some(this))
    }

    /// Parses an argument. `None` if it stands for itself.
    fn parse(&self, word: &'a str) -> Result<Option<MetaArgument<'a>>, (ErrorKind, Errno)> {
        let Some(rest) = word.strip_prefix("$arg") else {
            return Ok(MetaArgument::parse("", word));
        };
        match (self.function, rest.as_bytes().first()) {
            (Some(function), Some(b'*')) => Ok(Some(MetaArgument::AllParameters(function))),
            (None, Some(b'*')) => Err((ErrorKind::NosupBtfarg, Errno::EINVAL)),
            (None, _) => Ok(MetaArgument::parse("", word)),
            (Some(function), _) => {
                let end = rest.find(':').unwrap_or(rest.len());
                let (number, ty) = rest.split_at_checked(end).unwrap_or((rest, ""));
                if number.bytes().any(|byte| !byte.is_ascii_digit()) {
                    return Err((ErrorKind::BadVar, Errno::ENOENT));
                }
                if number.bytes().all(|byte| byte == b'0') {
                    return Err((ErrorKind::BadArgNum, Errno::EINVAL));
                }
                let none = (ErrorKind::NoBtfarg, Errno::ENOENT);
                let number: usize = number.parse().map_err(|_| none)?;
                let param = function.params().nth(number.wrapping_sub(1)).ok_or(none)?;
                match param.name {
                    // The parameter has no name.
                    "" => Ok(MetaArgument::parse("", word)),
                    name => Ok(MetaArgument::parse(name, ty)),
                }
            }
        }
    }
}

impl fmt::Display for Expansion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.words.clone().enumerate() {
            if index > 0 {
                f.write_char(' ')?;
            }
            // `new()` parsed all of them: none fails.
            match self.parse(word) {
                Ok(Some(meta)) => meta.write(self.offsets, f)?,
                Ok(None) | Err(_) => f.write_str(word)?,
            }
        }
        Ok(())
    }
}

/// An argument that stands for others.
enum MetaArgument<'a> {
    /// `$arg*`: all parameters of the function.
    AllParameters(Function<'a>),
    /// `$argN`: the name of the parameter, and the text that follows.
    Parameter(&'a str, &'a str),
    /// `ARG:%pd` or `ARG:%pD`.
    FileName(FileName<'a>),
}

impl<'a> MetaArgument<'a> {
    /// Parses the name of a parameter, which may be empty, and the text that follows.
    fn parse(param: &'a str, rest: &'a str) -> Option<Self> {
        match FileName::parse(param, rest) {
            Some(name) => Some(Self::FileName(name)),
            None if param.is_empty() => None,
            None => Some(Self::Parameter(param, rest)),
        }
    }

    fn write(&self, offsets: FileOffsets, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Self::AllParameters(function) => {
                for (index, Param { name, .. }) in function.params().enumerate() {
                    if index > 0 {
                        out.write_char(' ')?;
                    }
                    match name {
                        "" => write!(out, "$arg{}", index.saturating_add(1))?,
                        name => out.write_str(name)?,
                    }
                }
                Ok(())
            }
            Self::Parameter(name, rest) => write!(out, "{name}{rest}"),
            Self::FileName(file_name) => file_name.write(offsets, out),
        }
    }
}

/// An argument whose value is the name of a file.
struct FileName<'a> {
    /// The name of the argument with its `=`, or nothing.
    name: &'a str,
    /// The pointer to the dentry or the file: the name of a parameter, which may be empty, and the
    /// text that follows.
    value: [&'a str; 2],
    /// Whether the pointer is to a file.
    is_file: bool,
}

impl<'a> FileName<'a> {
    fn parse(param: &'a str, rest: &'a str) -> Option<Self> {
        let (text, is_file) = match rest.strip_suffix(":%pd") {
            Some(text) => (text, false),
            None => (rest.strip_suffix(":%pD")?, true),
        };
        let start = text.find('=').map_or(0, |at| at.saturating_add(1));
        let (name, value) = text.split_at_checked(start)?;
        Some(Self {
            name,
            value: [param, value],
            is_file,
        })
    }

    fn write(&self, offsets: FileOffsets, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { name, value, .. } = self;
        let FileOffsets {
            name: in_dentry,
            dentry: in_file,
        } = offsets;
        let [param, rest] = value;
        write!(out, "{name}+0x0(+{in_dentry:#x}(")?;
        if self.is_file {
            write!(out, "+{in_file:#x}({param}{rest})")?;
        } else {
            write!(out, "{param}{rest}")?;
        }
        out.write_str(")):string")
    }
}

/// Checks each `$argN` and `$arg*` that is an argument of its own, before anything else of any
/// argument is looked at.
///
/// C: `argv_has_var_arg()`.
fn check_variables(words: &Words<'_>, point: ProbePoint) -> Result<(), Error> {
    let mut has_all = false;
    for (index, word) in words.clone().enumerate() {
        let Some(number) = word.strip_prefix("$arg") else {
            continue;
        };
        let error = |kind| Err(Error::invalid(kind, index.saturating_add(2), 0));
        match point {
            ProbePoint::Inside | ProbePoint::Event => return error(ErrorKind::NofentryArgs),
            ProbePoint::ReturnInsn => return error(ErrorKind::EntryOnRetinsn),
            ProbePoint::Entry | ProbePoint::Return | ProbePoint::Tracepoint => {}
        }
        match number.bytes().next() {
            Some(b'0'..=b'9') => {}
            Some(b'*') if has_all => return error(ErrorKind::DoubleArgs),
            Some(b'*') => has_all = true,
            _ => return error(ErrorKind::BadVar),
        }
    }
    Ok(())
}

/// Moves an error of the `expanded` arguments to its position in the `original` ones. The position
/// is the same byte if it is in the part where both begin or end alike. Otherwise it is the start
/// of the part that was replaced.
pub(super) fn error_before_expansion(
    original: &Words<'_>,
    expanded: &Words<'_>,
    error: Error,
) -> Error {
    let Some(index) = error.at.word.checked_sub(2) else {
        return error;
    };
    let more = expanded
        .clone()
        .count()
        .saturating_sub(original.clone().count());
    let all = original.clone().position(|word| word.starts_with("$arg*"));
    let at = match all {
        Some(all) if index > all => index.saturating_sub(more).max(all),
        _ => index,
    };
    let original = original.clone().nth(at).unwrap_or("");
    let expanded = expanded.clone().nth(index).unwrap_or("");
    let offset = match (all == Some(at), error.at.offset) {
        (true, _) => 0,
        (false, offset) if original == expanded => offset,
        (false, offset) => {
            let alike = |pairs: &mut dyn Iterator<Item = (u8, u8)>| {
                pairs.take_while(|(a, b)| a == b).count()
            };
            let before = alike(&mut original.bytes().zip(expanded.bytes()));
            let behind = alike(&mut original.bytes().rev().zip(expanded.bytes().rev()));
            let from_end = expanded.len().saturating_sub(offset);
            if offset > before && from_end <= behind {
                original.len().saturating_sub(from_end)
            } else {
                offset.min(before)
            }
        }
    };
    Error::new(error.kind, at.saturating_add(2), offset, error.errno)
}

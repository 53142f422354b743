// SPDX-License-Identifier: GPL-2.0

//! Meta arguments expand to other arguments:
//!
//! - `$arg*` expands to all parameters of the function, with their names from BTF.
//! - `$argN[:TYPE]` expands to the Nth parameter with its name, if BTF has the function: `$arg1:u8`
//!   of `vfs_read` becomes `file:u8`.
//! - `ARG:%pd` and `ARG:%pD` are the name of a file. ARG points to the dentry of the file, or to
//!   its `struct file`. They expand to `+0x0(+0xOFF(ARG)):string`.
//! - `FETCH->*` expands to all [members] of the structure that the value points to.
//!
//! A probe has, and lists, the expanded arguments.
//!
//! C: `traceprobe_expand_meta_args()` and `traceprobe_expand_dentry_args()` in
//! `kernel/trace/trace_probe.c`.
//!
//! [members]: super::members

use core::fmt;

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
    arguments::MAX_ARGUMENTS,
    base::BaseParser,
    error::{
        ArgumentError,
        Error, //
    },
    members::{
        LeftOut,
        Members, //
    },
    parse_context::{
        ParseContext,
        ProbePoint, //
    },
    words::{
        Length,
        Words, //
    },
};

/// Maximum total length of the parameter names that `$arg*` and `$argN` expand to, each with a NUL,
/// in bytes.
///
/// C: `MAX_BTF_ARGS_LEN`.
const MAX_PARAMETERS_LEN: usize = 128;

/// Maximum total length of the expansions of `%pd` and `%pD`, each with a NUL, in bytes.
///
/// C: `MAX_DENTRY_ARGS_LEN`.
const MAX_FILE_NAMES_LEN: usize = 256;

/// Offsets, in bytes, that lead to a file's name in the kernel's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOffsets {
    /// Offset of the pointer to the name in a `struct dentry`.
    pub name: usize,
    /// Offset of the pointer to the dentry in a `struct file`.
    pub dentry: usize,
}

/// The expanded arguments of a command. Its `Display` writes them.
///
/// [`Command::expand`](super::Command::expand) creates it.
pub struct Expansion<'a> {
    words: Words<'a>,
    bases: BaseParser<'a>,
    /// The function, if it has parameters.
    function: Option<Function<'a>>,
    offsets: FileOffsets,
    /// The maximum number of arguments for all `FETCH->*`.
    room: usize,
}

impl<'a> Expansion<'a> {
    /// Checks and counts the expansions. Returns `None` if no argument needs an expansion.
    pub(super) fn new(
        words: Words<'a>,
        context: ParseContext<'a>,
        offsets: FileOffsets,
    ) -> Result<Option<Self>, Error> {
        // In C, an event probe has no meta arguments.
        if context.point != ProbePoint::Event {
            check_variables(&words, context.point)?;
        }
        let function = context.types.function();
        let mut this = Self {
            words,
            bases: BaseParser {
                context,
                registers: None,
            },
            function: function.filter(|function| function.params().next().is_some()),
            offsets,
            room: MAX_ARGUMENTS,
        };
        let mut has_meta = false;
        let mut parameters_left = Some(MAX_PARAMETERS_LEN);
        let mut file_names_left = Some(MAX_FILE_NAMES_LEN);
        for (index, word) in this.words.clone().enumerate() {
            let error = |kind, errno| ArgumentError::new(kind, 0, errno).of_argument(index);
            let meta = this.parse(word).map_err(|error| error.of_argument(index))?;
            let Some(meta) = meta else {
                this.room = this.room.saturating_sub(1);
                continue;
            };
            has_meta = true;
            let (left, full) = match meta {
                MetaArgument::Members(_) => continue,
                MetaArgument::AllParameters(_) | MetaArgument::Parameter(..) => (
                    &mut parameters_left,
                    error(ErrorKind::Args2Long, Errno::E2BIG),
                ),
                MetaArgument::FileName(_) => (
                    &mut file_names_left,
                    error(ErrorKind::FileNamesTooLong, Errno::ENOMEM),
                ),
            };
            this.room = this.room.saturating_sub(meta.count());
            let mut length = Length(1);
            // Writing to a `Length` does not fail.
            let _ = meta.write(offsets, 0, &mut length);
            *left = left.and_then(|left| left.checked_sub(length.0));
            if left.is_none() {
                return Err(full);
            }
        }
        Ok(has_meta.then_some(this))
    }

    /// Parses an argument. Returns `None` if the argument needs no expansion.
    #[inline(never)]
    fn parse(&self, word: &'a str) -> Result<Option<MetaArgument<'a>>, ArgumentError> {
        let param = |number: &str| {
            let index = number.parse::<usize>().ok()?.checked_sub(1)?;
            let param = self.function?.params().nth(index)?;
            (!param.name.is_empty()).then_some(param.name)
        };
        if let Some(members) = Members::parse(&self.bases, word, param)? {
            return Ok(Some(MetaArgument::Members(members)));
        }
        if self.bases.context.point == ProbePoint::Event {
            return Ok(None);
        }
        let Some(rest) = word.strip_prefix("$arg") else {
            return Ok(MetaArgument::parse("", word));
        };
        let error = |kind, errno| Err(ArgumentError::new(kind, 0, errno));
        match (self.function, rest.as_bytes().first()) {
            (Some(function), Some(b'*')) => Ok(Some(MetaArgument::AllParameters(function))),
            (None, Some(b'*')) => error(ErrorKind::NosupBtfarg, Errno::EOPNOTSUPP),
            (None, _) => Ok(MetaArgument::parse("", word)),
            (Some(function), _) => {
                let end = rest.find(':').unwrap_or(rest.len());
                let (number, ty) = rest.split_at_checked(end).unwrap_or((rest, ""));
                if number.bytes().any(|byte| !byte.is_ascii_digit()) {
                    return error(ErrorKind::BadVar, Errno::ENOENT);
                }
                if number.bytes().all(|byte| byte == b'0') {
                    return error(ErrorKind::BadArgNum, Errno::EINVAL);
                }
                let none = ArgumentError::new(ErrorKind::NoBtfarg, 0, Errno::ENOENT);
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

    /// Calls `f` for each argument of the command, with its parsed meta argument and the number of
    /// arguments that it expands to.
    fn each(&self, mut f: impl FnMut(&'a str, Option<MetaArgument<'a>>, usize)) {
        let mut room = self.room;
        for word in self.words.clone() {
            // `new()` parsed all arguments without an error.
            let meta = self.parse(word).ok().flatten();
            let mut count = meta.as_ref().map_or(1, MetaArgument::count);
            if let Some(MetaArgument::Members(_)) = meta {
                count = count.min(room);
                room = room.saturating_sub(count);
            }
            f(word, meta, count);
        }
    }

    /// Calls `f` for each member that a `FETCH->*` leaves out. Passes the argument of the command,
    /// the name of the member, and the reason.
    pub fn each_left_out(&self, mut f: impl FnMut(&'a str, &'a str, LeftOut)) {
        self.each(|word, meta, mut room| {
            let Some(MetaArgument::Members(members)) = meta else {
                return;
            };
            members.each(|member, left_out| match left_out {
                Some(reason) => f(word, member.name, reason),
                None if room == 0 => f(word, member.name, LeftOut::NoRoom),
                None => room = room.saturating_sub(1),
            });
        });
    }

    /// Moves an error in the expanded arguments `expanded` to its position in the original
    /// arguments. If the error is in the common start or the common end of both texts, the byte
    /// stays the same. Otherwise the position is the start of the replaced part.
    pub fn original_error(&self, error: Error, expanded: &str) -> Error {
        let Some(index) = error.at.word.checked_sub(2) else {
            return error;
        };
        let (mut at, mut behind, mut found) = (0usize, 0usize, None);
        self.each(|word, _, count| {
            behind = behind.saturating_add(count);
            if index < behind && found.is_none() {
                found = Some((at, word, count));
            }
            at = at.saturating_add(1);
        });
        let (at, original, count) = found.unwrap_or((at, "", 1));
        let expanded = Words::new(expanded).nth(index).unwrap_or("");
        let offset = match error.at.offset {
            _ if count != 1 => 0,
            offset if original == expanded => offset,
            offset => offset_before(original, expanded, offset),
        };
        Error::new(error.kind, at.saturating_add(2), offset, error.errno)
    }
}

/// The byte offset in the original word that corresponds to `offset` in the expanded word.
fn offset_before(original: &str, expanded: &str, offset: usize) -> usize {
    let alike =
        |pairs: &mut dyn Iterator<Item = (u8, u8)>| pairs.take_while(|(a, b)| a == b).count();
    let before = alike(&mut original.bytes().zip(expanded.bytes()));
    let behind = alike(&mut original.bytes().rev().zip(expanded.bytes().rev()));
    let from_end = expanded.len().saturating_sub(offset);
    if offset > before && from_end <= behind {
        original.len().saturating_sub(from_end)
    } else {
        offset.min(before)
    }
}

impl fmt::Display for Expansion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        let mut result = Ok(());
        self.each(|word, meta, count| {
            if result.is_err() || count == 0 {
                return;
            }
            result = f.write_str(space).and_then(|()| match meta {
                Some(meta) => meta.write(self.offsets, count, f),
                None => f.write_str(word),
            });
            space = " ";
        });
        result
    }
}

/// An argument that expands to other arguments.
enum MetaArgument<'a> {
    /// `$arg*`: all parameters of the function.
    AllParameters(Function<'a>),
    /// `$argN`: the name of the parameter, and the text after the number.
    Parameter(&'a str, &'a str),
    /// `ARG:%pd` or `ARG:%pD`.
    FileName(FileName<'a>),
    /// `FETCH->*`.
    Members(Members<'a>),
}

impl<'a> MetaArgument<'a> {
    /// Parses an argument from the name of a parameter, which can be empty, and the text after it.
    fn parse(param: &'a str, rest: &'a str) -> Option<Self> {
        match FileName::parse(param, rest) {
            Some(name) => Some(Self::FileName(name)),
            None if param.is_empty() => None,
            None => Some(Self::Parameter(param, rest)),
        }
    }

    /// The number of arguments in the expansion.
    fn count(&self) -> usize {
        match self {
            Self::AllParameters(function) => function.params().count(),
            Self::Parameter(..) | Self::FileName(_) => 1,
            Self::Members(members) => members.count(),
        }
    }

    /// Writes the expansion. Of members, writes only the first `room`.
    fn write(&self, offsets: FileOffsets, room: usize, out: &mut dyn fmt::Write) -> fmt::Result {
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
            Self::Members(members) => members.write(room, out),
        }
    }
}

/// An argument whose value is the name of a file.
struct FileName<'a> {
    /// The name of the argument with its `=`, or an empty string.
    name: &'a str,
    /// The pointer to the dentry or the file: the name of a parameter, which can be empty, and the
    /// text after it.
    value: [&'a str; 2],
    /// Whether the pointer points to a file.
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

/// Checks each argument that is `$argN` or `$arg*`. Runs before all other checks of the arguments.
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
            ProbePoint::Inside | ProbePoint::Event | ProbePoint::Memory => {
                return error(ErrorKind::NofentryArgs)
            }
            ProbePoint::ReturnInsn => return error(ErrorKind::EntryOnRetinsn),
            ProbePoint::Entry
            | ProbePoint::Return
            | ProbePoint::Tracepoint
            | ProbePoint::Object { .. }
            | ProbePoint::ObjectReturn { .. } => {}
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

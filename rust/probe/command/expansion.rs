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
    arguments::{
        WrittenArgument,
        MAX_ARGUMENTS, //
    },
    error::Error,
    members::{
        LeftOut,
        Members, //
    },
    parse_context::ParseContext,
    probe_point::ProbePoint,
    resolve_base::BaseResolver,
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

/// The expansions of the arguments of a command. Its `Display` writes them, without the arguments
/// that do not expand. [`arguments`](Self::arguments) parses them.
pub struct Expansion<'a> {
    written: &'a [WrittenArgument<'a>],
    bases: BaseResolver<'a>,
    /// The function, if it has parameters.
    function: Option<Function<'a>>,
    offsets: FileOffsets,
    /// The maximum number of arguments for all `FETCH->*`.
    room: usize,
}

impl<'a> Expansion<'a> {
    /// Checks and counts the expansions. Returns `None` if no argument needs an expansion.
    ///
    /// # Errors
    ///
    /// `$argN` and `$arg*` at a point without arguments, a wrong number in `$argN`, and expansions
    /// that exceed a limit.
    pub fn new(
        written: &'a [WrittenArgument<'a>],
        context: ParseContext<'a>,
        offsets: FileOffsets,
    ) -> Result<Option<Self>, Error> {
        // In C, an event probe has no meta arguments.
        if context.point != ProbePoint::Event {
            check_variables(written, context.point)?;
        }
        let function = context.types.function();
        let mut this = Self {
            written,
            bases: BaseResolver {
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
        for argument in written {
            let error = |kind, errno| argument.error(kind, errno);
            let Some(meta) = this.parse(argument)? else {
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
    fn parse(&self, argument: &WrittenArgument<'a>) -> Result<Option<MetaArgument<'a>>, Error> {
        let word = argument.word;
        let param = |number: &str| {
            let index = number.parse::<usize>().ok()?.checked_sub(1)?;
            let param = self.function?.params().nth(index)?;
            (!param.name.is_empty()).then_some(param.name)
        };
        let members = Members::parse(&self.bases, argument, param)
            .map_err(|error| argument.error_in_body(error))?;
        if let Some(members) = members {
            return Ok(Some(MetaArgument::Members(members)));
        }
        if self.bases.context.point == ProbePoint::Event {
            return Ok(None);
        }
        let Some(rest) = word.strip_prefix("$arg") else {
            return Ok(MetaArgument::parse("", word));
        };
        let error = |kind, errno| Err(argument.error(kind, errno));
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
                let none = argument.error(ErrorKind::NoBtfarg, Errno::ENOENT);
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
    fn each(&self, mut f: impl FnMut(&'a WrittenArgument<'a>, Option<MetaArgument<'a>>, usize)) {
        let mut room = self.room;
        for argument in self.written {
            // `new()` parsed all arguments without an error, and BTF does not change meanwhile.
            let meta = self.parse(argument).ok().flatten();
            let mut count = meta.as_ref().map_or(1, MetaArgument::count);
            if let Some(MetaArgument::Members(_)) = meta {
                count = count.min(room);
                room = room.saturating_sub(count);
            }
            f(argument, meta, count);
        }
    }

    /// Calls `f` with each argument of the expanded command. `text` is the `Display` of this value.
    pub fn arguments(&self, text: &'a str, mut f: impl FnMut(WrittenArgument<'a>)) {
        let is_event = self.bases.context.point == ProbePoint::Event;
        let mut words = Words::new(text);
        let mut index = 0usize;
        self.each(|argument, meta, count| {
            if meta.is_none() {
                f(argument.numbered(index));
                index = index.saturating_add(1);
                return;
            }
            for word in words.by_ref().take(count) {
                f(argument.expanded(word, count, index, is_event));
                index = index.saturating_add(1);
            }
        });
    }

    /// Calls `f` for each member that a `FETCH->*` leaves out. Passes the argument of the command,
    /// the name of the member, and the reason.
    pub fn each_left_out(&self, mut f: impl FnMut(&'a str, &'a str, LeftOut)) {
        self.each(|argument, meta, mut room| {
            let Some(MetaArgument::Members(members)) = meta else {
                return;
            };
            let word = argument.word;
            members.each(|member, left_out| match left_out {
                Some(reason) => f(word, member.name, reason),
                None if room == 0 => f(word, member.name, LeftOut::NoRoom),
                None => room = room.saturating_sub(1),
            });
        });
    }
}

impl fmt::Display for Expansion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        let mut result = Ok(());
        self.each(|_, meta, count| {
            let Some(meta) = meta.filter(|_| count > 0) else {
                return;
            };
            if result.is_ok() {
                result = f.write_str(space);
            }
            if result.is_ok() {
                result = meta.write(self.offsets, count, f);
            }
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
fn check_variables(arguments: &[WrittenArgument<'_>], point: ProbePoint) -> Result<(), Error> {
    let mut has_all = false;
    for argument in arguments {
        let Some(number) = argument.word.strip_prefix("$arg") else {
            continue;
        };
        let error = |kind| Err(argument.error(kind, Errno::EINVAL));
        if let Err(kind) = point.variables().arguments {
            return error(kind);
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

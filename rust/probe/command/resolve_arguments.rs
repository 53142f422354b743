// SPDX-License-Identifier: GPL-2.0

//! Resolves the arguments of a command: finds the source and the type of each value.
//!
//! C: `traceprobe_parse_probe_arg()` and `traceprobe_parse_probe_arg_body()` in
//! `kernel/trace/trace_probe.c`.

use core::fmt;

use crate::{
    argument::{
        Argument,
        Name,
        MAX_EVENT_SIZE, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    types::{
        FetchType,
        Style, //
    },
};

use super::{
    arguments::{
        WrittenArgument,
        MAX_ARGUMENTS, //
    },
    error::{
        ArgumentError,
        Error, //
    },
    fetch::ResolvedFetch,
    resolve_base::BaseResolver,
    resolve_type::{
        apply_btf_type,
        apply_field_type,
        resolve_type, //
    },
    types::MAX_BODY, //
};

/// The names of fields that rkprobe or the kernel adds to records.
const RESERVED: [&str; 8] = [
    "common_type",
    "common_flags",
    "common_preempt_count",
    "common_pid",
    "common_tgid",
    "__probe_ip",
    "__probe_ret_ip",
    "__probe_func",
];

/// An iterator that resolves the arguments of a command. It ends after the first error.
pub struct Arguments<'a> {
    written: &'a [WrittenArgument<'a>],
    /// The number of arguments that the iterator returned.
    index: usize,
    bases: BaseResolver<'a>,
    /// Size in the record of the arguments resolved so far, in bytes.
    size: usize,
    /// The number of arguments of type `errno` so far.
    errnos: usize,
}

/// Maximum number of arguments of type `errno`. The names of errors take a page in the `format`
/// file for each of them.
const MAX_ERRNOS: usize = 8;

impl<'a> Arguments<'a> {
    /// Checks the number of arguments.
    pub(super) fn new(
        written: &'a [WrittenArgument<'a>],
        bases: BaseResolver<'a>,
    ) -> Result<Self, Error> {
        match written.first() {
            Some(first) if written.len() > MAX_ARGUMENTS => {
                Err(first.error(ErrorKind::TooManyArgs, Errno::E2BIG))
            }
            _ => Ok(Self {
                written,
                index: 0,
                bases,
                size: 0,
                errnos: 0,
            }),
        }
    }

    // The kernel's stack is small, so large frames must not add up in one function.
    #[inline(never)]
    fn resolve(
        &mut self,
        earlier: &[WrittenArgument<'_>],
        argument: &'a WrittenArgument<'a>,
    ) -> Result<Argument<'a>, Error> {
        argument.check_name()?;
        let name = argument.name;
        if matches!(name, Name::Given(name) if RESERVED.contains(&name))
            || earlier.iter().any(|earlier| earlier.name.is_same(name))
        {
            return Err(argument.error(ErrorKind::UsedArgName, Errno::EINVAL));
        }
        let resolved = resolve_body(&self.bases, argument, &mut self.size, |_| ());
        let (resolved, ()) = resolved.map_err(|error| argument.error_in_body(error))?;
        if let FetchType::Number(_, Style::Errno) = resolved.ty {
            self.errnos = self.errnos.saturating_add(1);
            if self.errnos > MAX_ERRNOS {
                return Err(argument.error(ErrorKind::TooManyErrnos, Errno::E2BIG));
            }
        }
        Ok(resolved)
    }
}

/// Resolves the body of an argument. Adds its size in the record to `size`, in bytes. Returns the
/// argument, and what `f` finds out about its fetch.
#[inline(never)]
pub(super) fn resolve_body<'a, 'b, R>(
    bases: &BaseResolver<'b>,
    argument: &'a WrittenArgument<'a>,
    size: &mut usize,
    f: impl FnOnce(&ResolvedFetch<'a, 'b>) -> R,
) -> Result<(Argument<'a>, R), ArgumentError> {
    let WrittenArgument { body, written, .. } = argument;
    if body.len() > MAX_BODY {
        return Err(ArgumentError::new(ErrorKind::ArgTooLong, 0, Errno::E2BIG));
    }
    if body.is_empty() {
        return Err(ArgumentError::invalid(ErrorKind::NoArgBody, 0));
    }
    let mut suffix = written.suffix?;
    let mut fetch = ResolvedFetch::resolve(bases, body, written)?;
    if let Some(value) = fetch.value {
        apply_btf_type(&value, &mut suffix, &mut fetch)?;
    }
    apply_field_type(&mut suffix, &fetch);

    let count = suffix.count.map_or(1, |count| usize::from(count.get()));
    *size = size.saturating_add(suffix.ty.size().saturating_mul(count));
    if *size > MAX_EVENT_SIZE {
        let kind = ErrorKind::EventTooBig;
        return Err(ArgumentError::new(kind, fetch.at, Errno::E2BIG));
    }

    let ty = resolve_type(&suffix, &fetch)?;
    let found = f(&fetch);
    let argument = Argument {
        name: argument.name,
        ty,
        fetch: fetch.fetch,
        count: suffix.count,
    };
    Ok((argument, found))
}

impl<'a> Iterator for Arguments<'a> {
    type Item = Result<Argument<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (earlier, rest) = self.written.split_at_checked(self.index)?;
        let argument = rest.first()?;
        self.index = self.index.saturating_add(1);
        let resolved = self.resolve(earlier, argument);
        if resolved.is_err() {
            self.written = &[];
        }
        Some(resolved)
    }
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments")
            .field("written", &self.written)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

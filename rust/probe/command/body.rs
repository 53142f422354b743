// SPDX-License-Identifier: GPL-2.0

//! Parses the body of an argument: `FETCH[:TYPE]`.
//!
//! C: `traceprobe_parse_probe_arg_body()` in `kernel/trace/trace_probe.c`.

use core::num::NonZeroU8;

use crate::{
    argument::{
        Fetch,
        MAX_EVENT_SIZE, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    types::FetchType, //
};

use super::{
    base::BaseParser,
    error::ArgumentError,
    fetch::ParsedFetch,
    level::{
        Level,
        Text, //
    },
    name::is_valid_field,
    parse_context::TypeInfo,
    resolve_type::{
        apply_btf_type,
        resolve_type, //
    },
    types::{
        SplitBody,
        TypeSpec,
        MAX_BODY, //
    },
};

/// A parsed body.
pub(super) struct ParsedBody<'a> {
    pub(super) fetch: Fetch<'a>,
    pub(super) ty: FetchType,
    pub(super) count: Option<NonZeroU8>,
}

/// Parses the bodies of a command's arguments, in order.
pub(super) struct BodyParser<'b> {
    /// The parser of the bases.
    pub(super) bases: BaseParser<'b>,
    /// Size in the record of the arguments parsed so far, in bytes.
    pub(super) size: usize,
}

/// The body of the argument `word`, without the name.
fn body_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(_, body)| body)
}

/// Whether the argument `word` needs [`TypeInfo`].
pub(super) fn needs_types(word: &str) -> bool {
    let mut base = body_of(word);
    // Skips the levels, up to the base or the first typecast.
    while Level::starts(base) && !base.starts_with('(') {
        base = base.split_once('(').map_or("", |(_, inner)| inner);
    }
    word.starts_with("$arg")
        || ["$retval", "$current-", "(", "_"]
            .iter()
            .any(|start| base.starts_with(start))
        || base.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// The names of structures in the typecasts of the argument `word`. A typecast begins at the start
/// of the body, or directly after another `(`.
pub(super) fn structures(word: &str) -> impl Iterator<Item = &str> {
    let mut parts = body_of(word).split('(');
    let mut can_start = parts.next() == Some("");
    parts.filter_map(move |text| {
        let is_typecast = core::mem::replace(&mut can_start, text.is_empty());
        let name = text.get(..text.find([')', ','])?)?;
        (is_typecast && is_valid_field(name.as_bytes())).then_some(name)
    })
}

impl<'b> BodyParser<'b> {
    /// Parses `body`, which starts at byte `at` of its word.
    pub(super) fn parse<'a>(
        &mut self,
        body: &'a str,
        at: usize,
    ) -> Result<ParsedBody<'a>, ArgumentError> {
        if body.len() > MAX_BODY {
            return Err(ArgumentError::new(ErrorKind::ArgTooLong, at, Errno::E2BIG));
        }
        if body.is_empty() {
            return Err(ArgumentError::invalid(ErrorKind::NoArgBody, at));
        }
        let is_event = matches!(self.bases.context.types, TypeInfo::Event(..));
        let mut split = SplitBody::parse(body, at, is_event)?;
        let mut parsed = ParsedFetch::parse(
            &self.bases,
            Text {
                text: split.value,
                at,
            },
        )?;
        if let Some(value) = parsed.value {
            apply_btf_type(&value, &mut split, &mut parsed)?;
        }

        let size = match split.ty {
            TypeSpec::Explicit(ty) | TypeSpec::Default(ty) => ty.size(),
            TypeSpec::Bitfield(width, _) => width.bytes(),
        };
        let count = split.count.map_or(1, |count| usize::from(count.get()));
        self.size = self.size.saturating_add(size.saturating_mul(count));
        if self.size > MAX_EVENT_SIZE {
            return Err(ArgumentError::new(
                ErrorKind::EventTooBig,
                parsed.at,
                Errno::E2BIG,
            ));
        }

        Ok(ParsedBody {
            ty: resolve_type(&split, &parsed)?,
            fetch: parsed.fetch,
            count: split.count,
        })
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Parses the body of an argument: `FETCH[:TYPE]`.
//!
//! C: `traceprobe_parse_probe_arg_body()` in `kernel/trace/trace_probe.c`.

use super::{
    base::WrittenBase,
    error::ArgumentError,
    level::{
        LevelKind,
        Levels,
        Text, //
    },
    name::is_valid_field,
    types::TypeSuffix, //
};

/// The body of an argument, as the user wrote it: spans of the body, and numbers.
///
/// An error is a part, too. The kernel reports the first error that it finds, and looks at each
/// level before it reads the text inside. So the error in a base is only reported after the levels
/// around it are found to be available at the probe point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrittenBody {
    /// The levels of the fetch.
    pub(super) levels: Levels,
    /// The base of the fetch.
    pub(super) base: Result<WrittenBase, ArgumentError>,
    /// Byte offset of the base in the body.
    pub(super) base_at: u16,
    /// The type. An error in it precedes all errors in the fetch.
    pub(super) suffix: Result<TypeSuffix, ArgumentError>,
}

impl WrittenBody {
    /// Parses a body. `is_event` is whether the probe is an event probe.
    pub(super) fn parse(body: &str, is_event: bool) -> Self {
        let whole = Text { text: body, at: 0 };
        let (value, suffix) = match body.find(':') {
            None => (whole, Ok(TypeSuffix::default_of(body, is_event))),
            Some(end) => {
                let (value, rest) = whole.split(end);
                let suffix = TypeSuffix::parse(value, rest.skip(1), is_event);
                (Text { text: value, at: 0 }, suffix)
            }
        };
        let (levels, inner) = Levels::parse(value);
        Self {
            levels,
            base_at: inner.as_ref().map_or(0, |inner| inner.offset()),
            base: inner.and_then(|inner| WrittenBase::parse(inner, is_event)),
            suffix,
        }
    }

    /// Parses an operand or a key. In an event probe, the type of a field is that of the event.
    pub(super) fn operand(body: &str, is_event: bool) -> Self {
        let parsed = Self::parse(body, is_event);
        let suffix = match parsed.suffix {
            Ok(suffix) if is_event => Ok(suffix.or_of_field()),
            suffix => suffix,
        };
        Self { suffix, ..parsed }
    }

    /// Whether the value needs [`TypeInfo`](super::TypeInfo).
    pub(super) fn needs_types(&self, body: &str) -> bool {
        self.levels
            .iter()
            .any(|level| matches!(level.kind, LevelKind::Cast { .. }))
            || self.base.is_ok_and(|base| base.needs_types(body))
    }

    /// The names of structures in the typecasts.
    pub(super) fn structures<'a>(&self, body: &'a str) -> impl Iterator<Item = &'a str> {
        self.levels.into_iter().filter_map(move |level| {
            let LevelKind::Cast { structure, .. } = level.kind else {
                return None;
            };
            let text = structure.of_body(body).text;
            let (name, _) = text.split_once(',').unwrap_or((text, ""));
            is_valid_field(name.as_bytes()).then_some(name)
        })
    }
}

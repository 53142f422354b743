// SPDX-License-Identifier: GPL-2.0

//! A fetch: dereferences around a base, `+|-[u]OFF(…)`.
//!
//! C parses a body into fetch instructions, 16 at most, and counts its limits in them. This parser
//! counts the instructions too, but makes none: `step` is the index of the last instruction.
//!
//! C: `parse_probe_arg()` and `parse_btf_field()` in `kernel/trace/trace_probe.c`.

use crate::{
    argument::{
        Base,
        Deref,
        Derefs,
        Fetch, //
    },
    btf,
    error::ErrorKind,
    types::Space, //
};

use super::{
    base::BaseParser,
    error::ArgumentError,
    number,
    types::MAX_BODY, //
};

/// The index of the last instruction but one. The last instruction is the end.
pub(super) const LAST_STEP: usize = 14;

/// The most dereferences of a body: each takes at least 4 bytes, `+0()`.
const MAX_NESTING: usize = MAX_BODY / 4;

/// A fetch, parsed, and the facts that decide which types it can have.
pub(super) struct ParsedFetch<'a, 'b> {
    pub(super) fetch: Fetch<'a>,
    /// The index of the last instruction.
    pub(super) step: usize,
    /// The value in BTF, if the fetch is a variable with its fields.
    pub(super) value: Option<btf::Value<'b>>,
    /// The byte of the word where C reports errors of the whole fetch: the start of the text within
    /// the outermost dereference.
    pub(super) at: usize,
}

impl<'a, 'b> ParsedFetch<'a, 'b> {
    /// Parses `text`, which starts at byte `start` of its word: dereferences around a base.
    // Inlined, it would double the frame of its caller, which is near the kernel's 1 KiB.
    #[inline(never)]
    pub(super) fn parse(
        bases: &BaseParser<'b>,
        text: &'a str,
        start: usize,
    ) -> Result<Self, ArgumentError> {
        let mut around = [(0usize, Space::Kernel, 0i32); MAX_NESTING];
        let mut depth = 0usize;
        let (mut text, mut at) = (text, start);
        while text.starts_with(['+', '-']) {
            let open = OuterDeref::parse(text, at)?;
            let Some(slot) = around.get_mut(depth) else {
                return Err(ArgumentError::invalid(ErrorKind::TooManyOps, at));
            };
            *slot = (open.at, open.space, open.offset);
            depth = depth.saturating_add(1);
            (text, at) = (open.inner, open.at);
        }

        let start = bases.parse(text, at)?;
        let mut parsed = Self {
            fetch: Fetch {
                base: start.base,
                derefs: Derefs::new(),
            },
            step: start.step,
            value: None,
            at: match around.first() {
                Some((at, _, _)) if depth > 0 => *at,
                _ => at,
            },
        };
        if start.deref {
            let deref = Deref {
                space: Space::Kernel,
                offset: 0,
            };
            // The base has already counted its instruction.
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, at);
            parsed.fetch.derefs.push(deref).map_err(|_| full)?;
        }
        if let Some(fields) = start.fields {
            parsed.follow(fields, start.at)?;
        }
        for (at, space, offset) in around.get(..depth).unwrap_or(&[]).iter().rev().copied() {
            let cannot = match start.base {
                Base::Comm | Base::Text(_) => Some(ErrorKind::CommCantDeref),
                Base::Elapsed => Some(ErrorKind::ElapsedCantDeref),
                _ => None,
            };
            if let Some(kind) = cannot.filter(|_| parsed.fetch.derefs.as_slice().is_empty()) {
                return Err(ArgumentError::invalid(kind, at));
            }
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, at);
            parsed.push(Deref { space, offset }, full)?;
            // The memory behind a dereference has no type in BTF.
            parsed.value = None;
        }
        Ok(parsed)
    }

    /// Adds a dereference on the outside.
    pub(super) fn push(&mut self, deref: Deref, full: ArgumentError) -> Result<(), ArgumentError> {
        self.step = self.step.saturating_add(1);
        if self.step > LAST_STEP {
            return Err(full);
        }
        self.fetch.derefs.push(deref).map_err(|_| full)
    }

    /// Follows the fields of the variable that starts at byte `at` of the word.
    ///
    /// C: `parse_btf_field()`.
    #[inline(never)]
    fn follow(&mut self, fields: btf::Fields<'b, 'a>, at: usize) -> Result<(), ArgumentError> {
        self.value = Some(fields.start());
        for field in fields {
            let field = field.map_err(|error| {
                ArgumentError::new(error.kind, at.saturating_add(error.at), error.errno)
            })?;
            let deref = Deref {
                space: Space::Kernel,
                offset: field.offset,
            };
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, at.saturating_add(field.at));
            self.push(deref, full)?;
            self.value = Some(field.value);
        }
        Ok(())
    }
}

/// The outermost dereference of a text, `+|-[u]OFF(…)`.
struct OuterDeref<'a> {
    space: Space,
    offset: i32,
    /// The text between the braces.
    inner: &'a str,
    /// The byte of the word where `inner` starts.
    at: usize,
}

impl<'a> OuterDeref<'a> {
    /// Parses the outermost dereference of `text`. As in C, the text behind its brace has no
    /// meaning.
    fn parse(text: &'a str, at: usize) -> Result<Self, ArgumentError> {
        let Some((head, rest)) = text.split_once('(') else {
            return Err(ArgumentError::invalid(ErrorKind::DerefNeedBrace, at));
        };
        let (sign, digits) = head.split_at_checked(1).unwrap_or((head, ""));
        let (space, digits) = match digits.strip_prefix('u') {
            Some(digits) => (Space::User, digits),
            None => (Space::Kernel, digits),
        };
        let offset = match sign {
            "-" => number::negative(digits),
            _ => number::signed(digits),
        }
        .map_err(|errno| ArgumentError::new(ErrorKind::BadDerefOffs, at, errno))?;

        let inner_at = at.saturating_add(head.len()).saturating_add(1);
        let Some((inner, _)) = rest.rsplit_once(')') else {
            let end = inner_at.saturating_add(rest.len());
            return Err(ArgumentError::invalid(ErrorKind::DerefOpenBrace, end));
        };
        Ok(Self {
            space,
            // As in C, the upper half has no meaning.
            offset: offset as i32,
            inner,
            at: inner_at,
        })
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Parses a fetch: levels around a base.
//!
//! C parses a body into at most 16 fetch instructions, and expresses its limits in instructions.
//! This parser creates no instructions, but counts them for these limits: `last` is the index of
//! the last instruction.
//!
//! C: `parse_probe_arg()`, `unwind_parse_states()` and `parse_btf_field()` in
//! `kernel/trace/trace_probe.c`.

use crate::{
    argument::{
        Base,
        Deref,
        Fetch,
        Step,
        Steps, //
    },
    btf,
    error::{
        Errno,
        ErrorKind, //
    },
    types::Space, //
};

use super::{
    base::BaseParser,
    error::ArgumentError,
    level::{
        Level,
        LevelKind,
        Text,
        MAX_LEVELS, //
    },
};

/// Maximum index of an instruction before the end instruction.
pub(super) const LAST_STEP: usize = 14;

/// A parsed fetch, and the facts that decide its possible types.
pub(super) struct ParsedFetch<'a, 'b> {
    pub(super) fetch: Fetch<'a>,
    /// Index of the last fetch instruction in C.
    pub(super) last: usize,
    /// The type and place of the value in BTF, if the fetch is a variable or a typecast, with its
    /// fields.
    pub(super) value: Option<btf::Value<'b>>,
    /// The BTF that contains the type of the value.
    pub(super) btf: Option<btf::Btf<'b>>,
    /// Byte offset in the word where C reports errors of the whole fetch: the start of the text
    /// inside the outermost level. If the fetch has fields, the start of the last field.
    pub(super) at: usize,
}

impl<'a, 'b> ParsedFetch<'a, 'b> {
    /// Parses `whole`, levels around a base.
    // Inlining would double the stack frame of the caller, which is close to the kernel's 1 KiB.
    #[inline(never)]
    pub(super) fn parse(bases: &BaseParser<'b>, whole: Text<'a>) -> Result<Self, ArgumentError> {
        let mut levels = [const { None }; MAX_LEVELS];
        let mut depth = 0usize;
        let mut inner = whole;
        while Level::starts(inner.text) {
            let Some(slot) = levels.get_mut(depth) else {
                let kind = ErrorKind::TooManyNested;
                return Err(ArgumentError::new(kind, inner.at, Errno::E2BIG));
            };
            let (level, text) = Level::parse(inner, &bases.context)?;
            *slot = Some(level);
            depth = depth.saturating_add(1);
            inner = text;
        }

        let mut parsed = Self::parse_base(bases, inner)?;
        for level in levels.iter().rev().flatten() {
            parsed.enclose(bases, level, whole)?;
        }
        Ok(parsed)
    }

    #[inline(never)]
    fn parse_base(bases: &BaseParser<'b>, text: Text<'a>) -> Result<Self, ArgumentError> {
        let base = bases.parse(text.text, text.at)?;
        let mut parsed = Self {
            fetch: Fetch {
                base: base.base,
                steps: Steps::new(),
            },
            last: base.last,
            value: None,
            btf: None,
            at: text.at,
        };
        if base.deref {
            // `last` already includes this instruction.
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, text.at);
            parsed.fetch.steps.push(READ).map_err(|_| full)?;
        }
        if let Some(fields) = base.fields {
            parsed.follow(fields, base.at)?;
        }
        Ok(parsed)
    }

    /// Applies a level to the current value.
    ///
    /// C: `unwind_parse_states()`.
    #[inline(never)]
    fn enclose(
        &mut self,
        bases: &BaseParser<'b>,
        level: &Level,
        whole: Text<'a>,
    ) -> Result<(), ArgumentError> {
        let at = usize::from(level.at);
        let is_cast = matches!(level.kind, LevelKind::Cast { .. });
        let cannot = match self.fetch.base {
            Base::Comm | Base::Text(_) if !is_cast => Some(ErrorKind::CommCantDeref),
            Base::Elapsed => Some(ErrorKind::ElapsedCantDeref),
            _ => None,
        };
        if let Some(kind) = cannot.filter(|_| self.fetch.steps.as_slice().is_empty()) {
            return Err(ArgumentError::invalid(kind, at));
        }

        let full = ArgumentError::invalid(ErrorKind::TooManyOps, at);
        match level.kind {
            LevelKind::Deref(deref) => self.push(Step::Deref(deref), full)?,
            LevelKind::ThisCpu { is_read } => {
                // In a per-CPU level, `@SYM` means the variable's address, and not its value.
                let (_, inner) = whole.split(at.saturating_sub(whole.at));
                if inner.text.starts_with('@') && self.fetch.steps.pop().is_some() {
                    self.last = self.last.saturating_sub(1);
                }
                self.push(Step::ThisCpu, full)?;
                if is_read {
                    self.push(READ, full)?;
                }
            }
            LevelKind::Cast { structure, fields } => {
                let space = self.points_to();
                let structure = structure.in_text(whole);
                let fields = fields.in_text(whole);
                let followed = bases.cast(structure, fields.text, space)?;
                return self.follow(followed, fields.at);
            }
        }
        // BTF has no type for memory after a dereference, and none for a per-CPU variable.
        self.value = None;
        self.at = at;
        Ok(())
    }

    /// The address space to which the current value points.
    fn points_to(&self) -> Space {
        match (self.value, self.btf) {
            (Some(value), Some(btf)) => value.points_to(&btf),
            _ => Space::Kernel,
        }
    }

    /// Adds a step around the current value. Returns `full` if no more steps fit.
    pub(super) fn push(&mut self, step: Step, full: ArgumentError) -> Result<(), ArgumentError> {
        self.last = self.last.saturating_add(1);
        if self.last > LAST_STEP {
            return Err(full);
        }
        self.fetch.steps.push(step).map_err(|_| full)
    }

    /// Adds the steps of fields. Their text starts at byte `start` of the word.
    ///
    /// C: `parse_btf_field()`.
    #[inline(never)]
    fn follow(&mut self, fields: btf::Fields<'b, 'a>, start: usize) -> Result<(), ArgumentError> {
        self.value = fields.start();
        self.btf = Some(fields.btf());
        for field in fields {
            let field = field.map_err(|error| ArgumentError::in_btf(error, start))?;
            self.at = start.saturating_add(field.at);
            let step = Step::Deref(Deref {
                space: field.space,
                offset: field.offset,
            });
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, self.at);
            self.push(step, full)?;
            self.value = Some(field.value);
        }
        Ok(())
    }
}

/// A step that reads a word of kernel memory.
const READ: Step = Step::Deref(Deref {
    space: Space::Kernel,
    offset: 0,
});

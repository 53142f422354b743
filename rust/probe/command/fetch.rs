// SPDX-License-Identifier: GPL-2.0

//! Resolves a fetch: levels around a base.
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
    error::ErrorKind,
    types::Space, //
};

use super::{
    body::WrittenBody,
    error::ArgumentError,
    level::{
        Level,
        LevelKind, //
    },
    resolve_base::BaseResolver, //
};

/// A resolved fetch, and the facts that decide its possible types.
pub(super) struct ResolvedFetch<'a, 'b> {
    pub(super) fetch: Fetch<'a>,
    /// The type and place of the value in BTF, if the fetch is a variable or a typecast, with its
    /// fields.
    pub(super) value: Option<btf::Value<'b>>,
    /// The BTF that contains the type of the value.
    pub(super) btf: Option<btf::Btf<'b>>,
    /// Byte offset in the body where C reports errors of the whole fetch: the start of the text
    /// inside the outermost level. If the fetch has fields, the start of the last field.
    pub(super) at: usize,
}

impl<'a, 'b> ResolvedFetch<'a, 'b> {
    /// Resolves the fetch of `body`, which is written as `written`.
    // Inlining would double the stack frame of the caller, which is close to the kernel's 1 KiB.
    #[inline(never)]
    pub(super) fn resolve(
        bases: &BaseResolver<'b>,
        body: &'a str,
        written: &WrittenBody,
    ) -> Result<Self, ArgumentError> {
        for level in written.levels.iter() {
            level.check(&bases.context)?;
        }
        let mut resolved = Self::resolve_base(bases, body, written)?;
        for level in written.levels.iter().rev() {
            resolved.enclose(bases, level, body)?;
        }
        Ok(resolved)
    }

    #[inline(never)]
    fn resolve_base(
        bases: &BaseResolver<'b>,
        body: &'a str,
        written: &WrittenBody,
    ) -> Result<Self, ArgumentError> {
        let at = usize::from(written.base_at);
        let base = bases.resolve(body, written.base?, at)?;
        let mut resolved = Self {
            fetch: Fetch {
                base: base.base,
                steps: Steps::new(),
            },
            value: None,
            btf: None,
            at,
        };
        if base.deref {
            let full = ArgumentError::invalid(ErrorKind::TooManyOps, at);
            resolved.fetch.steps.push(READ).map_err(|_| full)?;
        }
        if let Some(fields) = base.fields {
            resolved.follow(fields, base.at)?;
        }
        Ok(resolved)
    }

    /// Applies a level to the current value.
    ///
    /// C: `unwind_parse_states()`.
    #[inline(never)]
    fn enclose(
        &mut self,
        bases: &BaseResolver<'b>,
        level: &Level,
        body: &'a str,
    ) -> Result<(), ArgumentError> {
        let at = level.inside();
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
                let is_symbol = body.as_bytes().get(at) == Some(&b'@');
                if is_symbol {
                    self.fetch.steps.pop();
                }
                self.push(Step::ThisCpu, full)?;
                if is_read {
                    self.push(READ, full)?;
                }
            }
            LevelKind::Cast { structure, fields } => {
                let space = self.points_to();
                let structure = structure.of_body(body);
                let fields = fields.of_body(body);
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
        self.fetch.steps.push(step).map_err(|_| full)
    }

    /// Adds the steps of fields. Their text starts at byte `start` of the body.
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

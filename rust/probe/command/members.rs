// SPDX-License-Identifier: GPL-2.0

//! Expands `[NAME=]FETCH->*` to all members of the structure that a value points to.
//!
//! Each argument of the expansion is `[NAME_]MEMBER=FETCH->MEMBER`. The expansion contains the
//! members that have a name and are a number, an enumeration, a pointer or a bitfield. The members
//! of an unnamed structure count as members of the outer structure. C has no such argument.

use core::fmt;

use crate::{
    btf::{
        Btf,
        Fields,
        Member,
        TypeId,
        TypeKind, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    types::Space, //
};

use super::{
    arguments::{
        WrittenArgument,
        MAX_ARGUMENT_NAME, //
    },
    base::{
        WrittenBase,
        CURRENT, //
    },
    error::ArgumentError,
    level::{
        Level,
        LevelKind,
        Text, //
    },
    probe_point::ProbePoint,
    resolve_base::{
        no_btf,
        BaseResolver, //
    },
    types::MAX_BODY, //
};

/// The suffix for all members.
const ALL: &str = "->*";

/// The reason why the expansion leaves a member out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The member is a structure, a union, an array, or another value of more than 8 bytes.
    NoScalar,
    /// The argument would have a name or a body that is too long.
    TooLong,
    /// The other arguments already reach the limit [`MAX_ARGUMENTS`](super::MAX_ARGUMENTS).
    NoRoom,
}

/// An argument `FETCH->*`, and the structure with the members.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members<'a> {
    btf: Btf<'a>,
    structure: TypeId,
    /// The name of the argument, or an empty string.
    prefix: &'a str,
    /// The text of the value that points to the structure.
    value: &'a str,
}

impl<'a> Members<'a> {
    /// Parses an argument. Returns `None` if it does not end in `->*`. `param` returns the name of
    /// the parameter N of `$argN`.
    pub(super) fn parse(
        bases: &BaseResolver<'a>,
        argument: &WrittenArgument<'a>,
        param: impl FnOnce(&'a str) -> Option<&'a str>,
    ) -> Result<Option<Self>, ArgumentError> {
        let body = argument.body;
        let Some(value) = body.strip_suffix(ALL) else {
            return Ok(None);
        };
        let number = value.strip_prefix("$arg");
        let value = number.and_then(param).unwrap_or(value);
        if bases.context.types.btf().is_none() {
            return Err(no_btf(0));
        }
        let (btf, structure) = match body.starts_with('(') {
            true => of_cast(bases, body)?,
            // As in C, the characters after the parenthesis have no effect.
            false if Level::starts(value) => return Ok(None),
            false => of_variable(bases, value)?,
        };
        let this = Self {
            btf,
            structure,
            prefix: argument.given.unwrap_or(""),
            value,
        };
        if this.count() == 0 {
            let kind = ErrorKind::NoBtfField;
            return Err(ArgumentError::new(kind, 0, Errno::ENOENT));
        }
        Ok(Some(this))
    }

    /// The number of arguments in the expansion.
    pub(super) fn count(&self) -> usize {
        let mut count = 0usize;
        self.each(|_, left_out| count = count.saturating_add(usize::from(left_out.is_none())));
        count
    }

    /// Calls `f` for each member, with the reason if the expansion leaves the member out. Skips
    /// members of zero bytes: the kernel marks groups of members with arrays that have no elements.
    pub(super) fn each(&self, mut f: impl FnMut(Member<'a>, Option<LeftOut>)) {
        self.btf.find_any_member(self.structure, |member| {
            let array = self.btf.resolve(member.ty).and_then(|ty| ty.array());
            if array.is_none_or(|array| array.len > 0) {
                f(member, self.reason(&member));
            }
            None::<()>
        });
    }

    fn reason(&self, member: &Member<'_>) -> Option<LeftOut> {
        let ty = self.btf.resolve(member.ty);
        let is_scalar = ty.is_some_and(|ty| match ty.kind() {
            TypeKind::Int | TypeKind::Enum | TypeKind::Enum64 => ty.size() <= 8,
            TypeKind::Ptr => true,
            _ => false,
        });
        let prefix = match self.prefix.len() {
            0 => 0,
            len => len.saturating_add(1),
        };
        let name = prefix.saturating_add(member.name.len());
        let body = [self.value, "->", member.name]
            .iter()
            .fold(0usize, |len, part| len.saturating_add(part.len()));
        if !is_scalar {
            Some(LeftOut::NoScalar)
        } else if name > MAX_ARGUMENT_NAME || body > MAX_BODY {
            Some(LeftOut::TooLong)
        } else {
            None
        }
    }

    /// Writes the first `room` arguments, with one space between them.
    pub(super) fn write(&self, room: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut written = 0usize;
        let mut result = Ok(());
        self.each(|member, left_out| {
            if left_out.is_some() || written >= room || result.is_err() {
                return;
            }
            let space = if written > 0 { " " } else { "" };
            let (prefix, line) = match self.prefix {
                "" => ("", ""),
                prefix => (prefix, "_"),
            };
            let (name, value) = (member.name, self.value);
            result = write!(out, "{space}{prefix}{line}{name}={value}->{name}");
            written = written.saturating_add(1);
        });
        result
    }
}

/// Finds the structure that the value of a typecast `(STRUCT[,FIELD])FETCH->[FIELDS->]*` points to.
#[inline(never)]
fn of_cast<'a>(
    bases: &BaseResolver<'a>,
    body: &'a str,
) -> Result<(Btf<'a>, TypeId), ArgumentError> {
    let (level, inner) = Level::parse(Text { text: body, at: 0 });
    if let Some(level) = level {
        level.check(&bases.context)?;
    }
    inner?;
    let wrong = ArgumentError::invalid(ErrorKind::BadFetchArg, 0);
    let Some(LevelKind::Cast { structure, fields }) = level.map(|level| level.kind) else {
        return Err(wrong);
    };
    let (structure, fields) = (structure.of_body(body), fields.of_body(body));
    if fields.text == "*" {
        let (btf, id, _) = bases.structure(structure)?;
        return Ok((btf, id));
    }
    let text = fields.text.strip_suffix(ALL).ok_or(wrong)?;
    let followed = bases.cast(structure, text, Space::Kernel)?;
    pointed_to(followed, fields.at)
}

/// Finds the structure that a variable with its fields points to. `text` is at the start of the
/// body.
#[inline(never)]
fn of_variable<'a>(
    bases: &BaseResolver<'a>,
    text: &'a str,
) -> Result<(Btf<'a>, TypeId), ArgumentError> {
    if text == CURRENT {
        return bases.task(0);
    }
    let wrong = ArgumentError::invalid(ErrorKind::NoPtrStrct, 0);
    if text.starts_with(['%', '@', '\\']) {
        return Err(wrong);
    }
    let is_event = bases.context.point == ProbePoint::Event;
    let written = WrittenBase::parse(Text { text, at: 0 }, is_event)?;
    let base = bases.resolve(text, written, 0)?;
    pointed_to(base.fields.ok_or(wrong)?, base.at)
}

/// Finds the structure that the last of these fields points to. `start` is the byte offset of their
/// text in the body.
fn pointed_to<'a>(
    fields: Fields<'a, 'a>,
    start: usize,
) -> Result<(Btf<'a>, TypeId), ArgumentError> {
    let wrong = ArgumentError::invalid(ErrorKind::NoPtrStrct, start);
    let btf = fields.btf();
    let mut value = fields.start();
    for field in fields {
        value = Some(
            field
                .map_err(|error| ArgumentError::in_btf(error, start))?
                .value,
        );
    }
    let id = value
        .filter(|value| value.ty.kind() == TypeKind::Ptr)
        .map(|value| value.ty.target())
        .filter(|id| btf.resolve(*id).is_some_and(|ty| ty.kind().has_members()));
    Ok((btf, id.ok_or(wrong)?))
}

// SPDX-License-Identifier: GPL-2.0

//! Fields as they are written behind a variable or a typecast, `FIELD[.FIELD]...[->FIELD...]...`,
//! and where they lead.
//!
//! Errors have the kinds and the places of C: where a field is wrong, the place is its name.
//!
//! C: `parse_btf_field()`, `get_bitoffset_of_field()` and `split_next_field()` in
//! `kernel/trace/trace_probe.c`.

use crate::{
    error::{
        Errno,
        ErrorKind, //
    },
    types::Space, //
};

use super::{
    index::Btf,
    member::Member,
    types::{
        Type,
        TypeId,
        TypeKind, //
    },
    value::Value, //
};

/// An error in a variable or its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The byte of the text.
    pub at: usize,
    /// The number that `write(2)` returns.
    pub errno: Errno,
}

impl Error {
    pub(super) const fn new(kind: ErrorKind, at: usize, errno: Errno) -> Self {
        Self { kind, at, errno }
    }

    /// BTF that has no such type: EINVAL.
    pub(super) const fn no_type(at: usize) -> Self {
        Self::new(ErrorKind::BadBtfTid, at, Errno::EINVAL)
    }
}

/// A part of the text, and the byte where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
}

/// The separator after a name.
#[derive(Clone, Copy)]
pub(super) enum Next<'t> {
    End,
    /// `->`.
    Arrow(Fragment<'t>),
    /// `.`.
    Dot(Fragment<'t>),
}

impl<'t> Fragment<'t> {
    /// Cuts the first name off.
    pub(super) fn split(self) -> Result<(&'t str, Next<'t>), Error> {
        let end = self.text.find(['.', '-']).unwrap_or(self.text.len());
        let (name, rest) = self.text.split_at_checked(end).unwrap_or((self.text, ""));
        let at = self.at.saturating_add(name.len());
        let part = |text, skipped| Fragment {
            text,
            at: at.saturating_add(skipped),
        };
        let next = if let Some(rest) = rest.strip_prefix("->") {
            Next::Arrow(part(rest, 2))
        } else if let Some(rest) = rest.strip_prefix('.') {
            Next::Dot(part(rest, 1))
        } else if rest.is_empty() {
            Next::End
        } else {
            return Err(Error::new(ErrorKind::BadHyphen, at, Errno::EINVAL));
        };
        Ok((name, next))
    }
}

/// The field at the end of `FIELD[.FIELD]...`.
struct Inner<'a, 't> {
    /// The field.
    member: Member<'a>,
    /// Its type, without typedefs and qualifiers.
    ty: Type<'a>,
    /// The distance of its start from the start of the outermost structure, in bits.
    bits: u32,
    /// The separator after the first name, which cannot be a dot.
    next: Next<'t>,
    /// The byte of the text where its name starts.
    at: usize,
}

impl<'a, 't> Inner<'a, 't> {
    /// Follows the dots from the structure or union `container` on.
    ///
    /// C: `get_bitoffset_of_field()`.
    fn find(btf: &Btf<'a>, mut container: TypeId, mut part: Fragment<'t>) -> Result<Self, Error> {
        let mut bits = 0u32;
        loop {
            let at = part.at;
            let no_type = Error::no_type(at);
            let (name, next) = part.split()?;
            let outer = btf.resolve(container).ok_or(no_type)?;
            if !outer.kind().has_members() {
                return Err(no_type);
            }
            let member = btf.find_member(container, name).ok_or(Error::new(
                ErrorKind::NoBtfField,
                at,
                Errno::ENOENT,
            ))?;
            bits = bits.checked_add(member.bit_offset).ok_or(no_type)?;
            let ty = btf.resolve(member.ty).ok_or(no_type)?;
            match next {
                Next::Dot(rest) => (container, part) = (member.ty, rest),
                next => {
                    return Ok(Self {
                        member,
                        ty,
                        bits,
                        next,
                        at,
                    })
                }
            }
        }
    }

    /// The byte of the text where C has arrived with it.
    fn end(&self) -> usize {
        match self.next {
            Next::Arrow(rest) | Next::Dot(rest) => rest.at,
            Next::End => self.at,
        }
    }
}

/// The place of `FIELD[.FIELD]...` in the structure `id`, in bytes.
///
/// C: `parse_btf_casttype()`.
///
/// # Errors
///
/// [`ErrorKind::NoBtfField`] (ENOENT) if no field has the name; [`ErrorKind::TypecastNotAligned`]
/// and [`ErrorKind::TypecastBadArrow`] (EINVAL).
pub fn field_offset(btf: &Btf<'_>, id: TypeId, text: &str) -> Result<u32, Error> {
    let inner = Inner::find(btf, id, Fragment { text, at: 0 })?;
    if inner.bits % 8 != 0 {
        let at = inner.end();
        return Err(Error::new(ErrorKind::TypecastNotAligned, at, Errno::EINVAL));
    }
    if let Next::Arrow(rest) = inner.next {
        let at = rest.at.saturating_sub(2);
        return Err(Error::new(ErrorKind::TypecastBadArrow, at, Errno::EINVAL));
    }
    Ok(inner.bits / 8)
}

/// The fields of a variable: one read of memory for each `->`.
///
/// Nothing follows an error.
#[derive(Clone, Debug)]
pub struct Fields<'a, 't> {
    btf: Btf<'a>,
    from: ReadStart<'a>,
    rest: Option<Fragment<'t>>,
}

/// The start of the next read.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadStart<'a> {
    /// A value: a pointer, where fields follow.
    Value(Value<'a>),
    /// A pointer into the structure with this id, that many bytes behind its start, in the memory
    /// of this space.
    Structure(TypeId, u32, Space),
}

/// A read of memory, at the value so far.
#[derive(Clone, Copy, Debug)]
pub struct FieldRead<'a> {
    /// The memory that the read is from.
    pub space: Space,
    /// The offset to add, in bytes. Without a typecast under 2^29, and with one more than -2^29.
    pub offset: i32,
    /// The value that the read gives.
    pub value: Value<'a>,
    /// The byte of the text behind the `->` that follows; where none does, the last field. There C
    /// tells of an error that concerns all of the argument.
    pub at: usize,
}

impl<'a, 't> Fields<'a, 't> {
    pub(super) const fn new(btf: Btf<'a>, from: ReadStart<'a>, rest: Option<Fragment<'t>>) -> Self {
        Self { btf, from, rest }
    }

    /// Follows fields of the structure `id`. The value so far points `behind` bytes into it.
    pub const fn of_structure(
        btf: Btf<'a>,
        id: TypeId,
        behind: u32,
        space: Space,
        text: &'t str,
    ) -> Self {
        let from = ReadStart::Structure(id, behind, space);
        Self::new(btf, from, Some(Fragment { text, at: 0 }))
    }

    /// The BTF that has all of their types.
    pub const fn btf(&self) -> Btf<'a> {
        self.btf
    }

    /// The value of the variable without its fields. `None` for the fields of a typecast.
    pub const fn start(&self) -> Option<Value<'a>> {
        match self.from {
            ReadStart::Value(value) => Some(value),
            ReadStart::Structure(..) => None,
        }
    }

    /// Follows one `->` and each `.` behind it.
    fn read(&mut self, part: Fragment<'t>) -> Result<FieldRead<'a>, Error> {
        let (container, behind, space) = match self.from {
            ReadStart::Structure(id, behind, space) => (id, behind, space),
            ReadStart::Value(value) if value.ty.kind() == TypeKind::Ptr => {
                (value.ty.target(), 0, value.points_to(&self.btf))
            }
            ReadStart::Value(_) => {
                return Err(Error::new(ErrorKind::NoPtrStrct, part.at, Errno::EINVAL));
            }
        };
        let inner = Inner::find(&self.btf, container, part)?;
        let value = Value {
            ty: inner.ty,
            first_bit: (inner.bits % 8) as u8,
            bitfield: inner.member.bitfield,
        };
        self.from = ReadStart::Value(value);
        if let Next::Arrow(rest) = inner.next {
            self.rest = Some(rest);
        }
        Ok(FieldRead {
            space,
            offset: (inner.bits / 8).wrapping_sub(behind) as i32,
            value,
            at: inner.end(),
        })
    }
}

impl<'a> Iterator for Fields<'a, '_> {
    type Item = Result<FieldRead<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.rest.take()?;
        Some(self.read(part))
    }
}

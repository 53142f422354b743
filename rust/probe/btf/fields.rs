// SPDX-License-Identifier: GPL-2.0

//! Parses the fields after a variable or a typecast, `FIELD[.FIELD]...[->FIELD...]...`, and finds
//! their types and offsets.
//!
//! Errors have the kinds and the positions of C. The position of a wrong field is its name.
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
    /// Byte offset in the text.
    pub at: usize,
    /// The error number that `write(2)` returns.
    pub errno: Errno,
}

impl Error {
    pub(super) const fn new(kind: ErrorKind, at: usize, errno: Errno) -> Self {
        Self { kind, at, errno }
    }

    /// Creates an error for a type that BTF does not contain: EINVAL.
    pub(super) const fn no_type(at: usize) -> Self {
        Self::new(ErrorKind::BadBtfTid, at, Errno::EINVAL)
    }
}

/// A part of the text, and the byte offset where it starts.
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
    /// Splits the first name from the rest.
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

/// The last field of `FIELD[.FIELD]...`.
struct Inner<'a, 't> {
    /// The field.
    member: Member<'a>,
    /// The type of the field, without typedefs and qualifiers.
    ty: Type<'a>,
    /// Offset of the field from the start of the outermost structure, in bits.
    bits: u32,
    /// The separator after the field. Never a dot.
    next: Next<'t>,
    /// Byte offset of the field's name in the text.
    at: usize,
}

impl<'a, 't> Inner<'a, 't> {
    /// Finds `FIELD[.FIELD]...` in the structure or union `container`.
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

    /// The byte offset in the text where C's parser stops after this field.
    fn end(&self) -> usize {
        match self.next {
            Next::Arrow(rest) | Next::Dot(rest) => rest.at,
            Next::End => self.at,
        }
    }
}

/// The offset of `FIELD[.FIELD]...` in the structure `id`, in bytes.
///
/// C: `parse_btf_casttype()`.
///
/// # Errors
///
/// [`ErrorKind::NoBtfField`] (ENOENT) if no field has the name. [`ErrorKind::TypecastNotAligned`]
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

/// An iterator over the fields of a variable. Returns one read of memory for each `->`. Ends after
/// an error.
#[derive(Clone, Debug)]
pub struct Fields<'a, 't> {
    btf: Btf<'a>,
    from: ReadStart<'a>,
    rest: Option<Fragment<'t>>,
}

/// The value from which the next read starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadStart<'a> {
    /// A value. If fields follow, it must be a pointer.
    Value(Value<'a>),
    /// A pointer into the structure with this id, with its offset in the structure, in bytes, and
    /// the address space of the structure.
    Structure(TypeId, u32, Space),
}

/// A read of memory at the current value.
#[derive(Clone, Copy, Debug)]
pub struct FieldRead<'a> {
    /// The address space of the read.
    pub space: Space,
    /// The offset that the read adds to the value, in bytes. Less than 2^29. Not negative without a
    /// typecast, and greater than -2^29 with a typecast.
    pub offset: i32,
    /// The value that the read returns.
    pub value: Value<'a>,
    /// The byte offset in the text after the next `->`, or, without another `->`, the offset of the
    /// last field. C reports errors of the whole argument at this position.
    pub at: usize,
}

impl<'a, 't> Fields<'a, 't> {
    pub(super) const fn new(btf: Btf<'a>, from: ReadStart<'a>, rest: Option<Fragment<'t>>) -> Self {
        Self { btf, from, rest }
    }

    /// Follows fields of the structure `id`. The current value points to byte `behind` of the
    /// structure.
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

    /// The BTF that contains the types of all fields.
    pub const fn btf(&self) -> Btf<'a> {
        self.btf
    }

    /// The value of the variable without fields. `None` for the fields of a typecast.
    pub const fn start(&self) -> Option<Value<'a>> {
        match self.from {
            ReadStart::Value(value) => Some(value),
            ReadStart::Structure(..) => None,
        }
    }

    /// Follows one `->` and each `.` after it.
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

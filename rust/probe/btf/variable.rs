// SPDX-License-Identifier: GPL-2.0

//! A variable as it is written, `NAME[->FIELD[.FIELD]...]...`, and where it leads.
//!
//! Errors have the kinds and the places of C: where a field is wrong, the place is its name. Past
//! the last field, C computes places from a null pointer.
//!
//! C: `parse_btf_arg()`, `parse_btf_field()` and `split_next_field()` in
//! `kernel/trace/trace_probe.c`.

use crate::error::{
    Errno,
    ErrorKind, //
};

use super::{
    function::{
        Function,
        Param, //
    },
    index::Btf,
    types::{
        Type,
        TypeId,
        TypeKind, //
    },
    value::Value, //
};

/// What is wrong with a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The byte of the text.
    pub at: usize,
    /// What `write(2)` returns.
    pub errno: Errno,
}

impl Error {
    const fn new(kind: ErrorKind, at: usize, errno: Errno) -> Self {
        Self { kind, at, errno }
    }

    /// BTF that has no such type: EINVAL.
    const fn no_type(at: usize) -> Self {
        Self::new(ErrorKind::BadBtfTid, at, Errno::EINVAL)
    }
}

/// A part of the text, and the byte where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fragment<'t> {
    text: &'t str,
    at: usize,
}

/// How a name goes on.
enum Next<'t> {
    End,
    /// By `->`.
    Arrow(Fragment<'t>),
    /// By `.`.
    Dot(Fragment<'t>),
}

impl<'t> Fragment<'t> {
    /// Cuts the first name off.
    fn split(self) -> Result<(&'t str, Next<'t>), Error> {
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

/// A variable with its fields, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable<'t> {
    /// The variable itself: a parameter, or `$retval`.
    pub name: &'t str,
    fields: Option<Fragment<'t>>,
}

impl<'t> Variable<'t> {
    /// Cuts the name of the variable off. The fields are not looked at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BadHyphen`] (EINVAL) where a `-` has no `>`; [`ErrorKind::NosupDatArg`]
    /// (EOPNOTSUPP) where a `.` follows: what is passed by value has no place in memory.
    pub fn parse(text: &'t str) -> Result<Self, Error> {
        let (name, next) = Fragment { text, at: 0 }.split()?;
        let fields = match next {
            Next::End => None,
            Next::Arrow(fields) => Some(fields),
            Next::Dot(fields) => {
                return Err(Error::new(
                    ErrorKind::NosupDatArg,
                    fields.at,
                    Errno::EOPNOTSUPP,
                ));
            }
        };
        Ok(Self { name, fields })
    }

    /// The parameter that it names, of the function that is probed where that has BTF.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoBtfEntry`] where there is no BTF or no parameter at all,
    /// [`ErrorKind::NoBtfarg`] where none is named so; both ENOENT.
    pub fn param<'a>(&self, function: Option<&Function<'a>>) -> Result<Param<'a>, Error> {
        let error = |kind| Error::new(kind, 0, Errno::ENOENT);
        let function = function
            .filter(|function| function.params().next().is_some())
            .ok_or(error(ErrorKind::NoBtfEntry))?;
        function.find(self.name).ok_or(error(ErrorKind::NoBtfarg))
    }

    /// The type of what is returned, where it is `$retval`. Without BTF it has none, and no
    /// fields.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRetval`] where the function returns nothing, [`ErrorKind::NoBtfEntry`] at
    /// the fields where there is no BTF; both ENOENT.
    pub fn returned(&self, function: Option<&Function<'_>>) -> Result<Option<TypeId>, Error> {
        match (function, self.fields) {
            (Some(function), _) if function.is_void() => {
                Err(Error::new(ErrorKind::NoRetval, 0, Errno::ENOENT))
            }
            (Some(function), _) => Ok(Some(function.returned())),
            (None, Some(fields)) => {
                Err(Error::new(ErrorKind::NoBtfEntry, fields.at, Errno::ENOENT))
            }
            (None, None) => Ok(None),
        }
    }

    /// Follows the fields of a variable of type `ty`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BadBtfTid`] (EINVAL) where there is no such type.
    pub fn fields<'a>(&self, btf: &Btf<'a>, ty: TypeId) -> Result<Fields<'a, 't>, Error> {
        Ok(Fields {
            btf: *btf,
            id: ty,
            ty: btf.resolve(ty).ok_or(Error::no_type(0))?,
            rest: self.fields,
            is_cast: false,
        })
    }

    /// Follows the fields of a variable that is taken for a pointer to the structure `id`.
    ///
    /// C: `handle_typecast()`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BadBtfTid`] (EINVAL) where there is no such type.
    pub fn fields_of<'a>(&self, btf: &Btf<'a>, id: TypeId) -> Result<Fields<'a, 't>, Error> {
        Ok(Fields {
            is_cast: true,
            ..self.fields(btf, id)?
        })
    }
}

/// The fields of a variable: one read of memory for each `->`.
///
/// Nothing follows an error.
#[derive(Clone, Debug)]
pub struct Fields<'a, 't> {
    btf: Btf<'a>,
    /// The type of what the last read gave.
    id: TypeId,
    /// The same without names and qualifiers.
    ty: Type<'a>,
    rest: Option<Fragment<'t>>,
    /// Whether `ty` is what is pointed to, and no pointer.
    is_cast: bool,
}

/// A read of memory, at the value so far.
#[derive(Clone, Copy, Debug)]
pub struct FieldRead<'a> {
    /// The offset to add, in bytes: under 2^29.
    pub offset: i32,
    /// What is there.
    pub value: Value<'a>,
    /// The byte of the text where the first field is: the place where there is no room for one
    /// more read.
    pub at: usize,
}

impl<'a, 't> Fields<'a, 't> {
    /// What the variable is without its fields.
    pub const fn start(&self) -> Value<'a> {
        Value::new(self.ty)
    }

    /// Follows one `->` and each `.` behind it.
    fn read(&mut self, first: Fragment<'t>) -> Result<FieldRead<'a>, Error> {
        let is_cast = core::mem::replace(&mut self.is_cast, false);
        let mut container = match self.ty.kind() {
            _ if is_cast => self.id,
            TypeKind::Ptr => self.ty.target(),
            _ => {
                return Err(Error::new(ErrorKind::NoPtrStrct, first.at, Errno::EINVAL));
            }
        };
        let mut part = first;
        let mut bits = 0u32;
        loop {
            let at = part.at;
            let no_type = Error::no_type(at);
            let (name, next) = part.split()?;
            let outer = self.btf.resolve(container).ok_or(no_type)?;
            if !outer.kind().has_members() {
                return Err(no_type);
            }
            let member = self.btf.find_member(container, name).ok_or(Error::new(
                ErrorKind::NoBtfField,
                at,
                Errno::ENOENT,
            ))?;
            bits = bits.checked_add(member.bit_offset).ok_or(no_type)?;
            self.id = member.ty;
            self.ty = self.btf.resolve(member.ty).ok_or(no_type)?;

            match next {
                Next::Dot(rest) => {
                    container = member.ty;
                    part = rest;
                    continue;
                }
                Next::Arrow(rest) => self.rest = Some(rest),
                Next::End => {}
            }
            return Ok(FieldRead {
                offset: (bits / 8) as i32,
                value: Value {
                    ty: self.ty,
                    first_bit: (bits % 8) as u8,
                    bitfield: member.bitfield,
                },
                at: first.at,
            });
        }
    }
}

impl<'a> Iterator for Fields<'a, '_> {
    type Item = Result<FieldRead<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.rest.take()?;
        Some(self.read(part))
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Parses a variable, `NAME[->FIELDS]`, and finds its type.
//!
//! C: `parse_btf_arg()` in `kernel/trace/trace_probe.c`.

use crate::{
    error::{
        Errno,
        ErrorKind, //
    },
    types::Space, //
};

use super::{
    fields::{
        Error,
        Fields,
        Fragment,
        Next,
        ReadStart, //
    },
    function::{
        Function,
        Param, //
    },
    index::Btf,
    types::TypeId,
    value::Value, //
};

/// A parsed variable with its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable<'t> {
    /// The name of the variable: a parameter, `$retval` or `$current`.
    pub name: &'t str,
    fields: Option<Fragment<'t>>,
}

impl<'t> Variable<'t> {
    /// Splits the name of the variable from its fields. Does not check the fields.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BadHyphen`] (EINVAL) if no `>` follows a `-`. [`ErrorKind::NosupDatArg`]
    /// (EOPNOTSUPP) if a `.` follows the name: an argument that a call passes by value has no
    /// address.
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

    /// Finds the parameter with the name of the variable. `function` is the probed function, if BTF
    /// contains it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoBtfEntry`] (ENOENT) without BTF or without parameters.
    /// [`ErrorKind::NoBtfarg`] (ENOENT) if no parameter has the name.
    pub fn param<'a>(&self, function: Option<&Function<'a>>) -> Result<Param<'a>, Error> {
        let error = |kind| Error::new(kind, 0, Errno::ENOENT);
        let function = function
            .filter(|function| function.params().next().is_some())
            .ok_or(error(ErrorKind::NoBtfEntry))?;
        function.find(self.name).ok_or(error(ErrorKind::NoBtfarg))
    }

    /// The return type of the function, for the variable `$retval`. Without BTF, `$retval` has no
    /// type and no fields.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRetval`] (ENOENT) if the function returns `void`. [`ErrorKind::NoBtfEntry`]
    /// (ENOENT) at the fields if BTF does not contain the function.
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
    /// [`ErrorKind::BadBtfTid`] (EINVAL) if the type does not exist.
    pub fn fields<'a>(&self, btf: &Btf<'a>, ty: TypeId) -> Result<Fields<'a, 't>, Error> {
        let ty = btf.resolve(ty).ok_or(Error::no_type(0))?;
        let value = ReadStart::Value(Value::new(ty));
        Ok(Fields::new(*btf, value, self.fields))
    }

    /// Follows the fields of a pointer to the structure `id`.
    pub fn fields_of<'a>(&self, btf: &Btf<'a>, id: TypeId) -> Fields<'a, 't> {
        Fields::new(
            *btf,
            ReadStart::Structure(id, 0, Space::Kernel),
            self.fields,
        )
    }
}

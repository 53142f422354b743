// SPDX-License-Identifier: GPL-2.0

//! Finds the value of a base at a probe point, and its type.
//!
//! C: `parse_probe_arg_leaf()`, `parse_probe_vars()`, `parse_btf_arg()` and
//! `parse_btf_casttype()` in `kernel/trace/trace_probe.c`.

use crate::{
    arch::Register,
    argument::{
        Base,
        RecordField, //
    },
    btf,
    error::{
        Errno,
        ErrorKind, //
    },
    types::Space, //
};

use super::{
    base::{
        WrittenBase,
        CURRENT,
        OBJ,
        RETVAL, //
    },
    error::ArgumentError,
    level::{
        Span,
        Text, //
    },
    parse_context::{
        ParseContext,
        TypeInfo, //
    },
    probe_point::ArgumentPlace,
};

/// Finds a register by its name without the `%`.
///
/// C: `regs_query_register_offset()`.
pub type Registers = fn(&str) -> Option<Register>;

/// The resolved base of a fetch.
pub(super) struct ResolvedBase<'a, 'b> {
    pub(super) base: Base<'a>,
    /// Whether a dereference belongs to the base, as for `@`.
    pub(super) deref: bool,
    /// The fields that follow a variable.
    pub(super) fields: Option<btf::Fields<'b, 'a>>,
    /// Byte offset of the variable in its body.
    pub(super) at: usize,
}

impl<'a> ResolvedBase<'a, '_> {
    /// Creates a base without a dereference and without fields.
    const fn new(base: Base<'a>, at: usize) -> Self {
        Self {
            base,
            deref: false,
            fields: None,
            at,
        }
    }
}

/// Resolves bases for one probe point.
pub(super) struct BaseResolver<'b> {
    /// The probe point and the types of its variables.
    pub(super) context: ParseContext<'b>,
    /// The registers, if the probe saves all of them.
    pub(super) registers: Option<Registers>,
}

impl<'b> BaseResolver<'b> {
    /// Resolves a base of `body`, which starts at byte `at`.
    pub(super) fn resolve<'a>(
        &self,
        body: &'a str,
        base: WrittenBase,
        at: usize,
    ) -> Result<ResolvedBase<'a, 'b>, ArgumentError> {
        let error = |kind| Err(ArgumentError::invalid(kind, at));
        let text = |span: Span| span.of_body(body).text;
        let variables = self.context.point.variables();
        let usable = |usable: Result<(), ErrorKind>, base| {
            usable
                .map(|()| base)
                .map_err(|kind| ArgumentError::invalid(kind, at))
        };
        let base = match base {
            WrittenBase::Typed(span) => return self.btf_variable(text(span), at),
            WrittenBase::Current(span) => return self.current(text(span), at),
            WrittenBase::Object(span) => return self.object(text(span), at),
            WrittenBase::Memory(address) => {
                return Ok(ResolvedBase {
                    deref: true,
                    ..ResolvedBase::new(Base::Immediate(address), at)
                })
            }
            WrittenBase::Symbol(span) => {
                return Ok(ResolvedBase {
                    deref: true,
                    ..ResolvedBase::new(Base::Symbol(text(span)), at)
                });
            }
            WrittenBase::Register(span) => {
                let Some(registers) = self.registers else {
                    return error(ErrorKind::BadVar);
                };
                match registers(text(span)) {
                    Some(register) => Base::Register(register),
                    None => return error(ErrorKind::BadRegName),
                }
            }
            WrittenBase::Immediate(value) => Base::Immediate(value),
            WrittenBase::Text(span) => Base::Text(text(span)),
            WrittenBase::Field(span) => match self.field(text(span)) {
                Some(field) => Base::Field(field),
                None => return error(ErrorKind::NoEventField),
            },
            WrittenBase::FieldVariable(span) => {
                let variable = text(span);
                let field = variable.strip_prefix('$').and_then(|name| self.field(name));
                match field {
                    Some(field) => Base::Field(field),
                    None if matches!(variable, "$comm" | "$COMM") => Base::Comm,
                    None if variable.starts_with(CURRENT) => return self.current(variable, at),
                    None => return error(ErrorKind::BadVar),
                }
            }
            WrittenBase::StackPointer => Base::StackPointer,
            WrittenBase::Stack(index) => Base::Stack(index),
            WrittenBase::Argument(index) => match self.arguments(at)? {
                ArgumentPlace::Call(first) => Base::Argument(index.saturating_add(first)),
                ArgumentPlace::EntryData => Base::EntryArgument(index),
            },
            WrittenBase::Comm => Base::Comm,
            WrittenBase::Elapsed => usable(variables.elapsed, Base::Elapsed)?,
            WrittenBase::Caller => match variables.caller {
                Ok(ArgumentPlace::Call(_)) => Base::Caller,
                Ok(ArgumentPlace::EntryData) => Base::EntryCaller,
                Err(kind) => return error(kind),
            },
            WrittenBase::Exit => usable(variables.exit, Base::Exit)?,
            WrittenBase::Watched => usable(variables.watched, Base::Watched)?,
            WrittenBase::Parameter => usable(variables.parameter, Base::Parameter)?,
            WrittenBase::Unchanged => usable(variables.unchanged, Base::Unchanged)?,
        };
        Ok(ResolvedBase::new(base, at))
    }

    /// Finds a field of the event that an event probe is attached to.
    ///
    /// C: `parse_trace_event()`.
    fn field(&self, name: &str) -> Option<RecordField> {
        match self.context.types {
            TypeInfo::Event(fields, _) => fields.find(name),
            _ => None,
        }
    }

    /// Whether the event that an event probe is attached to has this field.
    pub(super) fn has_field(&self, name: &str) -> bool {
        self.field(name).is_some()
    }

    /// The place of the arguments of the function.
    fn arguments(&self, at: usize) -> Result<ArgumentPlace, ArgumentError> {
        let arguments = self.context.point.variables().arguments;
        arguments.map_err(|kind| ArgumentError::invalid(kind, at))
    }

    /// Parses `$retval` or the name of a parameter, and the fields that follow.
    fn btf_variable<'a>(
        &self,
        text: &'a str,
        at: usize,
    ) -> Result<ResolvedBase<'a, 'b>, ArgumentError> {
        let is_variable = text.starts_with('$');
        let variables = self.context.point.variables();
        let usable = match is_variable {
            true => variables.retval,
            false => variables.names,
        };
        usable.map_err(|kind| ArgumentError::invalid(kind, at))?;
        match self.context.types {
            TypeInfo::Unsupported if text == RETVAL => {
                return Ok(ResolvedBase::new(Base::ReturnValue, at));
            }
            TypeInfo::Unsupported => return Err(no_btf(at)),
            TypeInfo::NoFunction(_) if !is_variable => {
                return Err(ArgumentError::invalid(ErrorKind::NosupBtfarg, at));
            }
            _ => {}
        }
        let wrong = |error| ArgumentError::in_btf(error, at);
        let variable = btf::Variable::parse(text).map_err(wrong)?;
        let function = self.context.types.function();
        let function = function.as_ref();
        let (base, ty) = if variable.name == RETVAL {
            let ty = variable.returned(function).map_err(wrong)?;
            (Base::ReturnValue, ty)
        } else {
            let param = variable.param(function).map_err(wrong)?;
            let base = match self.arguments(at)? {
                ArgumentPlace::Call(_) => Base::Argument(param.position),
                ArgumentPlace::EntryData => Base::EntryArgument(param.position),
            };
            (base, Some(param.ty))
        };
        let fields = match (function, ty) {
            (Some(function), Some(ty)) => Some(variable.fields(function.btf(), ty).map_err(wrong)?),
            _ => None,
        };
        Ok(ResolvedBase {
            fields,
            ..ResolvedBase::new(base, at)
        })
    }

    /// Parses `$current` and the fields that follow.
    ///
    /// C: `parse_probe_var_current()`.
    fn current<'a>(&self, text: &'a str, at: usize) -> Result<ResolvedBase<'a, 'b>, ArgumentError> {
        let base = ResolvedBase::new(Base::Current, at);
        let rest = text.strip_prefix(CURRENT).unwrap_or("");
        match (rest.bytes().next(), self.context.types.btf()) {
            (None, _) => return Ok(base),
            (Some(b'-'), Some(_)) => {}
            _ => return Err(ArgumentError::invalid(ErrorKind::BadVar, at)),
        }
        let variable =
            btf::Variable::parse(text).map_err(|error| ArgumentError::in_btf(error, at))?;
        let (btf, task) = self.task(at)?;
        Ok(ResolvedBase {
            fields: Some(variable.fields_of(&btf, task)),
            ..base
        })
    }

    /// Parses `$obj` and the fields that follow.
    fn object<'a>(&self, text: &'a str, at: usize) -> Result<ResolvedBase<'a, 'b>, ArgumentError> {
        let usable = self.context.point.variables().object;
        usable.map_err(|kind| ArgumentError::invalid(kind, at))?;
        let base = ResolvedBase::new(Base::Object, at);
        match text.strip_prefix(OBJ).unwrap_or("-").bytes().next() {
            None => return Ok(base),
            Some(b'-') => {}
            Some(_) => return Err(ArgumentError::invalid(ErrorKind::BadVar, at)),
        }
        let (btf, structure) = match self.context.types {
            TypeInfo::Object(btf, structure) => (btf, structure),
            _ => return Err(no_btf(at)),
        };
        let variable =
            btf::Variable::parse(text).map_err(|error| ArgumentError::in_btf(error, at))?;
        Ok(ResolvedBase {
            fields: Some(variable.fields_of(&btf, structure)),
            ..base
        })
    }

    /// Finds `struct task_struct`, the type that `$current` points to. `at` is the byte offset of
    /// the variable, for errors.
    pub(super) fn task(&self, at: usize) -> Result<(btf::Btf<'b>, btf::TypeId), ArgumentError> {
        let none = ArgumentError::new(ErrorKind::NoBtfEntry, at, Errno::ENOENT);
        let btf = self.context.types.btf().ok_or(none)?;
        let task = btf.find("task_struct", btf::TypeKind::Struct);
        Ok((btf, task.ok_or(none)?))
    }

    /// Finds the structure of `STRUCT[,FIELD]`. Returns it with the offset of FIELD, in bytes.
    ///
    /// C: `parse_btf_casttype()`. C searches the kernel first, and then all modules. This function
    /// searches the module of the probed function, then the kernel, then the other modules.
    pub(super) fn structure(
        &self,
        text: Text<'_>,
    ) -> Result<(btf::Btf<'b>, btf::TypeId, u32), ArgumentError> {
        let comma = text.text.find(',').unwrap_or(text.text.len());
        let (name, member) = text.split(comma);
        let none = ArgumentError::invalid(ErrorKind::NoPtrStrct, text.at);
        let own = self.context.types.btf();
        let mut all = own.iter().chain(self.context.modules);
        let found = all.find_map(|btf| Some((*btf, btf.find(name, btf::TypeKind::Struct)?)));
        let (btf, id) = found.ok_or(none)?;
        let behind = match member.text.strip_prefix(',') {
            Some(text) => {
                let at = member.at.saturating_add(1);
                btf::field_offset(&btf, id, text)
                    .map_err(|error| ArgumentError::in_btf(error, at))?
            }
            None => 0,
        };
        Ok((btf, id, behind))
    }

    /// Returns an iterator over the fields `fields` of a value with a typecast. `structure` is the
    /// text of the typecast. The value points to memory of the address space `space`.
    pub(super) fn cast<'a>(
        &self,
        structure: Text<'_>,
        fields: &'a str,
        space: Space,
    ) -> Result<btf::Fields<'b, 'a>, ArgumentError> {
        let (btf, id, behind) = self.structure(structure)?;
        Ok(btf::Fields::of_structure(btf, id, behind, space, fields))
    }
}

/// The error for an argument that needs BTF, if the kernel has no BTF.
pub(super) const fn no_btf(at: usize) -> ArgumentError {
    ArgumentError::new(ErrorKind::NosupBtfarg, at, Errno::EOPNOTSUPP)
}

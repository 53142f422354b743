// SPDX-License-Identifier: GPL-2.0

//! Parses the base of a fetch: the value inside all levels.
//!
//! C: `parse_probe_arg_leaf()`, `parse_probe_vars()`, `parse_btf_arg()` and
//! `parse_btf_casttype()` in `kernel/trace/trace_probe.c`.

use crate::{
    arch::Register,
    argument::Base,
    btf,
    error::{
        Errno,
        ErrorKind, //
    },
    types::Space, //
};

use super::{
    error::ArgumentError,
    level::Text,
    number,
    parse_context::{
        ParseContext,
        ProbePoint,
        RecordFields,
        TypeInfo, //
    },
};

/// The number of words in a kernel stack. C limits `$stackN` and `$argN` to this number.
const STACK_WORDS: u16 = 16384 / 8;

/// Variables with a type in BTF.
const RETVAL: &str = "$retval";
pub(super) const CURRENT: &str = "$current";
pub(super) const OBJ: &str = "$obj";

/// Finds a register by its name without the `%`.
///
/// C: `regs_query_register_offset()`.
pub type Registers = fn(&str) -> Option<Register>;

/// The parsed base of a fetch.
pub(super) struct ParsedBase<'a, 'b> {
    pub(super) base: Base<'a>,
    /// Whether a dereference belongs to the base, as for `@`.
    pub(super) deref: bool,
    /// Index of the base's last fetch instruction in C.
    pub(super) last: usize,
    /// The fields that follow a variable.
    pub(super) fields: Option<btf::Fields<'b, 'a>>,
    /// Byte offset of the variable in its word.
    pub(super) at: usize,
}

impl<'a> ParsedBase<'a, '_> {
    /// Creates a base without a dereference and without fields.
    const fn new(base: Base<'a>, at: usize) -> Self {
        Self {
            base,
            deref: false,
            last: 0,
            fields: None,
            at,
        }
    }
}

/// Parses bases for one probe point.
pub(super) struct BaseParser<'b> {
    /// The probe point and the types of its variables.
    pub(super) context: ParseContext<'b>,
    /// The registers, if the probe saves all of them.
    pub(super) registers: Option<Registers>,
}

impl<'b> BaseParser<'b> {
    /// Parses `text`, which starts at byte `at` of its word.
    pub(super) fn parse<'a>(
        &self,
        text: &'a str,
        at: usize,
    ) -> Result<ParsedBase<'a, 'b>, ArgumentError> {
        let rest = text.get(1..).unwrap_or("");
        let base = match text.bytes().next() {
            Some(b'$') => match self.context.types {
                TypeInfo::Event(fields, _) => field(fields, rest, at)?,
                _ if rest.starts_with("retval") => return self.btf_variable(text, at),
                _ if rest.starts_with("current") => return self.current(text, at),
                _ if rest.starts_with("obj") => return self.object(text, at),
                _ => self.variable(rest, at)?,
            },
            Some(b'%') => {
                let registers = self
                    .registers
                    .ok_or(ArgumentError::invalid(ErrorKind::BadVar, at))?;
                let register = registers(rest);
                Base::Register(register.ok_or(ArgumentError::invalid(ErrorKind::BadRegName, at))?)
            }
            Some(b'@') => return memory(rest, at),
            Some(b'\\') => immediate(rest, at.saturating_add(1))?,
            Some(b'_' | b'a'..=b'z' | b'A'..=b'Z') => match self.context.types {
                TypeInfo::Event(fields, _) => {
                    let field = fields.find(text);
                    let none = ArgumentError::invalid(ErrorKind::NoEventField, at);
                    Base::Field(field.ok_or(none)?)
                }
                _ => return self.btf_variable(text, at),
            },
            _ => return Err(ArgumentError::invalid(ErrorKind::BadFetchArg, at)),
        };
        Ok(ParsedBase::new(base, at))
    }

    /// Parses `$retval` or the name of a parameter, and the fields that follow.
    fn btf_variable<'a>(
        &self,
        text: &'a str,
        at: usize,
    ) -> Result<ParsedBase<'a, 'b>, ArgumentError> {
        let is_variable = text.starts_with('$');
        match (self.context.point, self.context.types) {
            (
                ProbePoint::Entry
                | ProbePoint::Inside
                | ProbePoint::Tracepoint
                | ProbePoint::Memory
                | ProbePoint::Object { .. },
                _,
            ) if is_variable => {
                return Err(ArgumentError::invalid(ErrorKind::RetvalOnProbe, at));
            }
            (ProbePoint::ObjectReturn { .. }, _) if is_variable => {}
            (
                ProbePoint::Inside
                | ProbePoint::Event
                | ProbePoint::Memory
                | ProbePoint::Object { .. }
                | ProbePoint::ObjectReturn { .. },
                _,
            ) => {
                return Err(ArgumentError::invalid(ErrorKind::NosupBtfarg, at));
            }
            (_, TypeInfo::Unsupported) if text == RETVAL => {
                return Ok(ParsedBase::new(Base::ReturnValue, at));
            }
            (_, TypeInfo::Unsupported) => return Err(no_btf(at)),
            (_, TypeInfo::NoFunction(_)) if !is_variable => {
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
            let base = match self.context.point {
                ProbePoint::Return | ProbePoint::ObjectReturn { .. } => {
                    Base::EntryArgument(param.position)
                }
                ProbePoint::ReturnInsn => {
                    return Err(ArgumentError::invalid(ErrorKind::EntryOnRetinsn, at))
                }
                ProbePoint::Entry
                | ProbePoint::Inside
                | ProbePoint::Tracepoint
                | ProbePoint::Event
                | ProbePoint::Memory
                | ProbePoint::Object { .. } => Base::Argument(param.position),
            };
            (base, Some(param.ty))
        };
        let fields = match (function, ty) {
            (Some(function), Some(ty)) => Some(variable.fields(function.btf(), ty).map_err(wrong)?),
            _ => None,
        };
        Ok(ParsedBase {
            fields,
            ..ParsedBase::new(base, at)
        })
    }

    /// Parses `$current` and the fields that follow.
    ///
    /// C: `parse_probe_var_current()`.
    fn current<'a>(&self, text: &'a str, at: usize) -> Result<ParsedBase<'a, 'b>, ArgumentError> {
        let base = ParsedBase::new(Base::Current, at);
        let rest = text.strip_prefix(CURRENT).unwrap_or("");
        match (rest.bytes().next(), self.context.types.btf()) {
            (None, _) => return Ok(base),
            (Some(b'-'), Some(_)) => {}
            _ => return Err(ArgumentError::invalid(ErrorKind::BadVar, at)),
        }
        let variable =
            btf::Variable::parse(text).map_err(|error| ArgumentError::in_btf(error, at))?;
        let (btf, task) = self.task(at)?;
        Ok(ParsedBase {
            fields: Some(variable.fields_of(&btf, task)),
            ..base
        })
    }

    /// Parses `$obj` and the fields that follow.
    fn object<'a>(&self, text: &'a str, at: usize) -> Result<ParsedBase<'a, 'b>, ArgumentError> {
        let (ProbePoint::Object { .. } | ProbePoint::ObjectReturn { .. }) = self.context.point
        else {
            return Err(ArgumentError::invalid(ErrorKind::ObjOnProbe, at));
        };
        let base = ParsedBase::new(Base::Object, at);
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
        Ok(ParsedBase {
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

    /// Parses a variable without its `$`. The name starts at byte `at`.
    fn variable<'a>(&self, name: &'a str, at: usize) -> Result<Base<'a>, ArgumentError> {
        let bad = ArgumentError::invalid(ErrorKind::BadVar, at);
        let bad_number = |errno| ArgumentError::new(ErrorKind::BadVar, at, errno);
        if let Some(index) = name.strip_prefix("stack") {
            if index.is_empty() {
                return Ok(Base::StackPointer);
            }
            // C accepts a sign in `$argN` but not in `$stackN`.
            if !index.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(bad);
            }
            let index = number::unsigned(index, 10).map_err(bad_number)?;
            return match u16::try_from(index) {
                Ok(index) if index <= STACK_WORDS => Ok(Base::Stack(index)),
                _ => Err(ArgumentError::invalid(ErrorKind::BadStackNum, at)),
            };
        }
        if matches!(name, "comm" | "COMM") {
            return Ok(Base::Comm);
        }
        if name == "elapsed" {
            return match self.context.point {
                ProbePoint::Return | ProbePoint::ObjectReturn { .. } => Ok(Base::Elapsed),
                ProbePoint::ReturnInsn => {
                    Err(ArgumentError::invalid(ErrorKind::EntryOnRetinsn, at))
                }
                ProbePoint::Entry
                | ProbePoint::Inside
                | ProbePoint::Tracepoint
                | ProbePoint::Event
                | ProbePoint::Memory
                | ProbePoint::Object { .. } => {
                    Err(ArgumentError::invalid(ErrorKind::ElapsedOnProbe, at))
                }
            };
        }
        if name == "exit" {
            return match self.context.point {
                ProbePoint::ReturnInsn => Ok(Base::Exit),
                _ => Err(ArgumentError::invalid(ErrorKind::ExitOnProbe, at)),
            };
        }
        if name == "addr" && self.context.point == ProbePoint::Memory {
            return Ok(Base::Watched);
        }
        if let ProbePoint::Object { of_changes } | ProbePoint::ObjectReturn { of_changes } =
            self.context.point
        {
            match name {
                "parameter" => return Ok(Base::Parameter),
                "unchanged" if of_changes => return Ok(Base::Unchanged),
                "unchanged" => return Err(ArgumentError::invalid(ErrorKind::UnchangedOnAll, at)),
                _ => {}
            }
        }
        let number = name.strip_prefix("arg").ok_or(bad)?;
        let number = number::unsigned(number, 10).map_err(bad_number)?;
        let index = u16::try_from(number)
            .ok()
            .filter(|number| *number <= STACK_WORDS)
            .and_then(|number| number.checked_sub(1))
            .ok_or(ArgumentError::invalid(ErrorKind::BadArgNum, at))?;
        match self.context.point {
            ProbePoint::Entry | ProbePoint::Object { .. } => Ok(Base::Argument(index)),
            ProbePoint::Tracepoint => Ok(Base::Argument(index.saturating_add(1))),
            ProbePoint::Inside | ProbePoint::Event | ProbePoint::Memory => {
                Err(ArgumentError::invalid(ErrorKind::NofentryArgs, at))
            }
            ProbePoint::Return | ProbePoint::ObjectReturn { .. } => Ok(Base::EntryArgument(index)),
            ProbePoint::ReturnInsn => Err(ArgumentError::invalid(ErrorKind::EntryOnRetinsn, at)),
        }
    }
}

/// Parses `$FIELD` without its `$`. The name starts at byte `at`. A field can have the name of a
/// variable.
///
/// C: `parse_trace_event()`.
fn field<'a>(fields: &dyn RecordFields, name: &str, at: usize) -> Result<Base<'a>, ArgumentError> {
    match (fields.find(name), name) {
        (Some(field), _) => Ok(Base::Field(field)),
        (None, "comm" | "COMM") => Ok(Base::Comm),
        (None, _) => Err(ArgumentError::invalid(ErrorKind::BadVar, at)),
    }
}

/// The error for an argument that needs BTF, if the kernel has no BTF.
pub(super) const fn no_btf(at: usize) -> ArgumentError {
    ArgumentError::new(ErrorKind::NosupBtfarg, at, Errno::EOPNOTSUPP)
}

/// Parses `@ADDR` or `@SYM[+|-OFF]` without the `@`. The text starts at byte `at`.
fn memory<'a, 'b>(text: &'a str, at: usize) -> Result<ParsedBase<'a, 'b>, ArgumentError> {
    let (base, last) = match text.bytes().next() {
        Some(b'0'..=b'9') => {
            let address = number::unsigned(text, 0)
                .map_err(|errno| ArgumentError::new(ErrorKind::BadMemAddr, at, errno))?;
            (Base::Immediate(address), 1)
        }
        Some(b'+') => return Err(ArgumentError::invalid(ErrorKind::FileOnKprobe, at)),
        // In C, the symbol takes an additional fetch instruction.
        _ => (Base::Symbol(text), 2),
    };
    Ok(ParsedBase {
        deref: true,
        last,
        ..ParsedBase::new(base, at)
    })
}

/// Parses `\IMM` or `\"TEXT"` without the backslash. The text starts at byte `at`.
fn immediate(text: &str, at: usize) -> Result<Base<'_>, ArgumentError> {
    if let Some(text) = text.strip_prefix('"') {
        let end = at.saturating_add(1).saturating_add(text.len());
        return match text.strip_suffix('"') {
            Some(text) => Ok(Base::Text(text)),
            None => Err(ArgumentError::invalid(ErrorKind::ImmstrNoClose, end)),
        };
    }
    let rest = text.get(1..).unwrap_or("");
    let value = match text.bytes().next() {
        Some(b'0'..=b'9') => number::unsigned(text, 0),
        Some(b'-') => number::signed(text).map(|value| value as u64),
        Some(b'+') => number::signed(rest).map(|value| value as u64),
        _ => Err(Errno::EINVAL),
    };
    let value = value.map_err(|errno| ArgumentError::new(ErrorKind::BadImm, at, errno))?;
    Ok(Base::Immediate(value))
}

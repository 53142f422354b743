// SPDX-License-Identifier: GPL-2.0

//! The facts about a probe that the parser of its arguments needs.
//!
//! C: `struct traceprobe_parse_context` in `kernel/trace/trace_probe.h`.

use core::fmt;

use crate::{
    argument::RecordField,
    btf::{
        Btf,
        Function,
        TypeId, //
    },
};

use super::probe_point::ProbePoint;

/// The probe point, and the types of its variables.
#[derive(Clone, Copy, Debug)]
pub struct ParseContext<'b> {
    /// The probe point.
    pub point: ProbePoint,
    /// The types of the variables at the point.
    pub types: TypeInfo<'b>,
    /// The BTF of modules that contain the [structures](super::WrittenArgument::structures) of
    /// typecasts that `types` lacks.
    pub modules: &'b [Btf<'b>],
}

/// The known types of the variables at a probe point.
#[derive(Clone, Copy, Debug)]
pub enum TypeInfo<'b> {
    /// The kernel has no BTF, or no argument needs BTF.
    ///
    /// C: without `CONFIG_PROBE_EVENTS_BTF_ARGS`.
    Unsupported,
    /// The target is an address. The name of its function is unknown.
    NoFunction(Btf<'b>),
    /// The BTF does not contain the function.
    Unknown(Btf<'b>),
    /// The function, with its parameters and its return type.
    Function(Function<'b>),
    /// The fields of an event, and the kernel's BTF if the kernel has BTF. The BTF contains the
    /// structures that the fields point to.
    Event(&'b dyn RecordFields, Option<Btf<'b>>),
    /// The structure of an object, and the BTF that contains the structure.
    Object(Btf<'b>, TypeId),
}

/// The fields in the record of an event, without the fields that all records have.
pub trait RecordFields: fmt::Debug {
    /// Finds a field by its name.
    ///
    /// C: `parse_trace_event_arg()`.
    fn find(&self, name: &str) -> Option<RecordField>;
}

impl<'b> TypeInfo<'b> {
    /// The function, if the BTF contains it.
    pub const fn function(self) -> Option<Function<'b>> {
        match self {
            Self::Function(function) => Some(function),
            Self::Unsupported
            | Self::NoFunction(_)
            | Self::Unknown(_)
            | Self::Event(..)
            | Self::Object(..) => None,
        }
    }

    /// The BTF that contains the types of the variables and the structures of typecasts.
    pub(super) fn btf(self) -> Option<Btf<'b>> {
        match self {
            Self::Function(function) => Some(*function.btf()),
            Self::NoFunction(btf) | Self::Unknown(btf) | Self::Object(btf, _) => Some(btf),
            Self::Event(_, btf) => btf,
            Self::Unsupported => None,
        }
    }
}

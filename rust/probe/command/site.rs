// SPDX-License-Identifier: GPL-2.0

//! What is known of the place that a probe goes to.

use core::fmt;

use crate::argument::RecordField;
use crate::btf::Btf;
use crate::btf::Function;

/// Where the probe stands in the function that it probes: it decides which variables there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The entry: `$argN` is available.
    Entry,
    /// Any other instruction.
    Inside,
    /// The return: `$retval` and `$elapsed` are available, and `$argN` as it was at the entry.
    Return,
    /// An instruction with which the function returns: `$retval` and `$exit` are available, but
    /// nothing of the entry.
    ReturnInsn,
    /// A tracepoint: `$argN` is available.
    Tracepoint,
    /// No function, but a trace event: the fields of its record are available.
    Event,
}

/// Where a probe stands: it decides which variables there are, and of which types.
#[derive(Clone, Copy, Debug)]
pub struct Site<'b> {
    /// Where in its function.
    pub place: Place,
    /// What the function takes and returns.
    pub signature: Signature<'b>,
}

/// What BTF says of a function, or the kernel of an event.
#[derive(Clone, Copy, Debug)]
pub enum Signature<'b> {
    /// The kernel has no BTF.
    ///
    /// C: without `CONFIG_PROBE_EVENTS_BTF_ARGS`.
    Unsupported,
    /// It does not know the function.
    Unknown,
    /// It knows it.
    Known(Function<'b>),
    /// The probe stands at an event, which has these fields. BTF, where the kernel has it, knows
    /// the structures that they may point to.
    Event(&'b dyn RecordFields, Option<Btf<'b>>),
}

/// The fields in the record of an event, without those that all records have.
pub trait RecordFields: fmt::Debug {
    /// The field of this name.
    ///
    /// C: `parse_trace_event_arg()`.
    fn find(&self, name: &str) -> Option<RecordField>;
}

impl<'b> Signature<'b> {
    /// The function, where it is known.
    pub const fn function(self) -> Option<Function<'b>> {
        match self {
            Self::Known(function) => Some(function),
            Self::Unsupported | Self::Unknown | Self::Event(..) => None,
        }
    }

    /// What BTF knows besides.
    pub(super) fn btf(self) -> Option<Btf<'b>> {
        match self {
            Self::Known(function) => Some(*function.btf()),
            Self::Event(_, btf) => btf,
            Self::Unsupported | Self::Unknown => None,
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The points where probes hit, and the table that says which variable can be used at which point.
//!
//! C: the `TPARG_FL_*` flags in `kernel/trace/trace_probe.h`.

use crate::error::ErrorKind;

/// The point where a probe hits. It decides which variables are available: see the table in this
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbePoint {
    /// The entry of a function.
    Entry,
    /// Any other instruction.
    Inside,
    /// The return of a function. Arguments have their values at the entry.
    Return,
    /// A return instruction of a function. There is no entry data.
    ReturnInsn,
    /// The return of a function whose path is known. Arguments have their values at the entry.
    Path,
    /// A tracepoint.
    Tracepoint,
    /// A trace event. The fields of its record are available.
    Event,
    /// An access to memory.
    Memory,
    /// The entry of a function that receives an object.
    Object {
        /// Whether the probe records changes only.
        of_changes: bool,
    },
    /// The return of such a function. Arguments have their values at the entry.
    ObjectReturn {
        /// Whether the probe records changes only.
        of_changes: bool,
    },
}

/// Whether a variable can be used at a point. If not, the error of an argument that uses it.
type Usable = Result<(), ErrorKind>;

/// The place of the arguments of a function, and of its return address, at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentPlace {
    /// In the registers and on the stack of the hit. `$arg1` is the argument with this index.
    Call(u16),
    /// In the entry data.
    EntryData,
}

/// The variables of a point: a row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables {
    /// `$argN`, and the value of a parameter that is named.
    pub(super) arguments: Result<ArgumentPlace, ErrorKind>,
    /// The names of parameters. An error of the types comes before one of `arguments`.
    pub(super) names: Usable,
    /// `$retval`.
    pub(super) retval: Usable,
    /// `$elapsed`.
    pub(super) elapsed: Usable,
    /// `$caller`.
    pub(super) caller: Result<ArgumentPlace, ErrorKind>,
    /// `$exit`.
    pub(super) exit: Usable,
    /// `$addr`.
    pub(super) watched: Usable,
    /// `$obj`.
    pub(super) object: Usable,
    /// `$parameter`.
    pub(super) parameter: Usable,
    /// `$unchanged`.
    pub(super) unchanged: Usable,
}

/// Only variables that all points have, such as `$comm`.
const COMMON: Variables = Variables {
    arguments: Err(ErrorKind::NofentryArgs),
    names: Err(ErrorKind::NosupBtfarg),
    retval: Err(ErrorKind::RetvalOnProbe),
    elapsed: Err(ErrorKind::ElapsedOnProbe),
    caller: Err(ErrorKind::CallerInside),
    exit: Err(ErrorKind::ExitOnProbe),
    watched: Err(ErrorKind::BadVar),
    object: Err(ErrorKind::ObjOnProbe),
    parameter: Err(ErrorKind::BadVar),
    unchanged: Err(ErrorKind::BadVar),
};

impl ProbePoint {
    /// The row of the table for this point.
    pub(super) const fn variables(self) -> Variables {
        match self {
            // An event probe has the fields of the event instead.
            Self::Inside | Self::Event => COMMON,
            Self::Entry => Variables {
                arguments: Ok(ArgumentPlace::Call(0)),
                names: Ok(()),
                caller: Ok(ArgumentPlace::Call(0)),
                ..COMMON
            },
            // The first argument of the tracepoint's function is data of the probe.
            Self::Tracepoint => Variables {
                arguments: Ok(ArgumentPlace::Call(1)),
                names: Ok(()),
                ..COMMON
            },
            Self::Return => Variables {
                arguments: Ok(ArgumentPlace::EntryData),
                names: Ok(()),
                retval: Ok(()),
                elapsed: Ok(()),
                caller: Ok(ArgumentPlace::EntryData),
                ..COMMON
            },
            Self::Path => Variables {
                exit: Ok(()),
                ..Self::Return.variables()
            },
            Self::ReturnInsn => Variables {
                arguments: Err(ErrorKind::EntryOnRetinsn),
                names: Ok(()),
                retval: Ok(()),
                elapsed: Err(ErrorKind::EntryOnRetinsn),
                caller: Ok(ArgumentPlace::Call(0)),
                exit: Ok(()),
                ..COMMON
            },
            Self::Memory => Variables {
                watched: Ok(()),
                ..COMMON
            },
            Self::Object { of_changes } => Variables {
                arguments: Ok(ArgumentPlace::Call(0)),
                caller: Ok(ArgumentPlace::Call(0)),
                object: Ok(()),
                parameter: Ok(()),
                unchanged: if of_changes {
                    Ok(())
                } else {
                    Err(ErrorKind::UnchangedOnAll)
                },
                ..COMMON
            },
            Self::ObjectReturn { of_changes } => Variables {
                arguments: Ok(ArgumentPlace::EntryData),
                retval: Ok(()),
                elapsed: Ok(()),
                caller: Ok(ArgumentPlace::EntryData),
                ..Self::Object { of_changes }.variables()
            },
        }
    }
}

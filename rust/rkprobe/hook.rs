// SPDX-License-Identifier: GPL-2.0

//! A probe that the kernel knows only while its event is enabled: of functions by ftrace, or of a
//! tracepoint.
//!
//! The kernel traces such a function from the registration on, whether the probe is disabled or
//! not; and what the command names is looked for each time anew, for a module may bring it.
//!
//! C: `__register_trace_fprobe()` in `kernel/trace/trace_fprobe.c`.

use kernel::prelude::*;

use ktrace::fprobe::Fprobe;
use ktrace::fprobe::Functions;
use ktrace::tracepoint::Tracepoint;
use probe::command::Kind;

use crate::recorder::AtEntry;
use crate::recorder::AtExit;
use crate::recorder::Counts;
use crate::recorder::Keeper;
use crate::recorder::Recorder;
use crate::recorder::FEW;
use crate::return_probe::Kept;

/// A registered probe, by what it hits and keeps.
pub(crate) enum Hook {
    Entry(Fprobe<AtEntry>),
    Exit(Fprobe<AtExit>),
    Keeping(Fprobe<Keeper<FEW, false>>),
    Timed(Fprobe<Keeper<FEW, true>>),
    Tracepoint(Tracepoint<AtEntry>),
}

impl Hook {
    /// Registers a probe: it hits from now on.
    pub(crate) fn register(
        kind: Kind,
        target: &CStr,
        recorder: Recorder,
        kept: Kept,
    ) -> Result<Self> {
        let functions = Functions::Glob(target, None);
        let Kept { values, is_timed } = kept;
        Ok(match kind {
            Kind::Entry => Self::Entry(Fprobe::register(functions, AtEntry(recorder))?),
            Kind::Exit => match (values.len(), is_timed) {
                (0, false) => Self::Exit(Fprobe::register(functions, AtExit(recorder))?),
                (_, false) => {
                    let keeper = Keeper::new(recorder, values)?;
                    Self::Keeping(Fprobe::register(functions, keeper)?)
                }
                (_, true) => {
                    let keeper = Keeper::new(recorder, values)?;
                    Self::Timed(Fprobe::register(functions, keeper)?)
                }
            },
            Kind::Tracepoint => {
                Self::Tracepoint(Tracepoint::attach_or_wait(target, AtEntry(recorder))?)
            }
            Kind::Probe | Kind::Return | Kind::ReturnInsn | Kind::Event => return Err(EINVAL),
        })
    }

    /// How often it was hit and missed.
    pub(crate) fn counts(&self) -> Counts {
        match self {
            Self::Entry(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Exit(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Keeping(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Timed(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Tracepoint(probe) => Counts::of(probe.handler(), probe.missed()),
        }
    }

    /// Unregisters it: no handler runs after this. Gives what it has counted.
    pub(crate) fn unregister(self) -> Counts {
        match self {
            Self::Entry(probe) => probe.unregister(Counts::of),
            Self::Exit(probe) => probe.unregister(Counts::of),
            Self::Keeping(probe) => probe.unregister(Counts::of),
            Self::Timed(probe) => probe.unregister(Counts::of),
            Self::Tracepoint(probe) => probe.unregister(Counts::of),
        }
    }
}

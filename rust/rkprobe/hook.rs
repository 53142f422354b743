// SPDX-License-Identifier: GPL-2.0

//! A probe that the kernel knows only while its event is enabled: of functions by ftrace, or of a
//! tracepoint.
//!
//! The kernel traces such a function from the registration on, whether the probe is disabled or not;
//! and what the command names is looked for each time anew, for a module may bring it.
//!
//! C: `__register_trace_fprobe()` in `kernel/trace/trace_fprobe.c`.

use core::pin::Pin;

use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use ktrace::fprobe::Fprobe;
use ktrace::fprobe::Functions;
use ktrace::percpu::Counter;
use ktrace::security;
use ktrace::trace_event::Sink;
use ktrace::tracepoint::Tracepoint;
use probe::command::Kind;

use crate::commands;
use crate::recorder::AtEntry;
use crate::recorder::AtExit;
use crate::recorder::Keeper;
use crate::recorder::Recorder;
use crate::recorder::Room;
use crate::recorder::FEW;
use crate::return_probe::Kept;

/// What makes a probe when the event is enabled.
#[pin_data]
pub(crate) struct Hook {
    sink: Arc<Sink>,
    /// How many bytes the fields take, without strings.
    fixed: usize,
    /// For an event with strings.
    room: Option<Arc<Room>>,
    #[pin]
    state: Mutex<State>,
}

struct State {
    registered: Option<Registered>,
    /// What earlier registrations have counted.
    before: Counts,
}

/// How often a probe was hit, and missed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) missed: u64,
}

enum Registered {
    Entry(Fprobe<AtEntry>),
    Exit(Fprobe<AtExit>),
    Keeping(Fprobe<Keeper<FEW, false>>),
    Timed(Fprobe<Keeper<FEW, true>>),
    Tracepoint(Tracepoint<AtEntry>),
}

impl Hook {
    pub(crate) fn new(
        sink: Arc<Sink>,
        fixed: usize,
        room: Option<Arc<Room>>,
    ) -> Result<Pin<KBox<Self>>> {
        let state = State {
            registered: None,
            before: Counts::default(),
        };
        KBox::pin_init(
            pin_init!(Self {
                sink,
                fixed,
                room,
                state <- new_mutex!(state, "rkprobe::Hook"),
            }),
            GFP_KERNEL,
        )
    }

    /// Registers the probe of a command, which is in the form of the listing.
    pub(crate) fn enable(&self, command: &str) -> Result {
        security::kprobes_allowed()?;
        let compiled = commands::compile_again(command)?;
        let recorder = Recorder {
            sink: self.sink.clone(),
            hits: Counter::new()?,
            programs: compiled.programs,
            fixed: self.fixed,
            room: self.room.clone(),
            _texts: compiled.texts,
        };
        let target = &*compiled.target;
        let functions = Functions::Glob(target, None);
        let registered = match compiled.kind {
            Kind::Entry => Registered::Entry(Fprobe::register(functions, AtEntry(recorder))?),
            Kind::Exit => {
                let Kept { values, is_timed } = compiled.kept;
                match (values.len(), is_timed) {
                    (0, false) => Registered::Exit(Fprobe::register(functions, AtExit(recorder))?),
                    (_, false) => {
                        let keeper = Keeper::new(recorder, values)?;
                        Registered::Keeping(Fprobe::register(functions, keeper)?)
                    }
                    (_, true) => {
                        let keeper = Keeper::new(recorder, values)?;
                        Registered::Timed(Fprobe::register(functions, keeper)?)
                    }
                }
            }
            Kind::Tracepoint => {
                Registered::Tracepoint(Tracepoint::attach_or_wait(target, AtEntry(recorder))?)
            }
            Kind::Probe | Kind::Return => return Err(EINVAL),
        };
        self.state.lock().registered = Some(registered);
        Ok(())
    }

    /// Unregisters it, where it is registered: no handler runs after this.
    pub(crate) fn disable(&self) {
        let mut state = self.state.lock();
        let Some(registered) = state.registered.take() else {
            return;
        };
        let last = registered.unregister();
        state.before = state.before.and(last);
    }

    /// How often it was hit and missed.
    pub(crate) fn counts(&self) -> Counts {
        let state = self.state.lock();
        let now = state.registered.as_ref().map(Registered::counts);
        state.before.and(now.unwrap_or_default())
    }
}

impl Registered {
    fn counts(&self) -> Counts {
        match self {
            Self::Entry(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Exit(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Keeping(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Timed(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Tracepoint(probe) => Counts::of(probe.handler(), probe.missed()),
        }
    }

    fn unregister(self) -> Counts {
        match self {
            Self::Entry(probe) => probe.unregister(Counts::of),
            Self::Exit(probe) => probe.unregister(Counts::of),
            Self::Keeping(probe) => probe.unregister(Counts::of),
            Self::Timed(probe) => probe.unregister(Counts::of),
            Self::Tracepoint(probe) => probe.unregister(Counts::of),
        }
    }
}

impl Counts {
    fn of(handler: &impl AsRef<Recorder>, missed: u64) -> Self {
        Self {
            hits: handler.as_ref().hits.sum(),
            missed,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            hits: self.hits.wrapping_add(other.hits),
            missed: self.missed.wrapping_add(other.missed),
        }
    }
}

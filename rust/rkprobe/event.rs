// SPDX-License-Identifier: GPL-2.0

//! An event and its probes.

use core::pin::Pin;

use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use ktrace::kprobe::Kprobe;
use ktrace::trace_event::Operations;
use ktrace::trace_event::Sink;
use ktrace::trace_event::TraceEvent;
use probe::command::File;

use crate::hook::Counts;
use crate::hook::Hook;
use crate::recorder::Recorder;
use crate::return_probe::ReturnProbe;
use crate::shape::Shape;

/// A probe of either kind: registered, or to be registered when it is enabled.
pub(crate) enum Armed {
    Entry(Kprobe<Recorder>),
    Return(ReturnProbe),
    Hook(Pin<KBox<Hook>>),
}

impl Armed {
    fn counts(&self) -> Counts {
        let (recorder, missed) = match self {
            Self::Entry(probe) => (probe.handler(), probe.missed()),
            Self::Return(probe) => (probe.recorder(), probe.missed()),
            Self::Hook(hook) => return hook.counts(),
        };
        Counts {
            hits: recorder.hits.sum(),
            missed,
        }
    }

    /// `command` is that of the probe. Code that is gone cannot be armed, and need not be.
    fn enable(&self, command: &str) -> Result {
        match self {
            Self::Entry(probe) if !probe.is_gone() => probe.enable(),
            Self::Return(probe) if !probe.is_gone() => probe.enable(),
            Self::Hook(hook) => hook.enable(command),
            _ => Ok(()),
        }
    }

    fn disable(&self) {
        let result = match self {
            Self::Entry(probe) => probe.disable(),
            Self::Return(probe) => probe.disable(),
            Self::Hook(hook) => {
                hook.disable();
                Ok(())
            }
        };
        if let Err(error) = result {
            pr_warn!("a probe could not be disarmed: {:?}\n", error);
        }
    }
}

/// One probe of an event.
pub(crate) struct Probe {
    shape: Arc<Shape>,
    listing: CString,
    /// Taken out when the probe is removed.
    pub(crate) armed: Option<Armed>,
}

impl Probe {
    pub(crate) fn new(shape: Arc<Shape>, listing: CString, armed: Armed) -> Result<Arc<Self>> {
        let probe = Self {
            shape,
            listing,
            armed: Some(armed),
        };
        Ok(Arc::new(probe, GFP_KERNEL)?)
    }

    /// The name and the fields of its event.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Is it listed in this file?
    pub(crate) fn is_in(&self, file: File) -> bool {
        file == File::All || self.shape.kind().is_kprobe()
    }

    /// Its line in the files.
    pub(crate) fn listing(&self) -> &str {
        self.listing.to_str().unwrap_or("")
    }

    /// How often it was hit, and missed.
    pub(crate) fn counts(&self) -> Counts {
        self.armed.as_ref().map(Armed::counts).unwrap_or_default()
    }

    fn enable(&self) -> Result {
        let armed = self.armed.as_ref();
        armed.map_or(Ok(()), |armed| armed.enable(self.listing()))
    }

    fn disable(&self) {
        if let Some(armed) = &self.armed {
            armed.disable();
        }
    }
}

/// The probes of an event, which are armed while it is enabled.
#[pin_data]
pub(crate) struct Probes {
    #[pin]
    state: Mutex<State>,
}

struct State {
    probes: KVec<Arc<Probe>>,
    is_enabled: bool,
}

impl Probes {
    pub(crate) fn new(first: Arc<Probe>) -> Result<Arc<Self>> {
        let mut probes = KVec::with_capacity(1, GFP_KERNEL)?;
        probes.push(first, GFP_KERNEL)?;
        let state = State {
            probes,
            is_enabled: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(state, "rkprobe::Probes"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a probe, and arms it where the event is enabled.
    pub(crate) fn add(&self, probe: Arc<Probe>) -> Result {
        let mut state = self.state.lock();
        state.probes.reserve(1, GFP_KERNEL)?;
        if state.is_enabled {
            probe.enable()?;
        }
        state.probes.push(probe, GFP_KERNEL)?;
        Ok(())
    }

    /// How many of the probes `is_doomed`, and how many there are.
    pub(crate) fn count(&self, is_doomed: impl Fn(&Probe) -> bool) -> (usize, usize) {
        let state = self.state.lock();
        let doomed = state.probes.iter().filter(|probe| is_doomed(probe)).count();
        (doomed, state.probes.len())
    }

    /// Lets go of the probes that `is_doomed`.
    pub(crate) fn forget(&self, is_doomed: impl Fn(&Probe) -> bool) {
        self.state.lock().probes.retain(|probe| !is_doomed(probe));
    }

    /// Does any probe satisfy `f`?
    pub(crate) fn any(&self, f: impl Fn(&Probe) -> bool) -> bool {
        self.state.lock().probes.iter().any(|probe| f(probe))
    }
}

/// What the kernel switches on and off with the event.
pub(crate) struct Switch(pub(crate) Arc<Probes>);

impl Operations for Switch {
    fn enable(&self) -> Result {
        let mut state = self.0.state.lock();
        for (index, probe) in state.probes.iter().enumerate() {
            if let Err(error) = probe.enable() {
                for armed in state.probes.iter().take(index) {
                    armed.disable();
                }
                return Err(error);
            }
        }
        state.is_enabled = true;
        Ok(())
    }

    fn disable(&self) {
        let mut state = self.0.state.lock();
        state.is_enabled = false;
        for probe in &state.probes {
            probe.disable();
        }
    }
}

/// A registered event.
pub(crate) struct Event {
    pub(crate) shape: Arc<Shape>,
    pub(crate) probes: Arc<Probes>,
    pub(crate) sink: Arc<Sink>,
    pub(crate) trace_event: TraceEvent,
}

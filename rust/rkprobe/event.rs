// SPDX-License-Identifier: GPL-2.0

//! An event and its probes.

use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use ktrace::kprobe::Kprobe;
use ktrace::trace_event::Operations;
use ktrace::trace_event::Sink;
use ktrace::trace_event::TraceEvent;

use crate::recorder::Recorder;
use crate::return_probe::ReturnProbe;
use crate::shape::Shape;

/// A registered probe of either kind.
pub(crate) enum Armed {
    Entry(Kprobe<Recorder>),
    Return(ReturnProbe),
}

impl Armed {
    fn recorder(&self) -> &Recorder {
        match self {
            Self::Entry(probe) => probe.handler(),
            Self::Return(probe) => probe.recorder(),
        }
    }

    /// Code that is gone cannot be armed, and need not be.
    fn enable(&self) -> Result {
        match self {
            Self::Entry(probe) if !probe.is_gone() => probe.enable(),
            Self::Return(probe) if !probe.is_gone() => probe.enable(),
            _ => Ok(()),
        }
    }

    fn disable(&self) {
        let result = match self {
            Self::Entry(probe) => probe.disable(),
            Self::Return(probe) => probe.disable(),
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

    /// Its line in `rkprobe_events`.
    pub(crate) fn listing(&self) -> &str {
        self.listing.to_str().unwrap_or("")
    }

    /// How often it was hit.
    pub(crate) fn hits(&self) -> u64 {
        self.armed
            .as_ref()
            .map_or(0, |armed| armed.recorder().hits.sum())
    }

    /// How often it was missed.
    pub(crate) fn missed(&self) -> u64 {
        match &self.armed {
            Some(Armed::Entry(probe)) => probe.missed(),
            Some(Armed::Return(probe)) => probe.missed(),
            None => 0,
        }
    }

    fn enable(&self) -> Result {
        self.armed.as_ref().map_or(Ok(()), Armed::enable)
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

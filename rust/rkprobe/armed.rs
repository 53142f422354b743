// SPDX-License-Identifier: GPL-2.0

//! Probes that the kernel knows, and how many of them are unregistered together.

use kernel::prelude::*;

use ktrace::kprobe::AnyKprobe;
use ktrace::kprobe::Kprobe;
use ktrace::kretinsn::Kretinsn;
use ktrace::kretprobe::AnyKretprobe;

#[cfg(CONFIG_RKPROBE_EXPORTS)]
use crate::event_probe::EventProbe;
use crate::hook::Hook;
use crate::recorder::Counts;
use crate::recorder::Recorder;
use crate::return_probe::ReturnProbe;

/// A probe that the kernel knows.
pub(crate) enum Armed {
    Entry(Kprobe<Recorder>),
    Return(ReturnProbe),
    ReturnInsn(Kretinsn<Recorder>),
    Hook(Hook),
    #[cfg(CONFIG_RKPROBE_EXPORTS)]
    Event(EventProbe),
}

impl Armed {
    pub(crate) fn counts(&self) -> Counts {
        match self {
            Self::Entry(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Return(probe) => Counts::of(probe.recorder(), probe.missed()),
            Self::ReturnInsn(probe) => Counts::of(probe.handler(), probe.missed()),
            Self::Hook(hook) => hook.counts(),
            #[cfg(CONFIG_RKPROBE_EXPORTS)]
            Self::Event(probe) => Counts::of(probe.handler(), probe.missed()),
        }
    }

    /// Was the probed code unloaded? Such a probe cannot be armed, and need not be.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Entry(probe) => probe.is_gone(),
            Self::Return(probe) => probe.is_gone(),
            Self::ReturnInsn(probe) => probe.is_gone(),
            _ => false,
        }
    }

    /// Not for what is attached with `event_mutex` held.
    pub(crate) fn enable(&self) -> Result {
        match self {
            Self::Entry(probe) if !probe.is_gone() => probe.enable(),
            Self::Return(probe) if !probe.is_gone() => probe.enable(),
            Self::ReturnInsn(probe) if !probe.is_gone() => probe.enable(),
            _ => Ok(()),
        }
    }
}

/// Probes that are unregistered together: the kernel waits for an RCU grace period each time.
#[derive(Default)]
pub(crate) struct Batch {
    kprobes: KVVec<AnyKprobe>,
    kretprobes: KVVec<AnyKretprobe>,
}

impl Batch {
    /// With room for so many.
    pub(crate) fn new(probes: usize) -> Result<Self> {
        Ok(Self {
            kprobes: KVVec::with_capacity(probes, GFP_KERNEL)?,
            kretprobes: KVVec::with_capacity(probes, GFP_KERNEL)?,
        })
    }

    /// Adds one. Without memory it is unregistered here.
    pub(crate) fn add(&mut self, armed: Armed) {
        match armed {
            Armed::Entry(probe) => {
                // Those that have many probes may have taken its room.
                let _ = self.kprobes.reserve(1, GFP_KERNEL);
                drop(self.kprobes.push_within_capacity(probe.into()));
            }
            Armed::Return(probe) => drop(self.kretprobes.push_within_capacity(probe.into_any())),
            Armed::ReturnInsn(probe) => {
                let _ = self.kprobes.reserve(probe.exits().len(), GFP_KERNEL);
                for probe in probe.into_kprobes() {
                    drop(self.kprobes.push_within_capacity(probe));
                }
            }
            // Not registered but where its event is enabled, and stays; or not attached.
            other => drop(other),
        }
    }

    /// Unregisters them: no handler runs after this.
    pub(crate) fn unregister(self) {
        if !self.kprobes.is_empty() {
            AnyKprobe::unregister_all(self.kprobes);
        }
        if !self.kretprobes.is_empty() {
            AnyKretprobe::unregister_all(self.kretprobes);
        }
    }
}

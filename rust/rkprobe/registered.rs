// SPDX-License-Identifier: GPL-2.0

//! The registration of a probe, by any mechanism of the kernel: kprobes, kretprobes, kprobes on
//! return instructions, ftrace, tracepoints, trace events, watchpoints.

use core::fmt;

use kernel::prelude::*;

use ktrace::{
    kprobe::AnyKprobe,
    kretprobe::AnyKretprobe,
    module::Module,
    trace_event::EventMutexHeld, //
};

use probe::call_tree::{
    CallInProgress,
    OpenStep, //
};

use crate::{
    action::Counts,
    compile::Programs,
    spec::Spec, //
};

/// A registered probe. Dropping it unregisters the probe. No handler runs after that.
pub(crate) trait Registered: Send + Sync {
    /// Arms the probe. The caller passes the token if the event is being enabled now. A probe that
    /// is registered only while its event is enabled is armed by its registration.
    fn enable(&mut self, _token: Option<&EventMutexHeld>) -> Result {
        Ok(())
    }

    /// Disarms the probe when its event is disabled. Handlers that run already may still be
    /// running.
    fn disable(&mut self, _token: &EventMutexHeld) -> Result {
        self.disarm()
    }

    /// Disarms a probe that stays registered while its event is disabled, such as a kprobe.
    fn disarm(&self) -> Result {
        Ok(())
    }

    /// Hits and misses of this registration.
    fn counts(&self) -> Counts;

    /// Address of the probed instruction. For a return probe, this is the first one of the
    /// function.
    fn address(&self) -> Option<usize> {
        None
    }

    /// Disarms a probe in `module`, which is being unloaded.
    fn disarm_in(&self, module: &Module) -> Result {
        match self.address() {
            Some(address) if module.contains(address) => self.disarm(),
            _ => Ok(()),
        }
    }

    /// Whether the probed code was unloaded. Such a probe cannot be armed.
    fn is_gone(&self) -> bool {
        false
    }

    /// Whether the probe cannot hit until a module is loaded.
    fn is_waiting(&self) -> bool {
        self.is_gone()
    }

    /// The thing that a part of the probe waits for.
    fn awaited(&self) -> Option<Awaited<'_>> {
        None
    }

    /// Calls `f` with the programs of each part of the probe that has a command of its own, and
    /// with this command. They are compiled again when modules come and go.
    fn each_programs(&mut self, _f: &mut dyn FnMut(&Spec, &mut Programs)) {}

    /// Calls `f` with each call in progress of a call tree, and its steps that have not returned,
    /// by their depth. `ENOMEM`.
    fn each_call(&self, _f: &mut dyn FnMut(&CallInProgress, &[OpenStep])) -> Result {
        Ok(())
    }

    /// Maximum number of calls in flight of a return probe.
    fn maxactive(&self) -> u32 {
        0
    }

    /// Moves the probe to `batch`, if the kernel can unregister several probes of its kind at once.
    /// Otherwise, and without memory, unregisters the probe.
    fn unregister_in(self: KBox<Self>, _batch: &mut UnregisterBatch) {
        drop(self);
    }

    /// Unregisters the probe. Returns the final counts of a probe that is registered only while its
    /// event is enabled.
    fn unregister(self: KBox<Self>) -> Counts {
        self.counts()
    }
}

/// The thing that a probe waits for.
pub(crate) enum Awaited<'a> {
    /// A module of this name.
    Module(&'a str),
    /// A tracepoint of this name, which a module may bring.
    Tracepoint(&'a str),
}

impl fmt::Display for Awaited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(name) => write!(f, "module {name}"),
            Self::Tracepoint(name) => write!(f, "tracepoint {name}"),
        }
    }
}

/// A registered probe in memory of its own. `ENOMEM`.
pub(crate) fn boxed(probe: impl Registered + 'static) -> Result<KBox<dyn Registered>> {
    Ok(KBox::new(probe, GFP_KERNEL)?)
}

/// The probes of one command on several functions.
impl Registered for KVec<KBox<dyn Registered>> {
    /// Arms all probes, or none.
    fn enable(&mut self, token: Option<&EventMutexHeld>) -> Result {
        for (index, probe) in self.iter_mut().enumerate() {
            if probe.is_gone() {
                continue;
            }
            if let Err(error) = probe.enable(token) {
                for enabled in self.iter_mut().take(index) {
                    if let Some(token) = token {
                        let _ = enabled.disable(token);
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn disable(&mut self, token: &EventMutexHeld) -> Result {
        let disabled = self.iter_mut().map(|probe| probe.disable(token));
        disabled.fold(Ok(()), Result::and)
    }

    fn counts(&self) -> Counts {
        let none = Counts::default();
        self.iter().fold(none, |sum, probe| sum.and(probe.counts()))
    }

    fn disarm_in(&self, module: &Module) -> Result {
        let disarmed = self.iter().map(|probe| probe.disarm_in(module));
        disarmed.fold(Ok(()), Result::and)
    }

    fn is_gone(&self) -> bool {
        self.iter().all(|probe| probe.is_gone())
    }

    fn maxactive(&self) -> u32 {
        self.iter()
            .map(|probe| probe.maxactive())
            .max()
            .unwrap_or(0)
    }

    fn unregister_in(self: KBox<Self>, batch: &mut UnregisterBatch) {
        let probes = KBox::into_inner(self);
        // The batch has capacity for one probe of each command.
        let _ = batch.kprobes.reserve(probes.len(), GFP_KERNEL);
        let _ = batch.kretprobes.reserve(probes.len(), GFP_KERNEL);
        for probe in probes {
            probe.unregister_in(batch);
        }
    }

    fn unregister(self: KBox<Self>) -> Counts {
        let none = Counts::default();
        let probes = KBox::into_inner(self).into_iter();
        probes.fold(none, |sum, probe| sum.and(probe.unregister()))
    }
}

/// Probes that are unregistered together. The kernel waits for one RCU grace period for all of
/// them.
#[derive(Default)]
pub(crate) struct UnregisterBatch {
    pub(crate) kprobes: KVVec<AnyKprobe>,
    pub(crate) kretprobes: KVVec<AnyKretprobe>,
}

impl UnregisterBatch {
    /// Creates a batch with capacity for `probes`. `ENOMEM`.
    pub(crate) fn new(probes: usize) -> Result<Self> {
        Ok(Self {
            kprobes: KVVec::with_capacity(probes, GFP_KERNEL)?,
            kretprobes: KVVec::with_capacity(probes, GFP_KERNEL)?,
        })
    }

    /// Unregisters the probes. No handler of theirs runs after this.
    pub(crate) fn unregister(self) {
        if !self.kprobes.is_empty() {
            AnyKprobe::unregister_all(self.kprobes);
        }
        if !self.kretprobes.is_empty() {
            AnyKretprobe::unregister_all(self.kretprobes);
        }
    }
}

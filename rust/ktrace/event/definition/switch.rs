// SPDX-License-Identifier: GPL-2.0

//! The parts of a module that are active while an event has users.

use kernel::prelude::*;

use crate::{
    event::mutex::EventMutexHeld,
    probes::{
        kprobe::{
            self,
            Kprobe, //
        },
        kretinsn::{
            self,
            Kretinsn, //
        },
        kretprobe::{
            self,
            Kretprobe, //
        },
    },
    thread::OnDemand, //
};

/// A part of a module that is active only while an event has users.
///
/// Probes implement this trait: [`Kprobe`](crate::kprobe::Kprobe),
/// [`Kretprobe`](crate::kretprobe::Kretprobe) and [`Kretinsn`](crate::kretinsn::Kretinsn). The
/// event owns the probe. Dropping the event drops the probe.
pub trait Switch: Send + Sync + 'static {
    /// Called for the first user. Process context, with `event_mutex` held. If this function fails,
    /// it must leave nothing enabled. The user gets the error.
    fn enable(&self, token: &EventMutexHeld) -> Result;

    /// Called after the last user. Process context, with `event_mutex` held.
    fn disable(&self, token: &EventMutexHeld);
}

/// An event without a switch.
impl Switch for () {
    fn enable(&self, _: &EventMutexHeld) -> Result {
        Ok(())
    }

    fn disable(&self, _: &EventMutexHeld) {}
}

/// Uses the switch in the box.
impl<S: Switch + ?Sized> Switch for Pin<KBox<S>> {
    fn enable(&self, token: &EventMutexHeld) -> Result {
        (**self).enable(token)
    }

    fn disable(&self, token: &EventMutexHeld) {
        (**self).disable(token);
    }
}

/// The probe is armed while its event has users.
impl<H: kprobe::Handler> Switch for Kprobe<H> {
    fn enable(&self, _: &EventMutexHeld) -> Result {
        self.enable()
    }

    fn disable(&self, _: &EventMutexHeld) {
        let _ = self.disable();
    }
}

/// The probe is armed while its event has users.
impl<H: kretprobe::Handler> Switch for Kretprobe<H> {
    fn enable(&self, _: &EventMutexHeld) -> Result {
        self.enable()
    }

    fn disable(&self, _: &EventMutexHeld) {
        let _ = self.disable();
    }
}

/// The probe is armed while its event has users.
impl<H: kretinsn::Handler> Switch for Kretinsn<H> {
    fn enable(&self, _: &EventMutexHeld) -> Result {
        self.enable()
    }

    fn disable(&self, _: &EventMutexHeld) {
        let _ = self.disable();
    }
}

/// The threads run while their event has users.
impl Switch for OnDemand {
    fn enable(&self, _: &EventMutexHeld) -> Result {
        self.start()
    }

    fn disable(&self, _: &EventMutexHeld) {
        self.stop();
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The perf events of a watchpoint.

use core::ptr;

use kernel::{
    bindings,
    cpu::nr_cpu_ids,
    ffi::{
        c_uint,
        c_void, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use crate::hit::atomic::read_once;

/// The event of each CPU, or NULL.
pub(super) struct Events(KVVec<Atomic<*mut c_void>>);

impl Events {
    /// Creates the list without events. Process context. `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let mut events = KVVec::with_capacity(nr_cpu_ids() as usize, GFP_KERNEL)?;
        for _ in 0..nr_cpu_ids() {
            events.push(Atomic::new(ptr::null_mut()), GFP_KERNEL)?;
        }
        Ok(Self(events))
    }

    /// Sets the event of a CPU. Any context.
    pub(super) fn set(&self, cpu: c_uint, event: *mut c_void) {
        if let Some(place) = self.0.get(cpu as usize) {
            place.store(event, Relaxed);
        }
    }

    /// Removes and returns the event of a CPU. Any context.
    pub(super) fn take(&self, cpu: c_uint) -> *mut c_void {
        match self.0.get(cpu as usize) {
            Some(place) => place.xchg(ptr::null_mut(), Relaxed),
            None => ptr::null_mut(),
        }
    }

    /// The event of this CPU. Preemption should be disabled.
    #[inline(always)]
    pub(super) fn here(&self) -> *mut c_void {
        // SAFETY: The function has no requirements.
        let cpu = unsafe { bindings::raw_smp_processor_id() };
        match self.0.get(cpu as usize) {
            Some(place) => read_once(place),
            None => ptr::null_mut(),
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The perf events of a watchpoint.

use core::{
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings,
    cpu::nr_cpu_ids,
    ffi::{
        c_uint,
        c_void, //
    },
    prelude::*, //
};

/// The event of each CPU, or NULL.
pub(super) struct Events(KVVec<AtomicPtr<c_void>>);

impl Events {
    /// Creates the list without events. Process context. `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let mut events = KVVec::with_capacity(nr_cpu_ids() as usize, GFP_KERNEL)?;
        for _ in 0..nr_cpu_ids() {
            events.push(AtomicPtr::new(ptr::null_mut()), GFP_KERNEL)?;
        }
        Ok(Self(events))
    }

    /// Sets the event of a CPU. Any context.
    pub(super) fn set(&self, cpu: c_uint, event: *mut c_void) {
        if let Some(place) = self.0.get(cpu as usize) {
            place.store(event, Ordering::Relaxed);
        }
    }

    /// Removes and returns the event of a CPU. Any context.
    pub(super) fn take(&self, cpu: c_uint) -> *mut c_void {
        match self.0.get(cpu as usize) {
            Some(place) => place.swap(ptr::null_mut(), Ordering::Relaxed),
            None => ptr::null_mut(),
        }
    }

    /// The event of this CPU. Preemption should be disabled.
    #[inline(always)]
    pub(super) fn here(&self) -> *mut c_void {
        // SAFETY: The function has no requirements.
        let cpu = unsafe { bindings::raw_smp_processor_id() };
        match self.0.get(cpu as usize) {
            Some(place) => place.load(Ordering::Relaxed),
            None => ptr::null_mut(),
        }
    }
}

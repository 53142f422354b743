// SPDX-License-Identifier: GPL-2.0

//! The accesses that ftrace reports.
//!
//! arm64 reports an access before it happens. The kernel steps over the access only if the perf
//! event has the handler of perf itself. But for each access, the kernel first calls
//! `perf_bp_event()` with the event and the registers. So on arm64 the event only counts, and a
//! handler of ftrace at the entry of this function finds the watchpoint of the event.
//!
//! A kprobe would not do. The debug exception of an access in another kprobe's handler would then
//! hit a kprobe, which the kernel does not survive everywhere.

use core::{
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings::pt_regs,
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

use crate::{
    ftrace::{
        self,
        Filter,
        FtraceOps,
        Handler, //
    },
    function::Call,
    symbol,
    unsupported::unsupported, //
};

use super::events::Events;

/// The function that the kernel calls for each access.
const REPORT: &CStr = c"perf_bp_event";

/// Calls the watchpoint for its registers. See [`start`].
type CallWatch = unsafe fn(*mut c_void, *mut pt_regs);

/// The reports for the watchpoint with these events.
pub(super) struct Reports {
    events: Arc<Events>,
    call: CallWatch,
    watch: AtomicPtr<c_void>,
}

/// Receives the reports for these events. `call` gets the pointer of [`Reports::set`], valid
/// registers, and has preemption disabled.
///
/// Process context; sleeps. `ENOMEM`, and `EOPNOTSUPP` if this kernel has no such reports.
pub(super) fn start(events: Arc<Events>, call: CallWatch) -> Result<FtraceOps<Reports>> {
    let reports = Reports {
        events,
        call,
        watch: AtomicPtr::new(ptr::null_mut()),
    };
    FtraceOps::new(Filter::Addresses(&[place()?]), reports).map_err(or_unsupported)
}

/// Checks that this kernel has reports. Fails as [`start`].
pub(super) fn check() -> Result {
    match ftrace::is_traceable(place()?)? {
        true => Ok(()),
        false => Err(unsupported()),
    }
}

fn place() -> Result<usize> {
    symbol::address_of(REPORT).map_err(or_unsupported)
}

fn or_unsupported(error: Error) -> Error {
    match error {
        ENOMEM => error,
        _ => unsupported(),
    }
}

impl Reports {
    /// Sets the watchpoint, before it has an event.
    ///
    /// # Safety
    ///
    /// `call` may be called with this pointer while there is an event.
    pub(super) unsafe fn set(&self, watch: *mut c_void) {
        self.watch.store(watch, Ordering::Relaxed);
    }
}

impl Handler for Reports {
    #[inline(always)]
    fn entry(&self, call: &Call<'_>) {
        let event: usize = call.arg(0);
        if event != self.events.here().addr() {
            return;
        }
        let regs: usize = call.arg(1);
        // SAFETY: The function is `perf_bp_event()`, which gets the event and the registers. The
        // event is that of the watchpoint on this CPU, and it was made after `set`, whose caller
        // guarantees the rest. The debug exception disables preemption.
        unsafe { (self.call)(self.watch.load(Ordering::Relaxed), regs as *mut pt_regs) };
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The reports of accesses by a probe at the entry of a function.
//!
//! arm64 reports an access before the access happens. The kernel steps over the access only if the
//! perf event has perf's own handler. But for each access, the kernel calls `perf_bp_event()` with
//! the event and the registers. So on arm64, the event only counts, and an fprobe at the entry of
//! this function finds the watchpoint of the event.
//!
//! A kprobe cannot replace the fprobe. The debug exception of an access in another kprobe's handler
//! would hit this kprobe, and arm64 then ends in `BUG()`. Neither can an `ftrace_ops` of its own,
//! because to unregister it takes a grace period of RCU tasks: see `fprobe/sites.rs`.

use core::ptr;

use kernel::{
    bindings::pt_regs,
    ffi::c_void,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

use crate::{
    hit::{
        atomic::read_once,
        function::Call, //
    },
    probes::{
        fprobe::{
            Fprobe,
            Functions,
            Handler, //
        },
        ftrace, //
    },
    support::unsupported,
    symbols::symbol, //
};

use super::events::Events;

/// The function that the kernel calls for each access.
const REPORT: &CStr = c"perf_bp_event";

/// Calls the handler of a watchpoint with the registers. See [`start`].
type CallWatch = unsafe fn(*mut c_void, *mut pt_regs);

/// The reports of accesses to one watchpoint.
pub(super) struct Reports {
    events: Arc<Events>,
    call: CallWatch,
    watch: Atomic<*mut c_void>,
}

/// Starts the reports for these events. `call` gets the pointer from [`Reports::set`] and valid
/// registers. It runs with preemption disabled.
///
/// Process context; sleeps. `ENOMEM`, and `EOPNOTSUPP` if ftrace cannot trace the function.
pub(super) fn start(events: Arc<Events>, call: CallWatch) -> Result<Fprobe<Reports>> {
    let reports = Reports {
        events,
        call,
        watch: Atomic::new(ptr::null_mut()),
    };
    Fprobe::new(Functions::Addresses(&[place()?]), reports).map_err(or_unsupported)
}

/// Checks that ftrace can trace the function. Fails as [`start`].
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
    /// Sets the pointer to the watchpoint, before the watchpoint has an event.
    ///
    /// # Safety
    ///
    /// While the watchpoint has an event, any CPU may call `call` with this pointer.
    pub(super) unsafe fn set(&self, watch: *mut c_void) {
        self.watch.store(watch, Relaxed);
    }
}

#[vtable]
impl Handler for Reports {
    type Data = ();

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<()> {
        let event: usize = call.arg(0);
        if event != self.events.here().addr() {
            return None;
        }
        let regs: usize = call.arg(1);
        // SAFETY: The function is `perf_bp_event()`. Its arguments are the event and the registers.
        // The event is that of the watchpoint on this CPU, and was created after `set`. The caller
        // of `set` guarantees that the pointer is valid. The debug exception disables preemption.
        unsafe { (self.call)(read_once(&self.watch), regs as *mut pt_regs) };
        None
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The part of a watchpoint that C uses, with an event for each CPU.

use core::ptr;

use kernel::{
    bindings::{
        self,
        pt_regs, //
    },
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_int,
        c_uint,
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque, //
};

use crate::{
    arch,
    hit::percpu::Counter,
    probes::fprobe::Fprobe,
    support::unsupported, //
};

use super::{
    access::Access,
    events::Events,
    guard::Guard,
    known::{
        self,
        with_known, //
    },
    reports::{
        self,
        Reports, //
    },
    target::{
        slots,
        Target, //
    },
};

/// The part of a watchpoint that C uses. It must not move.
#[repr(C)]
pub(super) struct Raw {
    /// The callback. In `watchpoint.c`, this structure is `struct ktrace_watch`.
    hit: unsafe extern "C" fn(*mut Raw, *mut pt_regs),
    /// In the kernel's list while `is_armed` is set.
    node: Opaque<bindings::hlist_node>,
    pub(super) target: Target,
    len: c_ulong,
    /// Whether [`arm`](Raw::arm) runs. An error on a CPU then makes the registration fail.
    is_arming: Atomic<bool>,
    is_armed: AtomicFlag,
    pub(super) guard: Guard,
    pub(super) missed: Counter,
    /// The kernel's calls for CPUs change the events. The kernel makes one call at a time.
    events: Arc<Events>,
    /// The reports by an fprobe, if the events themselves do not call `hit`.
    pub(super) reports: Option<Fprobe<Reports>>,
}

// C only passes on the pointers to `Raw`, and reads its first field.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_setup_watch_state(
        startup: unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int,
        teardown: unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int,
    ) -> c_int;
    fn ktrace_remove_watch_state(state: c_int);
    fn ktrace_watch_on_cpu(
        cpu: c_uint,
        address: c_ulong,
        len: c_ulong,
        access: c_uint,
        watch: *const Raw,
    ) -> *mut c_void;
    fn ktrace_unwatch(event: *mut c_void);
    fn ktrace_per_cpu_ptr(area: *mut c_void, cpu: c_uint) -> *mut c_void;
}

/// The number of the hotplug state with the watchpoints, or an error. 0 if no watchpoint is
/// possible.
static STATE: Atomic<i32> = Atomic::new(0);

/// Sets up the hotplug state. Without memory, only watchpoints cannot be registered.
///
/// # Safety
///
/// The caller must call this function once, before any other use of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe { known::init() };
    if slots(Access::Write) == 0 {
        return;
    }
    // SAFETY: `exit` removes the state before the functions are unloaded.
    let state = unsafe { ktrace_setup_watch_state(cpu_online, cpu_offline) };
    STATE.store(state, Relaxed);
}

/// Removes the hotplug state. No watchpoint may be registered any more.
pub(crate) fn exit() {
    let state = STATE.load(Relaxed);
    if state > 0 {
        // SAFETY: `init` has set up the state, and no watchpoint is in it.
        unsafe { ktrace_remove_watch_state(state) };
    }
    known::exit();
}

/// The number of [`STATE`].
fn state() -> Result<bindings::cpuhp_state> {
    match STATE.load(Relaxed) {
        0 => Err(unsupported()),
        error @ ..0 => Err(Error::from_errno(error)),
        state => Ok(state),
    }
}

impl Raw {
    /// Creates a watchpoint that is not armed yet.
    pub(super) fn new(
        target: Target,
        hit: unsafe extern "C" fn(*mut Self, *mut pt_regs),
    ) -> Result<Self> {
        let len = target.checked_len()?;
        let guard = with_known(|known| known.guard)?;
        let events = Arc::new(Events::new()?, GFP_KERNEL)?;
        let reports = match arch::WATCHES_BY_FTRACE {
            true => Some(reports::start(events.clone(), call_hit)?),
            false => None,
        };
        Ok(Self {
            hit,
            node: Opaque::zeroed(),
            target,
            len,
            is_arming: Atomic::new(true),
            is_armed: AtomicFlag::new(false),
            guard,
            missed: Counter::new()?,
            events,
            reports,
        })
    }

    /// Arms the watchpoint on all online CPUs. On an error, arms it on none.
    ///
    /// # Safety
    ///
    /// The caller must call this function only once. The watchpoint must not move or be freed until
    /// it is [disarmed](Self::disarm).
    pub(super) unsafe fn arm(&self) -> Result {
        if let Some(reports) = &self.reports {
            // SAFETY: `call_hit` takes a `Raw`. The caller guarantees that this `Raw` lives until
            // it is disarmed, which releases the events.
            unsafe { reports.handler().set(ptr::from_ref(self).cast_mut().cast()) };
        }
        // SAFETY: The caller guarantees that the node does not move. It is in no list yet.
        to_result(unsafe {
            bindings::__cpuhp_state_add_instance(state()?, self.node.get(), true)
        })?;
        self.is_arming.store(false, Relaxed);
        self.is_armed.store(true, Relaxed);
        Ok(())
    }

    /// Disarms the watchpoint, if it is armed. When the function returns, no handler runs any more.
    pub(super) fn disarm(&self) {
        let Ok(state) = state() else {
            return;
        };
        if self.is_armed.xchg(false, Relaxed) {
            // SAFETY: The watchpoint was armed, and only this call removes its node.
            let _ =
                unsafe { bindings::__cpuhp_state_remove_instance(state, self.node.get(), true) };
        }
    }

    /// Creates the event of a CPU.
    ///
    /// # Safety
    ///
    /// The caller must be the kernel's call for this CPU. The watchpoint must live until `stop`.
    unsafe fn start(&self, cpu: c_uint) -> Result {
        let mut address = self.target.address;
        if self.target.is_per_cpu {
            // SAFETY: The function computes an address, and reads no memory at this address.
            address = unsafe { ktrace_per_cpu_ptr(address as *mut c_void, cpu) }.addr();
        }
        // SAFETY: The caller guarantees that the watchpoint lives until the event is released.
        let new = from_err_ptr(unsafe {
            ktrace_watch_on_cpu(cpu, address, self.len, self.target.access.raw(), self)
        })?;
        self.events.set(cpu, new);
        Ok(())
    }

    /// Releases the event of a CPU.
    ///
    /// # Safety
    ///
    /// The caller must be the kernel's call for this CPU.
    unsafe fn stop(&self, cpu: c_uint) {
        let event = self.events.take(cpu);
        if !event.is_null() {
            // SAFETY: `start` has created the event, and no other code has it any more. The kernel
            // makes these calls while the CPU is online.
            unsafe { ktrace_unwatch(event) };
        }
    }
}

/// Returns the watchpoint of a node.
///
/// # Safety
///
/// `node` must be the node of a [`Raw`] that lives for `'a`.
unsafe fn raw_of<'a>(node: *mut bindings::hlist_node) -> &'a Raw {
    // SAFETY: The caller guarantees that the node is the field of a `Raw`.
    unsafe { &*kernel::container_of!(Opaque::cast_from(node), Raw, node) }
}

/// When a watchpoint is armed, the kernel calls this function for each online CPU. Later it calls
/// this function for each CPU that comes online, and an error would keep this CPU offline.
///
/// # Safety
///
/// `node` must be the node of a [`Raw`] that is being armed, or is armed.
unsafe extern "C" fn cpu_online(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    // SAFETY: The kernel passes a node that `arm` has added, and disarming waits for this call.
    let raw = unsafe { raw_of(node) };
    // SAFETY: The kernel makes this call for the CPU. It calls `cpu_offline` before it removes the
    // node.
    match unsafe { raw.start(cpu) } {
        Ok(()) => 0,
        Err(error) if raw.is_arming.load(Relaxed) => error.to_errno(),
        Err(error) => {
            pr_warn!("CPU {cpu} came online without a watchpoint: {error:?}\n");
            0
        }
    }
}

/// The kernel calls this function for each CPU that goes offline. When a watchpoint is disarmed, it
/// calls this function for each online CPU.
///
/// # Safety
///
/// `node` must be the node of an armed [`Raw`].
unsafe extern "C" fn cpu_offline(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    // SAFETY: The kernel passes a node that `arm` has added, and makes this call for the CPU.
    unsafe { raw_of(node).stop(cpu) };
    0
}

/// [`reports`] calls this function at an access that the fprobe reports.
///
/// # Safety
///
/// `raw` must be a [`Raw`] that is being armed, or is armed. `regs` must be valid. Preemption must
/// be disabled.
#[link_section = ".kprobes.text"]
unsafe fn call_hit(raw: *mut c_void, regs: *mut pt_regs) {
    let raw = raw.cast::<Raw>();
    // SAFETY: The caller guarantees that this is a `Raw`. It is in a `PinnedWatch` with a handler
    // of the type for which `Watchpoint::new` has set the function.
    unsafe { ((*raw).hit)(raw, regs) };
}

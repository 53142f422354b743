// SPDX-License-Identifier: GPL-2.0

//! A handler for accesses to memory, by the processor's breakpoint registers.
//!
//! C header: [`include/linux/hw_breakpoint.h`](srctree/include/linux/hw_breakpoint.h)
//!
//! A watchpoint takes a register of each CPU. CPUs that come online later get it, too; if such a
//! CPU has no free register, the kernel's log says so. `register_wide_hw_breakpoint()` does
//! neither, so this uses what it consists of.
//!
//! arm64 reports an access before it happens, and steps over it only for the handler of perf
//! itself. There, ftrace calls the handler of a watchpoint: see [`reports`].

use core::{
    mem::ManuallyDrop,
    pin::Pin,
    ptr,
    sync::atomic::{
        AtomicBool,
        AtomicI32,
        Ordering, //
    },
};

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
    sync::Arc,
    types::Opaque, //
};

use crate::{
    arch,
    ftrace::FtraceOps,
    kprobe,
    leftover,
    pointers::impl_for_pointers,
    registers::Registers,
    trace_event::{
        origin,
        Origin,
        State, //
    },
    unsupported::unsupported, //
};

mod events;
mod reports;
mod target;

use events::Events;
use reports::Reports;

pub use target::{
    slots,
    Access,
    Target, //
};

/// The handler of accesses.
pub trait Handler: Send + Sync + 'static {
    /// Called in the debug exception, which is atomic context as in an NMI: see [`crate::context`].
    ///
    /// On x86-64, a read or write has happened, and the instruction pointer is behind its
    /// instruction. On arm64, it happens when this returns, and the instruction pointer is at its
    /// instruction. An interrupt at this moment makes the access hit once more. An instruction that
    /// is watched has not run yet.
    ///
    /// While this runs, no watchpoint hits on this CPU. Nor does one in user space, or on x86-64 in
    /// an NMI.
    fn hit(&self, hit: &Hit<'_>);
}

impl_for_pointers! {
    #[inline(always)]
    fn hit(&self, hit: &Hit<'_>) {
        (**self).hit(hit);
    }
}

/// One access.
#[derive(Clone, Copy)]
pub struct Hit<'a>(kprobe::Hit<'a>);

impl<'a> Hit<'a> {
    /// The registers. For the instruction pointer, see [`Handler::hit`].
    #[inline(always)]
    pub fn registers(&self) -> &'a Registers {
        self.0.registers()
    }

    /// The address that is watched on this CPU.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.0.address()
    }
}

impl<'a> Origin for Hit<'a> {
    #[inline(always)]
    fn state(&self) -> State<&'a Registers> {
        self.0.state()
    }
}

impl<'a> origin::Sealed for Hit<'a> {
    type Registers = &'a Registers;

    const NEEDS_ROOM: bool = false;

    #[inline(always)]
    fn whole(&self) -> *mut pt_regs {
        self.0.whole()
    }

    /// # Safety
    ///
    /// The requirements of the trait.
    #[inline(always)]
    unsafe fn for_perf(&self, _room: *mut pt_regs) -> *mut pt_regs {
        self.registers().as_ptr()
    }
}

/// The part that C uses. It must not move.
#[repr(C)]
struct Raw {
    /// The callback. In `watchpoint.c`, this structure is `struct ktrace_watch`.
    hit: unsafe extern "C" fn(*mut Raw, *mut pt_regs),
    /// In the kernel's list while `is_armed`.
    node: Opaque<bindings::hlist_node>,
    target: Target,
    len: c_ulong,
    /// Whether [`arm`](Raw::arm) runs: then an error on a CPU is one of the registration.
    is_arming: AtomicBool,
    is_armed: AtomicBool,
    /// The kernel's calls for CPUs change them, one at a time.
    events: Arc<Events>,
    /// What calls `hit`, if the event does not.
    reports: Option<FtraceOps<Reports>>,
}

/// A handler with what the kernel knows.
#[repr(C)]
#[pin_data]
struct PinnedWatch<H> {
    raw: Raw,
    #[pin]
    handler: H,
}

/// A handler for the accesses to some memory, until it is dropped.
///
/// Dropping waits until the handler does not run any more: process context.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     percpu::Counter,
///     watchpoint::{
///         Access,
///         Handler,
///         Hit,
///         Target,
///         Watchpoint, //
///     },
/// };
///
/// struct Accesses(Counter);
///
/// impl Handler for Accesses {
///     fn hit(&self, _: &Hit<'_>) {
///         self.0.increment();
///     }
/// }
///
/// let watched = KBox::new(0u64, GFP_KERNEL)?;
/// let target = Target {
///     address: (&raw const *watched).addr(),
///     is_per_cpu: false,
///     len: 8,
///     access: Access::Write,
/// };
/// let watchpoint = Watchpoint::new(target, Accesses(Counter::new()?))?;
/// pr_info!("{} writes\n", watchpoint.handler().0.sum());
/// # Ok::<(), Error>(())
/// ```
pub struct Watchpoint<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<PinnedWatch<H>>>>,
}

// SAFETY: Any task may arm, disarm and free it, and `H` is `Send`.
unsafe impl<H: Handler> Send for Watchpoint<H> {}
// SAFETY: `disarm` acts once, whoever calls it, and `H` is `Sync`.
unsafe impl<H: Handler> Sync for Watchpoint<H> {}

// The events are those of C.
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

/// The state of CPUs in which watchpoints are armed, or an error.
static STATE: AtomicI32 = AtomicI32::new(0);

/// Without memory, watchpoints cannot be registered; everything else works.
///
/// # Safety
///
/// Must be called once, before anything else here.
pub(crate) unsafe fn init() {
    if slots(Access::Write) == 0 {
        return;
    }
    // SAFETY: `exit` removes the state before the functions go.
    let state = unsafe { ktrace_setup_watch_state(cpu_online, cpu_offline) };
    STATE.store(state, Ordering::Relaxed);
}

/// Must be called when no watchpoint is registered any more.
pub(crate) fn exit() {
    let state = STATE.load(Ordering::Relaxed);
    if state > 0 {
        // SAFETY: `init` has set it up, and there are no watchpoints in it.
        unsafe { ktrace_remove_watch_state(state) };
    }
}

/// The number of [`STATE`].
fn state() -> Result<bindings::cpuhp_state> {
    match STATE.load(Ordering::Relaxed) {
        0 => Err(unsupported()),
        error @ ..0 => Err(Error::from_errno(error)),
        state => Ok(state),
    }
}

impl<H: Handler> Watchpoint<H> {
    /// Watches some memory from now on, on all CPUs or on none.
    ///
    /// Process context; sleeps. `EOPNOTSUPP` where there are no watchpoints, `EINVAL` for memory
    /// of user space, for a length, an alignment or an access that the processor does not have, for
    /// what the debug exception itself uses, and for the execution of an instruction that can have
    /// no kprobe; `ENOSPC` where a CPU has no free breakpoint register
    /// ([`slots`]); `ENOMEM`. C: `perf_event_create_kernel_counter()`.
    pub fn new<E>(target: Target, handler: impl PinInit<H, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        let raw = Raw::new(target, hit::<H>)?;
        let inner = KBox::try_pin_init(
            try_pin_init!(PinnedWatch {
                raw,
                handler <- handler,
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: `remove` waits until no handler runs, and takes no lock that a module notifier
        // holds; `inner` is freed after `untrack` only.
        unsafe { leftover::track(hit::<H> as *const () as usize, inner.object(), remove::<H>) }?;
        // SAFETY: It is pinned in a box, and disarmed before it is freed.
        unsafe { inner.raw.arm() }.inspect_err(|_| leftover::untrack(inner.object()))?;
        Ok(Self {
            inner: ManuallyDrop::new(inner),
        })
    }

    /// Ends the watch for good: no handler runs any more when this returns.
    ///
    /// Process context; sleeps. C: `perf_event_release_kernel()`.
    pub fn disarm(&self) {
        self.inner.raw.disarm();
    }

    /// The memory that is watched. Any context.
    pub fn target(&self) -> Target {
        self.inner.raw.target
    }

    /// The handler, which others may be running. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }
}

impl<H: Handler> Drop for Watchpoint<H> {
    fn drop(&mut self) {
        self.disarm();
        leftover::untrack(self.inner.object());
        // SAFETY: This is the end of it, and no handler runs any more.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

impl<H: Handler> PinnedWatch<H> {
    /// Its entry in the list of [`leftover`].
    fn object(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }
}

impl Raw {
    /// One that is not armed yet.
    fn new(target: Target, hit: unsafe extern "C" fn(*mut Self, *mut pt_regs)) -> Result<Self> {
        let len = target.checked_len()?;
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
            is_arming: AtomicBool::new(true),
            is_armed: AtomicBool::new(false),
            events,
            reports,
        })
    }

    /// Watches on all CPUs that are online, or on none and returns an error.
    ///
    /// # Safety
    ///
    /// Only once, and it must stay in its place until it is [disarmed](Self::disarm).
    unsafe fn arm(&self) -> Result {
        if let Some(reports) = &self.reports {
            // SAFETY: `call_hit` takes a `Raw`. The caller guarantees that this one stays until it
            // is disarmed, which releases the events.
            unsafe { reports.handler().set(ptr::from_ref(self).cast_mut().cast()) };
        }
        // SAFETY: The caller guarantees that the node stays. It is in no list yet.
        to_result(unsafe {
            bindings::__cpuhp_state_add_instance(state()?, self.node.get(), true)
        })?;
        self.is_arming.store(false, Ordering::Relaxed);
        self.is_armed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the watch, if it is armed. No handler runs any more when this returns.
    fn disarm(&self) {
        let Ok(state) = state() else {
            return;
        };
        if self.is_armed.swap(false, Ordering::Relaxed) {
            // SAFETY: It was armed, and this is the only one that takes it out.
            let _ =
                unsafe { bindings::__cpuhp_state_remove_instance(state, self.node.get(), true) };
        }
    }

    /// # Safety
    ///
    /// Only for a call of the kernel for this CPU. It must stay until `stop`.
    unsafe fn start(&self, cpu: c_uint) -> Result {
        let mut address = self.target.address;
        if self.target.is_per_cpu {
            // SAFETY: It computes an address, and does not read memory there.
            address = unsafe { ktrace_per_cpu_ptr(address as *mut c_void, cpu) }.addr();
        }
        // SAFETY: The caller guarantees that it stays until the event is released.
        let new = from_err_ptr(unsafe {
            ktrace_watch_on_cpu(cpu, address, self.len, self.target.access.raw(), self)
        })?;
        self.events.set(cpu, new);
        Ok(())
    }

    /// # Safety
    ///
    /// Only for a call of the kernel for this CPU.
    unsafe fn stop(&self, cpu: c_uint) {
        let event = self.events.take(cpu);
        if !event.is_null() {
            // SAFETY: `start` has created it, and nobody else has it any more. The kernel makes
            // these calls while the CPU is online.
            unsafe { ktrace_unwatch(event) };
        }
    }
}

/// The watchpoint of a node.
///
/// # Safety
///
/// `node` must be that of a [`Raw`] that stays for `'a`.
unsafe fn raw_of<'a>(node: *mut bindings::hlist_node) -> &'a Raw {
    // SAFETY: The caller guarantees that it is the field of a `Raw`.
    unsafe { &*kernel::container_of!(Opaque::cast_from(node), Raw, node) }
}

/// Called by the kernel for each CPU that is online when a watchpoint is armed, and for a CPU that
/// comes online later. An error of the second kind would keep the CPU offline.
///
/// # Safety
///
/// `node` must be that of a [`Raw`] that is being armed, or is armed.
unsafe extern "C" fn cpu_online(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    // SAFETY: The kernel passes a node that `arm` has given it, and disarming waits for this.
    let raw = unsafe { raw_of(node) };
    // SAFETY: The kernel makes this call for the CPU, and `cpu_offline` before the node goes.
    match unsafe { raw.start(cpu) } {
        Ok(()) => 0,
        Err(error) if raw.is_arming.load(Ordering::Relaxed) => error.to_errno(),
        Err(error) => {
            pr_warn!("CPU {cpu} came online without a watchpoint: {error:?}\n");
            0
        }
    }
}

/// Called by the kernel for each such CPU that goes offline, and when a watchpoint is disarmed.
///
/// # Safety
///
/// `node` must be that of a [`Raw`] that is armed.
unsafe extern "C" fn cpu_offline(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    // SAFETY: The kernel passes a node that `arm` has given it, and makes this call for the CPU.
    unsafe { raw_of(node).stop(cpu) };
    0
}

/// Disarms a watchpoint that its module left behind.
///
/// # Safety
///
/// `object` must be a [`PinnedWatch`] for `H`, and nobody else must use it any more.
unsafe fn remove<H: Handler>(object: *mut c_void) {
    // SAFETY: The caller guarantees that it is there, and that this is its only user. The memory
    // stays.
    let raw = unsafe { &mut (*object.cast::<PinnedWatch<H>>()).raw };
    raw.disarm();
    // The callback of ftrace is in ktrace, which does not stay for it.
    raw.reports = None;
}

/// Called at an access, where ftrace reports it.
///
/// # Safety
///
/// `raw` must be a [`Raw`] that is being armed, or is armed. `regs` must be valid, and preemption
/// disabled.
#[link_section = ".kprobes.text"]
unsafe fn call_hit(raw: *mut c_void, regs: *mut pt_regs) {
    let raw = raw.cast::<Raw>();
    // SAFETY: The caller guarantees that this is a `Raw`. `Watchpoint::new` has put it into a
    // `PinnedWatch` for the type of handler that the function is for.
    unsafe { ((*raw).hit)(raw, regs) };
}

/// Called at an access, by C or by [`call_hit`].
///
/// # Safety
///
/// `raw` must be that of a [`PinnedWatch`] for `H`, and `regs` valid; preemption is disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn hit<H: Handler>(raw: *mut Raw, regs: *mut pt_regs) {
    // SAFETY: The caller has what `start` or `arm` gave it, which is in a `PinnedWatch` for `H`.
    // Disarming waits until the CPU has left the debug exception.
    let inner = unsafe { &*kernel::container_of!(raw, PinnedWatch<H>, raw) };
    let address = inner.raw.target.here();
    // SAFETY: The debug exception disables preemption, and keeps `regs` for the time of this call.
    let hit = Hit(unsafe { kprobe::Hit::new(regs, address) });
    inner.handler.hit(&hit);
}

// SPDX-License-Identifier: GPL-2.0

//! A handler for accesses to memory. The processor's breakpoint registers detect the accesses.
//!
//! C header: [`include/linux/hw_breakpoint.h`](srctree/include/linux/hw_breakpoint.h)
//!
//! A watchpoint uses one register of each CPU, also of CPUs that come online later. If such a CPU
//! has no free register, the kernel's log reports this. `register_wide_hw_breakpoint()` supports
//! neither, so ktrace uses the functions that it consists of.
//!
//! arm64 reports an access before the access happens. It steps over the access only for perf's own
//! handler. So on arm64, ftrace calls the handler of a watchpoint: see `reports.rs`.

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
    hit::{
        percpu::Counter,
        registers::Registers, //
    },
    modules::leftover::{
        self,
        Entry,
        Kind, //
    },
    probes::{
        ftrace::FtraceOps,
        kprobe,
        pointers::impl_for_pointers, //
    },
    support::unsupported, //
};

mod entry_memory;
mod events;
mod guard;
mod reports;
mod target;

use entry_memory::EntryMemory;
use events::Events;
use guard::Guard;
use reports::Reports;

pub use entry_memory::Unwatchable;
pub use target::{
    slots,
    Access,
    Target, //
};

/// The handler of accesses.
pub trait Handler: Send + Sync + 'static {
    /// Called in the debug exception, which is atomic context as in an NMI: see [`crate::context`].
    /// A watchpoint can interrupt code that no other probe can interrupt, so the handler must not
    /// take any lock.
    ///
    /// On x86-64, a read or write has happened, and the instruction pointer is after its
    /// instruction. On arm64, the read or write happens after this function returns, and the
    /// instruction pointer is at its instruction. An interrupt at this moment makes the access hit
    /// once more. A watched instruction has not run yet.
    ///
    /// While the handler runs, no watchpoint hits on this CPU. No watchpoint hits in user space.
    /// The handler is not called in an NMI, while the kernel processes a kprobe on this CPU, and
    /// while the kernel prints trace events: see [`Watchpoint::missed`].
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

/// The part of a watchpoint that C uses. It must not move.
#[repr(C)]
struct Raw {
    /// The callback. In `watchpoint.c`, this structure is `struct ktrace_watch`.
    hit: unsafe extern "C" fn(*mut Raw, *mut pt_regs),
    /// In the kernel's list while `is_armed` is set.
    node: Opaque<bindings::hlist_node>,
    target: Target,
    len: c_ulong,
    /// Whether [`arm`](Raw::arm) runs. An error on a CPU then makes the registration fail.
    is_arming: AtomicBool,
    is_armed: AtomicBool,
    guard: Guard,
    missed: Counter,
    /// The kernel's calls for CPUs change the events. The kernel makes one call at a time.
    events: Arc<Events>,
    /// The reports by ftrace, if the events themselves do not call `hit`.
    reports: Option<FtraceOps<Reports>>,
}

/// The part to which the kernel has pointers, and the handler.
#[repr(C)]
#[pin_data]
struct PinnedWatch<H> {
    raw: Raw,
    #[pin]
    handler: H,
}

/// A registered watchpoint. Dropping it unregisters it.
///
/// Dropping waits until the handler does not run any more. Process context.
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
#[must_use = "dropping the watchpoint unregisters it"]
pub struct Watchpoint<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<PinnedWatch<H>>>>,
    entry: Entry,
}

// SAFETY: Any task may arm, disarm and free a watchpoint. `H` is `Send`.
unsafe impl<H: Handler> Send for Watchpoint<H> {}
// SAFETY: `disarm` has an effect only once, even if several tasks call it. `H` is `Sync`.
unsafe impl<H: Handler> Sync for Watchpoint<H> {}

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
static STATE: AtomicI32 = AtomicI32::new(0);

/// Sets up the hotplug state. Without memory, only watchpoints cannot be registered.
///
/// # Safety
///
/// The caller must call this function once, before any other use of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe { KNOWN.init() };
    if slots(Access::Write) == 0 {
        return;
    }
    // SAFETY: `exit` removes the state before the functions are unloaded.
    let state = unsafe { ktrace_setup_watch_state(cpu_online, cpu_offline) };
    STATE.store(state, Ordering::Relaxed);
}

/// Removes the hotplug state. No watchpoint may be registered any more.
pub(crate) fn exit() {
    let state = STATE.load(Ordering::Relaxed);
    if state > 0 {
        // SAFETY: `init` has set up the state, and no watchpoint is in it.
        unsafe { ktrace_remove_watch_state(state) };
    }
    drop(KNOWN.lock().take());
}

/// What ktrace knows of the running kernel.
struct Known {
    guard: Guard,
    entry: EntryMemory,
}

kernel::sync::global_lock! {
    // SAFETY: `init` initialises it before any other use of this file.
    unsafe(uninit) static KNOWN: Mutex<Option<Known>> = None;
}

/// Calls `f` with what ktrace knows of the running kernel. The first call finds it out.
///
/// Process context; sleeps. `ENOMEM`, and `EOPNOTSUPP` if the kernel does not know the names of its
/// variables (`CONFIG_KALLSYMS_ALL`).
fn with_known<R>(f: impl FnOnce(&Known) -> R) -> Result<R> {
    let mut known = KNOWN.lock();
    let known = match &mut *known {
        Some(known) => known,
        none => {
            let find = || {
                Ok(Known {
                    guard: Guard::find()?,
                    entry: EntryMemory::find()?,
                })
            };
            none.insert(find().map_err(|error| match error {
                ENOMEM => error,
                _ => unsupported(),
            })?)
        }
    };
    Ok(f(known))
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
    /// Registers and arms a watchpoint on all CPUs or on none.
    /// C: `perf_event_create_kernel_counter()`.
    ///
    /// Process context; sleeps. Fails with:
    ///
    /// - `EOPNOTSUPP` if the processor or the kernel supports no watchpoints, or if the kernel does
    ///   not know the names of its variables (`CONFIG_KALLSYMS_ALL`)
    /// - `EINVAL` for memory of user space and for [`Unwatchable`] memory, for a length, an
    ///   alignment or an access that the processor does not support, and for the execution of an
    ///   instruction that can have no kprobe
    /// - `ENOSPC` if a CPU has no free breakpoint register ([`slots`])
    /// - `ENOMEM`
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
        let code = hit::<H> as *const () as usize;
        // SAFETY: `remove` waits until no handler runs, and takes no lock that a module notifier
        // holds. `inner` is freed only by a task with the claim.
        let claim = unsafe { leftover::track(Kind::Other, &[code], inner.object(), remove::<H>) }?;
        // SAFETY: The watchpoint is pinned in a box, and is disarmed before it is freed.
        unsafe { inner.raw.arm() }?;
        Ok(Self {
            inner: ManuallyDrop::new(inner),
            entry: claim.keep(),
        })
    }

    /// Disarms the watchpoint permanently. When this function returns, no handler runs any more.
    ///
    /// Process context; sleeps. C: `perf_event_release_kernel()`.
    pub fn disarm(&self) {
        self.inner.raw.disarm();
    }

    /// The number of hits without a call of the handler, because the handler must not run there:
    ///
    /// - in an NMI. On x86-64, watchpoints do not hit in NMIs.
    /// - while the kernel processes a kprobe on this CPU
    /// - while the kernel prints trace events (`kernel.tracepoint_printk`)
    ///
    /// Any context.
    pub fn missed(&self) -> u64 {
        self.inner.raw.missed.sum()
    }

    /// The watched memory. Any context.
    pub fn target(&self) -> Target {
        self.inner.raw.target
    }

    /// The handler. Other CPUs may run it at the same time. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }
}

impl<H: Handler> Drop for Watchpoint<H> {
    fn drop(&mut self) {
        let Some(_claim) = self.entry.claim() else {
            return;
        };
        self.disarm();
        // SAFETY: `self` is not used after `drop`, and no handler runs any more.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

impl<H: Handler> PinnedWatch<H> {
    /// The argument for [`remove`].
    fn object(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }
}

impl Raw {
    /// Creates a watchpoint that is not armed yet.
    fn new(target: Target, hit: unsafe extern "C" fn(*mut Self, *mut pt_regs)) -> Result<Self> {
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
            is_arming: AtomicBool::new(true),
            is_armed: AtomicBool::new(false),
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
    unsafe fn arm(&self) -> Result {
        if let Some(reports) = &self.reports {
            // SAFETY: `call_hit` takes a `Raw`. The caller guarantees that this `Raw` lives until
            // it is disarmed, which releases the events.
            unsafe { reports.handler().set(ptr::from_ref(self).cast_mut().cast()) };
        }
        // SAFETY: The caller guarantees that the node does not move. It is in no list yet.
        to_result(unsafe {
            bindings::__cpuhp_state_add_instance(state()?, self.node.get(), true)
        })?;
        self.is_arming.store(false, Ordering::Relaxed);
        self.is_armed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Disarms the watchpoint, if it is armed. When the function returns, no handler runs any more.
    fn disarm(&self) {
        let Ok(state) = state() else {
            return;
        };
        if self.is_armed.swap(false, Ordering::Relaxed) {
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
        Err(error) if raw.is_arming.load(Ordering::Relaxed) => error.to_errno(),
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

/// Disarms a watchpoint that its module left registered.
///
/// # Safety
///
/// `object` must be a [`PinnedWatch`] for `H`. Only the caller may free it or its reports.
unsafe fn remove<H: Handler>(object: *mut c_void) {
    // SAFETY: The caller guarantees that the watchpoint lives. Its memory is not freed.
    let raw = unsafe { &raw mut (*object.cast::<PinnedWatch<H>>()).raw };
    // SAFETY: The watchpoint lives.
    unsafe { (*raw).disarm() };
    // The callback for ftrace is in ktrace, whose module can be unloaded later.
    // SAFETY: Only `arm`, `Drop` and this function access the field. The caller guarantees that no
    // other code frees it, and `arm` is over.
    unsafe { (*raw).reports = None };
}

/// [`reports`] calls this function at an access that ftrace reports.
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

/// C or [`call_hit`] calls this function at an access.
///
/// # Safety
///
/// `raw` must be in a [`PinnedWatch`] for `H`. `regs` must be valid. Preemption must be disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn hit<H: Handler>(raw: *mut Raw, regs: *mut pt_regs) {
    // SAFETY: The caller passes the `Raw` from `start` or `arm`, which is in a `PinnedWatch` for
    // `H`. Disarming waits until the CPU has left the debug exception.
    let inner = unsafe { &*kernel::container_of!(raw, PinnedWatch<H>, raw) };
    // SAFETY: The debug exception calls this function, or calls the function that ftrace reports.
    let Some(_entered) = (unsafe { inner.raw.guard.enter() }) else {
        inner.raw.missed.increment();
        return;
    };
    let address = inner.raw.target.here();
    // SAFETY: The debug exception disables preemption. `regs` is valid during this call.
    let hit = Hit(unsafe { kprobe::Hit::new(regs, address) });
    inner.handler.hit(&hit);
}

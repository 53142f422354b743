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
//! handler. So on arm64, an fprobe calls the handler of a watchpoint: see `reports.rs`.

use core::{
    mem::ManuallyDrop,
    pin::Pin,
    ptr, //
};

use kernel::{
    bindings::pt_regs,
    ffi::c_void,
    prelude::*, //
};

use crate::{
    hit::registers::Registers,
    modules::leftover::{
        self,
        Entry,
        Kind, //
    },
    probes::{
        kprobe,
        pointers::impl_for_pointers, //
    },
};

use raw::Raw;

pub use access::Access;
pub use entry_memory::Unwatchable;
pub(crate) use raw::{
    exit,
    init, //
};
pub use target::{
    slots,
    Target, //
};

mod access;
mod entry_memory;
mod events;
mod guard;
mod known;
mod raw;
mod reports;
mod target;

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
    // The handler of the fprobe is in ktrace, whose module can be unloaded later.
    // SAFETY: Only `arm`, `Drop` and this function access the field. The caller guarantees that no
    // other code frees it, and `arm` is over.
    unsafe { (*raw).reports = None };
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
    // SAFETY: The debug exception calls this function, or the function with the fprobe.
    let Some(_entered) = (unsafe { inner.raw.guard.enter() }) else {
        inner.raw.missed.increment();
        return;
    };
    let address = inner.raw.target.here();
    // SAFETY: The debug exception disables preemption. `regs` is valid during this call.
    let hit = Hit(unsafe { kprobe::Hit::new(regs, address) });
    inner.handler.hit(&hit);
}

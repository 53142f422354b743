// SPDX-License-Identifier: GPL-2.0

//! A handler at the return of many functions: see [`crate::rethook`].

use core::{
    mem::size_of,
    pin::Pin,
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    bindings::pt_regs,
    error::from_err_ptr,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*, //
};

use crate::{
    bindings,
    kprobe::{
        self,
        Hit, //
    },
    kretprobe::{
        Call,
        Handler,
        Kretprobe, //
    },
    leftover,
    percpu::Counter,
    registration::Target,
    symbol, //
};

/// The memory that the kernel has for a call in flight.
#[repr(C)]
struct Node<D> {
    node: bindings::rethook_node,
    /// The address of the function.
    address: usize,
    data: D,
}

/// The memory for calls, and the handler of their returns.
///
/// # Invariants
///
/// `room` was allocated with this structure, which does not move, as its data, for nodes of type
/// [`Node<H::Data>`], and not freed since.
struct PinnedRethook<H: Handler> {
    room: NonNull<bindings::rethook>,
    handler: H,
    /// The number of calls for which there was no memory.
    missed: Counter,
}

// SAFETY: Any task may free the room, and `H` is `Send`.
unsafe impl<H: Handler> Send for PinnedRethook<H> {}
// SAFETY: All CPUs may use the room at the same time, and `H` is `Sync`.
unsafe impl<H: Handler> Sync for PinnedRethook<H> {}

/// Called at the entry of a function.
struct EntryHandler<H: Handler>(NonNull<PinnedRethook<H>>);

// SAFETY: It is a reference to a `PinnedRethook`, which is `Sync`.
unsafe impl<H: Handler> Send for EntryHandler<H> {}
// SAFETY: It is a reference to a `PinnedRethook`, which is `Sync`.
unsafe impl<H: Handler> Sync for EntryHandler<H> {}

/// Probes at the return of some functions: unregistered when dropped.
///
/// Dropping waits until no handler runs any more (two RCU grace periods): process context. Calls
/// that are in flight then return without one.
///
/// # Invariants
///
/// The [`EntryHandler`]s refer to `inner`.
pub struct Rethook<H: Handler> {
    /// Dropped first.
    probes: kprobe::Batch<EntryHandler<H>>,
    inner: Pin<KBox<PinnedRethook<H>>>,
}

impl<H: Handler> Rethook<H> {
    /// Places probes at functions and arms them, with room for so many calls in flight of all of
    /// them. C: `rethook_alloc()`.
    ///
    /// Process context; sleeps. Fails as [`kprobe::Kprobe::new`], and with `EINVAL` where a target
    /// is not the entry of a function, or there is room for no call.
    pub fn new<'a>(
        targets: impl IntoIterator<Item = impl Into<Target<'a>>>,
        calls: u16,
        handler: H,
    ) -> Result<Self> {
        let this = Self::register_disabled(targets, calls, handler)?;
        this.enable()?;
        Ok(this)
    }

    /// Places probes as [`new`](Self::new) does, but does not [arm](Self::enable) them.
    pub fn register_disabled<'a>(
        targets: impl IntoIterator<Item = impl Into<Target<'a>>>,
        calls: u16,
        handler: H,
    ) -> Result<Self> {
        const { Kretprobe::<H>::DATA_FITS };
        let mut inner = KBox::<PinnedRethook<H>>::new_uninit(GFP_KERNEL)?;
        let missed = Counter::new()?;
        let size = size_of::<Node<H::Data>>();
        let data = inner.as_mut_ptr();
        let room = from_err_ptr(alloc(data.cast(), return_handler::<H>, size, calls))?;
        let room = NonNull::new(room).ok_or(ENOMEM)?;
        // INVARIANT: Allocated just now.
        let inner = inner.write(PinnedRethook {
            room,
            handler,
            missed,
        });
        let code = return_handler::<H> as *const () as usize;
        // SAFETY: `remove` waits until no handler runs, and takes no lock of module notifiers. The
        // probes, which use the room, are listed after it, and so removed before it.
        unsafe { leftover::track(code, ptr::from_ref(&*inner).cast_mut().cast(), remove::<H>) }?;
        let this = NonNull::from(&*inner);
        let entries = targets
            .into_iter()
            .map(|target| (target, EntryHandler(this)));
        let this = Self {
            probes: kprobe::Batch::register_disabled(entries)?,
            inner: inner.into(),
        };
        if this.is_at_entries() {
            Ok(this)
        } else {
            Err(EINVAL)
        }
    }

    /// The kernel's own return probes are not to be at the switch of a task, either: see
    /// `arch_kretprobe_blacklist`.
    fn is_at_entries(&self) -> bool {
        let mut buffer = [0; symbol::LEN];
        self.probes.probes().iter().all(|probe| {
            symbol::is_entry(probe.address()) == Some(true)
                && symbol::format(probe.address(), false, &mut buffer) != b"__switch_to"
        })
    }

    /// Arms the probes: all or none. C: `enable_kprobe()`.
    ///
    /// Process context; sleeps. `EINVAL` where the probed code is gone.
    pub fn enable(&self) -> Result {
        self.probes.enable()
    }

    /// Disarms the probes: calls in flight still reach the handler. C: `disable_kprobe()`.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        self.probes.disable()
    }

    /// The addresses that the kernel found for the targets. Any context.
    pub fn addresses(&self) -> impl Iterator<Item = usize> + '_ {
        self.probes.probes().iter().map(kprobe::Kprobe::address)
    }

    /// The number of missed calls: there was no memory for another call in flight, or another
    /// handler was running on that CPU at the entry. Any context.
    pub fn missed(&self) -> u64 {
        let probes = self.probes.probes().iter();
        probes.fold(self.inner.missed.sum(), |sum, probe| {
            sum.wrapping_add(probe.missed())
        })
    }

    /// The handler, which others may be running. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }
}

impl<H: Handler> Drop for PinnedRethook<H> {
    fn drop(&mut self) {
        free(self.room);
        leftover::untrack(ptr::from_mut(self).cast());
    }
}

/// Frees the room that its module left behind.
///
/// # Safety
///
/// `object` must be a [`PinnedRethook`] for `H` that nobody else uses any more.
unsafe fn remove<H: Handler>(object: *mut c_void) {
    // SAFETY: The caller guarantees that it is there.
    free(unsafe { (*object.cast::<PinnedRethook<H>>()).room });
}

#[vtable]
impl<H: Handler> kprobe::Handler for EntryHandler<H> {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        // SAFETY: `Rethook` keeps the `PinnedRethook` until it has dropped the probes, and so this.
        let inner = unsafe { self.0.as_ref() };
        let Some(node) = take(inner.room) else {
            inner.missed.increment();
            return;
        };
        let saved = node.cast::<Node<H::Data>>().as_ptr();
        if H::HAS_ENTRY {
            let Some(data) = inner.handler.entry(hit) else {
                give_back(node);
                return;
            };
            // SAFETY: The node belongs to this call alone, and has room for it.
            unsafe { (&raw mut (*saved).data).write(data) };
        }
        // SAFETY: The node belongs to this call alone.
        unsafe { (&raw mut (*saved).address).write(hit.address()) };
        // SAFETY: The registers are those of the entry of a function, as `register` has checked.
        unsafe { hook(node, hit.registers().as_ptr()) };
    }
}

/// Called by the kernel when a call returns.
///
/// # Safety
///
/// `node` must be one that was hooked, `data` the [`PinnedRethook`] that its room was allocated
/// with, which is not freed before this is over, and `regs` valid; preemption is disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn return_handler<H: Handler>(
    node: *mut bindings::rethook_node,
    data: *mut c_void,
    caller: c_ulong,
    regs: *mut pt_regs,
) {
    let node = node.cast::<Node<H::Data>>();
    // SAFETY: The caller guarantees that `data` is the `PinnedRethook`, which stays until this is
    // over, and that `regs` is valid. `EntryHandler::pre` has written the address.
    let (inner, hit) = unsafe {
        (
            &*data.cast::<PinnedRethook<H>>(),
            Hit::new(regs, (*node).address),
        )
    };
    let given = H::WITHOUT_ENTRY;
    let data = if H::HAS_ENTRY {
        // SAFETY: `EntryHandler::pre` has written it, and the node belongs to this call until this
        // is over.
        Some(unsafe { &(*node).data })
    } else {
        given.as_ref()
    };
    // There always is one: see `Kretprobe::DATA_FITS`.
    if let Some(data) = data {
        begin_busy();
        inner.handler.ret(&hit, &Call::new(caller, data));
        end_busy();
    }
}

type ReturnHandler =
    unsafe extern "C" fn(*mut bindings::rethook_node, *mut c_void, c_ulong, *mut pt_regs);

extern "C" {
    fn ktrace_free_rethook(room: *mut bindings::rethook);
}

// The kernel has these for this module, and not for those that use it: they are never inlined
// there.

#[inline(never)]
fn alloc(
    data: *mut c_void,
    handler: ReturnHandler,
    size: usize,
    calls: u16,
) -> *mut bindings::rethook {
    // SAFETY: The kernel only keeps the arguments.
    unsafe { bindings::rethook_alloc(data, Some(handler), size as c_int, c_int::from(calls)) }
}

/// Frees the room, when the last call has returned, and waits until no handler runs any more.
#[inline(never)]
fn free(room: NonNull<bindings::rethook>) {
    // SAFETY: The room is live, by the type invariant of `PinnedRethook`: its drop, or `remove` in
    // its place, is the only caller.
    unsafe { ktrace_free_rethook(room.as_ptr()) };
}

/// No probe is hit on this CPU until [`end_busy`]: as with the kernel's own return probes.
///
/// C: `kretprobe_rethook_handler()`.
#[inline(never)]
#[link_section = ".kprobes.text"]
fn begin_busy() {
    // SAFETY: No requirements.
    unsafe { bindings::kprobe_busy_begin() };
}

#[inline(never)]
#[link_section = ".kprobes.text"]
fn end_busy() {
    // SAFETY: After `begin_busy`, on the same CPU: preemption was disabled in between.
    unsafe { bindings::kprobe_busy_end() };
}

/// A node that is not in use. Preemption is disabled.
#[inline(never)]
#[link_section = ".kprobes.text"]
fn take(room: NonNull<bindings::rethook>) -> Option<NonNull<bindings::rethook_node>> {
    // SAFETY: The room is live, by the type invariant of `PinnedRethook`.
    NonNull::new(unsafe { bindings::rethook_try_get(room.as_ptr()) })
}

/// The call was not hooked.
#[inline(never)]
#[link_section = ".kprobes.text"]
fn give_back(node: NonNull<bindings::rethook_node>) {
    // SAFETY: Taken by `take`.
    unsafe { bindings::rethook_recycle(node.as_ptr()) };
}

/// # Safety
///
/// Taken by [`take`], and not hooked since; `regs` are those of a probe at the entry of a function.
#[inline(never)]
#[link_section = ".kprobes.text"]
unsafe fn hook(node: NonNull<bindings::rethook_node>, regs: *mut pt_regs) {
    // SAFETY: The caller guarantees that nobody else uses the node, and that the registers are
    // those of an entry. On x86-64 and arm64 both sorts of entry, ftrace's and a breakpoint's, have
    // the return address in one place.
    unsafe { bindings::rethook_hook(node.as_ptr(), regs, false) };
}

// SPDX-License-Identifier: GPL-2.0

//! A handler at the return of many functions: see [`crate::rethook`].

use core::{
    convert::Infallible,
    mem::{
        size_of,
        ManuallyDrop, //
    },
    ops::Deref,
    pin::Pin,
    ptr::NonNull, //
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
    hit::percpu::Counter,
    modules::leftover::{
        self,
        Entry,
        Kind, //
    },
    probes::{
        kprobe::{
            self,
            Hit, //
        },
        kretprobe::{
            Call,
            Handler,
            Kretprobe, //
        },
        registration::Target, //
    },
    symbols::symbol, //
};

/// The kernel's memory for a call in flight.
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
/// `room` was allocated with this structure as its data and for nodes of type [`Node<H::Data>`],
/// and is not freed yet.
#[pin_data]
struct PinnedRethook<H: Handler> {
    room: NonNull<bindings::rethook>,
    #[pin]
    handler: H,
    /// The number of calls that found no free memory.
    missed: Counter,
}

// SAFETY: Any task may free the room, and `H` is `Send`.
unsafe impl<H: Handler> Send for PinnedRethook<H> {}
// SAFETY: All CPUs may use the room at the same time, and `H` is `Sync`.
unsafe impl<H: Handler> Sync for PinnedRethook<H> {}

/// The handler at the entry of a function.
struct EntryHandler<H: Handler>(NonNull<PinnedRethook<H>>);

// SAFETY: This is a reference to a `PinnedRethook`, which is `Sync`.
unsafe impl<H: Handler> Send for EntryHandler<H> {}
// SAFETY: This is a reference to a `PinnedRethook`, which is `Sync`.
unsafe impl<H: Handler> Sync for EntryHandler<H> {}

/// Probes at the return of some functions. Dropping the value unregisters them.
///
/// Process context to drop: dropping waits for two RCU grace periods, until no handler runs any
/// more. Calls in flight then return without a handler.
///
/// # Invariants
///
/// Each [`EntryHandler`] refers to `inner`.
pub struct Rethook<H: Handler> {
    /// The first field to drop.
    probes: kprobe::Batch<EntryHandler<H>>,
    inner: OwnedRethook<H>,
}

/// Owns the room and the handler. Only the task that claims `entry` frees them.
struct OwnedRethook<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<PinnedRethook<H>>>>,
    entry: Entry,
}

impl<H: Handler> Deref for OwnedRethook<H> {
    type Target = PinnedRethook<H>;

    fn deref(&self) -> &PinnedRethook<H> {
        &self.inner
    }
}

impl<H: Handler> Drop for OwnedRethook<H> {
    fn drop(&mut self) {
        let Some(_claim) = self.entry.claim() else {
            return;
        };
        free(self.room);
        // SAFETY: No handler runs any more, and this value is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

impl<H: Handler> Rethook<H> {
    /// Places probes at functions and arms them. `calls` is the maximum number of calls in flight,
    /// for all functions together. C: `rethook_alloc()`.
    ///
    /// Process context; sleeps. Errors are those of [`kprobe::Kprobe::new`], and `EINVAL` if a
    /// target is not the entry of a function, or if `calls` is 0.
    pub fn new<'a, E>(
        targets: impl IntoIterator<Item = impl Into<Target<'a>>>,
        calls: u16,
        handler: impl PinInit<H, E>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        let this = Self::register_disabled(targets, calls, handler)?;
        this.enable()?;
        Ok(this)
    }

    /// Places probes as [`new`](Self::new) does, but does not [arm](Self::enable) them.
    pub fn register_disabled<'a, E>(
        targets: impl IntoIterator<Item = impl Into<Target<'a>>>,
        calls: u16,
        handler: impl PinInit<H, E>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        const { Kretprobe::<H>::DATA_FITS };
        let size = size_of::<Node<H::Data>>();
        let inner = KBox::try_pin_init(
            // The room is last: if another field fails, no code would free the room.
            try_pin_init!(&this in PinnedRethook {
                handler <- handler,
                missed: Counter::new()?,
                // INVARIANT: `alloc` allocates the room with this structure as its data.
                room: NonNull::new(from_err_ptr(alloc(
                    this.as_ptr().cast(),
                    return_handler::<H>,
                    size,
                    calls,
                ))?)
                .ok_or(ENOMEM)?,
            }? Error),
            GFP_KERNEL,
        )?;
        let inner = OwnedRethook {
            inner: ManuallyDrop::new(inner),
            entry: Entry::none(),
        };
        let code = return_handler::<H> as *const () as usize;
        let this = NonNull::from(&*inner);
        let object = this.as_ptr().cast();
        // SAFETY: `remove` waits until no handler runs, and takes no lock of module notifiers. The
        // list has the probes, which use the room, after this entry, so they are removed before it.
        // The room is freed only by a task with the claim.
        let claim = unsafe { leftover::track(Kind::Other, &[code], object, remove::<H>) }?;
        inner.entry.set(claim.keep());
        let entries = targets
            .into_iter()
            .map(|target| (target, EntryHandler(this)));
        let this = Self {
            probes: kprobe::Batch::register_disabled::<_, _, Infallible>(entries)?,
            inner,
        };
        if this.is_at_entries() {
            Ok(this)
        } else {
            Err(EINVAL)
        }
    }

    /// Whether all probes are at entries of functions that allow return probes. The kernel also
    /// refuses its own return probes at the switch of a task: see `arch_kretprobe_blacklist`.
    fn is_at_entries(&self) -> bool {
        let mut buffer = [0; symbol::LEN];
        self.probes.probes().all(|probe| {
            symbol::is_entry(probe.address()) == Some(true)
                && symbol::format(probe.address(), false, &mut buffer) != b"__switch_to"
        })
    }

    /// Arms all probes, or none if an error occurs. C: `enable_kprobe()`.
    ///
    /// Process context; sleeps. `EINVAL` if the probed code was unloaded.
    pub fn enable(&self) -> Result {
        self.probes.enable()
    }

    /// Disarms the probes. Calls in flight still reach the handler. C: `disable_kprobe()`.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        self.probes.disable()
    }

    /// The addresses that the kernel found for the targets. Any context.
    pub fn addresses(&self) -> impl Iterator<Item = usize> + '_ {
        self.probes.probes().map(kprobe::Kprobe::address)
    }

    /// The number of missed calls. A call is missed if no memory is free for it, or if another
    /// handler runs on this CPU at the entry. Any context.
    pub fn missed(&self) -> u64 {
        let probes = self.probes.probes();
        probes.fold(self.inner.missed.sum(), |sum, probe| {
            sum.wrapping_add(probe.missed())
        })
    }

    /// The handler. Other CPUs may be running it. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }
}

/// Frees the room that its module left allocated.
///
/// # Safety
///
/// `object` must be a [`PinnedRethook`] for `H`. Only the caller may free its room.
unsafe fn remove<H: Handler>(object: *mut c_void) {
    // SAFETY: The caller guarantees that the object exists.
    free(unsafe { (*object.cast::<PinnedRethook<H>>()).room });
}

#[vtable]
impl<H: Handler> kprobe::Handler for EntryHandler<H> {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        // SAFETY: `Rethook` keeps the `PinnedRethook` until it has dropped the probes, which own
        // `self`.
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
            // SAFETY: Only this call owns the node, and the node has space for the data.
            unsafe { (&raw mut (*saved).data).write(data) };
        }
        // SAFETY: Only this call owns the node.
        unsafe { (&raw mut (*saved).address).write(hit.address()) };
        // SAFETY: `register` has checked that the probe is at the entry of a function, so these are
        // the registers at an entry.
        unsafe { hook(node, hit.registers().as_ptr()) };
    }
}

/// The kernel calls this function when a call returns.
///
/// # Safety
///
/// `node` must be hooked. `data` must be the [`PinnedRethook`] with which its room was allocated,
/// and must not be freed before this function returns. `regs` must be valid. Preemption must be
/// disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn return_handler<H: Handler>(
    node: *mut bindings::rethook_node,
    data: *mut c_void,
    caller: c_ulong,
    regs: *mut pt_regs,
) {
    let node = node.cast::<Node<H::Data>>();
    // SAFETY: The caller guarantees that `data` is the `PinnedRethook`, which lives until this
    // function returns, and that `regs` is valid. `EntryHandler::pre` has written the address.
    let (inner, hit) = unsafe {
        (
            &*data.cast::<PinnedRethook<H>>(),
            Hit::new(regs, (*node).address),
        )
    };
    let given = H::WITHOUT_ENTRY;
    let data = if H::HAS_ENTRY {
        // SAFETY: `EntryHandler::pre` has written the data, and the node belongs to this call until
        // this function returns.
        Some(unsafe { &(*node).data })
    } else {
        given.as_ref()
    };
    // `data` is never `None`: see `Kretprobe::DATA_FITS`.
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

// The kernel exports these functions only to this module, and not to other users of this crate. So
// they must not be inlined into other modules.

#[inline(never)]
fn alloc(
    data: *mut c_void,
    handler: ReturnHandler,
    size: usize,
    calls: u16,
) -> *mut bindings::rethook {
    // SAFETY: The kernel only stores the arguments.
    unsafe { bindings::rethook_alloc(data, Some(handler), size as c_int, c_int::from(calls)) }
}

/// Frees the room after the last call has returned. Waits until no handler runs any more.
#[inline(never)]
fn free(room: NonNull<bindings::rethook>) {
    // SAFETY: By the type invariant of `PinnedRethook`, the room is live. Only the drop of the
    // `PinnedRethook`, or `remove` instead of the drop, calls this function.
    unsafe { ktrace_free_rethook(room.as_ptr()) };
}

/// Keeps probes from being hit on this CPU until [`end_busy`]. The kernel's own return probes do
/// the same.
///
/// C: `kretprobe_rethook_handler()`.
#[inline(never)]
#[link_section = ".kprobes.text"]
fn begin_busy() {
    // SAFETY: The function has no requirements.
    unsafe { bindings::kprobe_busy_begin() };
}

#[inline(never)]
#[link_section = ".kprobes.text"]
fn end_busy() {
    // SAFETY: `begin_busy` ran before on the same CPU, because preemption was disabled since then.
    unsafe { bindings::kprobe_busy_end() };
}

/// Takes a free node. Preemption must be disabled.
#[inline(never)]
#[link_section = ".kprobes.text"]
fn take(room: NonNull<bindings::rethook>) -> Option<NonNull<bindings::rethook_node>> {
    // SAFETY: By the type invariant of `PinnedRethook`, the room is live.
    NonNull::new(unsafe { bindings::rethook_try_get(room.as_ptr()) })
}

/// Returns a node whose call was not hooked.
#[inline(never)]
#[link_section = ".kprobes.text"]
fn give_back(node: NonNull<bindings::rethook_node>) {
    // SAFETY: `take` returned the node, and it was not hooked.
    unsafe { bindings::rethook_recycle(node.as_ptr()) };
}

/// Hooks the return of a call.
///
/// # Safety
///
/// [`take`] must have returned `node`, and `node` must not be hooked yet. `regs` must be the
/// registers of a probe at the entry of a function.
#[inline(never)]
#[link_section = ".kprobes.text"]
unsafe fn hook(node: NonNull<bindings::rethook_node>, regs: *mut pt_regs) {
    // SAFETY: The caller guarantees that no other code uses the node, and that the registers are
    // the registers at an entry. On x86-64 and arm64, the return address is in the same place
    // whether ftrace or a breakpoint caught the entry.
    unsafe { bindings::rethook_hook(node.as_ptr(), regs, false) };
}

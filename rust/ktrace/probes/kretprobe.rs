// SPDX-License-Identifier: GPL-2.0

//! A handler at the return of a function.
//!
//! At the entry of a call, the kernel replaces the return address with an address of its own. Until
//! the call returns, a node holds the original return address and the entry data of the entry
//! handler. The kernel allocates `maxactive` nodes. If all nodes are in use, the kernel misses the
//! call and counts it.
//!
//! Unregistering does not wait for calls in flight. They still return through the kernel's address,
//! but the handler no longer runs. The kernel frees the nodes after these calls have returned.
//!
//! If the architecture has rethook, kretprobes use it. Otherwise kretprobes have their own
//! implementation.
//!
//! C headers: [`include/linux/kprobes.h`](srctree/include/linux/kprobes.h),
//! [`include/linux/rethook.h`](srctree/include/linux/rethook.h)

use core::{
    mem::{
        align_of,
        size_of, //
    },
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    bindings::pt_regs,
    ffi::c_int,
    prelude::*,
    types::Opaque, //
};

use crate::{
    bindings,
    probes::{
        kprobe::Hit,
        pointers::impl_for_pointers,
        registration::{
            into_any,
            unregister_all,
            AnyProbe,
            Probe,
            Raw,
            Registration, //
        },
    },
};

pub use crate::probes::registration::Target;

/// The handler of a return.
#[vtable]
pub trait Handler: Send + Sync + 'static {
    /// The entry data, which the probe saves at the entry of a call for its return. `()` saves
    /// nothing.
    ///
    /// The entry data is copied and never dropped, because a call may never return. Another CPU may
    /// read it. Its size is at most 4096 bytes, and its alignment at most that of a word.
    type Data: Copy + Send + 'static;

    /// The entry data of each call if there is no [`entry`](Self::entry): `Some(())`.
    const WITHOUT_ENTRY: Option<Self::Data> = None;

    /// Called when the function is entered, in atomic context: see [`crate::context`]. A handler
    /// that sets [`WITHOUT_ENTRY`](Self::WITHOUT_ENTRY) can leave this out.
    ///
    /// If the result is `None`, the probe ignores the return of this call, and does not count the
    /// call as missed.
    fn entry(&self, _hit: &Hit<'_>) -> Option<Self::Data> {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Called after the function returned, in atomic context: see [`crate::context`].
    ///
    /// `hit` has the address of the function, and the registers as the function left them.
    fn ret(&self, hit: &Hit<'_>, call: &Call<'_, Self::Data>);
}

impl_for_pointers! {
    #[vtable]
    type Data = H::Data;

    const WITHOUT_ENTRY: Option<Self::Data> = H::WITHOUT_ENTRY;
    const HAS_ENTRY: bool = H::HAS_ENTRY;
    const HAS_RET: bool = H::HAS_RET;

    #[inline(always)]
    fn entry(&self, hit: &Hit<'_>) -> Option<Self::Data> {
        (**self).entry(hit)
    }

    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &Call<'_, Self::Data>) {
        (**self).ret(hit, call);
    }
}

/// A call that has returned.
pub struct Call<'a, D> {
    caller: usize,
    data: &'a D,
}

impl<'a, D> Call<'a, D> {
    #[inline(always)]
    pub(crate) fn new(caller: usize, data: &'a D) -> Self {
        Self { caller, data }
    }

    /// The return address of the function.
    #[inline(always)]
    pub fn caller(&self) -> usize {
        self.caller
    }

    /// The entry data of the call.
    #[inline(always)]
    pub fn data(&self) -> &'a D {
        self.data
    }
}

// SAFETY: All-zero is valid: no functions, no address. The kprobe is a field. C's
// `unregister_kretprobes()` waits for an RCU grace period, and clears the address of each probe
// that the kernel keeps.
unsafe impl Raw for bindings::kretprobe {
    fn kprobe(this: *mut Self) -> *mut bindings::kprobe {
        // The kprobe is the first field, so its address is that of the structure.
        const _: () = assert!(core::mem::offset_of!(bindings::kretprobe, kp) == 0);
        this.cast()
    }

    unsafe fn code(this: *const Self) -> usize {
        // SAFETY: The caller guarantees that no code changes the functions.
        unsafe { (*this).handler }.map_or(0, |handler| handler as usize)
    }

    unsafe fn register(this: *mut Self) -> c_int {
        // SAFETY: The caller guarantees that the kretprobe is initialised, and that it does not
        // move until it has been unregistered.
        unsafe { bindings::register_kretprobe(this) }
    }

    unsafe fn unregister(these: &mut [*mut Self]) {
        // SAFETY: The caller guarantees that all kretprobes are registered.
        unsafe { bindings::unregister_kretprobes(these.as_mut_ptr(), these.len() as c_int) }
    }
}

/// A registered kretprobe. Dropping it unregisters it.
///
/// Dropping waits for an RCU grace period, until no handler runs. Process context.
///
/// The caller chooses the memory of the probe: see [`Kprobe`](crate::kprobe::Kprobe).
///
/// # Examples
///
/// How long a function takes:
///
/// ```
/// # use kernel::prelude::*;
/// use kernel::time::{
///     Instant,
///     Monotonic, //
/// };
/// use ktrace::{
///     kprobe::Hit,
///     kretprobe::{
///         Call,
///         Handler,
///         Kretprobe, //
///     },
/// };
///
/// struct Time;
///
/// #[vtable]
/// impl Handler for Time {
///     type Data = Instant<Monotonic>;
///
///     fn entry(&self, _: &Hit<'_>) -> Option<Self::Data> {
///         Some(Instant::now())
///     }
///
///     fn ret(&self, _: &Hit<'_>, call: &Call<'_, Self::Data>) {
///         pr_info!("{} ns\n", call.data().elapsed().as_nanos());
///     }
/// }
///
/// let probe = KBox::pin_init(Kretprobe::new(c"kernel_clone", 0, Time), GFP_KERNEL)?;
/// # Ok::<(), Error>(())
/// ```
#[pin_data]
pub struct Kretprobe<H: Handler> {
    /// The first field to drop, so that no handler runs when `handler` is dropped.
    #[pin]
    registration: Registration<bindings::kretprobe>,
    #[pin]
    handler: H,
}

impl<H: Handler> Kretprobe<H> {
    /// C: `KRETPROBE_MAX_DATA_SIZE`.
    const MAX_DATA: usize = 4096;

    /// The entry data follows the node. The size of a node is a multiple of a word.
    pub(crate) const DATA_FITS: () = {
        assert!(
            size_of::<H::Data>() <= Self::MAX_DATA,
            "kretprobe data must not be larger than 4096 bytes"
        );
        assert!(
            align_of::<H::Data>() <= align_of::<usize>(),
            "kretprobe data must not be aligned to more than a word"
        );
        assert!(
            H::HAS_ENTRY || H::WITHOUT_ENTRY.is_some(),
            "kretprobe data needs an entry handler, or WITHOUT_ENTRY"
        );
    };

    /// Registers a probe and arms it, with nodes for `maxactive` calls in flight. If `maxactive` is
    /// 0, the kernel chooses the number. C: `register_kretprobe()`.
    ///
    /// Process context; sleeps. Fails as [`crate::kprobe::Kprobe::new`], and with `EINVAL` if the
    /// target is not the entry of a function.
    pub fn new<'a, E>(
        target: impl Into<Target<'a>>,
        maxactive: u16,
        handler: impl PinInit<H, E> + 'a,
    ) -> impl PinInit<Self, Error> + 'a
    where
        Error: From<E>,
    {
        Self::register_disabled(target, maxactive, handler).pin_chain(|this| this.enable())
    }

    /// Registers a probe as [`new`](Self::new) does, but does not [arm](Self::enable) it.
    pub fn register_disabled<'a, E>(
        target: impl Into<Target<'a>>,
        maxactive: u16,
        handler: impl PinInit<H, E> + 'a,
    ) -> impl PinInit<Self, Error> + 'a
    where
        Error: From<E>,
    {
        const { Self::DATA_FITS };
        let target = target.into();
        let set = move |kretprobe: &mut bindings::kretprobe| {
            kretprobe.handler = Some(return_handler::<H>);
            if H::HAS_ENTRY {
                kretprobe.entry_handler = Some(entry_handler::<H>);
                kretprobe.data_size = size_of::<H::Data>();
            }
            kretprobe.maxactive = c_int::from(maxactive);
        };
        try_pin_init!(Self {
            handler <- handler,
            registration <- Registration::new(target, set),
        }? Error)
    }

    /// Arms the probe. C: `enable_kretprobe()`.
    ///
    /// Process context; sleeps. `EINVAL` if the probed code was unloaded.
    pub fn enable(&self) -> Result {
        self.registration.enable()
    }

    /// Disarms the probe. The handler still runs for calls in flight. C: `disable_kretprobe()`.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        self.registration.disable()
    }

    /// Whether the probed code was unloaded or is being unloaded. Such a probe cannot be enabled
    /// again. Process context.
    ///
    /// C: `kprobe_gone()`.
    pub fn is_gone(&self) -> bool {
        self.registration.is_gone()
    }

    /// The address that the kernel found for the target. Any context.
    pub fn address(&self) -> usize {
        self.registration.address()
    }

    /// The maximum number of calls in flight. Any context.
    pub fn maxactive(&self) -> u32 {
        // SAFETY: By the type invariant of `Registration`, the kretprobe was registered, and
        // the number does not change.
        unsafe { (*self.registration.raw()).maxactive.unsigned_abs() }
    }

    /// The number of missed calls. The kernel misses a call if all nodes are in use, or if another
    /// handler runs on that CPU at the entry. Any context.
    ///
    /// C: `nmissed` in `struct kretprobe` and in its `struct kprobe`, which are counted without a
    /// lock.
    pub fn missed(&self) -> u64 {
        // SAFETY: By the type invariant of `Registration`, the kretprobe was registered. The result
        // may or may not include an increment that another CPU makes now.
        let without_room =
            unsafe { ptr::read_volatile(&raw const (*self.registration.raw()).nmissed) };
        self.registration
            .missed()
            .wrapping_add(without_room.unsigned_abs().into())
    }

    /// The handler. Other CPUs may run it at the same time. Any context.
    pub fn handler(&self) -> &H {
        &self.handler
    }
}

impl<H: Handler> Probe<bindings::kretprobe> for Kretprobe<H> {
    fn registration(&self) -> &Registration<bindings::kretprobe> {
        &self.registration
    }
}

/// A registered kretprobe with a handler of any type. Dropping it unregisters it.
pub struct AnyKretprobe(AnyProbe<bindings::kretprobe>);

impl<H: Handler> From<Pin<KBox<Kretprobe<H>>>> for AnyKretprobe {
    fn from(probe: Pin<KBox<Kretprobe<H>>>) -> Self {
        Self(into_any(probe))
    }
}

impl AnyKretprobe {
    /// Unregisters many probes, and waits once for all of them. C: `unregister_kretprobes()`.
    ///
    /// Process context; sleeps.
    pub fn unregister_all(probes: KVVec<Self>) {
        unregister_all(probes, |probe| probe.0.registration());
    }
}

/// The kernel calls this function at the entry of a probed function. If the result is not 0, the
/// kernel does not probe the return of this call.
///
/// # Safety
///
/// `instance` must be an unused node of a registered [`Kretprobe`] for `H`. `regs` must be valid.
/// Preemption must be disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn entry_handler<H: Handler>(
    instance: *mut bindings::kretprobe_instance,
    regs: *mut pt_regs,
) -> c_int {
    // SAFETY: `Kretprobe<H>` has set this function for `H`. The kernel passes a node of such a
    // probe, and unregistering waits for this call. `regs` is valid during this call.
    let Some((handler, hit)) = (unsafe { handler_and_hit::<H>(instance, regs) }) else {
        return 1;
    };
    match handler.entry(&hit) {
        Some(data) => {
            // SAFETY: `register_disabled` has set the size of the entry data, so the node has
            // memory for it. The node belongs to this call alone.
            unsafe { data_of::<H::Data>(instance).write(data) };
            0
        }
        None => 1,
    }
}

/// The kernel calls this function when a probed call returns.
///
/// # Safety
///
/// `instance` must be the node of a call of a registered [`Kretprobe`] for `H`. `regs` must be
/// valid. Preemption must be disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn return_handler<H: Handler>(
    instance: *mut bindings::kretprobe_instance,
    regs: *mut pt_regs,
) -> c_int {
    // SAFETY: `Kretprobe<H>` has set this function for `H`. The kernel passes a node of such a
    // probe, and unregistering waits for this call. `regs` is valid during this call.
    let Some((handler, hit)) = (unsafe { handler_and_hit::<H>(instance, regs) }) else {
        return 0;
    };
    // SAFETY: The node belongs to this call until the handler returns.
    let caller = unsafe { caller_of(instance) };
    let given = H::WITHOUT_ENTRY;
    let data = if H::HAS_ENTRY {
        // SAFETY: `entry_handler` has written the entry data of each call whose return is probed.
        // The node belongs to this call until the handler returns, so no code writes it before.
        Some(unsafe { &*data_of::<H::Data>(instance) })
    } else {
        given.as_ref()
    };
    // A handler without entry data has `WITHOUT_ENTRY`: see `DATA_FITS`.
    if let Some(data) = data {
        handler.ret(&hit, &Call::new(caller, data));
    }
    0
}

/// The address of the entry data of a call.
///
/// # Safety
///
/// `instance` must be a valid node.
#[inline(always)]
unsafe fn data_of<D>(instance: *mut bindings::kretprobe_instance) -> *mut D {
    // SAFETY: The caller guarantees that the node is valid. The entry data after it has the
    // alignment of a word.
    unsafe { (&raw mut (*instance).data).cast() }
}

/// Returns the probe of a call. With rethook, a call always has a probe. C: `get_kretprobe()`.
///
/// # Safety
///
/// The requirements of [`return_handler`].
#[cfg(CONFIG_KRETPROBE_ON_RETHOOK)]
#[inline(always)]
unsafe fn kretprobe_of(
    instance: *mut bindings::kretprobe_instance,
) -> Option<NonNull<bindings::kretprobe>> {
    // SAFETY: The caller guarantees that the node belongs to a call. The rethook lives as long as
    // one of its nodes is in use, and its data does not change.
    let data = unsafe { ptr::read_volatile(&raw const (*(*instance).node.rethook).data) };
    // SAFETY: `register_kretprobe()` has set the data to the probe.
    Some(unsafe { NonNull::new_unchecked(data.cast()) })
}

/// Returns the probe of a call, or `None` if another CPU unregisters the probe.
/// C: `get_kretprobe()`.
///
/// # Safety
///
/// The requirements of [`return_handler`].
#[cfg(not(CONFIG_KRETPROBE_ON_RETHOOK))]
#[inline(always)]
unsafe fn kretprobe_of(
    instance: *mut bindings::kretprobe_instance,
) -> Option<NonNull<bindings::kretprobe>> {
    // SAFETY: The caller guarantees that the node belongs to a call. The holder lives as long as
    // one of its nodes is in use. Unregistering clears the pointer, then waits for handlers.
    NonNull::new(unsafe { ptr::read_volatile(&raw const (*(*instance).rph).rp) })
}

/// Returns the return address of a call. C: `get_kretprobe_retaddr()`.
///
/// # Safety
///
/// The requirements of [`return_handler`].
#[inline(always)]
unsafe fn caller_of(instance: *mut bindings::kretprobe_instance) -> usize {
    #[cfg(CONFIG_KRETPROBE_ON_RETHOOK)]
    // SAFETY: The caller guarantees that the node belongs to the call.
    let caller = unsafe { (*instance).node.ret_addr };
    #[cfg(not(CONFIG_KRETPROBE_ON_RETHOOK))]
    // SAFETY: The caller guarantees that the node belongs to the call.
    let caller = unsafe { (*instance).ret_addr }.addr();
    caller
}

/// Returns the handler of a call, and the hit. `None` if another CPU unregisters the probe.
///
/// # Safety
///
/// The requirements of [`return_handler`], for `'a`.
#[inline(always)]
unsafe fn handler_and_hit<'a, H: Handler>(
    instance: *mut bindings::kretprobe_instance,
    regs: *mut pt_regs,
) -> Option<(&'a H, Hit<'a>)> {
    // SAFETY: The caller guarantees that the node belongs to a call.
    let kretprobe = unsafe { kretprobe_of(instance) }?.as_ptr();
    // SAFETY: The kernel calls a handler only while the probe is registered. Unregistering waits
    // for this call. Only `register_disabled` passes a structure of this type to the kernel.
    let handler = unsafe {
        let raw = Opaque::cast_from(kretprobe);
        &(*kernel::container_of!(raw, Kretprobe<H>, registration.raw)).handler
    };
    // SAFETY: The address does not change while the probe is registered. The caller guarantees that
    // `regs` is valid and preemption is disabled for `'a`.
    let hit = unsafe { Hit::new(regs, (*kretprobe).kp.addr as usize) };
    Some((handler, hit))
}

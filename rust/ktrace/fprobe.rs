// SPDX-License-Identifier: GPL-2.0

//! Handlers at the entry and the exit of many functions at once, on ftrace.
//!
//! C header: [`include/linux/fprobe.h`](srctree/include/linux/fprobe.h)
//!
//! Reference: <https://docs.kernel.org/trace/fprobe.html>
//!
//! A probe with an exit handler saves entry data on the task's shadow stack. Calls that are in
//! flight when it is unregistered return later, maybe after ktrace's module was unloaded and loaded
//! again. All that the kernel then checks is whether a probe is registered *at this address*. If
//! one is, it calls the probe's exit handler, even if that is NULL. Hence the memory of a probe
//! with an exit handler is used again for another of the kind only, and is never freed. Each
//! registration marks its entry data with a number of its own.

use core::{
    mem::{
        align_of,
        size_of,
        ManuallyDrop,
        MaybeUninit, //
    },
    pin::Pin,
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicU64,
        Ordering, //
    },
};

use kernel::{
    bindings::ftrace_regs,
    error::to_result,
    ffi::{
        c_char,
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    str::CStr,
    types::Opaque, //
};

use crate::{
    bindings,
    context::monotonic_clock,
    ftrace::{
        self,
        Filter, //
    },
    function::Call,
    leftover,
    pointers::impl_for_pointers, //
};

/// The handler of the entry and the exit of a function.
#[vtable]
pub trait Handler: Send + Sync + 'static {
    /// The entry data, which the probe saves at the entry of a call for its exit. `()` saves
    /// nothing.
    ///
    /// It is copied, never dropped (a call may never return), and may be read on another CPU. At
    /// most 112 bytes, with the alignment of a word.
    type Data: Copy + Send + 'static;

    /// Called when a function is entered, in atomic context: see [`crate::context`].
    ///
    /// With `None` the exit of this call is not seen.
    fn entry(&self, call: &Call<'_>) -> Option<Self::Data>;

    /// Called when the function returns, in atomic context: see [`crate::context`]. Left out, a
    /// probe costs much less.
    fn exit(&self, _call: &Call<'_>, _data: &Self::Data) {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

impl_for_pointers! {
    #[vtable]
    type Data = H::Data;

    const HAS_ENTRY: bool = H::HAS_ENTRY;
    const HAS_EXIT: bool = H::HAS_EXIT;

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<Self::Data> {
        (**self).entry(call)
    }

    #[inline(always)]
    fn exit(&self, call: &Call<'_>, data: &Self::Data) {
        (**self).exit(call, data);
    }
}

/// The functions to probe.
pub enum Functions<'a> {
    /// Functions whose name matches the first pattern (`vfs_*`), but not the second.
    Glob(&'a CStr, Option<&'a CStr>),
    /// Functions with these names.
    Names(&'a [&'a CStr]),
    /// Functions that begin at these addresses.
    Addresses(&'a [usize]),
}

/// Checks that a function that can be probed matches a pattern. Traces nothing.
///
/// Process context; sleeps. `ENOENT` if no function matches. C: `fprobe_count_ips_from_filter()`,
/// which is not exported. But `register_fprobe()` calls it first, and then refuses a probe with too
/// much data. This function searches all symbols twice. So ftrace is asked before: it knows one
/// name of each function.
pub fn exists(pattern: &CStr) -> Result {
    if ftrace::takes(Filter::Glob(pattern))? {
        return Ok(());
    }
    let mut fprobe = KBox::new(bindings::fprobe::default(), GFP_KERNEL)?;
    fprobe.entry_data_size = 2 * MAX_FPROBE_DATA_SIZE;
    // SAFETY: It is initialised, and unregistered before it is freed; both are strings or NULL.
    let registered = to_result(unsafe {
        bindings::register_fprobe(&mut *fprobe, pattern.as_char_ptr(), ptr::null())
    });
    match registered {
        Err(error) if error == E2BIG => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            // SAFETY: It was registered just now.
            to_result(unsafe { bindings::unregister_fprobe(&mut *fprobe) })
                .inspect_err(|_| core::mem::forget(fprobe))
        }
    }
}

/// Whether the name of a function matches a pattern, as in [`Functions::Glob`]. Any context.
///
/// C: `glob_match()`.
pub fn matches(pattern: &CStr, name: &str) -> bool {
    const MAX: usize = bindings::KSYM_NAME_LEN as usize - 1;

    let mut text = [0; MAX + 1];
    let Some(to) = text[..MAX].get_mut(..name.len()) else {
        return false;
    };
    to.copy_from_slice(name.as_bytes());
    // SAFETY: Both are strings with a NUL at the end: the last byte stays 0.
    unsafe { bindings::glob_match(pattern.as_char_ptr(), text.as_ptr().cast()) }
}

/// C: `MAX_FPROBE_DATA_SIZE`.
const MAX_FPROBE_DATA_SIZE: usize = 15 * size_of::<c_ulong>();

/// The kernel's structure of a probe. It must not move while it is registered.
#[repr(C)]
struct FprobeSlot {
    fprobe: Opaque<bindings::fprobe>,
    /// The number of the registration. It is in front of the entry data of its calls.
    number: u64,
    /// The handler, of the type that the functions in `fprobe` are made for.
    handler: *const c_void,
    /// The next in the pool.
    next: *mut FprobeSlot,
}

/// The entry data of a call, with the number of the registration that saved it.
#[repr(C)]
struct SavedData<D> {
    number: u64,
    data: D,
}

/// The slots of probes with exit handlers that are not in use.
struct Pool(*mut FprobeSlot);

// SAFETY: The slots in it are nobody else's.
unsafe impl Send for Pool {}

kernel::sync::global_lock! {
    // SAFETY: Initialised by `crate::init`.
    unsafe(uninit) static POOL: Mutex<Pool> = Pool(ptr::null_mut());
}

/// The number of the next registration. It starts at the time in ns. A registration takes longer
/// than 1 ns, so the numbers do not repeat until the next boot, not even after a reload. And the
/// data of another module's probe, which was at the same address, hardly begins with such a number.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

extern "C" {
    fn ktrace_never_free(memory: *const c_void);
}

/// # Safety
///
/// Must be called once, before anything else here.
pub(crate) unsafe fn init() {
    // SAFETY: This is the only call, before the first use: the caller guarantees both.
    unsafe { POOL.init() };
    NEXT_NUMBER.store(monotonic_clock(), Ordering::Relaxed);
}

/// Leaves the memory of the pool allocated, when the code is about to go: a call in flight may
/// still refer to it.
pub(crate) fn exit() {
    while let Some(slot) = take_from_pool() {
        // SAFETY: The slot is a live allocation, which nobody frees.
        unsafe { ktrace_never_free(slot.cast()) };
    }
}

fn take_from_pool() -> Option<*mut FprobeSlot> {
    let mut pool = POOL.lock();
    let slot = NonNull::new(pool.0)?.as_ptr();
    // SAFETY: Slots in the pool are live.
    pool.0 = unsafe { (*slot).next };
    Some(slot)
}

/// A registered fprobe: unregistered when dropped.
///
/// Dropping waits until no handler runs any more (an RCU grace period): process context. Calls in
/// flight no longer reach the exit handler then.
///
/// # Examples
///
/// How many calls of functions of a kind fail:
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     fprobe::{
///         Fprobe,
///         Functions,
///         Handler, //
///     },
///     function::Call,
///     percpu::Counter, //
/// };
///
/// struct Errors(Counter);
///
/// #[vtable]
/// impl Handler for Errors {
///     type Data = ();
///
///     fn entry(&self, _: &Call<'_>) -> Option<()> {
///         Some(())
///     }
///
///     fn exit(&self, call: &Call<'_>, _: &()) {
///         if call.ret::<i32>() < 0 {
///             self.0.increment();
///         }
///     }
/// }
///
/// let functions = Functions::Glob(c"vfs_*", Some(c"vfs_statx*"));
/// let probe = Fprobe::new(functions, Errors(Counter::new()?))?;
/// pr_info!("{} errors\n", probe.handler().0.sum());
/// # Ok::<(), Error>(())
/// ```
///
/// # Invariants
///
/// `slot` is registered, and its `handler` points at `handler`.
pub struct Fprobe<H: Handler> {
    slot: NonNull<FprobeSlot>,
    handler: ManuallyDrop<Pin<KBox<H>>>,
}

// SAFETY: The kernel's functions on a registered fprobe lock by themselves, and `H` is `Send`.
unsafe impl<H: Handler> Send for Fprobe<H> {}
// SAFETY: The kernel's functions on a registered fprobe lock by themselves, and `H` is `Sync`.
unsafe impl<H: Handler> Sync for Fprobe<H> {}

impl<H: Handler> Fprobe<H> {
    /// Less the number of the registration.
    const MAX_DATA: usize = MAX_FPROBE_DATA_SIZE - size_of::<u64>();

    const DATA_FITS: () = {
        assert!(
            size_of::<H::Data>() <= Self::MAX_DATA,
            "fprobe data must not be larger than 112 bytes"
        );
        assert!(
            align_of::<H::Data>() <= align_of::<usize>(),
            "fprobe data must not be aligned to more than a word"
        );
    };

    /// Probes functions, from now on. C: `register_fprobe()` and its like.
    ///
    /// Process context; sleeps. `ENOENT` if a function does not exist or cannot be traced, `EINVAL`
    /// without functions, `ENOMEM`.
    pub fn new<E>(functions: Functions<'_>, handler: impl PinInit<H, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        Self::with_flags(functions, handler, 0)
    }

    /// Registers a probe as [`new`](Self::new) does, but does not [arm](Self::enable) it.
    ///
    /// The functions go through ftrace already.
    pub fn register_disabled<E>(
        functions: Functions<'_>,
        handler: impl PinInit<H, E>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        Self::with_flags(functions, handler, bindings::FPROBE_FL_DISABLED)
    }

    fn with_flags<E>(
        functions: Functions<'_>,
        handler: impl PinInit<H, E>,
        flags: u32,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        const { Self::DATA_FITS };
        let handler = KBox::pin_init(handler, GFP_KERNEL)?;
        let pooled = if H::HAS_EXIT { take_from_pool() } else { None };
        let slot = match pooled {
            Some(slot) => slot,
            None => KBox::into_raw(KBox::new(
                FprobeSlot {
                    // SAFETY: All-zero is a valid `struct fprobe`.
                    fprobe: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                    number: 0,
                    handler: ptr::null(),
                    next: ptr::null_mut(),
                },
                GFP_KERNEL,
            )?),
        };
        // SAFETY: Not registered, so nobody else looks at it: calls in flight of an earlier
        // registration check that first, and unregistering waited for those that had checked.
        let fprobe = unsafe {
            (*slot).number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
            (*slot).handler = (&raw const *handler).cast();
            let fprobe = (*slot).fprobe.get();
            *fprobe = bindings::fprobe::default();
            (*fprobe).flags = flags;
            (*fprobe).entry_handler = Some(entry_handler::<H>);
            if H::HAS_EXIT {
                (*fprobe).exit_handler = Some(exit_handler::<H>);
                (*fprobe).entry_data_size = size_of::<SavedData<H::Data>>();
            }
            fprobe
        };
        // SAFETY: `remove` waits until no handler runs, and does not touch module notifiers; the
        // slot is used again after `untrack` only.
        let tracked = unsafe {
            leftover::track(
                entry_handler::<H> as *const () as usize,
                fprobe.cast(),
                remove,
            )
        };
        // SAFETY: It is initialised, stays in place, and is unregistered before it is used again.
        match tracked.and_then(|()| unsafe { register(fprobe, functions) }) {
            // INVARIANT: Registered just now.
            Ok(()) => Ok(Self {
                // SAFETY: It came from a `KBox`.
                slot: unsafe { NonNull::new_unchecked(slot) },
                handler: ManuallyDrop::new(handler),
            }),
            Err(error) => {
                leftover::untrack(fprobe.cast());
                give_back::<H>(slot);
                Err(error)
            }
        }
    }

    fn fprobe(&self) -> *mut bindings::fprobe {
        // SAFETY: Live, by the type invariant.
        unsafe { (*self.slot.as_ptr()).fprobe.get() }
    }

    /// Arms the probe. Any context. Always succeeds. C: `enable_fprobe()`.
    pub fn enable(&self) -> Result {
        self.set_flags(0);
        Ok(())
    }

    /// Disarms the probe: handlers that run already may still be running, and the functions still
    /// go through ftrace. Any context. Always succeeds. C: `disable_fprobe()`.
    pub fn disable(&self) -> Result {
        self.set_flags(bindings::FPROBE_FL_DISABLED);
        Ok(())
    }

    fn set_flags(&self, flags: u32) {
        // SAFETY: Live, by the type invariant; no other flag is used here, and the kernel only
        // reads them.
        unsafe { ptr::write_volatile(&raw mut (*self.fprobe()).flags, flags) };
    }

    /// The number of calls that were not seen at their entry, or had no memory for their data. Any
    /// context.
    ///
    /// C: `nmissed` in `struct fprobe`, which is counted without a lock.
    pub fn missed(&self) -> u64 {
        // SAFETY: Live, by the type invariant; a racing increment may be seen or not.
        unsafe { ptr::read_volatile(&raw const (*self.fprobe()).nmissed) as u64 }
    }

    /// The handler, which others may be running. Any context.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Unregisters it, as dropping does, and calls `f` when no handler runs any more: with the
    /// handler, and how many calls were [`missed`](Self::missed).
    pub fn unregister<R>(self, f: impl FnOnce(&H, u64) -> R) -> R {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after this.
        unsafe { this.unregister_then(f) }
    }

    /// # Safety
    ///
    /// It must not be used after this.
    unsafe fn unregister_then<R>(&mut self, f: impl FnOnce(&H, u64) -> R) -> R {
        // SAFETY: Registered, by the type invariant.
        let unregistered = unsafe { unregister(self.fprobe()) };
        leftover::untrack(self.fprobe().cast());
        let result = f(&self.handler, self.missed());
        if unregistered.is_err() {
            return result;
        }
        // SAFETY: No handler runs any more; nor is it used after this, by the safety requirement.
        unsafe { ManuallyDrop::drop(&mut self.handler) };
        give_back::<H>(self.slot.as_ptr());
        result
    }
}

impl<H: Handler> Drop for Fprobe<H> {
    fn drop(&mut self) {
        // SAFETY: This is the end of it.
        unsafe { self.unregister_then(|_, _| ()) };
    }
}

/// Frees a slot that is not registered. One with an exit handler goes into the pool instead.
fn give_back<H: Handler>(slot: *mut FprobeSlot) {
    if H::HAS_EXIT {
        let mut pool = POOL.lock();
        // SAFETY: It is live and not registered.
        unsafe { (*slot).next = pool.0 };
        pool.0 = slot;
    } else {
        // SAFETY: It came from a `KBox`, is not registered, and no call has entry data of it.
        drop(unsafe { KBox::from_raw(slot) });
    }
}

/// # Safety
///
/// `fprobe` must be initialised, and stay in place until it was unregistered.
unsafe fn register(fprobe: *mut bindings::fprobe, functions: Functions<'_>) -> Result {
    match functions {
        Functions::Glob(pattern, not) => {
            let not = not.map_or(ptr::null(), |not| not.as_char_ptr());
            // SAFETY: The caller guarantees that it is initialised and stays; both are strings or
            // NULL.
            to_result(unsafe { bindings::register_fprobe(fprobe, pattern.as_char_ptr(), not) })
        }
        Functions::Names(names) => {
            let mut pointers = KVec::<*const c_char>::with_capacity(names.len(), GFP_KERNEL)?;
            for name in names {
                pointers.push(name.as_char_ptr(), GFP_KERNEL)?;
            }
            let count = c_int::try_from(pointers.len())?;
            // SAFETY: The caller guarantees that it is initialised and stays; so many strings.
            to_result(unsafe {
                bindings::register_fprobe_syms(fprobe, pointers.as_mut_ptr(), count)
            })
        }
        Functions::Addresses(addresses) => {
            let mut copy = KVec::<c_ulong>::with_capacity(addresses.len(), GFP_KERNEL)?;
            for address in addresses {
                copy.push(*address as c_ulong, GFP_KERNEL)?;
            }
            let count = c_int::try_from(copy.len())?;
            // SAFETY: The caller guarantees that it is initialised and stays; so many addresses.
            to_result(unsafe { bindings::register_fprobe_ips(fprobe, copy.as_mut_ptr(), count) })
        }
    }
}

/// Waits until no handler runs. If it fails, the memory and the code must stay: the code does.
///
/// # Safety
///
/// `fprobe` must be registered.
unsafe fn unregister(fprobe: *mut bindings::fprobe) -> Result {
    // SAFETY: The caller guarantees that it is registered.
    let unregistered = to_result(unsafe { bindings::unregister_fprobe(fprobe) });
    if unregistered.is_err() {
        // SAFETY: Registration has set the function, and it stays.
        let entry = unsafe { (*fprobe).entry_handler };
        leftover::keep_code_of(entry.map_or(0, |entry| entry as usize));
    }
    unregistered
}

/// Unregisters a probe that its module left behind.
///
/// # Safety
///
/// `object` must be a registered `struct fprobe`, and nobody else must use it any more.
unsafe fn remove(object: *mut c_void) {
    // SAFETY: The caller guarantees that it is registered. The memory stays.
    let _ = unsafe { unregister(object.cast()) };
}

/// The kernel calls this at the entry of a function. If the result is not 0, the kernel does not
/// call the exit handler.
///
/// # Safety
///
/// `fprobe` must be that of a registered [`FprobeSlot`] for `H`, `data` must have the requested
/// size, and `regs` must be valid. Preemption is disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn entry_handler<H: Handler>(
    fprobe: *mut bindings::fprobe,
    entry: c_ulong,
    caller: c_ulong,
    regs: *mut ftrace_regs,
    data: *mut c_void,
) -> c_int {
    // SAFETY: The kernel passes a probe with this function, so it is that of a registered slot.
    // Unregistering waits for this.
    let slot = unsafe { &*kernel::container_of!(Opaque::cast_from(fprobe), FprobeSlot, fprobe) };
    // SAFETY: Registered, so the handler is there and of this type.
    let handler = unsafe { &*slot.handler.cast::<H>() };
    // SAFETY: The kernel keeps `regs`, and preemption disabled, for the time of this call.
    let call = unsafe { Call::new(entry, caller, regs) };
    match handler.entry(&call) {
        Some(entry_data) if H::HAS_EXIT => {
            let saved = SavedData {
                number: slot.number,
                data: entry_data,
            };
            // SAFETY: The room is aligned to a word and as large as `register` asked for.
            unsafe { data.cast::<SavedData<H::Data>>().write(saved) };
            0
        }
        Some(_) => 0,
        None => 1,
    }
}

/// Called by the kernel when a function returns.
///
/// # Safety
///
/// `fprobe` must be that of a registered [`FprobeSlot`] for `H`, and `regs` valid; `data` must be
/// the entry data that it saved of the call, or that an earlier probe at the same address saved, or
/// NULL if that probe saved nothing; preemption is disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn exit_handler<H: Handler>(
    fprobe: *mut bindings::fprobe,
    entry: c_ulong,
    caller: c_ulong,
    regs: *mut ftrace_regs,
    data: *mut c_void,
) {
    // Another module's probe was at this address before, and saved no entry data.
    if data.is_null() {
        return;
    }
    // SAFETY: The kernel passes a probe with this function, so it is that of a registered slot.
    // Unregistering waits for this.
    let slot = unsafe { &*kernel::container_of!(Opaque::cast_from(fprobe), FprobeSlot, fprobe) };
    // SAFETY: The kernel saves entry data in whole words, so there is one at least.
    if unsafe { data.cast::<u64>().read() } != slot.number {
        return;
    }
    // SAFETY: This registration saved it, so it is of this type.
    let saved = unsafe { &*data.cast::<SavedData<H::Data>>() };
    // SAFETY: Registered, so the handler is there and of this type.
    let handler = unsafe { &*slot.handler.cast::<H>() };
    // SAFETY: ftrace has saved `regs` at the exit of the function. The kernel keeps them, and
    // preemption disabled, for the time of this call.
    let call = unsafe { Call::at_exit(entry, caller, regs) };
    handler.exit(&call, &saved.data);
}

// SPDX-License-Identifier: GPL-2.0

//! Handlers at the entry and the exit of many functions at once. ftrace calls them.
//!
//! C header: [`include/linux/fprobe.h`](srctree/include/linux/fprobe.h)
//!
//! Reference: <https://docs.kernel.org/trace/fprobe.html>
//!
//! The kernel's fprobe calls the handlers of a probe with an exit handler. For a probe without one,
//! ktrace takes the structure and the rules of the kernel's fprobe, but calls the handlers itself,
//! which costs less: see `fprobe/sites.rs`.
//!
//! A probe with an exit handler saves entry data on the task's shadow stack. Calls that are in
//! flight when the probe is unregistered return later, maybe after ktrace's module was unloaded and
//! loaded again. The kernel then checks only whether a probe is registered *at this address*. If
//! so, the kernel calls the exit handler of that probe, even if the handler is NULL. So ktrace
//! never frees the memory of a probe with an exit handler. It uses the memory again, only for
//! another probe with an exit handler. Each registration marks its entry data with a number of its
//! own.

use core::{
    mem::{
        align_of,
        size_of,
        ManuallyDrop, //
    },
    pin::Pin,
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    bindings::ftrace_regs,
    error::to_result,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    types::Opaque, //
};

use crate::{
    bindings,
    hit::function::Call,
    modules::{
        ftrace_list,
        leftover::{
            self,
            Entry,
            Kind, //
        },
    },
    probes::pointers::impl_for_pointers, //
};

use functions::MAX_FPROBE_DATA_SIZE;
use slot::FprobeSlot;

pub use functions::{
    exists,
    matches,
    Functions, //
};

mod functions;
mod graph_index;
mod sites;
mod slot;

/// The handler of the entry and the exit of a function.
#[vtable]
pub trait Handler: Send + Sync + 'static {
    /// The entry data, which the probe saves at the entry of a call for its exit. `()` saves
    /// nothing.
    ///
    /// The entry data is copied and never dropped, because a call may never return. Another CPU may
    /// read it. Its size is at most 112 bytes, and its alignment at most that of a word.
    type Data: Copy + Send + 'static;

    /// Called when a function is entered, in atomic context: see [`crate::context`].
    ///
    /// If the result is `None`, the probe ignores the exit of this call.
    fn entry(&self, call: &Call<'_>) -> Option<Self::Data>;

    /// Whether the probe ignores this call. If so, [`entry`](Self::entry) does not run. Called when
    /// a function is entered, in atomic context: see [`crate::context`].
    ///
    /// This saves the instructions that `entry` needs for its frame, which pays off if the probe
    /// ignores most calls.
    fn ignores(&self, _call: &Call<'_>) -> bool {
        false
    }

    /// Called when the function returns, in atomic context: see [`crate::context`]. A probe without
    /// this handler costs much less.
    fn exit(&self, _call: &Call<'_>, _data: &Self::Data) {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

impl_for_pointers! {
    #[vtable]
    type Data = H::Data;

    const HAS_ENTRY: bool = H::HAS_ENTRY;
    const HAS_EXIT: bool = H::HAS_EXIT;
    const HAS_IGNORES: bool = H::HAS_IGNORES;

    #[inline(always)]
    fn ignores(&self, call: &Call<'_>) -> bool {
        (**self).ignores(call)
    }

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<Self::Data> {
        (**self).entry(call)
    }

    #[inline(always)]
    fn exit(&self, call: &Call<'_>, data: &Self::Data) {
        (**self).exit(call, data);
    }
}

/// The entry data of a call, with the number of the registration that saved it.
#[repr(C)]
struct SavedData<D> {
    number: u64,
    data: D,
}

/// A registered fprobe. Dropping it unregisters it.
///
/// Dropping waits for an RCU grace period, until no handler runs. Process context. For calls in
/// flight, the exit handler does not run after this.
///
/// # Examples
///
/// Counts the failed calls of a group of functions:
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
/// let functions = Functions::Globs(&[c"vfs_*"], &[c"vfs_statx*"]);
/// let probe = Fprobe::new(functions, Errors(Counter::new()?))?;
/// pr_info!("{} errors\n", probe.handler().0.sum());
/// # Ok::<(), Error>(())
/// ```
///
/// # Invariants
///
/// `slot` was registered, and its `handler` points to `handler`. Only the task that claims `entry`
/// unregisters it. If `leftover` has done so, the slot stays allocated and unused.
#[must_use = "dropping the probe unregisters it"]
pub struct Fprobe<H: Handler> {
    slot: NonNull<FprobeSlot>,
    handler: ManuallyDrop<Pin<KBox<H>>>,
    entry: Entry,
}

// SAFETY: The kernel's functions on a registered fprobe take the locks that they need. `H` is
// `Send`.
unsafe impl<H: Handler> Send for Fprobe<H> {}
// SAFETY: The kernel's functions on a registered fprobe take the locks that they need. `H` is
// `Sync`.
unsafe impl<H: Handler> Sync for Fprobe<H> {}

impl<H: Handler> Fprobe<H> {
    /// The kernel's maximum without the number of the registration.
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

    /// Registers a probe on functions and arms it. C: `register_fprobe()`,
    /// `register_fprobe_syms()`, `register_fprobe_ips()`.
    ///
    /// Process context; sleeps. `ENOENT` if a function does not exist or cannot be traced, or if a
    /// module that is being unloaded has it, or if nothing matches the patterns. `EINVAL` without
    /// names or addresses. `EFAULT` for several patterns, if the kernel's filters look unknown.
    /// `ENOMEM`.
    pub fn new<E>(functions: Functions<'_>, handler: impl PinInit<H, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        Self::with_flags(functions, handler, 0)
    }

    /// Registers a probe as [`new`](Self::new) does, but does not [arm](Self::enable) it.
    ///
    /// The functions already call ftrace.
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
        let slot = slot::take(H::HAS_EXIT)?;
        // SAFETY: The slot is not registered, so no other code uses it. Calls in flight of an
        // earlier registration first check for a registration. Unregistering has waited for the
        // calls that found one.
        let fprobe = unsafe {
            (*slot).number = slot::next_number();
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
        let code = entry_handler::<H> as *const () as usize;
        // SAFETY: `remove` waits until no handler runs, and does not use module notifiers. The slot
        // is used again only by a task with the claim.
        let tracked = unsafe { leftover::track(Kind::Other, &[code], fprobe.cast(), remove) };
        // SAFETY: The slot is initialised and does not move. It is unregistered before it is used
        // again.
        match tracked.and_then(|claim| unsafe { register(slot, functions) }.map(|()| claim)) {
            // INVARIANT: This function has just registered the slot.
            Ok(claim) => Ok(Self {
                // SAFETY: The pointer is from a `KBox`, so it is not NULL.
                slot: unsafe { NonNull::new_unchecked(slot) },
                handler: ManuallyDrop::new(handler),
                entry: claim.keep(),
            }),
            Err(error) => {
                slot::give_back(slot, H::HAS_EXIT);
                Err(error)
            }
        }
    }

    fn fprobe(&self) -> *mut bindings::fprobe {
        // SAFETY: By the type invariant, the slot is live.
        unsafe { (*self.slot.as_ptr()).fprobe.get() }
    }

    /// Arms the probe. Any context. Always succeeds. C: `enable_fprobe()`.
    pub fn enable(&self) -> Result {
        self.set_flags(0);
        Ok(())
    }

    /// Disarms the probe. Does not wait for handlers that run. The functions still call ftrace. Any
    /// context. Always succeeds. C: `disable_fprobe()`.
    pub fn disable(&self) -> Result {
        self.set_flags(bindings::FPROBE_FL_DISABLED);
        Ok(())
    }

    fn set_flags(&self, flags: u32) {
        // SAFETY: By the type invariant, the slot is live. ktrace uses no other flag, and the
        // kernel only reads the flags.
        unsafe { ptr::write_volatile(&raw mut (*self.fprobe()).flags, flags) };
    }

    /// The number of calls that the kernel missed at their entry, or whose entry data found no
    /// memory. Any context.
    ///
    /// A call by a handler of ftrace which itself runs inside another one does not reach the probe:
    /// see `ftrace_test_recursion_trylock()`. Such a call is counted only for a probe without an
    /// exit handler, and only if no other kind of probe is at the same function.
    ///
    /// C: `nmissed` in `struct fprobe`, which is counted without a lock.
    pub fn missed(&self) -> u64 {
        // SAFETY: By the type invariant, the slot is live. The result may or may not include an
        // increment that another CPU makes now.
        unsafe { ptr::read_volatile(&raw const (*self.fprobe()).nmissed) as u64 }
    }

    /// The handler. Other CPUs may run it at the same time. Any context.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Unregisters the probe, as dropping does. Calls `f` when no handler runs any more, with the
    /// handler and the number of [`missed`](Self::missed) calls.
    pub fn unregister<R>(self, f: impl FnOnce(&H, u64) -> R) -> R {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after this.
        unsafe { this.unregister_then(f) }
    }

    /// # Safety
    ///
    /// The caller must not use the probe after this.
    unsafe fn unregister_then<R>(&mut self, f: impl FnOnce(&H, u64) -> R) -> R {
        let Some(_claim) = self.entry.claim() else {
            return f(&self.handler, self.missed());
        };
        // SAFETY: By the type invariant, the slot is registered, because this task has the claim.
        let unregistered = unsafe { unregister(self.fprobe()) };
        let result = f(&self.handler, self.missed());
        if unregistered.is_err() {
            return result;
        }
        // SAFETY: No handler runs any more. The caller guarantees that the probe is not used after
        // this.
        unsafe { ManuallyDrop::drop(&mut self.handler) };
        slot::give_back(self.slot.as_ptr(), H::HAS_EXIT);
        result
    }
}

impl<H: Handler> Drop for Fprobe<H> {
    fn drop(&mut self) {
        // SAFETY: `self` is not used after `drop`.
        unsafe { self.unregister_then(|_, _| ()) };
    }
}

/// Prepares the file for all probes. Process context; sleeps.
///
/// # Safety
///
/// The caller must call this function once, before any other use of this file, and [`exit`] before
/// the module unloads.
pub(crate) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe { slot::init() };
    sites::init();
}

/// Cleans up after all probes, when ktrace's module unloads. Process context; sleeps.
pub(crate) fn exit() {
    graph_index::exit(&ftrace_list::lock());
    sites::exit();
    slot::exit();
}

/// Registers a slot. Context and errors are those of [`Fprobe::new`].
///
/// The kernel's fprobe calls the handlers of probes with an exit handler, and those of other probes
/// whose functions ktrace does not find.
///
/// # Safety
///
/// `slot` must be initialised, and must not move until it has been unregistered.
unsafe fn register(slot: *mut FprobeSlot, functions: Functions<'_>) -> Result {
    // SAFETY: The caller guarantees that the slot is initialised. Nobody else uses it yet.
    let (fprobe, has_exit) = unsafe {
        let fprobe = (*slot).fprobe.get();
        (fprobe, (*fprobe).exit_handler.is_some())
    };
    if !has_exit {
        // SAFETY: The caller guarantees that the fprobe is initialised and does not move.
        if let Some(sites) = unsafe { sites::register(fprobe, &functions) }? {
            // SAFETY: The slot is live, and only this task uses the field.
            unsafe { *(*slot).sites.get() = sites };
            return Ok(());
        }
    }
    let list = ftrace_list::lock();
    if has_exit {
        graph_index::skip_first(&list);
    }
    // SAFETY: The caller guarantees that the fprobe is initialised and does not move.
    unsafe { functions::register(&list, fprobe, &functions) }?;
    if has_exit && graph_index::is_first() {
        // The next index is another one, unless other probes are registered.
        // SAFETY: This function has just registered the fprobe, and registers it again.
        unsafe {
            to_result(bindings::unregister_fprobe(fprobe))?;
            functions::register(&list, fprobe, &functions)?;
        }
    }
    if has_exit {
        graph_index::keep_last(&list);
    }
    Ok(())
}

/// Unregisters an fprobe, and waits until no handler runs. If this fails, keeps the code loaded.
/// The caller must then keep the memory.
///
/// # Safety
///
/// `fprobe` must be in a slot that [`register`] has registered.
unsafe fn unregister(fprobe: *mut bindings::fprobe) -> Result {
    // SAFETY: The caller guarantees that the fprobe is in a slot.
    let slot = unsafe { &*kernel::container_of!(Opaque::cast_from(fprobe), FprobeSlot, fprobe) };
    // SAFETY: Only the task that unregisters the slot uses the field.
    let mut sites = core::mem::take(unsafe { &mut *slot.sites.get() });
    if !sites.is_empty() {
        // SAFETY: `register` has registered the sites.
        unsafe { sites::unregister(&mut sites) };
        return Ok(());
    }
    // SAFETY: The caller guarantees that the fprobe is registered.
    let unregistered = to_result(unsafe { bindings::unregister_fprobe(fprobe) });
    if unregistered.is_err() {
        // SAFETY: The function was set before the registration, and does not change.
        let entry = unsafe { (*fprobe).entry_handler };
        leftover::keep_code_of(entry.map_or(0, |entry| entry as usize));
    }
    unregistered
}

/// Unregisters a probe that its module left registered.
///
/// # Safety
///
/// `object` must be the `struct fprobe` of a registered slot. Only the caller may unregister it.
unsafe fn remove(object: *mut c_void) {
    // SAFETY: The caller guarantees that the fprobe is registered. Its memory is not freed.
    let _ = unsafe { unregister(object.cast()) };
}

/// The kernel calls this at the entry of a function. If the result is not 0, the kernel does not
/// call the exit handler.
///
/// # Safety
///
/// `fprobe` must be the fprobe of a registered [`FprobeSlot`] for `H`. `data` must have the
/// requested size, and `regs` must be valid. Preemption must be disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn entry_handler<H: Handler>(
    fprobe: *mut bindings::fprobe,
    entry: c_ulong,
    caller: c_ulong,
    regs: *mut ftrace_regs,
    data: *mut c_void,
) -> c_int {
    if !H::HAS_IGNORES {
        // SAFETY: The requirements are the same.
        return unsafe { enter::<H>(fprobe, entry, caller, regs, data) };
    }
    // SAFETY: The caller guarantees that the fprobe is registered for `H`.
    let (_, handler) = unsafe { slot_of::<H>(fprobe) };
    // SAFETY: During this call, `regs` is valid and preemption is disabled.
    let call = unsafe { Call::new(entry, caller, regs) };
    if handler.ignores(&call) {
        return 1;
    }
    // SAFETY: The requirements are the same.
    unsafe { enter_outside::<H>(fprobe, entry, caller, regs, data) }
}

/// Does the same as [`enter`], outside of a function that is to have no frame. A jump to it needs
/// none.
///
/// # Safety
///
/// Those of [`entry_handler`].
#[inline(never)]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn enter_outside<H: Handler>(
    fprobe: *mut bindings::fprobe,
    entry: c_ulong,
    caller: c_ulong,
    regs: *mut ftrace_regs,
    data: *mut c_void,
) -> c_int {
    // SAFETY: The requirements are the same.
    unsafe { enter::<H>(fprobe, entry, caller, regs, data) }
}

/// Calls the handler at the entry of a function, and saves its entry data.
///
/// # Safety
///
/// Those of [`entry_handler`].
#[inline(always)]
unsafe fn enter<H: Handler>(
    fprobe: *mut bindings::fprobe,
    entry: c_ulong,
    caller: c_ulong,
    regs: *mut ftrace_regs,
    data: *mut c_void,
) -> c_int {
    // SAFETY: The caller guarantees that the fprobe is registered for `H`.
    let (slot, handler) = unsafe { slot_of::<H>(fprobe) };
    // SAFETY: During this call, `regs` is valid and preemption is disabled.
    let call = unsafe { Call::new(entry, caller, regs) };
    match handler.entry(&call) {
        Some(entry_data) if H::HAS_EXIT => {
            let saved = SavedData {
                number: slot.number,
                data: entry_data,
            };
            // SAFETY: The memory is aligned to a word, and has the size in `entry_data_size`.
            unsafe { data.cast::<SavedData<H::Data>>().write(saved) };
            0
        }
        Some(_) => 0,
        None => 1,
    }
}

/// The slot of an fprobe, and its handler.
///
/// # Safety
///
/// `fprobe` must be the fprobe of a registered [`FprobeSlot`] for `H`. It must stay registered
/// while the result is used.
#[inline(always)]
unsafe fn slot_of<'a, H: Handler>(fprobe: *mut bindings::fprobe) -> (&'a FprobeSlot, &'a H) {
    // SAFETY: The kernel passes an fprobe that has `entry_handler`, so the fprobe is in a
    // registered slot. Unregistering waits for this call.
    let slot = unsafe { &*kernel::container_of!(Opaque::cast_from(fprobe), FprobeSlot, fprobe) };
    // SAFETY: The slot is registered, so its handler is live and of this type.
    (slot, unsafe { &*slot.handler.cast::<H>() })
}

/// The kernel calls this function when a probed function returns.
///
/// # Safety
///
/// `fprobe` must be the fprobe of a registered [`FprobeSlot`] for `H`. `regs` must be valid. `data`
/// must be the entry data that this probe or an earlier probe at the same address saved for the
/// call, or NULL if the earlier probe saved nothing. Preemption must be disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn exit_handler<H: Handler>(
    fprobe: *mut bindings::fprobe,
    entry: c_ulong,
    caller: c_ulong,
    regs: *mut ftrace_regs,
    data: *mut c_void,
) {
    // An earlier probe of another module was at this address, and saved no entry data.
    if data.is_null() {
        return;
    }
    // SAFETY: The kernel passes an fprobe that has this function, so the fprobe is in a registered
    // slot. Unregistering waits for this call.
    let slot = unsafe { &*kernel::container_of!(Opaque::cast_from(fprobe), FprobeSlot, fprobe) };
    // SAFETY: The kernel saves entry data in whole words, so the data has at least one word.
    if unsafe { data.cast::<u64>().read() } != slot.number {
        return;
    }
    // SAFETY: This registration saved the data, so the data is of this type.
    let saved = unsafe { &*data.cast::<SavedData<H::Data>>() };
    // SAFETY: The slot is registered, so its handler is live and of this type.
    let handler = unsafe { &*slot.handler.cast::<H>() };
    // SAFETY: ftrace has saved `regs` at the exit of the function. During this call, they are valid
    // and preemption is disabled.
    let call = unsafe { Call::at_exit(entry, caller, regs) };
    handler.exit(&call, &saved.data);
}

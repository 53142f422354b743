// SPDX-License-Identifier: GPL-2.0

//! A handler on a tracepoint, by its name.
//!
//! C header: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)
//!
//! A tracepoint of a module comes and goes with it. The kernel tells of that, and a handler can
//! wait for it.

use core::{
    mem::ManuallyDrop,
    pin::Pin,
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicI32,
        AtomicPtr,
        AtomicUsize,
        Ordering, //
    },
};

use kernel::{
    bindings::{
        self,
        ftrace_regs, //
    },
    error::to_result,
    ffi::{
        c_char,
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    types::Opaque, //
};

use crate::{
    arch,
    function::Call,
    leftover,
    pointers::impl_for_pointers,
    registers::Value, //
};

/// The handler of a tracepoint.
pub trait Handler: Send + Sync + 'static {
    /// Called in atomic context: see [`crate::context`].
    ///
    /// It is not called for a tracepoint that is hit from within another one's handler.
    fn hit(&self, hit: &Hit<'_>);
}

impl_for_pointers! {
    #[inline(always)]
    fn hit(&self, hit: &Hit<'_>) {
        (**self).hit(hit);
    }
}

/// One hit of a tracepoint.
pub struct Hit<'a>(Call<'a>);

impl<'a> Hit<'a> {
    /// Argument `n` of the tracepoint, counted from 0, as a value of its type.
    ///
    /// The `TP_PROTO` of the tracepoint lists the arguments. Any other argument has an undefined
    /// value. If an argument is narrower than `T`, the upper bits are undefined.
    #[inline(always)]
    pub fn arg<T: Value>(&self, n: u16) -> T {
        self.0.arg(n.saturating_add(1))
    }

    /// The call of the stub that belongs to the tracepoint (`__probestub_sched_switch`), as if it
    /// were made. Its first argument is not one of the tracepoint's.
    #[inline(always)]
    pub fn call(&self) -> &Call<'a> {
        &self.0
    }
}

/// The part of a handler that C uses: `struct ktrace_hook` in `rust/helpers/handlers.h`.
#[repr(C)]
struct Hook {
    /// The address from which ftrace would call in the tracepoint's own stub.
    stub: AtomicUsize,
    /// Hits from within a handler.
    missed: AtomicUsize,
    hit: unsafe extern "C" fn(*mut Hook, *mut ftrace_regs),
}

/// The part that the kernel knows: it must not move.
#[repr(C)]
#[pin_data]
struct PinnedHook<H> {
    hook: Hook,
    attachment: Attachment,
    #[pin]
    handler: H,
}

/// The attachment of a handler.
struct Attachment {
    /// Registered if `is_notified`: for one that is no tracepoint of the kernel's own.
    notifier: Opaque<bindings::notifier_block>,
    is_notified: bool,
    name: CString,
    /// NULL if no tracepoint has this name. While the notifier is registered, only its calls change
    /// the pointer. The kernel makes one call at a time.
    tracepoint: AtomicPtr<bindings::tracepoint>,
    /// Why the handler could not be attached.
    error: AtomicI32,
}

/// A handler that is attached to a tracepoint, until it is dropped.
///
/// Dropping waits until the handler does not run any more: process context.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     percpu::Counter,
///     tracepoint::{
///         Handler,
///         Hit,
///         Tracepoint, //
///     },
/// };
///
/// struct Preemptions(Counter);
///
/// impl Handler for Preemptions {
///     // TP_PROTO(bool preempt, struct task_struct *prev, ...)
///     fn hit(&self, hit: &Hit<'_>) {
///         if hit.arg(0) {
///             self.0.increment();
///         }
///     }
/// }
///
/// let tracepoint = Tracepoint::attach(c"sched_switch", Preemptions(Counter::new()?))?;
/// pr_info!("{} preemptions\n", tracepoint.handler().0.sum());
/// # Ok::<(), Error>(())
/// ```
///
/// # Invariants
///
/// The hook in `inner` is attached to `tracepoint` in it, where that is not NULL: one of the
/// kernel's, or, where `is_notified` in it, one of a module that is there. Then the notifier is
/// registered.
pub struct Tracepoint<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<PinnedHook<H>>>>,
}

// SAFETY: The kernel's functions on tracepoints lock by themselves, and `H` is `Send`.
unsafe impl<H: Handler> Send for Tracepoint<H> {}
// SAFETY: The kernel's functions on tracepoints lock by themselves, and `H` is `Sync`.
unsafe impl<H: Handler> Sync for Tracepoint<H> {}

// ktrace does not access their fields.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_tracepoint_synchronize_unregister();
    fn ktrace_module_tracepoint(
        module: *const bindings::tp_module,
        name: *const c_char,
    ) -> *mut bindings::tracepoint;
    /// Its parameters depend on the architecture. Only the kernel calls it.
    fn ktrace_tracepoint_stub();
}

impl<H: Handler> Tracepoint<H> {
    /// Attaches a handler, from now on. C: `tracepoint_probe_register()`.
    ///
    /// `name` is that of the tracepoint, without its system: `sched_switch`. Process context;
    /// sleeps. `ENOENT` where neither the kernel nor a loaded module has one of this name,
    /// `ENOMEM`, and `ENOTSUPP` on a kernel with `CONFIG_CFI`: it checks that it calls a function
    /// of the type of the tracepoint, and takes any other for an attack.
    ///
    /// One of a module is left when the module goes, and entered again when it is back.
    pub fn attach<E>(name: &CStr, handler: impl PinInit<H, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        let this = Self::attach_or_wait(name, handler)?;
        if this.is_attached() {
            Ok(this)
        } else {
            Err(ENOENT)
        }
    }

    /// Attaches like [`Self::attach`]. But if the tracepoint does not exist, waits for a module
    /// that has it.
    pub fn attach_or_wait<E>(name: &CStr, handler: impl PinInit<H, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        if cfg!(CONFIG_CFI) {
            return Err(ENOTSUPP);
        }
        let found = find(name);
        let inner = KBox::try_pin_init(
            try_pin_init!(PinnedHook {
                hook: Hook {
                    stub: AtomicUsize::new(0),
                    missed: AtomicUsize::new(0),
                    hit: hit::<H>,
                },
                attachment: Attachment {
                    notifier: Opaque::new(bindings::notifier_block {
                        notifier_call: Some(module_changed::<H>),
                        ..Default::default()
                    }),
                    is_notified: found.is_none(),
                    name: CString::try_from(name)?,
                    tracepoint: AtomicPtr::new(ptr::null_mut()),
                    error: AtomicI32::new(0),
                },
                handler <- handler,
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: `remove` waits until no handler runs, and takes no lock that a module notifier
        // holds; `inner` is freed after `untrack` only.
        unsafe { leftover::track(hit::<H> as *const () as usize, inner.object(), remove::<H>) }?;
        let registered = match found {
            // SAFETY: The kernel's own are there for good; `inner` stays where it is until it is
            // detached.
            Some(tracepoint) => unsafe { inner.attach(tracepoint.as_ptr()) },
            // SAFETY: It is initialised, and unregistered before it is freed. This calls it for
            // each module that is there.
            None => to_result(unsafe {
                bindings::register_tracepoint_module_notifier(inner.attachment.notifier.get())
            }),
        };
        registered.inspect_err(|_| leftover::untrack(inner.object()))?;
        // INVARIANT: Attached or registered just now.
        let this = Self {
            inner: ManuallyDrop::new(inner),
        };
        match this.inner.attachment.error.load(Ordering::Relaxed) {
            0 => Ok(this),
            error => Err(Error::from_errno(error)),
        }
    }

    /// Whether the tracepoint exists. Any context. A module with the tracepoint may be loaded or
    /// unloaded at any time.
    pub fn is_attached(&self) -> bool {
        !self
            .inner
            .attachment
            .tracepoint
            .load(Ordering::Relaxed)
            .is_null()
    }

    /// The number of hits that a handler caused, and that were not seen. Any context; counted
    /// without a lock.
    pub fn missed(&self) -> u64 {
        self.inner.hook.missed.load(Ordering::Relaxed) as u64
    }

    /// The handler, which others may be running. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }

    /// Detaches it, as dropping does, and calls `f` when no handler runs any more: with the
    /// handler, and how many hits were [`missed`](Self::missed).
    pub fn unregister<R>(self, f: impl FnOnce(&H, u64) -> R) -> R {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after this.
        unsafe { this.unregister_then(f) }
    }

    /// # Safety
    ///
    /// It must not be used after this.
    unsafe fn unregister_then<R>(&mut self, f: impl FnOnce(&H, u64) -> R) -> R {
        // SAFETY: Attached or registered, by the type invariant.
        let unregistered = unsafe { self.inner.unregister() };
        leftover::untrack(self.inner.object());
        let result = f(self.handler(), self.missed());
        if unregistered.is_err() {
            return result;
        }
        // SAFETY: The handler does not run any more; nor is it used after this, by the safety
        // requirement.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
        result
    }
}

impl<H: Handler> Drop for Tracepoint<H> {
    fn drop(&mut self) {
        // SAFETY: This is the end of it.
        unsafe { self.unregister_then(|_, _| ()) };
    }
}

impl<H: Handler> PinnedHook<H> {
    /// Its entry in the list of [`leftover`].
    fn object(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Waits until no handler runs. If it fails, the memory and the code must stay: the code does.
    ///
    /// # Safety
    ///
    /// It must be attached to a tracepoint of the kernel, or its notifier registered.
    unsafe fn unregister(&self) -> Result {
        let attachment = &self.attachment;
        let detached = if attachment.is_notified {
            // For loaded modules, this calls the notifier as if they were unloaded. SAFETY: The
            // caller guarantees that it is registered.
            to_result(unsafe {
                bindings::unregister_tracepoint_module_notifier(attachment.notifier.get())
            })
        } else {
            // SAFETY: The tracepoint is no module's, so it is there, and no notifier detaches it.
            unsafe { self.detach() }
        };
        // SAFETY: No requirements.
        unsafe { ktrace_tracepoint_synchronize_unregister() };
        if detached.is_err() || !attachment.tracepoint.load(Ordering::Relaxed).is_null() {
            leftover::keep_code_of(hit::<H> as *const () as usize);
            return Err(EBUSY);
        }
        Ok(())
    }

    /// The data that the kernel passes to the stub.
    fn data(&self) -> *mut c_void {
        (&raw const self.hook).cast_mut().cast()
    }

    /// # Safety
    ///
    /// `tracepoint` must be there, and stay until it is detached; so must `self`. It must not be
    /// attached, and nobody else must be at it.
    unsafe fn attach(&self, tracepoint: *mut bindings::tracepoint) -> Result {
        // SAFETY: The caller guarantees that the tracepoint is there.
        let stub = unsafe { (*tracepoint).probestub } as usize;
        let site = arch::ftrace_site(stub);
        self.hook.stub.store(site, Ordering::Relaxed);
        // SAFETY: The function takes what every tracepoint passes first, the data given here, and
        // of its arguments those in registers. The caller guarantees that this data stays.
        to_result(unsafe {
            bindings::tracepoint_probe_register(
                tracepoint,
                ktrace_tracepoint_stub as *mut c_void,
                self.data(),
            )
        })?;
        self.attachment
            .tracepoint
            .store(tracepoint, Ordering::Relaxed);
        Ok(())
    }

    /// Handlers that run already may still be running.
    ///
    /// # Safety
    ///
    /// The tracepoint must be there, if it is attached, and nobody else must be at it.
    unsafe fn detach(&self) -> Result {
        let tracepoint = self.attachment.tracepoint.load(Ordering::Relaxed);
        if tracepoint.is_null() {
            return Ok(());
        }
        // SAFETY: Attached, and there by the safety requirement.
        to_result(unsafe {
            bindings::tracepoint_probe_unregister(
                tracepoint,
                ktrace_tracepoint_stub as *mut c_void,
                self.data(),
            )
        })?;
        self.attachment
            .tracepoint
            .store(ptr::null_mut(), Ordering::Relaxed);
        Ok(())
    }
}

/// Detaches a handler that its module left behind.
///
/// # Safety
///
/// `object` must be a [`PinnedHook`] for `H` that is attached to a tracepoint of the kernel or has
/// its notifier registered, and nobody else must use it any more.
unsafe fn remove<H: Handler>(object: *mut c_void) {
    // SAFETY: The caller guarantees that it is there and registered. The memory stays.
    let _ = unsafe { (*object.cast::<PinnedHook<H>>()).unregister() };
}

/// Finds a tracepoint of the kernel.
fn find(name: &CStr) -> Option<NonNull<bindings::tracepoint>> {
    struct Search<'a> {
        name: &'a CStr,
        found: *mut bindings::tracepoint,
    }

    /// # Safety
    ///
    /// `tracepoint` must be valid, and `search` a [`Search`] that nobody else uses.
    unsafe extern "C" fn compare(tracepoint: *mut bindings::tracepoint, search: *mut c_void) {
        // SAFETY: `find` passes its `Search`, which nobody else uses meanwhile.
        let search = unsafe { &mut *search.cast::<Search<'_>>() };
        // SAFETY: The kernel passes a tracepoint of its own, which has a name and stays.
        let name = unsafe { CStr::from_char_ptr((*tracepoint).name) };
        if name == search.name {
            search.found = tracepoint;
        }
    }

    let mut search = Search {
        name,
        found: ptr::null_mut(),
    };
    // SAFETY: `search` lives until it returns.
    unsafe {
        bindings::for_each_kernel_tracepoint(Some(compare), (&raw mut search).cast());
    }
    NonNull::new(search.found)
}

/// Called by the kernel when a module with tracepoints has come, or is about to go.
///
/// # Safety
///
/// `notifier` must be that of a live [`PinnedHook`] for `H`, which has no other tracepoint than
/// that of a module, and `module` a `struct tp_module`; no other such call is made meanwhile.
unsafe extern "C" fn module_changed<H: Handler>(
    notifier: *mut bindings::notifier_block,
    action: c_ulong,
    module: *mut c_void,
) -> c_int {
    const COMING: c_ulong = bindings::module_state_MODULE_STATE_COMING as c_ulong;
    const GOING: c_ulong = bindings::module_state_MODULE_STATE_GOING as c_ulong;

    // SAFETY: The kernel passes the notifier with this function, which is in a `PinnedHook` for
    // `H`. Unregistering waits for this.
    let inner = unsafe {
        let notifier = Opaque::cast_from(notifier);
        let attachment = kernel::container_of!(notifier, Attachment, notifier);
        &*kernel::container_of!(attachment, PinnedHook<H>, attachment)
    };
    let attachment = &inner.attachment;
    // SAFETY: The kernel passes a `struct tp_module` to notifiers of tracepoints.
    let found = unsafe { ktrace_module_tracepoint(module.cast(), attachment.name.as_char_ptr()) };
    if found.is_null() {
        return 0;
    }
    let attached = attachment.tracepoint.load(Ordering::Relaxed);
    let result = if action == COMING && attached.is_null() {
        // SAFETY: It is there until its module goes, of which this will be told. No other call, by
        // the safety requirement, and whoever has the notifier registered leaves the rest alone.
        unsafe { inner.attach(found) }
    } else if action == GOING && attached == found {
        // SAFETY: The module is still there.
        unsafe { inner.detach() }
    } else {
        Ok(())
    };
    if let Err(error) = result {
        pr_warn!("cannot attach to a tracepoint of a module: {error:?}\n");
        attachment.error.store(error.to_errno(), Ordering::Relaxed);
    }
    0
}

/// Called by C at a tracepoint.
///
/// # Safety
///
/// `hook` must be that of an attached [`PinnedHook`] for `H`, and `regs` valid; preemption is
/// disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn hit<H: Handler>(hook: *mut Hook, regs: *mut ftrace_regs) {
    // SAFETY: The stub passes the hook that was attached, which is in a `PinnedHook` for `H`.
    // Detaching waits for this.
    let inner = unsafe { &*kernel::container_of!(hook, PinnedHook<H>, hook) };
    let stub = inner.hook.stub.load(Ordering::Relaxed);
    // SAFETY: The stub keeps `regs`, and preemption disabled, for the time of this call. It fills
    // in the same registers as ftrace at an entry, with a valid stack pointer.
    let call = unsafe { Call::at_entry(stub, regs) };
    inner.handler.hit(&Hit(call));
}

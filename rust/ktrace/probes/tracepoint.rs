// SPDX-License-Identifier: GPL-2.0

//! A handler on a tracepoint. The tracepoint is found by its name.
//!
//! C header: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)
//!
//! A tracepoint of a module exists while the module is loaded. The kernel notifies ktrace of each
//! load and unload, so a handler can wait for a tracepoint.

use core::{
    mem::ManuallyDrop,
    pin::Pin,
    ptr::{
        self,
        NonNull, //
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
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

use crate::{
    arch,
    hit::{
        atomic::read_once,
        function::Call,
        registers::Value, //
    },
    modules::leftover::{
        self,
        Entry,
        Kind, //
    },
    probes::pointers::impl_for_pointers, //
};

/// The handler of a tracepoint.
pub trait Handler: Send + Sync + 'static {
    /// Called in atomic context: see [`crate::context`].
    ///
    /// If a handler hits a tracepoint, the kernel does not call the handler of this tracepoint.
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

    /// The hit as a call of the tracepoint's stub, such as `__probestub_sched_switch`. The kernel
    /// does not make this call. Its first argument is not an argument of the tracepoint.
    #[inline(always)]
    pub fn call(&self) -> &Call<'a> {
        &self.0
    }
}

/// The part of a handler that C uses: `struct ktrace_hook` in `rust/helpers/handlers.h`.
#[repr(C)]
struct Hook {
    /// The address of the ftrace site in the tracepoint's own stub.
    stub: Atomic<usize>,
    /// The number of hits that handlers caused.
    missed: Atomic<usize>,
    hit: unsafe extern "C" fn(*mut Hook, *mut ftrace_regs),
}

/// The part to which the kernel has pointers. It must not move.
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
    /// Registered if `is_notified` is set, for a tracepoint that the kernel itself does not have.
    notifier: Opaque<bindings::notifier_block>,
    is_notified: bool,
    name: CString,
    /// NULL if no tracepoint has this name. While the notifier is registered, only its calls change
    /// the pointer. The kernel makes one call at a time.
    tracepoint: Atomic<*mut bindings::tracepoint>,
    /// Why the handler could not be attached.
    error: Atomic<i32>,
}

/// A handler that is attached to a tracepoint. Dropping it detaches it.
///
/// Dropping waits until the handler does not run any more. Process context.
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
/// If `tracepoint` in `inner` is not NULL, the hook is attached to this tracepoint. If
/// `is_notified` is set, the tracepoint belongs to a loaded module, and the notifier is registered.
/// Otherwise the tracepoint belongs to the kernel itself. Only the task that claims `entry`
/// detaches the hook or unregisters the notifier. If `leftover` has done so, `inner` stays
/// allocated.
#[must_use = "dropping the value detaches the handler"]
pub struct Tracepoint<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<PinnedHook<H>>>>,
    entry: Entry,
}

// SAFETY: The kernel's functions on tracepoints take the locks that they need. `H` is `Send`.
unsafe impl<H: Handler> Send for Tracepoint<H> {}
// SAFETY: The kernel's functions on tracepoints take the locks that they need. `H` is `Sync`.
unsafe impl<H: Handler> Sync for Tracepoint<H> {}

// ktrace does not access the fields of these types.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_tracepoint_synchronize_unregister();
    fn ktrace_module_tracepoint(
        module: *const bindings::tp_module,
        name: *const c_char,
    ) -> *mut bindings::tracepoint;
    /// The parameters depend on the architecture. Only the kernel calls this function.
    fn ktrace_tracepoint_stub();
}

impl<H: Handler> Tracepoint<H> {
    /// Attaches a handler to a tracepoint. C: `tracepoint_probe_register()`.
    ///
    /// `name` is the name of the tracepoint without its system, such as `sched_switch`. If the
    /// tracepoint belongs to a module, ktrace detaches the handler when the module is unloaded, and
    /// attaches it again when the module is loaded.
    ///
    /// Process context; sleeps. Fails with:
    ///
    /// - `ENOENT` if neither the kernel nor a loaded module has a tracepoint of this name
    /// - `ENOTSUPP` on a kernel with `CONFIG_CFI`. Such a kernel checks the types of the functions
    ///   that it calls, and ktrace's function has not the type of the tracepoint.
    /// - `ENOMEM`
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

    /// Attaches a handler like [`Self::attach`]. If the tracepoint does not exist, attaches the
    /// handler when a module with this tracepoint is loaded.
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
                    stub: Atomic::new(0),
                    missed: Atomic::new(0),
                    hit: hit::<H>,
                },
                attachment: Attachment {
                    notifier: Opaque::new(bindings::notifier_block {
                        notifier_call: Some(module_changed::<H>),
                        ..Default::default()
                    }),
                    is_notified: found.is_none(),
                    name: CString::try_from(name)?,
                    tracepoint: Atomic::new(ptr::null_mut()),
                    error: Atomic::new(0),
                },
                handler <- handler,
            }? Error),
            GFP_KERNEL,
        )?;
        let code = hit::<H> as *const () as usize;
        // SAFETY: `remove` waits until no handler runs, and takes no lock that a module notifier
        // holds. `inner` is freed only by a task with the claim.
        let claim = unsafe { leftover::track(Kind::Other, &[code], inner.object(), remove::<H>) }?;
        let registered = match found {
            // SAFETY: The kernel never removes its own tracepoints. `inner` is pinned, and is
            // detached before it is freed.
            Some(tracepoint) => unsafe { inner.attach(tracepoint.as_ptr()) },
            // SAFETY: The notifier is initialised, and is unregistered before it is freed. The
            // kernel calls the notifier for each loaded module during this call.
            None => to_result(unsafe {
                bindings::register_tracepoint_module_notifier(inner.attachment.notifier.get())
            }),
        };
        registered?;
        // INVARIANT: This function has just attached the hook or registered the notifier.
        let this = Self {
            inner: ManuallyDrop::new(inner),
            entry: claim.keep(),
        };
        match this.inner.attachment.error.load(Relaxed) {
            0 => Ok(this),
            error => Err(Error::from_errno(error)),
        }
    }

    /// Whether the tracepoint exists. Any context. A module with the tracepoint may be loaded or
    /// unloaded at any time.
    pub fn is_attached(&self) -> bool {
        !self.inner.attachment.tracepoint.load(Relaxed).is_null()
    }

    /// The number of hits that handlers caused, for which the kernel did not call this handler. Any
    /// context. The kernel counts without a lock.
    pub fn missed(&self) -> u64 {
        self.inner.hook.missed.load(Relaxed) as u64
    }

    /// The handler. Other CPUs may run it at the same time. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }

    /// Detaches the handler, as dropping does. Calls `f` when the handler does not run any more,
    /// with the handler and the number of [`missed`](Self::missed) hits.
    pub fn unregister<R>(self, f: impl FnOnce(&H, u64) -> R) -> R {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after this.
        unsafe { this.unregister_then(f) }
    }

    /// # Safety
    ///
    /// The caller must not use the handler after this.
    unsafe fn unregister_then<R>(&mut self, f: impl FnOnce(&H, u64) -> R) -> R {
        let Some(_claim) = self.entry.claim() else {
            return f(self.handler(), self.missed());
        };
        // SAFETY: By the type invariant, the hook is attached or the notifier is registered,
        // because this task has the claim.
        let unregistered = unsafe { self.inner.unregister() };
        let result = f(self.handler(), self.missed());
        if unregistered.is_err() {
            return result;
        }
        // SAFETY: The handler does not run any more. The caller guarantees that it is not used
        // after this.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
        result
    }
}

impl<H: Handler> Drop for Tracepoint<H> {
    fn drop(&mut self) {
        // SAFETY: `self` is not used after `drop`.
        unsafe { self.unregister_then(|_, _| ()) };
    }
}

impl<H: Handler> PinnedHook<H> {
    /// The argument for [`remove`].
    fn object(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Detaches the hook, and waits until no handler runs. If this fails, keeps the code loaded.
    /// The caller must then keep the memory.
    ///
    /// # Safety
    ///
    /// The hook must be attached to a tracepoint of the kernel, or its notifier must be registered.
    unsafe fn unregister(&self) -> Result {
        let attachment = &self.attachment;
        let detached = if attachment.is_notified {
            // The kernel calls the notifier for each loaded module, as if the module were unloaded.
            // SAFETY: The caller guarantees that the notifier is registered.
            to_result(unsafe {
                bindings::unregister_tracepoint_module_notifier(attachment.notifier.get())
            })
        } else {
            // SAFETY: The tracepoint belongs to the kernel itself, so it exists, and no notifier
            // detaches the hook.
            unsafe { self.detach() }
        };
        // SAFETY: The function has no requirements.
        unsafe { ktrace_tracepoint_synchronize_unregister() };
        if detached.is_err() || !attachment.tracepoint.load(Relaxed).is_null() {
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
    /// `tracepoint` and `self` must live until the hook is detached. The hook must not be attached,
    /// and no other code may attach or detach it during the call.
    unsafe fn attach(&self, tracepoint: *mut bindings::tracepoint) -> Result {
        // SAFETY: The caller guarantees that the tracepoint lives.
        let stub = unsafe { (*tracepoint).probestub } as usize;
        let site = arch::ftrace_site(stub);
        self.hook.stub.store(site, Relaxed);
        // SAFETY: The stub takes the data that every tracepoint passes first, and reads only those
        // arguments of the tracepoint that are in registers. The caller guarantees that this data
        // lives.
        to_result(unsafe {
            bindings::tracepoint_probe_register(
                tracepoint,
                ktrace_tracepoint_stub as *mut c_void,
                self.data(),
            )
        })?;
        self.attachment.tracepoint.store(tracepoint, Relaxed);
        Ok(())
    }

    /// Detaches the hook. Does not wait for handlers that run.
    ///
    /// # Safety
    ///
    /// If the hook is attached, the tracepoint must live. No other code may attach or detach the
    /// hook during the call.
    unsafe fn detach(&self) -> Result {
        let tracepoint = self.attachment.tracepoint.load(Relaxed);
        if tracepoint.is_null() {
            return Ok(());
        }
        // SAFETY: The hook is attached. The caller guarantees that the tracepoint lives.
        to_result(unsafe {
            bindings::tracepoint_probe_unregister(
                tracepoint,
                ktrace_tracepoint_stub as *mut c_void,
                self.data(),
            )
        })?;
        self.attachment.tracepoint.store(ptr::null_mut(), Relaxed);
        Ok(())
    }
}

/// Detaches a handler that its module left attached.
///
/// # Safety
///
/// `object` must be a [`PinnedHook`] for `H` that is attached to a tracepoint of the kernel, or
/// whose notifier is registered. Only the caller may detach or unregister it.
unsafe fn remove<H: Handler>(object: *mut c_void) {
    // SAFETY: The caller guarantees that the hook is attached, or its notifier registered. Its
    // memory is not freed.
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
    /// `tracepoint` must be valid. `search` must be a [`Search`] that no other code uses.
    unsafe extern "C" fn compare(tracepoint: *mut bindings::tracepoint, search: *mut c_void) {
        // SAFETY: `find` passes its `Search`, which no other code uses during this call.
        let search = unsafe { &mut *search.cast::<Search<'_>>() };
        // SAFETY: The kernel passes a tracepoint of its own, which has a name and is never removed.
        let name = unsafe { CStr::from_char_ptr((*tracepoint).name) };
        if name == search.name {
            search.found = tracepoint;
        }
    }

    let mut search = Search {
        name,
        found: ptr::null_mut(),
    };
    // SAFETY: `search` lives longer than the call.
    unsafe {
        bindings::for_each_kernel_tracepoint(Some(compare), (&raw mut search).cast());
    }
    NonNull::new(search.found)
}

/// The kernel calls this function when a module with tracepoints has been loaded, or will be
/// unloaded.
///
/// # Safety
///
/// `notifier` must be the notifier of a live [`PinnedHook`] for `H`. If this hook is attached, its
/// tracepoint must belong to a module. `module` must be a `struct tp_module`. No other such call
/// may run at the same time.
unsafe extern "C" fn module_changed<H: Handler>(
    notifier: *mut bindings::notifier_block,
    action: c_ulong,
    module: *mut c_void,
) -> c_int {
    const COMING: c_ulong = bindings::module_state_MODULE_STATE_COMING as c_ulong;
    const GOING: c_ulong = bindings::module_state_MODULE_STATE_GOING as c_ulong;

    // SAFETY: The kernel passes a notifier that has this function, so the notifier is in a
    // `PinnedHook` for `H`. Unregistering waits for this call.
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
    let attached = attachment.tracepoint.load(Relaxed);
    let result = if action == COMING && attached.is_null() {
        // SAFETY: The tracepoint lives until its module is unloaded, and the kernel calls this
        // function before that. The caller guarantees that no other such call runs. While the
        // notifier is registered, only its calls attach and detach the hook.
        unsafe { inner.attach(found) }
    } else if action == GOING && attached == found {
        // SAFETY: The module is still loaded, so the tracepoint lives.
        unsafe { inner.detach() }
    } else {
        Ok(())
    };
    if let Err(error) = result {
        pr_warn!("cannot attach to a tracepoint of a module: {error:?}\n");
        attachment.error.store(error.to_errno(), Relaxed);
    }
    0
}

/// C calls this function at a hit of the tracepoint.
///
/// # Safety
///
/// `hook` must be the hook of an attached [`PinnedHook`] for `H`. `regs` must be valid. Preemption
/// must be disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn hit<H: Handler>(hook: *mut Hook, regs: *mut ftrace_regs) {
    // SAFETY: The stub passes the hook that `attach` gave to the kernel, which is in a `PinnedHook`
    // for `H`. Detaching waits for this call.
    let inner = unsafe { &*kernel::container_of!(hook, PinnedHook<H>, hook) };
    let stub = read_once(&inner.hook.stub);
    // SAFETY: During this call, `regs` is valid and preemption is disabled. The stub sets the same
    // registers as ftrace at an entry, with a valid stack pointer.
    let call = unsafe { Call::at_entry(stub, regs) };
    inner.handler.hit(&Hit(call));
}

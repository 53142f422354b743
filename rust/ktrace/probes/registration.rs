// SPDX-License-Identifier: GPL-2.0

//! The registration of kprobes and kretprobes: how they are registered, owned and unregistered.

use core::{
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    pin::Pin,
    ptr, //
};

use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    types::Opaque, //
};

use crate::{
    bindings,
    modules::{
        kprobe_list,
        leftover::{
            self,
            Entry,
            Kind, //
        },
        module, //
    },
    probes::readers,
    security, //
};

/// The place of a probe. A name alone, `NAME` or `MODULE:NAME`, means the entry of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// At a symbol, `NAME` or `MODULE:NAME`, plus an offset in bytes.
    Symbol(&'a CStr, u32),
    /// At an address.
    Address(usize),
}

impl<'a> From<&'a CStr> for Target<'a> {
    /// The entry of a function.
    fn from(name: &'a CStr) -> Self {
        Self::Symbol(name, 0)
    }
}

/// A structure of the kernel that holds a `struct kprobe`.
///
/// # Safety
///
/// All-zero is a valid value. [`kprobe`](Self::kprobe) returns a field of the same structure.
/// [`unregister`](Self::unregister) waits until no handler of these structures runs, and clears the
/// address of each structure that the kernel has to keep.
pub(crate) unsafe trait Raw: Sized {
    /// Returns the kprobe in the structure.
    fn kprobe(this: *mut Self) -> *mut bindings::kprobe;

    /// Returns the address of a function that the kernel calls. The function is in the handler's
    /// module.
    ///
    /// # Safety
    ///
    /// The functions of the structure must be set, and no code may change them during the call.
    unsafe fn code(this: *const Self) -> usize;

    /// Registers the structure.
    ///
    /// # Safety
    ///
    /// The structure must be initialised, and must not move until it has been unregistered.
    unsafe fn register(this: *mut Self) -> c_int;

    /// Unregisters several structures, and waits once for all of them.
    ///
    /// # Safety
    ///
    /// All structures must be registered.
    unsafe fn unregister(these: &mut [*mut Self]);
}

/// The part of a probe to which the kernel has pointers. It must not move, and outlives the
/// registration.
#[repr(C)]
#[pin_data]
pub(crate) struct PinnedProbe<R, H: ?Sized> {
    #[pin]
    pub(crate) raw: Opaque<R>,
    #[pin]
    pub(crate) handler: H,
}

/// A registered probe. It is disabled at first. Dropping it unregisters it.
///
/// # Invariants
///
/// `inner` was registered, and only the task that claims `entry` unregisters it. While registered,
/// it is in [`kprobe_list`] if its code [needs](kprobe_list::needs) it. If `leftover` has removed
/// it, the structure stays in place, and the kernel's functions return `EINVAL` for it.
pub(crate) struct Registration<R: Raw, H: ?Sized> {
    inner: ManuallyDrop<Pin<KBox<PinnedProbe<R, H>>>>,
    entry: Entry,
}

// SAFETY: The kernel's functions on a registered probe take the locks that they need.
unsafe impl<R: Raw, H: Send + ?Sized> Send for Registration<R, H> {}
// SAFETY: The kernel's functions on a registered probe take the locks that they need. `H` is
// `Sync`.
unsafe impl<R: Raw, H: Sync + ?Sized> Sync for Registration<R, H> {}

impl<R: Raw, H> Registration<R, H> {
    /// Registers a probe, disabled. `set` sets the functions that the kernel calls.
    pub(crate) fn register<E>(
        target: Target<'_>,
        handler: impl PinInit<H, E>,
        set: impl FnOnce(&mut R),
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        security::kprobes_allowed()?;
        let inner = KBox::try_pin_init(
            try_pin_init!(PinnedProbe {
                // SAFETY: All-zero is a valid `R`: `Raw` requires it.
                raw: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                handler <- handler,
            }? Error),
            GFP_KERNEL,
        )?;
        Self::place(inner, target, set)
    }

    /// Unregisters the probe, and registers it again at its address, with other functions.
    ///
    /// `ENODEV` if the module of the handler is being unloaded.
    pub(crate) fn register_again(self, set: impl FnOnce(&mut R)) -> Result<Self> {
        let mut this = ManuallyDrop::new(self);
        let claim = this.entry.claim().ok_or(ENODEV)?;
        let target = Target::Address(this.address());
        this.leave_list();
        // SAFETY: By the type invariant, the probe is registered, because this task has the claim.
        unsafe { R::unregister(&mut [this.raw()]) };
        drop(claim);
        // SAFETY: `this` is not used after this.
        let inner = unsafe { ManuallyDrop::take(&mut this.inner) };
        // SAFETY: This function has just unregistered the probe.
        if unsafe { was_kept(inner.raw.get()) } {
            core::mem::forget(inner);
            return Err(EBUSY);
        }
        Self::place(inner, target, set)
    }

    /// Registers `inner`, which is not registered yet.
    fn place(
        inner: Pin<KBox<PinnedProbe<R, H>>>,
        target: Target<'_>,
        set: impl FnOnce(&mut R),
    ) -> Result<Self> {
        let raw = inner.raw.get();
        // SAFETY: No other code has the structure yet. All-zero is a valid `R`: `Raw` requires it.
        // The name lives longer than this call, and the kernel reads it only during the call.
        unsafe {
            raw.write(MaybeUninit::zeroed().assume_init());
            let kprobe = R::kprobe(raw);
            match target {
                Target::Symbol(name, offset) => {
                    (*kprobe).symbol_name = name.as_char_ptr();
                    (*kprobe).offset = offset;
                }
                Target::Address(address) => (*kprobe).addr = address as *mut _,
            }
            (*kprobe).flags = bindings::KPROBE_FLAG_DISABLED;
            set(&mut *raw);
        }
        // SAFETY: The functions are set.
        let code = unsafe { R::code(raw) };
        // SAFETY: No other code has the structure yet. `remove` waits until no handler runs, and
        // does not use module notifiers. `inner` is freed only by a task with the claim.
        let claim = unsafe { leftover::track(Kind::Other, &[code], raw.cast(), remove::<R>) }?;
        // SAFETY: The structure is initialised and pinned. It is unregistered before it is freed.
        let register = || to_result(unsafe { R::register(raw) });
        let registered = if kprobe_list::needs(code) {
            // SAFETY: Each function that unregisters the probe calls `kprobe_list::remove` before.
            unsafe { kprobe_list::add(R::kprobe(raw), register) }
        } else {
            register()
        };
        registered?;
        // The kernel has the address now, and does not look up the name again.
        // SAFETY: The probe is registered, so no other code uses or changes its name.
        unsafe { (*R::kprobe(raw)).symbol_name = ptr::null() };
        // INVARIANT: This function has just registered the probe, and listed it if necessary.
        let this = Self {
            inner: ManuallyDrop::new(inner),
            entry: claim.keep(),
        };
        // Dropping the probe unregisters it. It was never enabled.
        if readers::contain(this.address()) {
            return Err(EINVAL);
        }
        Ok(this)
    }

    /// Converts the probe to one without the type of its handler.
    pub(crate) fn into_any(self) -> Registration<R, dyn Send>
    where
        R: 'static,
        H: Send + 'static,
    {
        let mut this = ManuallyDrop::new(self);
        let entry = core::mem::replace(&mut this.entry, Entry::none());
        // SAFETY: `this` is not used after this.
        let inner = unsafe { ManuallyDrop::take(&mut this.inner) };
        // SAFETY: The probe stays in its box, which is pinned again below.
        let inner = unsafe { Pin::into_inner_unchecked(inner) };
        let inner: KBox<PinnedProbe<R, dyn Send>> = inner;
        // INVARIANT: The same probe is still registered, with the same entry.
        Registration {
            inner: ManuallyDrop::new(inner.into()),
            entry,
        }
    }
}

impl<R: Raw, H: ?Sized> Registration<R, H> {
    /// The registered structure.
    pub(crate) fn raw(&self) -> *mut R {
        self.inner.raw.get()
    }

    fn kprobe(&self) -> *mut bindings::kprobe {
        R::kprobe(self.raw())
    }

    /// Whether the probe is in [`kprobe_list`].
    fn is_listed(&self) -> bool {
        // SAFETY: The functions were set before the registration, and no code changes them.
        kprobe_list::needs(unsafe { R::code(self.raw()) })
    }

    /// Removes the probe from [`kprobe_list`], before it is unregistered.
    fn leave_list(&self) {
        if self.is_listed() {
            kprobe_list::remove(self.kprobe());
        }
    }

    pub(crate) fn enable(&self) -> Result {
        if self.is_listed() {
            // SAFETY: By the type invariant, the probe was registered, and is not freed.
            return unsafe { kprobe_list::enable(self.kprobe()) };
        }
        // SAFETY: By the type invariant, the probe was registered, and is not freed. C checks that
        // it is still registered.
        to_result(unsafe { bindings::enable_kprobe(self.kprobe()) })
    }

    pub(crate) fn disable(&self) -> Result {
        // SAFETY: By the type invariant, the probe was registered, and is not freed. C checks that
        // it is still registered.
        to_result(unsafe { bindings::disable_kprobe(self.kprobe()) })
    }

    /// The first bytes of the instruction, which an armed probe hides.
    pub(crate) fn opcode(&self) -> bindings::kprobe_opcode_t {
        // SAFETY: By the type invariant, the probe was registered, and is not freed. The kernel has
        // copied the opcode, and does not change it again.
        unsafe { (*self.kprobe()).opcode }
    }

    pub(crate) fn is_gone(&self) -> bool {
        // SAFETY: By the type invariant, the probe was registered, and is not freed.
        let is_gone = unsafe { has_flag(self.kprobe(), bindings::KPROBE_FLAG_GONE) };
        is_gone || module::is_in_going(self.address())
    }

    /// Whether ftrace calls the probe, which is then at a function's ftrace site.
    pub(crate) fn is_on_ftrace(&self) -> bool {
        // SAFETY: By the type invariant, the probe was registered, and is not freed.
        unsafe { is_on_ftrace(self.kprobe()) }
    }

    pub(crate) fn address(&self) -> usize {
        // SAFETY: By the type invariant, the probe was registered, and is not freed. Only
        // `leftover` may unregister it during this call. The kernel then clears the address if it
        // fails, and either value is correct.
        unsafe { ptr::read_volatile(&raw const (*self.kprobe()).addr) as usize }
    }

    /// The number of hits that did not run the handler, because another handler was running on that
    /// CPU.
    pub(crate) fn missed(&self) -> u64 {
        // SAFETY: By the type invariant, the probe was registered, and is not freed. The result may
        // or may not include an increment that another CPU makes now.
        unsafe { ptr::read_volatile(&raw const (*self.kprobe()).nmissed) as u64 }
    }

    pub(crate) fn handler(&self) -> &H {
        &self.inner.handler
    }

    /// Unregisters many probes, and waits once. Without memory, waits once for each probe.
    pub(crate) fn unregister_all<P>(probes: KVVec<P>, registration_of: impl Fn(P) -> Self) {
        let (Ok(mut raw), Ok(mut owned), Ok(mut claims)) = (
            KVVec::with_capacity(probes.len(), GFP_KERNEL),
            KVVec::with_capacity(probes.len(), GFP_KERNEL),
            KVVec::with_capacity(probes.len(), GFP_KERNEL),
        ) else {
            // Dropping each probe unregisters it.
            return;
        };
        for probe in probes {
            let mut registration = ManuallyDrop::new(registration_of(probe));
            let Some(claim) = registration.entry.claim() else {
                continue;
            };
            registration.leave_list();
            // The lists have capacity for all probes, so no push fails.
            let _ = claims.push_within_capacity(claim);
            let _ = raw.push_within_capacity(registration.raw());
            // SAFETY: `registration` is not used after this.
            let inner = unsafe { ManuallyDrop::take(&mut registration.inner) };
            let _ = owned.push_within_capacity(inner);
        }
        // SAFETY: By the type invariant, each probe is registered, because this task has the claim.
        // It is freed only after this.
        unsafe { R::unregister(&mut raw) };
        // The last entries of the list are the cheapest to remove.
        while claims.pop().is_some() {}
        for inner in owned {
            // SAFETY: This function has just unregistered the probe.
            unsafe { release(inner) };
        }
    }
}

impl<R: Raw, H: ?Sized> Drop for Registration<R, H> {
    fn drop(&mut self) {
        let Some(_claim) = self.entry.claim() else {
            return;
        };
        self.leave_list();
        // SAFETY: By the type invariant, the probe is registered, because this task has the claim.
        // It is freed only after this.
        unsafe { R::unregister(&mut [self.raw()]) };
        // SAFETY: `self` is not used after this. The probe has just been unregistered.
        unsafe { release(ManuallyDrop::take(&mut self.inner)) };
    }
}

/// Whether ftrace calls this probe.
///
/// # Safety
///
/// `kprobe` must have been registered, and must not have been freed.
#[inline(always)]
pub(crate) unsafe fn is_on_ftrace(kprobe: *const bindings::kprobe) -> bool {
    // SAFETY: The caller guarantees that the kprobe was registered and exists.
    unsafe { has_flag(kprobe, bindings::KPROBE_FLAG_FTRACE) }
}

/// # Safety
///
/// `kprobe` must have been registered, and must not have been freed.
#[inline(always)]
unsafe fn has_flag(kprobe: *const bindings::kprobe, flag: u32) -> bool {
    // SAFETY: The caller guarantees that the kprobe was registered and exists. The kernel may
    // change another flag at the same time.
    unsafe { ptr::read_volatile(&raw const (*kprobe).flags) & flag != 0 }
}

/// Whether the kernel still uses a probe that was unregistered. In this case, the kernel has
/// cleared the address, and the function keeps the probe's code loaded permanently.
///
/// # Safety
///
/// `raw` must have been unregistered, and must not have been freed.
unsafe fn was_kept<R: Raw>(raw: *mut R) -> bool {
    // SAFETY: The caller guarantees that the probe was unregistered, so no other code changes the
    // address.
    let was_kept = unsafe { (*R::kprobe(raw)).addr.is_null() };
    if was_kept {
        // SAFETY: The functions were set before the registration, and no code changes them.
        leftover::keep_code_of(unsafe { R::code(raw) });
    }
    was_kept
}

/// Unregisters a probe that its module left registered.
///
/// # Safety
///
/// `object` must be a registered `R`. Only the caller may unregister it.
unsafe fn remove<R: Raw>(object: *mut c_void) {
    let raw = object.cast::<R>();
    kprobe_list::remove(R::kprobe(raw));
    // SAFETY: The caller guarantees that the structure is registered. No other code unregisters or
    // frees it.
    unsafe {
        R::unregister(&mut [raw]);
        was_kept(raw);
    }
}

/// Frees a probe, unless the kernel still uses it. In this case, the memory is never freed.
///
/// # Safety
///
/// `inner` must have been unregistered.
unsafe fn release<R: Raw, H: ?Sized>(inner: Pin<KBox<PinnedProbe<R, H>>>) {
    // SAFETY: The caller guarantees that the probe was unregistered.
    if unsafe { was_kept(inner.raw.get()) } {
        core::mem::forget(inner);
    }
}

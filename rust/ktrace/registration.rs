// SPDX-License-Identifier: GPL-2.0

//! What kprobes and kretprobes have in common: how they are registered, owned and let go.

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
    kprobe_list,
    leftover,
    security, //
};

/// The place of a probe. A name alone, `NAME` or `MODULE:NAME`, is the entry of a function.
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
/// All-zero is a valid value. [`kprobe`](Self::kprobe) gives a field of the same structure.
/// [`unregister`](Self::unregister) waits until no handler of theirs runs any more, and clears the
/// address of those that the kernel has to keep.
pub(crate) unsafe trait Raw: Sized {
    /// The kprobe in it.
    fn kprobe(this: *mut Self) -> *mut bindings::kprobe;

    /// The address of a function in the handler's module, which the kernel calls.
    ///
    /// # Safety
    ///
    /// Its functions must be set, and not be changed meanwhile.
    unsafe fn code(this: *const Self) -> usize;

    /// Registers it.
    ///
    /// # Safety
    ///
    /// It must be initialised, and stay in place until it was unregistered.
    unsafe fn register(this: *mut Self) -> c_int;

    /// Unregisters some, and waits once.
    ///
    /// # Safety
    ///
    /// All must be registered.
    unsafe fn unregister(these: &mut [*mut Self]);
}

/// The part of a probe that the kernel knows: it must not move, and outlives the registration.
#[repr(C)]
#[pin_data]
pub(crate) struct PinnedProbe<R, H: ?Sized> {
    #[pin]
    pub(crate) raw: Opaque<R>,
    #[pin]
    pub(crate) handler: H,
}

/// A registered probe: disabled at first, and unregistered when dropped.
///
/// # Invariants
///
/// `inner` was registered successfully and not unregistered since. If `is_listed` is set,
/// [`kprobe_list`] has it.
pub(crate) struct Registration<R: Raw, H: ?Sized> {
    inner: ManuallyDrop<Pin<KBox<PinnedProbe<R, H>>>>,
    is_listed: bool,
}

// SAFETY: The kernel's functions on a registered probe lock by themselves.
unsafe impl<R: Raw, H: Send + ?Sized> Send for Registration<R, H> {}
// SAFETY: The kernel's functions on a registered probe lock by themselves, and `H` is `Sync`.
unsafe impl<R: Raw, H: Sync + ?Sized> Sync for Registration<R, H> {}

impl<R: Raw, H> Registration<R, H> {
    /// Places a probe, disabled; `set` sets the functions that the kernel calls.
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

    /// Takes the probe away and places it anew at its address, with other functions.
    pub(crate) fn register_again(self, set: impl FnOnce(&mut R)) -> Result<Self> {
        let mut this = ManuallyDrop::new(self);
        let target = Target::Address(this.address());
        this.leave_list();
        // SAFETY: Registered, by the type invariant, and placed again or freed only after this.
        unsafe { R::unregister(&mut [this.raw()]) };
        leftover::untrack(this.raw().cast());
        // SAFETY: `this` is not used after this.
        let inner = unsafe { ManuallyDrop::take(&mut this.inner) };
        // SAFETY: It was unregistered just now.
        if unsafe { was_kept(inner.raw.get()) } {
            core::mem::forget(inner);
            return Err(EBUSY);
        }
        Self::place(inner, target, set)
    }

    /// `inner` is not registered.
    fn place(
        inner: Pin<KBox<PinnedProbe<R, H>>>,
        target: Target<'_>,
        set: impl FnOnce(&mut R),
    ) -> Result<Self> {
        let raw = inner.raw.get();
        // SAFETY: Nobody else has it yet; all-zero is a valid `R`: `Raw` requires it.
        // The name lives until the kernel has registered the probe, or has failed to.
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
        // SAFETY: Nobody else has it yet. `remove` waits until no handler runs, and does not touch
        // module notifiers; `inner` is freed after `untrack` only.
        unsafe { leftover::track(code, raw.cast(), remove::<R>) }?;
        // SAFETY: It is initialised, pinned, and unregistered before it is freed.
        let register = || to_result(unsafe { R::register(raw) });
        let is_listed = kprobe_list::needs(code);
        let registered = if is_listed {
            // SAFETY: Each function that unregisters it calls `kprobe_list::remove` before.
            unsafe { kprobe_list::add(R::kprobe(raw), register) }
        } else {
            register()
        };
        registered.inspect_err(|_| leftover::untrack(raw.cast()))?;
        // The kernel has the address now, and does not look the name up again.
        // SAFETY: The probe is registered: its name is not changed by others, nor used.
        unsafe { (*R::kprobe(raw)).symbol_name = ptr::null() };
        // INVARIANT: Registered just now, and listed if it must be.
        Ok(Self {
            inner: ManuallyDrop::new(inner),
            is_listed,
        })
    }

    /// The same probe, with the type of its handler forgotten.
    pub(crate) fn into_any(self) -> Registration<R, dyn Send>
    where
        R: 'static,
        H: Send + 'static,
    {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after this.
        let inner = unsafe { ManuallyDrop::take(&mut this.inner) };
        // SAFETY: It stays in its box, which is pinned again below.
        let inner = unsafe { Pin::into_inner_unchecked(inner) };
        let inner: KBox<PinnedProbe<R, dyn Send>> = inner;
        // INVARIANT: It is the same one, registered.
        Registration {
            inner: ManuallyDrop::new(inner.into()),
            is_listed: this.is_listed,
        }
    }
}

impl<R: Raw, H: ?Sized> Registration<R, H> {
    /// The structure, registered.
    pub(crate) fn raw(&self) -> *mut R {
        self.inner.raw.get()
    }

    fn kprobe(&self) -> *mut bindings::kprobe {
        R::kprobe(self.raw())
    }

    /// Takes it off the list, before it is unregistered.
    fn leave_list(&self) {
        if self.is_listed {
            kprobe_list::remove(self.kprobe());
        }
    }

    pub(crate) fn enable(&self) -> Result {
        if self.is_listed {
            // SAFETY: Registered, by the type invariant.
            return unsafe { kprobe_list::enable(self.kprobe()) };
        }
        // SAFETY: Registered, by the type invariant.
        to_result(unsafe { bindings::enable_kprobe(self.kprobe()) })
    }

    pub(crate) fn disable(&self) -> Result {
        // SAFETY: Registered, by the type invariant.
        to_result(unsafe { bindings::disable_kprobe(self.kprobe()) })
    }

    /// The first bytes of the instruction, which an armed probe hides.
    pub(crate) fn opcode(&self) -> bindings::kprobe_opcode_t {
        // SAFETY: Registered, by the type invariant: the kernel has copied it, and it stays.
        unsafe { (*self.kprobe()).opcode }
    }

    pub(crate) fn is_gone(&self) -> bool {
        // SAFETY: Registered, by the type invariant.
        unsafe { has_flag(self.kprobe(), bindings::KPROBE_FLAG_GONE) }
    }

    /// Does ftrace call it, at the place that it has at the start of a function?
    pub(crate) fn is_on_ftrace(&self) -> bool {
        // SAFETY: Registered, by the type invariant.
        unsafe { is_on_ftrace(self.kprobe()) }
    }

    pub(crate) fn address(&self) -> usize {
        // SAFETY: Registered, by the type invariant: the address stays.
        unsafe { (*self.kprobe()).addr as usize }
    }

    /// How many hits did not run the handler, for another handler was running on that CPU.
    pub(crate) fn missed(&self) -> u64 {
        // SAFETY: Registered, by the type invariant; a racing increment may be seen or not.
        unsafe { ptr::read_volatile(&raw const (*self.kprobe()).nmissed) as u64 }
    }

    pub(crate) fn handler(&self) -> &H {
        &self.inner.handler
    }

    /// Unregisters many and waits but once, or without memory once for each.
    pub(crate) fn unregister_all<P>(probes: KVVec<P>, registration_of: impl Fn(P) -> Self) {
        let (Ok(mut raw), Ok(mut owned)) = (
            KVVec::with_capacity(probes.len(), GFP_KERNEL),
            KVVec::with_capacity(probes.len(), GFP_KERNEL),
        ) else {
            // Each unregisters when it is dropped.
            return;
        };
        for probe in probes {
            let mut registration = ManuallyDrop::new(registration_of(probe));
            registration.leave_list();
            // Neither push can fail: there is room.
            let _ = raw.push_within_capacity(registration.raw());
            // SAFETY: `registration` is not used after this.
            let inner = unsafe { ManuallyDrop::take(&mut registration.inner) };
            let _ = owned.push_within_capacity(inner);
        }
        // SAFETY: Each is registered by the type invariant, and only freed after this.
        unsafe { R::unregister(&mut raw) };
        for raw in raw.iter().rev() {
            leftover::untrack(raw.cast());
        }
        for inner in owned {
            // SAFETY: It was unregistered just now.
            unsafe { release(inner) };
        }
    }
}

impl<R: Raw, H: ?Sized> Drop for Registration<R, H> {
    fn drop(&mut self) {
        self.leave_list();
        // SAFETY: Registered, by the type invariant, and only freed after this.
        unsafe { R::unregister(&mut [self.raw()]) };
        leftover::untrack(self.raw().cast());
        // SAFETY: `self` is not used after this. It was unregistered just now.
        unsafe { release(ManuallyDrop::take(&mut self.inner)) };
    }
}

/// Does ftrace call this probe?
///
/// # Safety
///
/// `kprobe` must be registered.
#[inline(always)]
pub(crate) unsafe fn is_on_ftrace(kprobe: *const bindings::kprobe) -> bool {
    // SAFETY: The caller guarantees that it is registered.
    unsafe { has_flag(kprobe, bindings::KPROBE_FLAG_FTRACE) }
}

/// # Safety
///
/// `kprobe` must be registered.
#[inline(always)]
unsafe fn has_flag(kprobe: *const bindings::kprobe, flag: u32) -> bool {
    // SAFETY: The caller guarantees that it is registered. The kernel may be changing another flag.
    unsafe { ptr::read_volatile(&raw const (*kprobe).flags) & flag != 0 }
}

/// Could the kernel not let go of a probe that was unregistered? It says so by clearing the
/// address. Then the probe's code stays for good.
///
/// # Safety
///
/// `raw` must have been unregistered, and not freed since.
unsafe fn was_kept<R: Raw>(raw: *mut R) -> bool {
    // SAFETY: The caller guarantees that it was unregistered, so nobody else changes the address.
    let was_kept = unsafe { (*R::kprobe(raw)).addr.is_null() };
    if was_kept {
        // SAFETY: The functions were set when it was registered, and nobody changes them.
        leftover::keep_code_of(unsafe { R::code(raw) });
    }
    was_kept
}

/// Unregisters a probe that its module left behind.
///
/// # Safety
///
/// `object` must be a registered `R`, and nobody else must use it any more.
unsafe fn remove<R: Raw>(object: *mut c_void) {
    let raw = object.cast::<R>();
    kprobe_list::remove(R::kprobe(raw));
    // SAFETY: The caller guarantees that it is registered, and nobody frees it.
    unsafe {
        R::unregister(&mut [raw]);
        was_kept(raw);
    }
}

/// Frees a probe, unless the kernel kept it: then it stays where it is for good.
///
/// # Safety
///
/// `inner` must have been unregistered.
unsafe fn release<R: Raw, H: ?Sized>(inner: Pin<KBox<PinnedProbe<R, H>>>) {
    // SAFETY: The caller guarantees that it was unregistered.
    if unsafe { was_kept(inner.raw.get()) } {
        core::mem::forget(inner);
    }
}

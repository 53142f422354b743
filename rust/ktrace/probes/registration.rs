// SPDX-License-Identifier: GPL-2.0

//! The registration of kprobes and kretprobes: how they are registered, owned and unregistered.

use core::{
    mem::MaybeUninit,
    ptr, //
};

use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*,
    types::Opaque, //
};

use crate::{
    bindings,
    modules::module,
    probes::readers,
    security, //
};

mod guard;

use guard::Guard;

pub(crate) use guard::unregister_all;

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

/// A registered probe. It is disabled at first. Dropping it unregisters it.
///
/// The caller chooses the memory. The kernel has pointers to it, and pinned memory stays valid
/// until the value is dropped. So the kernel never has a pointer to freed memory, even if the value
/// is forgotten.
///
/// # Invariants
///
/// `guard` guards `raw`, which was registered. If the guard has unregistered it because the module
/// of its handler goes, the kernel's functions return `EINVAL` for it.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<R: Raw> {
    #[pin]
    pub(super) raw: Opaque<R>,
    guard: Guard,
}

// SAFETY: The kernel's functions on a registered probe take the locks that they need.
unsafe impl<R: Raw> Send for Registration<R> {}
// SAFETY: The kernel's functions on a registered probe take the locks that they need.
unsafe impl<R: Raw> Sync for Registration<R> {}

impl<R: Raw> Registration<R> {
    /// Registers a probe, disabled. `set` sets the functions that the kernel calls.
    pub(crate) fn new<'a>(
        target: Target<'a>,
        set: impl FnOnce(&mut R) + 'a,
    ) -> impl PinInit<Self, Error> + 'a
    where
        R: 'a,
    {
        // INVARIANT: `place` registers the structure with this guard.
        try_pin_init!(&this in Self {
            raw: Opaque::zeroed(),
            guard: Guard::new(),
            _: {
                // SAFETY: All fields are initialised. The value is pinned, and no other code has
                // it.
                unsafe { this.as_ref().place(target, set) }?;
            },
        }? Error)
    }

    /// Unregisters the probe, and registers it again at its address, with other functions.
    ///
    /// `ENODEV` if the module of the handler is being unloaded.
    ///
    /// # Safety
    ///
    /// The value must be pinned until it is dropped. No other code may use it, as before the
    /// initialiser of the probe has returned.
    pub(crate) unsafe fn register_again(&self, set: impl FnOnce(&mut R)) -> Result {
        let target = Target::Address(self.address());
        if !self.unregister() {
            return Err(ENODEV);
        }
        // SAFETY: The probe is not registered any more. The caller guarantees the rest.
        unsafe { self.place(target, set) }
    }

    /// Registers the probe.
    ///
    /// # Safety
    ///
    /// The value must be pinned until it is dropped, and must not be registered. No other code may
    /// use it.
    unsafe fn place(&self, target: Target<'_>, set: impl FnOnce(&mut R)) -> Result {
        security::kprobes_allowed()?;
        let raw = self.raw();
        // SAFETY: The caller guarantees that no other code has the structure. All-zero is a valid
        // `R`: `Raw` requires it. The name lives longer than this call, and the kernel reads it
        // only during the call.
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
        // SAFETY: The structure is initialised. The caller guarantees that the value is pinned, so
        // the structure stays in place until the value is dropped, which unregisters it. No other
        // code has it yet.
        unsafe { self.guard.register(raw) }?;
        // The kernel has the address now, and does not look up the name again.
        // SAFETY: Only the kernel's registration uses the name, and it has returned.
        unsafe { (*R::kprobe(raw)).symbol_name = ptr::null() };
        if readers::contain(self.address()) {
            self.unregister();
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Unregisters the probe. Returns false if it is not registered any more.
    fn unregister(&self) -> bool {
        // SAFETY: The guard guards this structure.
        unsafe { self.guard.unregister(self.raw()) }
    }

    /// The registered structure.
    pub(crate) fn raw(&self) -> *mut R {
        self.raw.get()
    }

    fn kprobe(&self) -> *mut bindings::kprobe {
        R::kprobe(self.raw())
    }

    pub(crate) fn enable(&self) -> Result {
        // SAFETY: By the type invariant, the guard guards this structure, which was registered.
        unsafe { self.guard.enable(self.raw()) }
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
}

#[pinned_drop]
impl<R: Raw> PinnedDrop for Registration<R> {
    fn drop(self: Pin<&mut Self>) {
        self.unregister();
    }
}

/// A probe with a handler.
pub(crate) trait Probe<R: Raw>: Send + Sync {
    fn registration(&self) -> &Registration<R>;
}

/// A box with a probe whose handler has any type. The probe is pinned: no code can move a value
/// whose size it does not know.
pub(crate) type AnyProbe<R> = KBox<dyn Probe<R>>;

/// Converts a probe to one without the type of its handler.
pub(crate) fn into_any<R: Raw, P: Probe<R> + 'static>(probe: Pin<KBox<P>>) -> AnyProbe<R> {
    // SAFETY: The probe stays in its box, and no code can move it afterwards: see `AnyProbe`.
    let probe: KBox<P> = unsafe { Pin::into_inner_unchecked(probe) };
    probe
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

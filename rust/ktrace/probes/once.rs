// SPDX-License-Identifier: GPL-2.0

//! Kprobes that hit once.
//!
//! A kprobe is disarmed soon after the hit that it waited for, so from then on it costs nothing.
//! This suits questions such as "did this code run?" on code that runs often.
//!
//! A handler cannot disarm its kprobe, because that sleeps. It asks for work in process context:
//! from an NMI, and with any lock held, only an `irq_work` can do so.
//!
//! C header: [`include/linux/irq_work.h`](srctree/include/linux/irq_work.h)

use core::{
    mem,
    ptr, //
};

use kernel::{
    bindings,
    ffi::c_void,
    prelude::*,
    static_lock_class,
    str::CStr,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        LockClassKey,
        Mutex, //
    },
    types::Opaque, //
};

use crate::{
    modules::leftover::{
        self,
        Entry,
        Kind, //
    },
    probes::{
        kprobe::{
            self,
            AnyKprobe,
            Batch,
            Hit, //
        },
        pointers::impl_for_pointers,
        registration::Target, //
    },
};

/// The handler of a kprobe that hits once.
pub trait Handler: Send + Sync + 'static {
    /// Whether the probe has waited for this hit. Called for each hit until a call returns true, in
    /// atomic context: see [`crate::context`].
    fn is_awaited(&self, hit: &Hit<'_>) -> bool;

    /// Called for the hit that the probe has waited for, in atomic context: see [`crate::context`].
    /// If several CPUs hit the probe at once, this is called on one of them.
    fn pre(&self, hit: &Hit<'_>);
}

impl_for_pointers! {
    #[inline(always)]
    fn is_awaited(&self, hit: &Hit<'_>) -> bool {
        (**self).is_awaited(hit)
    }

    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        (**self).pre(hit);
    }
}

/// The probe is armed, and waits for its hit.
const WAITS: u32 = 0;
/// The probe is armed, and was hit.
const WAS_HIT: u32 = 1;
/// The probe was hit, and is not armed any more, unless it stays armed.
const IS_DONE: u32 = 2;

/// Makes a kprobe hit once.
struct Once<H: Handler> {
    handler: H,
    /// [`WAITS`], [`WAS_HIT`] or [`IS_DONE`].
    state: Atomic<u32>,
    /// Whether the kprobe stays armed.
    stays: bool,
    disarmer: Arc<Disarmer<H>>,
}

#[vtable]
impl<H: Handler> kprobe::Handler for Once<H> {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        if self.state.load(Relaxed) != WAITS || !self.handler.is_awaited(hit) {
            return;
        }
        if self.state.cmpxchg(WAITS, WAS_HIT, Full).is_ok() {
            self.handler.pre(hit);
            // SAFETY: By the type invariant of the disarmer, the request is initialised, and is
            // finished before it is freed.
            unsafe { Request::make(self.disarmer.request.get()) };
        }
    }
}

/// Disarms the kprobes that were hit.
///
/// # Invariants
///
/// `request` is initialised. Only the task that claims `entry` waits for it, before `self` or the
/// code of [`disarm`] is freed. No request is made after that, because each handler that makes
/// requests has a reference to `self`, and was registered after `self` was tracked.
#[pin_data(PinnedDrop)]
struct Disarmer<H: Handler> {
    #[pin]
    request: Opaque<Request>,
    entry: Entry,
    /// Empty after the [`OnceBatch`] has ended, so that the handlers do not keep `self`.
    #[pin]
    probes: Mutex<Batch<Once<H>>>,
}

/// The name and the key of the lock of each disarmer.
///
/// Each module has its own copy of a string in generic code, such as that of `new_mutex!`, but
/// lockdep expects one string for one key.
#[inline(never)]
fn lock_class() -> (&'static CStr, Pin<&'static LockClassKey>) {
    (c"ktrace::once::Disarmer", static_lock_class!())
}

/// C counterpart: `struct ktrace_request` in `rust/helpers/once.c`.
#[repr(C)]
struct Request {
    irq: bindings::irq_work,
    work: bindings::work_struct,
    run: unsafe extern "C" fn(*mut c_void),
}

// The types are those of the kernel's own bindings.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_request_init(request: *mut Request, run: unsafe extern "C" fn(*mut c_void));
}

impl Request {
    /// # Safety
    ///
    /// `this` must be memory for a request, which does not move. `run` must accept `this`.
    unsafe fn init(this: *mut Self, run: unsafe extern "C" fn(*mut c_void)) {
        // SAFETY: The caller guarantees what the function requires.
        unsafe { ktrace_request_init(this, run) };
    }

    /// Asks for a call of `run`. Any context.
    ///
    /// # Safety
    ///
    /// `this` must be initialised, and must be [finished](Self::finish) after this call before it
    /// is freed.
    unsafe fn make(this: *mut Self) {
        // SAFETY: The caller guarantees an initialised request.
        unsafe { bindings::irq_work_queue(&raw mut (*this).irq) };
    }

    /// Waits for the call of `run` that was asked for, or takes the request back. Process context;
    /// sleeps. The caller must not be `run`.
    ///
    /// # Safety
    ///
    /// `this` must be initialised.
    unsafe fn finish(this: *mut Self) {
        // SAFETY: The caller guarantees an initialised request.
        unsafe {
            bindings::irq_work_sync(&raw mut (*this).irq);
            bindings::cancel_work_sync(&raw mut (*this).work);
        }
    }
}

// SAFETY: Any task can call the kernel's functions on `request`. The other fields are `Send`.
unsafe impl<H: Handler> Send for Disarmer<H> {}
// SAFETY: Any task can call the kernel's functions on `request`. The other fields are `Sync`.
unsafe impl<H: Handler> Sync for Disarmer<H> {}

impl<H: Handler> Disarmer<H> {
    fn new() -> Result<Arc<Self>> {
        // SAFETY: The memory is that of a new `Request`, and is pinned.
        let request = Opaque::ffi_init(|request| unsafe { Request::init(request, disarm::<H>) });
        // INVARIANT: The request is initialised, and no handler has a reference yet.
        let this = Arc::pin_init(
            pin_init!(Self {
                request <- request,
                entry: Entry::ended(),
                probes <- {
                    let (name, key) = lock_class();
                    Mutex::new(Batch::empty(), name, key)
                },
            }),
            GFP_KERNEL,
        )?;
        let code = disarm::<H> as *const () as usize;
        let object = ptr::from_ref(&*this).cast_mut().cast();
        // SAFETY: `remove` waits until `disarm` does not run. The kprobes that make requests are
        // in the list after this entry, so they end before. `drop` does not free the value unless
        // the entry has ended.
        let claim = unsafe { leftover::track(Kind::Other, &[code], object, remove::<H>) }?;
        this.entry.set(claim.keep());
        Ok(this)
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Disarmer<H> {
    fn drop(self: Pin<&mut Self>) {
        // Nothing is dropped in `disarm`.
        if let Some(_claim) = self.entry.claim_unless_ended() {
            // SAFETY: By the type invariant, the request is initialised.
            unsafe { Request::finish(self.request.get()) };
        }
    }
}

/// Waits for the work of a disarmer that a module left behind.
///
/// # Safety
///
/// `object` must be a [`Disarmer`] for `H`. No handler may use it any more.
unsafe fn remove<H: Handler>(object: *mut c_void) {
    // SAFETY: The caller guarantees a live object, which has an initialised request. The memory is
    // not freed.
    unsafe { Request::finish((*object.cast::<Disarmer<H>>()).request.get()) };
}

/// Disarms the probes that were hit. Process context.
///
/// # Safety
///
/// `request` must be the request of a [`Disarmer`] for `H`.
unsafe extern "C" fn disarm<H: Handler>(request: *mut c_void) {
    let request = Opaque::cast_from(request.cast_const().cast());
    // SAFETY: The caller guarantees that the request is in a `Disarmer<H>`. It lives, because
    // `Request::finish` waits for this function.
    let disarmer = unsafe { &*kernel::container_of!(request, Disarmer<H>, request) };
    for probe in disarmer.probes.lock().probes() {
        let state = &probe.handler().state;
        if state.cmpxchg(WAS_HIT, IS_DONE, Full).is_ok() && !probe.handler().stays {
            // If the code was unloaded, the kernel has disarmed the probe.
            let _ = probe.disable();
        }
    }
}

/// Several kprobes with handlers of one type, which hit once each.
///
/// Dropping the value unregisters all kprobes together, and waits once for an RCU grace period.
/// Process context.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     kprobe::Hit,
///     once::{
///         Handler,
///         OnceBatch, //
///     }, //
/// };
///
/// /// Says which functions were called.
/// struct Say;
///
/// impl Handler for Say {
///     fn is_awaited(&self, _: &Hit<'_>) -> bool {
///         true
///     }
///
///     fn pre(&self, hit: &Hit<'_>) {
///         pr_info!("called: {:#x}\n", hit.address());
///     }
/// }
///
/// let mut batch = OnceBatch::new()?;
/// for name in [c"vfs_read", c"vfs_write"] {
///     batch.add_disabled(name, false, Say)?;
/// }
/// batch.enable()?;
/// # Ok::<(), Error>(())
/// ```
#[must_use = "dropping the batch unregisters its probes"]
pub struct OnceBatch<H: Handler>(Arc<Disarmer<H>>);

impl<H: Handler> OnceBatch<H> {
    /// A batch without probes. Process context. `ENOMEM`, and `ENODEV` if the module of the handler
    /// is being unloaded.
    pub fn new() -> Result<Self> {
        Ok(Self(Disarmer::new()?))
    }

    /// Registers one more probe, but does not [arm](Self::enable) it. If this fails, the batch
    /// stays as it is. With `stays`, the probe stays armed after its hit, and ignores others.
    ///
    /// Process context; sleeps. Fails as [`Kprobe::new`](kprobe::Kprobe::new).
    pub fn add_disabled<'a>(
        &mut self,
        target: impl Into<Target<'a>>,
        stays: bool,
        handler: H,
    ) -> Result {
        let handler = Once {
            handler,
            state: Atomic::new(WAITS),
            stays,
            disarmer: self.0.clone(),
        };
        self.0.probes.lock().add_disabled(target, handler)
    }

    /// Arms all probes, or none. Each hits once from now on, also if it was hit before.
    ///
    /// Process context; sleeps. Fails as [`Kprobe::enable`](kprobe::Kprobe::enable).
    pub fn enable(&self) -> Result {
        let probes = self.0.probes.lock();
        for probe in probes.probes() {
            probe.handler().state.store(WAITS, Relaxed);
        }
        probes.enable()
    }

    /// Disarms all probes. Returns the first error.
    ///
    /// Process context; sleeps.
    pub fn disable(&self) -> Result {
        self.0.probes.lock().disable()
    }

    /// Whether the code of a probe was unloaded or is being unloaded: see
    /// [`Kprobe::is_gone`](kprobe::Kprobe::is_gone). Process context.
    pub fn is_gone(&self) -> bool {
        self.0.probes.lock().is_gone()
    }

    /// The number of hits of all probes that did not run the handler: see
    /// [`Kprobe::missed`](kprobe::Kprobe::missed). Process context.
    pub fn missed(&self) -> u64 {
        self.0.probes.lock().missed()
    }

    /// Converts the batch to its kprobes, which can be unregistered together with others.
    pub fn into_kprobes(self) -> impl Iterator<Item = AnyKprobe> {
        self.take().into_kprobes()
    }

    fn take(&self) -> Batch<Once<H>> {
        mem::replace(&mut self.0.probes.lock(), Batch::empty())
    }
}

impl<H: Handler> Drop for OnceBatch<H> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

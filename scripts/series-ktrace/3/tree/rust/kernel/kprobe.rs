// SPDX-License-Identifier: GPL-2.0

//! Kprobes: handlers at the entries of kernel functions.
//!
//! C header: [`include/linux/kprobes.h`](srctree/include/linux/kprobes.h)
//!
//! Reference: <https://docs.kernel.org/trace/kprobes.html>

use crate::{
    container_of,
    error::to_result,
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

use core::ptr;

/// The handler of a [`Kprobe`].
pub trait Handler: Send + Sync + 'static {
    /// Called at each entry of the probed function.
    ///
    /// The context is atomic. Preemption is disabled, and the caller of the probed function may
    /// hold any lock. The handler can run on several CPUs at the same time, and in an NMI if the
    /// probed function is called there.
    fn pre(&self, hit: &Hit);
}

/// A hit of a [`Kprobe`]: the registers at the entry of the probed function.
///
/// # Invariants
///
/// The value is a `struct pt_regs` that no code changes while it is borrowed.
#[repr(transparent)]
pub struct Hit(Opaque<bindings::pt_regs>);

impl Hit {
    /// Returns argument `n` of the probed function, counted from 0.
    ///
    /// `T` must be the type of the argument in the source of the function. Otherwise, the value has
    /// no meaning. For an argument that the architecture cannot find, returns 0.
    ///
    /// C: `regs_get_kernel_argument()`.
    #[inline]
    pub fn arg<T: FromRegister>(&self, n: u32) -> T {
        // SAFETY: The `struct pt_regs` is valid by the type invariant, and the function only reads
        // it. The function accepts each `n`.
        T::from_register(unsafe { bindings::regs_get_kernel_argument(self.0.get(), n) })
    }
}

/// A type of arguments that a register holds.
pub trait FromRegister {
    /// Converts the value of a register. The bits above the type's size have no meaning.
    fn from_register(word: usize) -> Self;
}

macro_rules! impl_from_register {
    ($($type:ty)*) => {$(
        impl FromRegister for $type {
            #[inline]
            fn from_register(word: usize) -> Self {
                word as Self
            }
        }
    )*};
}

impl_from_register! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }

/// A registered kprobe. It is unregistered when it is dropped.
///
/// Drop sleeps until no handler runs any more. If the kernel cannot disarm the probe, it prints a
/// warning, and drop does not return, because the kernel still uses the probe.
///
/// # Invariants
///
/// `raw` is registered with `register_kprobe()` until it is dropped. Its `pre_handler` is
/// [`pre_handler::<H>`].
///
/// # Examples
///
/// ```
/// use kernel::{
///     kprobe::{
///         Handler,
///         Hit,
///         Kprobe, //
///     },
///     prelude::*,
///     sync::atomic::{
///         Atomic,
///         Relaxed, //
///     }, //
/// };
///
/// struct Count(Atomic<u64>);
///
/// impl Handler for Count {
///     fn pre(&self, _hit: &Hit) {
///         self.0.add(1, Relaxed);
///     }
/// }
///
/// let probe = KBox::pin_init(
///     Kprobe::new(c"kernel_clone", Count(Atomic::new(0))),
///     GFP_KERNEL,
/// )?;
/// pr_info!("{} calls\n", probe.handler().0.load(Relaxed));
/// # Ok::<(), Error>(())
/// ```
#[pin_data(PinnedDrop)]
pub struct Kprobe<H: Handler> {
    #[pin]
    raw: Opaque<bindings::kprobe>,
    #[pin]
    handler: H,
}

// SAFETY: `unregister_kprobe()` may be called by any task, and `H` is `Send`.
unsafe impl<H: Handler> Send for Kprobe<H> {}
// SAFETY: Methods with `&self` only read a word of `raw`, and `H` is `Sync`.
unsafe impl<H: Handler> Sync for Kprobe<H> {}

impl<H: Handler> Kprobe<H> {
    /// Creates an initializer that registers a kprobe at the entry of the function `name`.
    ///
    /// `name` is the name of the symbol, or `MODULE:NAME`. The handler can run before the
    /// initializer returns.
    ///
    /// The initializer sleeps. It fails with [`ENOENT`] for an unknown function, and with
    /// [`EINVAL`] for a function that must not be probed.
    pub fn new<E>(name: &'static CStr, handler: impl PinInit<H, E>) -> impl PinInit<Self, Error>
    where
        Error: From<E>,
    {
        // INVARIANT: If the initializer succeeds, `register_kprobe()` registered `raw`.
        try_pin_init!(&this in Self {
            raw: Opaque::new(bindings::kprobe {
                symbol_name: name.as_char_ptr(),
                pre_handler: Some(pre_handler::<H>),
                ..pin_init::zeroed()
            }),
            handler <- handler,
            _: {
                // SAFETY: All fields are initialized. They stay in place until the drop of `Self`,
                // which unregisters the probe. The name is `'static`.
                to_result(unsafe {
                    bindings::register_kprobe(Opaque::cast_into(&raw const (*this.as_ptr()).raw))
                })?;
            },
        }? Error)
    }

    /// Returns the number of hits for which the kernel did not call the handler, because another
    /// kprobe's handler was running on the CPU.
    pub fn missed(&self) -> usize {
        // SAFETY: `raw` is initialized. The kernel changes this word without a lock, so the read is
        // volatile.
        unsafe { ptr::read_volatile(&raw const (*self.raw.get()).nmissed) }
    }

    /// Returns the handler.
    pub fn handler(&self) -> &H {
        &self.handler
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for Kprobe<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `raw` is registered by the type invariant.
        let result = to_result(unsafe { bindings::unregister_kprobe(self.raw.get()) });
        // The kernel still has pointers to a probe that it could not disarm, so the caller must not
        // free the probe.
        while result.is_err() {
            fsleep(Delta::from_secs(60));
        }
    }
}

/// Called by the kernel before it executes the probed instruction.
///
/// # Safety
///
/// `raw` must be the field of a [`Kprobe<H>`] with an initialized handler, and `regs` must be
/// valid. Both must not be freed, and `regs` must not change, until this function returns.
unsafe extern "C" fn pre_handler<H: Handler>(
    raw: *mut bindings::kprobe,
    regs: *mut bindings::pt_regs,
) -> c_int {
    // SAFETY: The caller guarantees that `raw` is the field of a `Kprobe<H>`.
    let probe = unsafe { container_of!(Opaque::cast_from(raw), Kprobe<H>, raw) };
    // SAFETY: The caller guarantees that the handler is initialized and not freed.
    let handler = unsafe { &(*probe).handler };
    // INVARIANT: The caller guarantees that `regs` does not change.
    // SAFETY: The caller guarantees that `regs` is valid. `Hit` has the layout of the structure.
    handler.pre(unsafe { &*regs.cast::<Hit>() });
    // The handler did not change the instruction pointer. So the kernel goes on with the probed
    // instruction.
    0
}

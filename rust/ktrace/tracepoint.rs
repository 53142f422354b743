// SPDX-License-Identifier: GPL-2.0

//! A handler on a tracepoint of the kernel, by its name.
//!
//! C header: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)

use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::str::CStr;

/// How many arguments of a tracepoint a handler sees: those in registers, less the handler itself.
pub const ARGUMENTS: usize = 5;

/// What happens at a tracepoint.
pub trait Handler: Send + Sync + 'static {
    /// Called in the context of the tracepoint, which may be any; preemption may be enabled.
    ///
    /// It is not to be traced itself by what it calls: there is nothing that keeps it from being
    /// entered again.
    fn hit(&self, arguments: &Arguments);
}

/// The first [`ARGUMENTS`] arguments of a tracepoint.
///
/// Which there are stands in its `TP_PROTO`. Those beyond are whatever was in the registers; of one
/// that is narrower than a word the upper bits are.
pub struct Arguments([usize; ARGUMENTS]);

impl Arguments {
    /// Argument `n`, counted from 0; none from [`ARGUMENTS`] on.
    #[inline(always)]
    pub fn get(&self, n: usize) -> Option<usize> {
        self.0.get(n).copied()
    }
}

/// A handler that is attached to a tracepoint, until it is dropped.
///
/// Dropping waits until the handler does not run any more: process context.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::percpu::Counter;
/// use ktrace::tracepoint::{Arguments, Handler, Tracepoint};
///
/// struct Preemptions(Counter);
///
/// impl Handler for Preemptions {
///     // TP_PROTO(bool preempt, struct task_struct *prev, ...)
///     fn hit(&self, arguments: &Arguments) {
///         if arguments.get(0).is_some_and(|preempt| preempt & 0xff != 0) {
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
/// `handler` is attached to `tracepoint`, which is one of the kernel's and stays.
pub struct Tracepoint<H: Handler> {
    tracepoint: NonNull<bindings::tracepoint>,
    handler: ManuallyDrop<KBox<H>>,
}

// SAFETY: The kernel's functions on tracepoints lock by themselves, and `H` is `Send`.
unsafe impl<H: Handler> Send for Tracepoint<H> {}
// SAFETY: As above; `H` is `Sync`.
unsafe impl<H: Handler> Sync for Tracepoint<H> {}

extern "C" {
    fn ktrace_tracepoint_synchronize_unregister();
}

impl<H: Handler> Tracepoint<H> {
    /// Attaches a handler, from now on. C: `tracepoint_probe_register()`.
    ///
    /// `name` is that of the tracepoint, without its system: `sched_switch`. Process context;
    /// sleeps. `ENOENT` where the kernel itself (without modules) has none of this name, `ENOMEM`, and
    /// `ENOTSUPP` on a kernel with `CONFIG_CFI`: it checks that it calls a function of the type of
    /// the tracepoint, and takes any other for an attack.
    pub fn attach(name: &CStr, handler: H) -> Result<Self> {
        if cfg!(CONFIG_CFI) {
            return Err(ENOTSUPP);
        }
        let tracepoint = find(name).ok_or(ENOENT)?;
        let handler = KBox::new(handler, GFP_KERNEL)?;
        // SAFETY: The function takes what every tracepoint passes first, the data given here, and
        // of its arguments those in registers; the handler lives until it is detached.
        to_result(unsafe {
            bindings::tracepoint_probe_register(
                tracepoint.as_ptr(),
                probe::<H> as *mut c_void,
                (&raw const *handler).cast_mut().cast(),
            )
        })?;
        // INVARIANT: Attached just now.
        Ok(Self {
            tracepoint,
            handler: ManuallyDrop::new(handler),
        })
    }

    /// The handler, which others may be running. Any context.
    pub fn handler(&self) -> &H {
        &self.handler
    }
}

impl<H: Handler> Drop for Tracepoint<H> {
    fn drop(&mut self) {
        // SAFETY: Attached, by the type invariant.
        let detached = to_result(unsafe {
            bindings::tracepoint_probe_unregister(
                self.tracepoint.as_ptr(),
                probe::<H> as *mut c_void,
                (&raw const **self.handler).cast_mut().cast(),
            )
        });
        if let Err(error) = detached {
            pr_err!("a tracepoint could not be left ({error:?}); the handler's memory is kept\n");
            return;
        }
        // SAFETY: No requirements.
        unsafe { ktrace_tracepoint_synchronize_unregister() };
        // SAFETY: The handler does not run any more, and `self` is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.handler) };
    }
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
        // SAFETY: By the safety requirement.
        let search = unsafe { &mut *search.cast::<Search<'_>>() };
        // SAFETY: By the safety requirement; it has a name for as long as it is there.
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

/// Called by the kernel at a tracepoint.
///
/// # Safety
///
/// `handler` must be an attached one of type `H`.
unsafe extern "C" fn probe<H: Handler>(
    handler: *mut c_void,
    a0: usize,
    a1: usize,
    a2: usize,
    a3: usize,
    a4: usize,
) {
    // SAFETY: By the safety requirement: dropping waits for this.
    let handler = unsafe { &*handler.cast::<H>() };
    handler.hit(&Arguments([a0, a1, a2, a3, a4]));
}

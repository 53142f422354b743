// SPDX-License-Identifier: GPL-2.0

//! A handler at the entry of functions, on ftrace directly.
//!
//! C header: [`include/linux/ftrace.h`](srctree/include/linux/ftrace.h)
//!
//! Reference: <https://docs.kernel.org/trace/ftrace-uses.html>

use core::{
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    pin::Pin,
    ptr, //
};

use kernel::{
    bindings::{
        self,
        ftrace_regs, //
    },
    error::to_result,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    str::CStr,
    types::Opaque, //
};

use crate::{
    function::Call,
    leftover,
    pointers::impl_for_pointers, //
};

/// The handler of the entry of a function.
pub trait Handler: Send + Sync + 'static {
    /// Called in atomic context: see [`crate::context`].
    fn entry(&self, call: &Call<'_>);
}

impl_for_pointers! {
    #[inline(always)]
    fn entry(&self, call: &Call<'_>) {
        (**self).entry(call);
    }
}

/// The functions to trace. No variant stands for all functions.
pub enum Filter<'a> {
    /// Functions whose name matches a pattern with `*`, `?` and `[...]`, such as `vfs_*`. The
    /// pattern must contain a literal character. It must not begin with a digit or with `!`, which
    /// have other meanings for ftrace.
    Glob(&'a CStr),
    /// Functions that begin at these addresses; at least one.
    Addresses(&'a [usize]),
}

/// The part that the kernel knows: it must not move.
#[repr(C)]
#[pin_data]
struct PinnedOps<H> {
    #[pin]
    ops: Opaque<bindings::ftrace_ops>,
    #[pin]
    handler: H,
}

/// A handler that ftrace calls, until it is dropped.
///
/// Dropping waits until the handler does not run any more: process context.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     ftrace::{
///         Filter,
///         FtraceOps,
///         Handler, //
///     },
///     function::Call,
///     percpu::Counter, //
/// };
///
/// struct Count(Counter);
///
/// impl Handler for Count {
///     fn entry(&self, _: &Call<'_>) {
///         self.0.increment();
///     }
/// }
///
/// let ops = FtraceOps::new(Filter::Glob(c"vfs_*"), Count(Counter::new()?))?;
/// pr_info!("{} calls\n", ops.handler().0.sum());
/// # Ok::<(), Error>(())
/// ```
///
/// # Invariants
///
/// `inner` is registered.
pub struct FtraceOps<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<PinnedOps<H>>>>,
}

// SAFETY: The kernel's functions on registered `ftrace_ops` lock by themselves; `H` is `Send`.
unsafe impl<H: Handler> Send for FtraceOps<H> {}
// SAFETY: The kernel's functions on registered `ftrace_ops` lock by themselves; `H` is `Sync`.
unsafe impl<H: Handler> Sync for FtraceOps<H> {}

impl<H: Handler> FtraceOps<H> {
    /// Traces functions, from now on. C: `register_ftrace_function()`.
    ///
    /// Process context; sleeps. `EINVAL` where no function matches or one cannot be traced, and for
    /// a pattern that is not one of names; `ENOMEM`.
    pub fn new<E>(filter: Filter<'_>, handler: impl PinInit<H, E>) -> Result<Self>
    where
        Error: From<E>,
    {
        let inner = KBox::try_pin_init(
            try_pin_init!(PinnedOps {
                // SAFETY: All-zero is a valid `struct ftrace_ops`.
                ops: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                handler <- handler,
            }? Error),
            GFP_KERNEL,
        )?;
        let ops = inner.ops.get();
        // RECURSION: functions that the handler calls do not call it again, and preemption is
        // disabled. RCU: the handler is not called where RCU is not watching.
        const FLAGS: c_ulong =
            (bindings::FTRACE_OPS_FL_RECURSION | bindings::FTRACE_OPS_FL_RCU) as c_ulong;
        // SAFETY: Nobody else has it yet.
        unsafe {
            (*ops).func = Some(entry_handler::<H>);
            (*ops).flags = FLAGS;
        }
        // SAFETY: `remove` waits until no handler runs, and does not touch module notifiers.
        // `inner` is freed after `untrack` only.
        unsafe { leftover::track(entry_handler::<H> as *const () as usize, ops.cast(), remove) }?;
        // SAFETY: Not registered yet; it stays in place until it was unregistered.
        let registered = unsafe { set_filter(ops, filter) }
            // SAFETY: The filter, the function and the flags are set. It stays in place until it is
            // unregistered.
            .and_then(|()| to_result(unsafe { bindings::register_ftrace_function(ops) }));
        match registered {
            // INVARIANT: Registered just now.
            Ok(()) => Ok(Self {
                inner: ManuallyDrop::new(inner),
            }),
            Err(error) => {
                leftover::untrack(ops.cast());
                // SAFETY: Not registered.
                unsafe { bindings::ftrace_free_filter(ops) };
                Err(error)
            }
        }
    }

    /// The handler, which others may be running. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }
}

impl<H: Handler> Drop for FtraceOps<H> {
    fn drop(&mut self) {
        let ops = self.inner.ops.get();
        // SAFETY: Registered, by the type invariant.
        let unregistered = unsafe { unregister(ops) };
        leftover::untrack(ops.cast());
        if unregistered.is_ok() {
            // SAFETY: `self` is not used after this, and the kernel waited for the handlers.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

/// Waits until no handler runs. If it fails, the memory and the code must stay: the code does.
///
/// # Safety
///
/// `ops` must be registered.
unsafe fn unregister(ops: *mut bindings::ftrace_ops) -> Result {
    // SAFETY: The caller guarantees that it is registered.
    let unregistered = to_result(unsafe { bindings::unregister_ftrace_function(ops) });
    match unregistered {
        // SAFETY: Not registered any more.
        Ok(()) => unsafe { bindings::ftrace_free_filter(ops) },
        // SAFETY: Registration has set the function, and it stays.
        Err(_) => leftover::keep_code_of(unsafe { (*ops).func }.map_or(0, |func| func as usize)),
    }
    unregistered
}

/// Unregisters a handler that its module left behind.
///
/// # Safety
///
/// `object` must be a registered `struct ftrace_ops`, and nobody else must use it any more.
unsafe fn remove(object: *mut c_void) {
    // SAFETY: The caller guarantees that it is registered. The memory stays.
    let _ = unsafe { unregister(object.cast()) };
}

/// Whether ftrace can trace the function that begins at `address`. C: `ftrace_location()`, which is
/// not exported. But a filter accepts only such addresses.
///
/// Process context. `ENOMEM`.
pub fn is_traceable(address: usize) -> Result<bool> {
    takes(Filter::Addresses(&[address]))
}

/// Would there be anything to trace? Process context. `ENOMEM`.
pub(crate) fn takes(filter: Filter<'_>) -> Result<bool> {
    // The structure is on the heap because it is large.
    let mut ops = KBox::new(bindings::ftrace_ops::default(), GFP_KERNEL)?;
    // SAFETY: Never registered: only its filter is used, and freed again.
    let taken = unsafe {
        let taken = set_filter(&mut *ops, filter);
        bindings::ftrace_free_filter(&mut *ops);
        taken
    };
    match taken {
        Ok(()) => Ok(true),
        Err(error) if error == ENOMEM => Err(error),
        Err(_) => Ok(false),
    }
}

/// Whether ftrace interprets the pattern as names, and not as all names.
///
/// With `!` it removes functions from the filter, and an empty filter means all functions. A number
/// is the place of a function in its list. C: `filter_parse_regex()`, `match_records()`.
fn is_of_names(pattern: &[u8]) -> bool {
    if matches!(pattern, [b'!' | b'0'..=b'9', ..]) {
        return false;
    }
    let mut rest = pattern;
    while let [first, after @ ..] = rest {
        rest = match first {
            b'*' | b'?' => after,
            // The first character of a class may be the bracket that ends it otherwise.
            b'[' => {
                let class = after.strip_prefix(b"!").unwrap_or(after);
                match class.iter().skip(1).position(|byte| *byte == b']') {
                    Some(end) => class.get(end + 2..).unwrap_or(&[]),
                    None => return true,
                }
            }
            _ => return true,
        };
    }
    false
}

/// # Safety
///
/// `ops` must be valid and not registered.
unsafe fn set_filter(ops: *mut bindings::ftrace_ops, filter: Filter<'_>) -> Result {
    match filter {
        Filter::Glob(pattern) if !is_of_names(pattern.to_bytes()) => Err(EINVAL),
        Filter::Glob(pattern) => {
            // The kernel takes the pattern apart in place.
            let mut copy = KVec::new();
            copy.extend_from_slice(pattern.to_bytes_with_nul(), GFP_KERNEL)?;
            let len = c_int::try_from(pattern.to_bytes().len())?;
            // SAFETY: The caller guarantees that `ops` is valid. NULL empties the filter.
            let empty = unsafe {
                to_result(bindings::ftrace_set_filter(ops, ptr::null_mut(), 0, 1))?;
                (*(*ops).func_hash).filter_hash
            };
            // SAFETY: The caller guarantees that `ops` is valid, and this is a string of this
            // length.
            let filter = unsafe {
                to_result(bindings::ftrace_set_filter(ops, copy.as_mut_ptr(), len, 1))?;
                (*(*ops).func_hash).filter_hash
            };
            // The kernel takes an error for a function that it found.
            if filter == empty {
                return Err(ENOMEM);
            }
            Ok(())
        }
        Filter::Addresses([]) => Err(EINVAL),
        Filter::Addresses(addresses) => addresses.iter().try_for_each(|address| {
            // SAFETY: The caller guarantees that `ops` is valid.
            to_result(unsafe { bindings::ftrace_set_filter_ip(ops, *address as c_ulong, 0, 0) })
        }),
    }
}

/// Called by the kernel when a function is entered.
///
/// # Safety
///
/// `ops` must be that of a registered [`PinnedOps`], and `regs` valid; preemption is disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn entry_handler<H: Handler>(
    function: c_ulong,
    caller: c_ulong,
    ops: *mut bindings::ftrace_ops,
    regs: *mut ftrace_regs,
) {
    // SAFETY: The kernel passes the `ftrace_ops` with this function, which are in a `PinnedOps` for
    // `H`. Unregistering waits for this.
    let inner = unsafe { &*kernel::container_of!(Opaque::cast_from(ops), PinnedOps<H>, ops) };
    // SAFETY: The kernel keeps `regs`, and preemption disabled, for the time of this call.
    let call = unsafe { Call::new(function, caller, regs) };
    inner.handler.entry(&call);
}

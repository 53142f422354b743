// SPDX-License-Identifier: GPL-2.0

//! A handler at the entry of functions, which ftrace calls directly.
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
        c_uint,
        c_ulong,
        c_void, //
    },
    prelude::*,
    str::CStr,
    types::Opaque, //
};

use crate::{
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

/// A handler at the entry of a function.
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

/// The functions to trace. No variant selects all functions.
pub enum Filter<'a> {
    /// Functions whose name matches a pattern with `*`, `?` and `[...]`, such as `vfs_*`. The
    /// pattern must contain a literal character. It must not begin with a digit or with `!`, which
    /// have other meanings for ftrace.
    Glob(&'a CStr),
    /// Functions that begin at these addresses. There must be at least one address.
    Addresses(&'a [usize]),
}

/// The part that the kernel has pointers to, so it must not move.
#[repr(C)]
#[pin_data]
struct PinnedOps<H> {
    #[pin]
    ops: Opaque<bindings::ftrace_ops>,
    #[pin]
    handler: H,
}

/// A registered handler. ftrace calls it until it is dropped.
///
/// Process context to drop: dropping waits until the handler does not run any more.
///
/// When a module unloads, ktrace stops the tracing of the module's functions. They are also not
/// traced when the module is back.
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
/// `ftrace_list` has registered `inner.ops`, and only the task that claims `entry` unregisters it
/// there.
#[must_use = "dropping the value unregisters the handler"]
pub struct FtraceOps<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<PinnedOps<H>>>>,
    entry: Entry,
}

// SAFETY: The kernel's functions take their own locks for registered `ftrace_ops`. `H` is `Send`.
unsafe impl<H: Handler> Send for FtraceOps<H> {}
// SAFETY: The kernel's functions take their own locks for registered `ftrace_ops`. `H` is `Sync`.
unsafe impl<H: Handler> Sync for FtraceOps<H> {}

impl<H: Handler> FtraceOps<H> {
    /// Starts tracing functions. C: `register_ftrace_function()`.
    ///
    /// Process context; sleeps. `EINVAL` if no function matches, if ftrace cannot trace a function,
    /// if the pattern does not select functions by name, or if all functions are in a module that
    /// is being unloaded. `ENOMEM`.
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
        // RECURSION: a function that the handler calls does not call the handler again, and
        // preemption is disabled. RCU: ftrace does not call the handler where RCU is not watching.
        const FLAGS: c_ulong =
            (bindings::FTRACE_OPS_FL_RECURSION | bindings::FTRACE_OPS_FL_RCU) as c_ulong;
        // SAFETY: No other code has the structure yet.
        unsafe {
            (*ops).func = Some(entry_handler::<H>);
            (*ops).flags = FLAGS;
        }
        let code = entry_handler::<H> as *const () as usize;
        // SAFETY: `remove` waits until no handler runs, and does not touch module notifiers.
        // `inner` is freed only by a task with the claim.
        let claim = unsafe { leftover::track(Kind::Other, &[code], ops.cast(), remove) }?;
        // SAFETY: The structure is not registered yet. It stays in place until it is unregistered.
        let registered = unsafe { set_filter(ops, filter) }
            // SAFETY: The filter, the function and the flags are set. The structure stays in place
            // until it is unregistered.
            .and_then(|()| unsafe { ftrace_list::register(ops) });
        match registered {
            // INVARIANT: `ftrace_list::register` has just registered it.
            Ok(()) => Ok(Self {
                inner: ManuallyDrop::new(inner),
                entry: claim.keep(),
            }),
            Err(error) => {
                // SAFETY: The registration failed, so the structure is not registered.
                unsafe { bindings::ftrace_free_filter(ops) };
                Err(error)
            }
        }
    }

    /// The handler. Other CPUs may be running it. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }
}

impl<H: Handler> Drop for FtraceOps<H> {
    fn drop(&mut self) {
        let Some(_claim) = self.entry.claim() else {
            return;
        };
        // SAFETY: `ops` was registered, by the type invariant, and this task has the claim.
        let unregistered = unsafe { unregister(self.inner.ops.get()) };
        if unregistered.is_ok() {
            // SAFETY: `self` is not used after this, and the kernel waited for the handlers.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

/// Unregisters `ops`, and waits until no handler runs. If this fails, the handler may still run:
/// the caller must not free the memory, and this function keeps the code loaded.
///
/// # Safety
///
/// `ftrace_list::register` must have succeeded for `ops`. The caller calls this function once.
unsafe fn unregister(ops: *mut bindings::ftrace_ops) -> Result {
    let unregistered = ftrace_list::unregister(ops);
    match unregistered {
        // SAFETY: `ops` is not registered any more.
        Ok(()) => unsafe { bindings::ftrace_free_filter(ops) },
        // SAFETY: The registration has set the function, which does not change.
        Err(_) => leftover::keep_code_of(unsafe { (*ops).func }.map_or(0, |func| func as usize)),
    }
    unregistered
}

/// Unregisters a handler that its module left registered.
///
/// # Safety
///
/// `object` must be the `struct ftrace_ops` of an [`FtraceOps`]. Only the caller may unregister it.
unsafe fn remove(object: *mut c_void) {
    // SAFETY: The caller guarantees that the structure was registered and that no other code
    // unregisters it. The memory is not freed.
    let _ = unsafe { unregister(object.cast()) };
}

/// Whether ftrace can trace the function that begins at `address`. The kernel does not export
/// `ftrace_location()`, so this function tries a filter, which accepts only such addresses.
///
/// Process context. `ENOMEM`.
pub fn is_traceable(address: usize) -> Result<bool> {
    takes(Filter::Addresses(&[address]))
}

/// Returns the positions of the addresses that ftrace cannot trace, in ascending order: those for
/// which [`is_traceable`] returns false. Much faster than one call for each address.
///
/// Process context. `ENOMEM`.
pub fn untraceable(addresses: &[usize]) -> Result<KVVec<usize>> {
    let mut copy = KVVec::<c_ulong>::with_capacity(addresses.len(), GFP_KERNEL)?;
    for address in addresses {
        copy.push(*address as c_ulong, GFP_KERNEL)?;
    }
    // The structure is on the heap because it is large.
    let mut ops = KBox::new(bindings::ftrace_ops::default(), GFP_KERNEL)?;
    let mut positions = KVVec::new();
    let found = find_untraceable(&mut ops, &mut copy, &mut positions);
    // SAFETY: `ops` was never registered, so only this function uses it.
    unsafe { bindings::ftrace_free_filter(&mut *ops) };
    found.map(|()| positions)
}

/// Adds these positions. The kernel accepts all addresses of a filter, or does not report which
/// address it refuses. So this function splits the addresses that the kernel refuses into two
/// halves. `ops` must not be registered.
fn find_untraceable(
    ops: &mut bindings::ftrace_ops,
    addresses: &mut [c_ulong],
    positions: &mut KVVec<usize>,
) -> Result {
    let mut parts = KVec::new();
    parts.push((0, addresses.len()), GFP_KERNEL)?;
    while let Some((start, end)) = parts.pop() {
        let part = addresses.get_mut(start..end).unwrap_or(&mut []);
        let len = part.len();
        if len == 0 {
            continue;
        }
        let count = c_uint::try_from(len)?;
        // SAFETY: `ops` is not registered, and `part` has `count` addresses.
        let set = to_result(unsafe {
            bindings::ftrace_set_filter_ips(ops, part.as_mut_ptr(), count, 0, 1)
        });
        match set {
            Ok(()) => (),
            Err(error) if error == ENOMEM => return Err(error),
            Err(_) if len == 1 => positions.push(start, GFP_KERNEL)?,
            Err(_) => {
                let middle = start + len / 2;
                parts.push((middle, end), GFP_KERNEL)?;
                parts.push((start, middle), GFP_KERNEL)?;
            }
        }
    }
    Ok(())
}

/// Whether the filter selects at least one function. Process context. `ENOMEM`.
pub(crate) fn takes(filter: Filter<'_>) -> Result<bool> {
    // The structure is on the heap because it is large.
    let mut ops = KBox::new(bindings::ftrace_ops::default(), GFP_KERNEL)?;
    // SAFETY: The structure is never registered. Only its filter is used, and then freed.
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

/// The kernel's fprobe calls the functions of this pattern while it changes its hash table, to lock
/// a bucket. At such a call, fprobe would search the bucket that is being changed, and the search
/// would never end. They are functions only on kernels for debugging, else macros. C:
/// `preempt_count_add()`, `preempt_count_sub()`.
pub(super) const USED_BY_FPROBE: &CStr = c"preempt_count_*";
/// Whether the kernel has these functions.
pub(super) const HAS_USED_BY_FPROBE: bool =
    cfg!(any(CONFIG_DEBUG_PREEMPT, CONFIG_TRACE_PREEMPT_TOGGLE));

/// Leaves out the functions that a probe with an exit handler cannot have, which are call sites of
/// ftrace. Process context. `ENOMEM`.
pub(super) fn leave_out_used(sites: &mut KVVec<c_ulong>) -> Result {
    if HAS_USED_BY_FPROBE {
        let used = match selected(Filter::Glob(USED_BY_FPROBE)) {
            Err(EINVAL) => return Ok(()),
            used => used?,
        };
        sites.retain(|site| !used.contains(site));
    }
    Ok(())
}

/// The functions whose names match a pattern with `*`, `?` and `[...]`, as addresses of their call
/// sites, which ftrace patches: [`Call::function`] is such an address. `*` matches all functions.
/// Leaves out the functions that an [`fprobe`](crate::fprobe) with an exit handler cannot probe.
///
/// Only rkprobe uses this function. Other modules cannot use it. Process context; sleeps. `EFAULT`
/// if the kernel's filters look unknown, `ENOMEM`.
#[export_name = "ktrace_own_sites"]
pub fn sites(pattern: &CStr) -> Result<KVVec<c_ulong>> {
    let selected = match pattern.to_bytes() {
        // SAFETY: The structure is valid and not registered.
        b"*" => selected_by(|ops| unsafe { set_names(ops, pattern) }),
        _ => selected(Filter::Glob(pattern)),
    };
    let mut sites = match selected {
        // No function matches.
        Err(EINVAL) => return Ok(KVVec::new()),
        sites => sites?,
    };
    leave_out_used(&mut sites)?;
    Ok(sites)
}

/// The call site of the function that begins at `address`: see [`sites`]. Process context; sleeps.
/// `EINVAL` if ftrace cannot trace it, `EFAULT` as for [`sites`], `ENOMEM`.
#[export_name = "ktrace_own_site_of"]
pub fn site_of(address: usize) -> Result<c_ulong> {
    let sites = selected(Filter::Addresses(&[address]))?;
    sites.first().copied().ok_or(EINVAL)
}

/// The addresses that a filter selects: the call sites, which ftrace patches. Process context.
/// `EINVAL` if the filter selects no function. `ENOMEM`.
pub(crate) fn selected(filter: Filter<'_>) -> Result<KVVec<c_ulong>> {
    // SAFETY: The structure is valid and not registered.
    selected_by(|ops| unsafe { set_filter(ops, filter) })
}

/// The addresses of a filter that `set` sets. The structure is valid and not registered.
fn selected_by(set: impl FnOnce(*mut bindings::ftrace_ops) -> Result) -> Result<KVVec<c_ulong>> {
    // The structure is on the heap because it is large.
    let mut ops = KBox::new(bindings::ftrace_ops::default(), GFP_KERNEL)?;
    // SAFETY: The structure is never registered. Only its filter is used, and then freed.
    unsafe {
        let selected = set(&mut *ops).and_then(|()| ftrace_list::addresses(&mut *ops));
        bindings::ftrace_free_filter(&mut *ops);
        selected
    }
}

/// Whether ftrace interprets the pattern as function names, but not as every name.
///
/// A pattern with `!` removes functions from the filter, and an empty filter selects all functions.
/// A pattern that starts with a digit is the position of a function in ftrace's list. C:
/// `filter_parse_regex()`, `match_records()`.
fn is_of_names(pattern: &[u8]) -> bool {
    if matches!(pattern, [b'!' | b'0'..=b'9', ..]) {
        return false;
    }
    let mut rest = pattern;
    while let [first, after @ ..] = rest {
        rest = match first {
            b'*' | b'?' => after,
            // A bracket does not end the class if it is the first character of the class.
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

/// Sets the functions that `ops` traces.
///
/// # Safety
///
/// `ops` must be valid and not registered.
unsafe fn set_filter(ops: *mut bindings::ftrace_ops, filter: Filter<'_>) -> Result {
    match filter {
        Filter::Glob(pattern) if !is_of_names(pattern.to_bytes()) => Err(EINVAL),
        // SAFETY: The caller guarantees that `ops` is valid and not registered.
        Filter::Glob(pattern) => unsafe { set_names(ops, pattern) },
        Filter::Addresses([]) => Err(EINVAL),
        Filter::Addresses(addresses) => {
            let mut copy = KVVec::<c_ulong>::with_capacity(addresses.len(), GFP_KERNEL)?;
            for address in addresses {
                copy.push(*address as c_ulong, GFP_KERNEL)?;
            }
            let count = c_uint::try_from(copy.len())?;
            // SAFETY: The caller guarantees that `ops` is valid. The array has `count` addresses.
            to_result(unsafe {
                bindings::ftrace_set_filter_ips(ops, copy.as_mut_ptr(), count, 0, 0)
            })
        }
    }
}

/// Sets the functions that `ops` traces to those whose names match a pattern.
///
/// # Safety
///
/// `ops` must be valid and not registered.
unsafe fn set_names(ops: *mut bindings::ftrace_ops, pattern: &CStr) -> Result {
    // The kernel edits the pattern while it parses it.
    let mut copy = KVec::new();
    copy.extend_from_slice(pattern.to_bytes_with_nul(), GFP_KERNEL)?;
    let len = c_int::try_from(pattern.to_bytes().len())?;
    // SAFETY: The caller guarantees that `ops` is valid. NULL empties the filter.
    let empty = unsafe {
        to_result(bindings::ftrace_set_filter(ops, ptr::null_mut(), 0, 1))?;
        (*(*ops).func_hash).filter_hash
    };
    // SAFETY: The caller guarantees that `ops` is valid. `copy` is a string of this length.
    let filter = unsafe {
        to_result(bindings::ftrace_set_filter(ops, copy.as_mut_ptr(), len, 1))?;
        (*(*ops).func_hash).filter_hash
    };
    // The kernel returns success for some errors. The filter is then still empty.
    if filter == empty {
        return Err(ENOMEM);
    }
    Ok(())
}

/// The kernel calls this function at the entry of a traced function.
///
/// # Safety
///
/// `ops` must belong to a registered [`PinnedOps`]. `regs` must be valid. Preemption must be
/// disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn entry_handler<H: Handler>(
    function: c_ulong,
    caller: c_ulong,
    ops: *mut bindings::ftrace_ops,
    regs: *mut ftrace_regs,
) {
    // SAFETY: The kernel passes the `ftrace_ops` with this function, which are in a `PinnedOps` for
    // `H`. Unregistering waits for this function.
    let inner = unsafe { &*kernel::container_of!(Opaque::cast_from(ops), PinnedOps<H>, ops) };
    // SAFETY: For the time of this call, the kernel keeps `regs` valid and preemption disabled.
    let call = unsafe { Call::new(function, caller, regs) };
    inner.handler.entry(&call);
}

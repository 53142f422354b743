// SPDX-License-Identifier: GPL-2.0

//! The registered `ftrace_ops`.
//!
//! When a module unloads, ftrace forgets the functions of the module, but does not remove the calls
//! that it has written into them: see `ftrace_release_mod()` in `kernel/trace/ftrace.c`. Other
//! tasks may still call these functions, for example by a write to a parameter. When the
//! `ftrace_ops` are unregistered, the kernel frees the code that the functions call, and such a
//! task dies. So ktrace removes the functions from the filters before ftrace forgets them.
//!
//! C header: [`include/linux/ftrace.h`](srctree/include/linux/ftrace.h)

use core::mem::{
    offset_of,
    size_of, //
};

use kernel::{
    bindings,
    error::to_result,
    ffi::{
        c_int,
        c_uint,
        c_ulong, //
    },
    prelude::*,
    str::CStr,
    sync::GlobalGuard, //
};

use crate::{
    hit::nofault::{
        Fault,
        KernelPtr, //
    },
    modules::module::{
        self,
        Module, //
    },
};

// `kernel::bindings` defines the type of the module.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_remove_sites_in(module: *mut bindings::module);
}

/// Registered `ftrace_ops`.
struct ListedOps(*mut bindings::ftrace_ops);

// SAFETY: The kernel's functions for registered `ftrace_ops` take their own locks. Any task may
// call them.
unsafe impl Send for ListedOps {}

kernel::sync::global_lock! {
    // SAFETY: `crate::init` calls `init` before any other use of this file.
    unsafe(uninit) static OPS: Mutex<KVVec<ListedOps>> = KVVec::new();
}

/// # Safety
///
/// The caller calls this function once, before any other use of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe { OPS.init() };
}

/// Frees the list. No `ftrace_ops` may be registered any more.
pub(crate) fn exit() {
    drop(core::mem::take(&mut *OPS.lock()));
}

/// Registers and lists `ops`, without the functions of modules that are being unloaded.
///
/// Process context; sleeps. `EINVAL` if no other function is in the filter. `ENOMEM`. C:
/// `register_ftrace_function()`.
///
/// # Safety
///
/// The filter of `ops` must be set, and must not be empty. If this function succeeds, `ops` must
/// stay in place until [`unregister`] succeeds.
pub(crate) unsafe fn register(ops: *mut bindings::ftrace_ops) -> Result {
    // The state of a module changes before `remove_functions_of` takes the lock. So this function
    // sees the state, or `remove_functions_of` sees `ops`.
    let mut list = lock();
    // SAFETY: The caller guarantees that `ops` has a filter. No other code uses it yet.
    unsafe { remove_functions(ops, module::is_in_going) }?;
    // SAFETY: The caller guarantees that `ops` is complete and stays in place.
    unsafe { list.register(ops) }
}

/// The list, locked.
///
/// A registration of an fprobe locks the list, because it must not give functions of modules that
/// are being unloaded to ftrace. The state of a module changes before [`remove_functions_of`] takes
/// the lock, and the kernel calls fprobe's notifier after [`remove_functions_of`]. So the
/// registration sees the state, or the notifiers see the functions that it adds.
pub(crate) struct Locked(GlobalGuard<OPS>);

/// Locks the list. Process context; sleeps.
pub(crate) fn lock() -> Locked {
    Locked(OPS.lock())
}

impl Locked {
    /// Registers `ops` without a function, if they are not registered. They stay registered until
    /// [`unregister`], which waits for all tasks.
    ///
    /// An empty filter selects all functions. So the filter has a function that is also excluded.
    ///
    /// Process context; sleeps. `EINVAL` if ftrace cannot trace the function. `ENOMEM`. C:
    /// `register_ftrace_function()`.
    ///
    /// # Safety
    ///
    /// `ops` must be complete except for the filter, and must stay in place until [`unregister`]
    /// succeeds. The function must not be in a module that unloads before.
    pub(crate) unsafe fn register_once(
        &mut self,
        ops: *mut bindings::ftrace_ops,
        (function, name): (c_ulong, &CStr),
    ) -> Result {
        if self.position(ops).is_some() {
            return Ok(());
        }
        let length = c_int::try_from(name.to_bytes().len())?;
        let name = name.as_char_ptr().cast_mut().cast();
        // SAFETY: The caller guarantees that `ops` are complete.
        unsafe { change_filter(ops, &mut [function], Change::Add) }?;
        // SAFETY: `ops` are complete. The kernel copies the name, and does not write to it.
        let excluded = to_result(unsafe { bindings::ftrace_set_notrace(ops, name, length, 0) });
        let registered = excluded.and_then(|()| {
            // SAFETY: `ops` are complete. The caller guarantees that they stay in place.
            unsafe { self.register(ops) }
        });
        if registered.is_err() {
            // SAFETY: The registration failed, so `ops` are not registered.
            unsafe { bindings::ftrace_free_filter(ops) };
        }
        registered
    }

    /// Registers and lists `ops`.
    ///
    /// # Safety
    ///
    /// `ops` must be complete, and must stay in place until [`unregister`] succeeds.
    unsafe fn register(&mut self, ops: *mut bindings::ftrace_ops) -> Result {
        self.0.reserve(1, GFP_KERNEL)?;
        // SAFETY: The caller guarantees that `ops` are complete and stay in place.
        to_result(unsafe { bindings::register_ftrace_function(ops) })?;
        // The list has space, so this cannot fail.
        let _ = self.0.push_within_capacity(ListedOps(ops));
        Ok(())
    }

    /// Adds functions to the filter of registered `ops`. The addresses must not be in modules that
    /// are being unloaded.
    ///
    /// Process context; sleeps. `EINVAL` if ftrace cannot trace one of the functions. `ENOMEM`. If
    /// this function fails, it adds none.
    ///
    /// # Safety
    ///
    /// `ops` must be registered.
    pub(crate) unsafe fn add_functions(
        &mut self,
        ops: *mut bindings::ftrace_ops,
        addresses: &mut [c_ulong],
    ) -> Result {
        // SAFETY: The caller guarantees that `ops` are registered. `self` has the lock.
        unsafe { change_filter(ops, addresses, Change::Add) }
    }

    /// Removes functions from the filter of registered `ops`. At least one other function must be
    /// in the filter, because an empty filter selects all functions of the kernel.
    ///
    /// Process context; sleeps. If this function fails, ftrace may still call `ops` for the
    /// functions.
    ///
    /// # Safety
    ///
    /// `ops` must be registered.
    pub(crate) unsafe fn remove_functions(
        &mut self,
        ops: *mut bindings::ftrace_ops,
        addresses: &mut [c_ulong],
    ) -> Result {
        // SAFETY: The caller guarantees that `ops` are registered. `self` has the lock.
        unsafe { change_filter(ops, addresses, Change::Remove) }
    }

    fn position(&self, ops: *mut bindings::ftrace_ops) -> Option<usize> {
        // Most `ftrace_ops` leave in the reverse order of their registration.
        self.0.iter().rposition(|listed| listed.0 == ops)
    }

    /// See [`unregister`].
    fn unregister(&mut self, ops: *mut bindings::ftrace_ops) -> Result {
        if let Some(index) = self.position(ops) {
            // SAFETY: The list has registered `ftrace_ops` only.
            to_result(unsafe { bindings::unregister_ftrace_function(ops) })?;
            // The index is in range, so this cannot fail.
            let _ = self.0.remove(index);
        }
        Ok(())
    }
}

/// Unregisters `ops`, and waits until no handler runs. Does nothing if `ops` are not listed.
///
/// Process context; sleeps. If this fails, `ops` stay registered and listed. C:
/// `unregister_ftrace_function()`.
pub(crate) fn unregister(ops: *mut bindings::ftrace_ops) -> Result {
    lock().unregister(ops)
}

/// Removes the functions of `module`, which is being unloaded, from all filters, and the sites of
/// fprobes in them. Process context.
///
/// Unregisters `ftrace_ops` that have no other functions.
pub(crate) fn remove_functions_of(module: &Module) {
    let mut list = OPS.lock();
    // SAFETY: The module exists. The lock excludes other functions of `rust/helpers/fprobe.c`.
    unsafe { ktrace_remove_sites_in(module.as_ptr()) };
    list.retain(|listed| {
        let ops = listed.0;
        // SAFETY: The list has registered `ftrace_ops` only, and has the lock.
        let removed = unsafe { remove_functions(ops, |address| module.contains(address)) };
        match removed {
            Ok(()) => return true,
            Err(EINVAL) => (),
            Err(error) => pr_warn!("a handler of ftrace is off for good: {error:?}\n"),
        }
        // SAFETY: The list has registered `ftrace_ops` only.
        let unregistered = to_result(unsafe { bindings::unregister_ftrace_function(ops) });
        if let Err(error) = unregistered {
            pr_warn!("functions of a module that goes are still traced: {error:?}\n");
        }
        unregistered.is_err()
    });
}

/// Removes the functions with certain addresses from a filter. Process context.
///
/// `EINVAL` if all functions have such addresses, because an empty filter selects all functions of
/// the kernel. The filter then does not change, and neither does it if another error occurs.
///
/// # Safety
///
/// `ops` must have a filter that is not empty, and that no other code changes during this call.
unsafe fn remove_functions(
    ops: *mut bindings::ftrace_ops,
    mut is_removed: impl FnMut(usize) -> bool,
) -> Result {
    // SAFETY: The caller guarantees that `ops` have a filter, which does not change.
    let mut addresses = unsafe { addresses(ops) }?;
    let all = addresses.len();
    addresses.retain(|address| is_removed(*address));
    if addresses.len() == all {
        return Err(EINVAL);
    }
    // SAFETY: The caller guarantees that `ops` are valid and not changed by other code.
    unsafe { change_filter(ops, &mut addresses, Change::Remove) }
}

/// A change of a filter, by [`change_filter`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Add,
    Remove,
}

/// Adds functions to the filter of `ops`, or removes them from it. If this fails, the filter does
/// not change. Process context; sleeps. C: `ftrace_set_filter_ips()`.
///
/// # Safety
///
/// `ops` must be valid, and no other code may change the filter during this call.
unsafe fn change_filter(
    ops: *mut bindings::ftrace_ops,
    addresses: &mut [c_ulong],
    change: Change,
) -> Result {
    if addresses.is_empty() {
        return Ok(());
    }
    let count = c_uint::try_from(addresses.len())?;
    let removes = c_int::from(change == Change::Remove);
    // SAFETY: The caller guarantees that `ops` are valid. The array has `count` addresses.
    to_result(unsafe {
        bindings::ftrace_set_filter_ips(ops, addresses.as_mut_ptr(), count, removes, 0)
    })
}

/// The first fields of `struct ftrace_hash`: the binary logarithm of the number of buckets, the
/// buckets, and the number of functions.
type FilterHash = [usize; 3];

/// Reads the addresses in a filter. Process context. `ENOMEM`.
///
/// No header declares the structure of a filter. So this function does not trust the structure: it
/// returns `EFAULT` if the structure looks different.
///
/// # Safety
///
/// `ops` must have a filter, and no other code may change the filter during this call.
pub(crate) unsafe fn addresses(ops: *mut bindings::ftrace_ops) -> Result<KVVec<c_ulong>> {
    // SAFETY: The caller guarantees that `ops` are valid. The kernel sets `func_hash` when it sets
    // the filter.
    let hash = unsafe { (*(*ops).func_hash).filter_hash } as usize;
    let read = |address| KernelPtr::<usize>::new(address).read().map_err(fault);
    let [size_bits, buckets, count] = KernelPtr::<FilterHash>::new(hash).read().map_err(fault)?;
    let size = u32::try_from(size_bits)
        .ok()
        .and_then(|bits| 1usize.checked_shl(bits));
    let mut addresses = KVVec::with_capacity(count, GFP_KERNEL)?;
    for index in 0..size.ok_or(EFAULT)? {
        // The bucket is a `struct hlist_head`, which is a pointer to the first entry.
        let mut entry = read(buckets.wrapping_add(index.wrapping_mul(size_of::<usize>())))?;
        while entry != 0 {
            let address = read(entry.wrapping_add(offset_of!(bindings::ftrace_func_entry, ip)))?;
            let is_counted = addresses.push_within_capacity(address as c_ulong).is_ok();
            if !is_counted {
                return Err(EFAULT);
            }
            entry = read(entry.wrapping_add(offset_of!(bindings::ftrace_func_entry, hlist.next)))?;
        }
    }
    if addresses.len() == count {
        Ok(addresses)
    } else {
        Err(EFAULT)
    }
}

fn fault(_: Fault) -> Error {
    EFAULT
}

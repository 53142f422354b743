// SPDX-License-Identifier: GPL-2.0

//! The kprobes of other modules than ktrace's own.
//!
//! When a module unloads, the kernel forgets the breakpoints in the module without removing them:
//! see `kprobes_module_callback()` in `kernel/kprobes.c`. But other tasks may still call functions
//! of the module, for example by a write to a parameter. Such a task dies at the breakpoint. So
//! ktrace disarms the kprobes in the module before the kernel forgets them. rkprobe disarms its
//! own kprobes.
//!
//! C header: [`include/linux/kprobes.h`](srctree/include/linux/kprobes.h)

use kernel::{
    error::to_result,
    prelude::*, //
};

use crate::{
    bindings,
    modules::module::{
        self,
        Module, //
    },
};

/// A registered kprobe.
struct ListedKprobe(*mut bindings::kprobe);

// SAFETY: The kernel's functions for registered kprobes take their own locks. Any task may call
// them.
unsafe impl Send for ListedKprobe {}

kernel::sync::global_lock! {
    // Sorted by the address of the structure.
    // SAFETY: `crate::init` calls `init` before any other use of this file.
    unsafe(uninit) static KPROBES: Mutex<KVVec<ListedKprobe>> = KVVec::new();
}

/// # Safety
///
/// The caller calls this function once, before any other use of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe { KPROBES.init() };
}

/// Frees the list. No module may have a kprobe in it any more.
pub(crate) fn exit() {
    drop(core::mem::take(&mut *KPROBES.lock()));
}

/// Whether the kprobes of a handler with this `code` must be listed.
pub(crate) fn needs(code: usize) -> bool {
    !module::is_own(code)
}

/// Lists a kprobe that `register` registers. Process context. `ENOMEM`, and the errors of
/// `register`.
///
/// # Safety
///
/// If `register` succeeds, the kprobe must stay registered until [`remove`].
pub(crate) unsafe fn add(
    kprobe: *mut bindings::kprobe,
    register: impl FnOnce() -> Result,
) -> Result {
    let mut kprobes = KPROBES.lock();
    kprobes.reserve(1, GFP_KERNEL)?;
    register()?;
    if let Err(index) = index_of(&kprobes, kprobe) {
        // The list has space, so this cannot fail.
        let _ = kprobes.insert_within_capacity(index, ListedKprobe(kprobe));
    }
    Ok(())
}

/// The index of a kprobe in the sorted list, or else the index at which it belongs.
fn index_of(kprobes: &[ListedKprobe], kprobe: *mut bindings::kprobe) -> Result<usize, usize> {
    kprobes.binary_search_by_key(&kprobe, |listed| listed.0)
}

/// Disarms a kprobe of the list, and removes it from the list. Process context.
///
/// If the kprobe left the list before it is disarmed, the kernel could forget the breakpoint in
/// between.
pub(crate) fn remove(kprobe: *mut bindings::kprobe) {
    let mut kprobes = KPROBES.lock();
    if let Ok(index) = index_of(&kprobes, kprobe) {
        // SAFETY: The list has registered kprobes only. If this fails, unregistering fails, too,
        // and the caller keeps the kprobe.
        unsafe { bindings::disable_kprobe(kprobe) };
        // The index is in range, so this cannot fail.
        let _ = kprobes.remove(index);
    }
}

/// Arms a kprobe of the list. Process context. `EINVAL` if its module is being unloaded, or if the
/// kprobe is not registered any more.
///
/// C: `enable_kprobe()`.
///
/// # Safety
///
/// The kprobe must have been registered, and must not have been freed.
pub(crate) unsafe fn enable(kprobe: *mut bindings::kprobe) -> Result {
    // The state of a module changes before `disarm_in` takes the lock. So this function sees the
    // state, or `disarm_in` disarms the kprobe.
    let kprobes = KPROBES.lock();
    // A kprobe that has left the list would not be disarmed before its module goes.
    index_of(&kprobes, kprobe).map_err(|_| EINVAL)?;
    // SAFETY: The caller guarantees that the kprobe exists. Unregistering may clear the address.
    let address = unsafe { core::ptr::read_volatile(&raw const (*kprobe).addr) } as usize;
    if module::is_in_going(address) {
        return Err(EINVAL);
    }
    // SAFETY: The caller guarantees that the kprobe exists. C checks that it is registered.
    to_result(unsafe { bindings::enable_kprobe(kprobe) })
}

/// Disarms the kprobes in `module`, which is being unloaded. Process context.
pub(crate) fn disarm_in(module: &Module) {
    for listed in KPROBES.lock().iter() {
        // SAFETY: The list has registered kprobes only. The address of a registered kprobe stays.
        let address = unsafe { (*listed.0).addr } as usize;
        if !module.contains(address) {
            continue;
        }
        // SAFETY: The list has registered kprobes only.
        let disarmed = to_result(unsafe { bindings::disable_kprobe(listed.0) });
        if let Err(error) = disarmed {
            pr_warn!(
                "a probe in module {} was not disarmed: {error:?}\n",
                module.name()
            );
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Registrations that a module leaves behind.
//!
//! Safe code can forget a registration, put it into a static, or fail its module's initialisation
//! after it forgot one. The kernel then still calls the handler, whose code goes with the module.
//! So ktrace lists each registration with the module that has the handler's code. When a module
//! goes, ktrace's notifier removes what the list still has of it. The kernel calls the notifier
//! after the module's exit function, also after an initialisation that failed, and before it frees
//! the module's memory: see `delete_module()` and `do_init_module()` in `kernel/module/main.c`.
//!
//! The handler's memory is never freed then. Nobody owns it any more.

use core::ptr;

use kernel::{
    bindings,
    ffi::{
        c_long,
        c_void, //
    },
    prelude::*, //
};

use crate::module::{
    self,
    Module, //
};

/// A registration of a module.
struct TrackedRegistration {
    /// The module that has the handler's code. Only compared.
    module: *const bindings::module,
    object: *mut c_void,
    remove: unsafe fn(*mut c_void),
}

// SAFETY: `track` requires that any task may call `remove` on `object`; the rest is only compared.
unsafe impl Send for TrackedRegistration {}

kernel::sync::global_lock! {
    // SAFETY: `crate::init` calls `init` before anything else here is used.
    unsafe(uninit) static ENTRIES: Mutex<KVVec<TrackedRegistration>> = KVVec::new();
}

/// # Safety
///
/// Must be called once, before anything else here.
pub(crate) unsafe fn init() {
    // SAFETY: This is the only call, before the first use: the caller guarantees both.
    unsafe { ENTRIES.init() };
}

/// Frees the list, when no module is left that may have an entry.
pub(crate) fn exit() {
    drop(core::mem::take(&mut *ENTRIES.lock()));
}

/// Lists the registration of `object`, which follows, for the module with the handler's `code`.
///
/// `code` is the address of a function or of a vtable. The kernel's own code and that of ktrace's
/// module need no entry: the first stays, the second removes its registrations when it goes.
///
/// Process context. Fails with `ENOMEM`. A caller calls this before it registers, so that it can
/// still fail, and [`untrack`] if the registration fails.
///
/// # Safety
///
/// Until [`untrack`], any task may call `remove(object)` once, when the code's module goes: it must
/// end the registration, wait until no handler runs, and must not register or unregister a module
/// notifier. After that call nobody must use the object.
pub(crate) unsafe fn track(
    code: usize,
    object: *mut c_void,
    remove: unsafe fn(*mut c_void),
) -> Result {
    if module::own().is_some_and(|own| own.contains(code)) {
        return Ok(());
    }
    let mut module = ptr::null();
    module::for_each(|other| {
        if other.contains(code) {
            module = other.as_ptr().cast_const();
        }
    });
    if module.is_null() {
        return Ok(());
    }
    let entry = TrackedRegistration {
        module,
        object,
        remove,
    };
    ENTRIES.lock().push(entry, GFP_KERNEL)?;
    Ok(())
}

/// Removes `object` from the list, after it was unregistered and before it is freed.
///
/// Process context. Does nothing if the list does not have it.
pub(crate) fn untrack(object: *mut c_void) {
    let mut entries = ENTRIES.lock();
    // Most registrations end in the reverse order.
    if let Some(index) = entries.iter().rposition(|entry| entry.object == object) {
        // It is in range.
        let _ = entries.remove(index);
    }
}

/// Removes all registrations that a module left, the last one first.
///
/// Called by ktrace's notifier when the module goes: none of its functions runs.
pub(crate) fn remove_all_of(module: &Module) {
    let mut count = 0;
    while let Some(entry) = take_last_of(module) {
        // SAFETY: `track` allows the call once, when the module goes, and requires that nobody uses
        // the object afterwards. The entry is not in the list any more, so this is the only call.
        unsafe { (entry.remove)(entry.object) };
        count += 1;
    }
    if count > 0 {
        pr_warn!(
            "module {} left {} registrations behind: they are removed, but their memory is kept\n",
            module.name(),
            count
        );
    }
}

/// The lock is free again afterwards: who unregisters takes the kernel's locks.
fn take_last_of(module: &Module) -> Option<TrackedRegistration> {
    let mut entries = ENTRIES.lock();
    let index = entries
        .iter()
        .rposition(|entry| ptr::eq(entry.module, module.as_ptr()))?;
    entries.remove(index).ok()
}

/// Keeps the module with a handler's `code` for good, because the kernel may still call the handler
/// after it could not be unregistered. All types of ktrace call this then, and keep the memory.
///
/// A module that is there gets a reference that nobody drops, so it cannot be unloaded. References
/// have no effect on a module that is coming or going: then this does not return, and `insmod` or
/// `rmmod` sleeps for good, because returning frees code that the kernel calls.
///
/// Process context.
pub(crate) fn keep_code_of(code: usize) {
    let mut is_safe = true;
    module::for_each(|module| {
        if module.contains(code) {
            is_safe = module.get();
        }
    });
    if is_safe {
        pr_err!("a handler could not be removed: its module cannot be unloaded any more\n");
        return;
    }
    pr_err!("a handler could not be removed from a module that goes: this task sleeps for good\n");
    loop {
        // SAFETY: No requirements.
        unsafe { bindings::schedule_timeout_idle(c_long::MAX) };
    }
}

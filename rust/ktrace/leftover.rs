// SPDX-License-Identifier: GPL-2.0

//! Registrations that a module leaves behind.
//!
//! Safe code can forget a registration, put it into a static, or fail its module's initialisation
//! after it forgot a registration. The kernel then still calls the handler, although the handler's
//! code is freed with the module. So ktrace lists each registration with the module that has the
//! handler's code. When a module unloads, ktrace's notifier removes the registrations of this
//! module that are still in the list. The kernel calls the notifier after the module's exit
//! function or after a failed initialisation, and before it frees the module's memory: see
//! `delete_module()` and `do_init_module()` in `kernel/module/main.c`.
//!
//! The memory of such a handler is never freed, because it has no owner any more.

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
    /// The module that has the handler's code. Only compared, never dereferenced.
    module: *const bindings::module,
    object: *mut c_void,
    remove: unsafe fn(*mut c_void),
}

// SAFETY: `track` requires that any task may call `remove` on `object`. The other fields are only
// compared.
unsafe impl Send for TrackedRegistration {}

kernel::sync::global_lock! {
    // SAFETY: `crate::init` calls `init` before any other use of this file.
    unsafe(uninit) static ENTRIES: Mutex<KVVec<TrackedRegistration>> = KVVec::new();
}

/// # Safety
///
/// The caller calls this function once, before any other use of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe { ENTRIES.init() };
}

/// Frees the list. No module may have an entry any more.
pub(crate) fn exit() {
    drop(core::mem::take(&mut *ENTRIES.lock()));
}

/// Lists a registration of `object`, which the caller makes afterwards, for the module with the
/// handler's `code`.
///
/// `code` is the address of a function or of a vtable. Code in the kernel image and code in
/// ktrace's own module get no entry: the kernel image stays, and ktrace's module removes its
/// registrations when it unloads.
///
/// Process context. `ENOMEM`. A caller calls this function before it registers, because this
/// function can fail. If the registration then fails, the caller calls [`untrack`].
///
/// # Safety
///
/// Until [`untrack`], any task may call `remove(object)` once, when the module with the code
/// unloads. `remove` must end the registration and wait until no handler runs. It must not register
/// or unregister a module notifier. After that call, no code may use the object.
pub(crate) unsafe fn track(
    code: usize,
    object: *mut c_void,
    remove: unsafe fn(*mut c_void),
) -> Result {
    if module::is_own(code) {
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
    // Most registrations end in the reverse order of their start.
    if let Some(index) = entries.iter().rposition(|entry| entry.object == object) {
        // The index is in range, so this cannot fail.
        let _ = entries.remove(index);
    }
}

/// Removes all registrations that a module left, starting with the last one.
///
/// ktrace's notifier calls this function when the module unloads, after the module's functions have
/// returned.
pub(crate) fn remove_all_of(module: &Module) {
    let mut count = 0;
    while let Some(entry) = take_last_of(module) {
        // SAFETY: `track` allows one call when the module unloads, and requires that no code uses
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

/// Takes the last registration of a module from the list. Releases the lock before the caller
/// unregisters, because unregistering takes locks of the kernel.
fn take_last_of(module: &Module) -> Option<TrackedRegistration> {
    let mut entries = ENTRIES.lock();
    let index = entries
        .iter()
        .rposition(|entry| ptr::eq(entry.module, module.as_ptr()))?;
    entries.remove(index).ok()
}

/// Keeps the module with a handler's `code` loaded permanently, because the handler could not be
/// unregistered and the kernel may still call it. All types of ktrace then call this function, and
/// do not free the handler's memory.
///
/// A live module gets a reference that is never dropped, so the module cannot be unloaded. A
/// reference has no effect on a module that is loading or unloading. For such a module, this
/// function does not return, and `insmod` or `rmmod` sleeps permanently. If it returned, the kernel
/// would free code that it still calls.
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
        // SAFETY: The function has no requirements in process context.
        unsafe { bindings::schedule_timeout_idle(c_long::MAX) };
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The module that an object belongs to.
//!
//! A reference has no effect if the module's initialisation fails or its exit runs: the kernel
//! frees the module's code nevertheless. So other code may use an object only after the
//! initialisation and before the exit.

use core::ptr;

use kernel::{
    bindings,
    prelude::*,
    ThisModule, //
};

// `kernel::bindings` defines the type of the module.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_module_get(module: *mut bindings::module) -> bool;
    fn ktrace_module_put(module: *mut bindings::module);
}

/// Takes a reference, unless the module is being unloaded. C: `try_module_get()`. Any context.
///
/// # Safety
///
/// `module` must be NULL or a pointer to an existing module.
pub(crate) unsafe fn try_get(module: *mut bindings::module) -> bool {
    // SAFETY: The caller guarantees an existing module, or NULL, which means built-in code.
    unsafe { ktrace_module_get(module) }
}

/// Whether the module has been initialised and is not being unloaded. Always true for code that is
/// built into the kernel. Any context.
///
/// C: `MODULE_STATE_LIVE`.
pub(crate) fn is_live(owner: &ThisModule) -> bool {
    let module = owner.as_ptr();
    module.is_null()
        // SAFETY: The caller's code is part of the module, so the module exists. Its state may
        // change at any time.
        || unsafe { ptr::read_volatile(&raw const (*module).state) }
            == bindings::module_state_MODULE_STATE_LIVE
}

/// Takes a reference, which keeps a live module loaded. Any context.
///
/// `ENODEV` if the module is being unloaded. C: `try_module_get()`.
pub(crate) fn get(owner: &ThisModule) -> Result {
    // SAFETY: The caller's code is part of the module, so the module exists.
    if unsafe { try_get(owner.as_ptr()) } {
        Ok(())
    } else {
        Err(ENODEV)
    }
}

/// Takes a reference for a user outside the module. Any context.
///
/// `ENODEV` if the module is being initialised or unloaded, because a reference would not keep its
/// code loaded.
pub(crate) fn get_for_user(owner: &ThisModule) -> Result {
    if !is_live(owner) {
        return Err(ENODEV);
    }
    get(owner)
}

/// Drops a reference. Any context. C: `module_put()`.
///
/// # Safety
///
/// The caller must own a reference, and must keep the module's code from being freed until the
/// current function of the module has returned.
pub(crate) unsafe fn put(owner: &ThisModule) {
    // SAFETY: The caller owns a reference.
    unsafe { ktrace_module_put(owner.as_ptr()) };
}

/// The address of the vtable of a trait object. The vtable is in the module that has the object's
/// code.
pub(crate) fn vtable_of<T: ?Sized>(object: &T) -> usize {
    const { assert!(size_of::<&T>() == 2 * size_of::<usize>()) };
    // SAFETY: A reference to a trait object consists of two words: the address of the object and
    // the address of the vtable.
    let [_, vtable] = unsafe { core::mem::transmute_copy::<&T, [usize; 2]>(&object) };
    vtable
}

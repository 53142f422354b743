// SPDX-License-Identifier: GPL-2.0

//! Differences between kernel versions. Only this file depends on the version.
//!
//! Kbuild passes the version: `SINCE_LINUX_7_3` is set for Linux 7.3 and later.
//!
//! C header: `include/generated/uapi/linux/version.h`

#[cfg(all(SINCE_LINUX_7_3, MODULE))]
use kernel::bindings;
use kernel::str::CStr;
#[cfg(all(SINCE_LINUX_7_3, MODULE))]
use kernel::types::Opaque;
use kernel::ModuleMetadata;
#[cfg(SINCE_LINUX_7_3)]
use kernel::ThisModule;

/// The module that this crate is a part of.
///
/// Since Linux 7.3, `#[vtable]` expects this type in the crate of each `impl`. `module!` defines
/// the type in a crate that is a module.
#[allow(dead_code)]
pub(crate) struct LocalModule;

impl ModuleMetadata for LocalModule {
    const NAME: &'static CStr = c"rkprobe";

    #[cfg(all(SINCE_LINUX_7_3, MODULE))]
    const THIS_MODULE: ThisModule = {
        // Rust only takes the address of this variable.
        #[allow(improper_ctypes)]
        extern "C" {
            static __this_module: Opaque<bindings::module>;
        }

        // SAFETY: modpost defines `__this_module` in each module. The variable lives as long as the
        // module.
        unsafe { ThisModule::from_ptr(__this_module.get()) }
    };

    #[cfg(all(SINCE_LINUX_7_3, not(MODULE)))]
    // SAFETY: For code that is built into the kernel, `THIS_MODULE` is NULL in C, too.
    const THIS_MODULE: ThisModule = unsafe { ThisModule::from_ptr(core::ptr::null_mut()) };
}

/// Returns the module of the crate that uses this macro, as a `&'static ThisModule`.
///
/// The crate must have a `module!`. C: `THIS_MODULE`.
#[cfg(SINCE_LINUX_7_3)]
#[allow(clippy::crate_in_macro_def)]
#[macro_export]
macro_rules! this_module {
    () => {
        ::kernel::module::this_module::<crate::LocalModule>()
    };
}

/// Returns the module of the crate that uses this macro, as a `&'static ThisModule`.
///
/// The crate must have a `module!`. C: `THIS_MODULE`.
#[cfg(not(SINCE_LINUX_7_3))]
#[allow(clippy::crate_in_macro_def)]
#[macro_export]
macro_rules! this_module {
    () => {
        &crate::THIS_MODULE
    };
}

/// Expands to an item of an `impl` of `Handler`: its module is the module of the handler `$inner`.
#[cfg(SINCE_LINUX_7_3)]
macro_rules! owner_module {
    ($inner:ty) => {
        type OwnerModule = <$inner as Handler>::OwnerModule;
    };
}

/// Expands to an item of an `impl` of `Handler`: its module is the module of the handler `$inner`.
#[cfg(not(SINCE_LINUX_7_3))]
macro_rules! owner_module {
    ($inner:ty) => {};
}
pub(crate) use owner_module;

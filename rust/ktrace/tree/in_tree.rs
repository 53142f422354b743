// SPDX-License-Identifier: GPL-2.0

//! ktrace in the kernel tree, which also has the exports of `rust/helpers/built_in.c`.

use core::ptr::NonNull;

use kernel::{
    ffi::c_char,
    prelude::*,
    str::CStr, //
};

mod arguments;
mod dyn_event;
mod event_mutex;
mod event_probe;
mod event_record;
#[cfg(CONFIG_RETHOOK)]
mod rethook;
#[cfg(not(CONFIG_RETHOOK))]
#[path = "out_of_tree/rethook.rs"]
mod rethook;
mod symbol;

pub use arguments::Arguments;
pub(crate) use dyn_event::{
    exit,
    register_dyn_events,
    unregister_dyn_events,
    DynEvent, //
};
pub(crate) use event_mutex::with_event_mutex;
pub use event_probe::{
    Event,
    EventProbe, //
};
pub use event_record::Record;
pub use rethook::Rethook;
pub use symbol::Repeated;
pub(crate) use symbol::{
    address_of,
    addresses_in_kernel,
    each_named,
    exists, //
};

extern "C" {
    fn rkprobe_btf(len: *mut usize) -> *const u8;
    fn rkprobe_log_err(
        subsystem: *const c_char,
        command: *const c_char,
        text: *const c_char,
        caret: u16,
    );
}

/// # Safety
///
/// The caller has no requirements to meet.
pub(crate) unsafe fn init() {}

/// The kernel's BTF, if it is available without a file.
pub(crate) fn kernel_btf() -> Option<&'static [u8]> {
    let mut len = 0;
    // SAFETY: `len` is a valid destination for the length.
    let bytes = NonNull::new(unsafe { rkprobe_btf(&mut len) }.cast_mut())?;
    // SAFETY: `rkprobe_btf` returned the kernel's own BTF, of `len` bytes. The BTF stays in place
    // while the kernel runs, and does not change.
    Some(unsafe { core::slice::from_raw_parts(bytes.as_ptr(), len) })
}

/// See [`crate::event_probe::ARE_SUPPORTED`].
pub(crate) const HAS_EVENT_PROBES: bool = true;

/// See [`crate::rethook::IS_SUPPORTED`].
pub(crate) const HAS_RETHOOK: bool = cfg!(CONFIG_RETHOOK);

/// See [`crate::error_log::IS_OPEN`].
pub(crate) const HAS_ERROR_LOG: bool = true;

/// See [`crate::error_log::add`].
pub(crate) fn log_error(subsystem: &CStr, command: &CStr, text: &CStr, caret: u16) {
    // SAFETY: All arguments are NUL-terminated strings, because each is a `CStr`. The kernel copies
    // them.
    unsafe {
        rkprobe_log_err(
            subsystem.as_char_ptr(),
            command.as_char_ptr(),
            text.as_char_ptr(),
            caret,
        )
    };
}

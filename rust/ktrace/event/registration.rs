// SPDX-License-Identifier: GPL-2.0

//! The registration of events: how they are added to the kernel, enabled, printed and removed.

use kernel::prelude::*;

pub(crate) mod enabling;
pub(crate) mod event;
pub(crate) mod field;
pub(crate) mod field_list;
pub(crate) mod group;
pub(crate) mod name;
pub(crate) mod operations;
pub(crate) mod output;
pub(crate) mod pinned_event;
pub(crate) mod removal;
pub(crate) mod users;

/// Initialises the registration of events, when the module that holds this crate loads.
///
/// # Errors
///
/// `ENOMEM`, and the kernel's error if it cannot add the control event.
///
/// # Safety
///
/// The caller calls this function once, before any other use of this directory, and after
/// [`mutex::init`](super::mutex::init).
pub(crate) unsafe fn init() -> Result {
    // SAFETY: The caller calls this once, before any other use.
    unsafe {
        enabling::init();
        output::init();
    }
    removal::init()
}

/// Ends the registration of events: when the module unloads, and when its initialisation fails
/// after [`init`]. No event and no output of the module may exist.
pub(crate) fn exit() {
    removal::exit();
}

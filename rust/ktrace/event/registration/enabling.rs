// SPDX-License-Identifier: GPL-2.0

//! Enabling of events by the module itself.

use core::ptr;

use kernel::{
    bindings::task_struct,
    error::to_result,
    ffi::c_int,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use crate::{
    bindings,
    event::mutex::{
        self,
        EventMutexHeld, //
    },
};

kernel::sync::global_lock! {
    // Held while this crate enables or disables an event. Lock order: `ENABLING`, then
    // `event_mutex`.
    // SAFETY: `init` initialises the mutex before any event is registered.
    unsafe(uninit) static ENABLING: Mutex<()> = ();
}

/// The task that holds `ENABLING`, or NULL.
static ENABLER: Atomic<*mut task_struct> = Atomic::new(ptr::null_mut());

/// # Safety
///
/// The caller calls this function once, before any event is registered.
pub(super) unsafe fn init() {
    // SAFETY: The caller calls this once, before any other use.
    unsafe { ENABLING.init() };
}

/// Whether the current task enables or disables an event by [`enable`] or [`disable`]. The task
/// holds `event_mutex`.
pub(super) fn is_current_task() -> bool {
    ENABLER.load(Relaxed) == mutex::current()
}

/// Enables an event in the top trace instance, as `echo 1 >events/GROUP/NAME/enable` does.
///
/// While the module of the event is being initialised, no other way enables the event.
///
/// Process context; takes `event_mutex`. `EDEADLK` with `event_mutex` held, `EINVAL` if no event
/// has this name, and the error of [`Operations::enable`](crate::trace_event::Operations::enable).
/// C: `trace_set_clr_event()`.
pub fn enable(group: &CStr, name: &CStr) -> Result {
    set_enabled(group, name, 1)
}

/// Disables an event in the top trace instance. Context and errors are those of [`enable`].
pub fn disable(group: &CStr, name: &CStr) -> Result {
    set_enabled(group, name, 0)
}

/// Enables or disables an event. Context and errors are those of [`enable`].
pub(super) fn set_enabled(group: &CStr, name: &CStr, set: c_int) -> Result {
    EventMutexHeld::check_not_current()?;
    let _enabling = ENABLING.lock();
    ENABLER.store(mutex::current(), Relaxed);
    // SAFETY: Both arguments are strings.
    let result = to_result(unsafe {
        bindings::trace_set_clr_event(group.as_char_ptr(), name.as_char_ptr(), set)
    });
    ENABLER.store(ptr::null_mut(), Relaxed);
    result
}

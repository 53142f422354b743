// SPDX-License-Identifier: GPL-2.0

//! The kernel's `event_mutex`.

use kernel::prelude::*;

extern "C" {
    fn ktrace_lock_event_mutex();
    fn ktrace_unlock_event_mutex();
}

/// # Safety
///
/// The caller has no requirements to meet.
pub(crate) unsafe fn init() {}

/// Runs `f` with `event_mutex` held, outside callbacks of events and iterations over the events.
///
/// For [`EventMutex::with`](crate::trace_event::EventMutex::with), which describes the context.
pub(crate) fn with_event_mutex<R>(f: impl FnOnce() -> R) -> Result<R> {
    let mut f = Some(f);
    let mut result = None;
    with_locked(&mut || result = f.take().map(|f| f()));
    result.ok_or(EAGAIN)
}

/// Calls `f` once with `event_mutex` held. This function is not generic, so other modules call this
/// function, and cannot lock the mutex without unlocking it.
fn with_locked(f: &mut dyn FnMut()) {
    // SAFETY: The caller of `EventMutex::with` is in process context, and does not hold the mutex.
    unsafe { ktrace_lock_event_mutex() };
    f();
    // SAFETY: This task locked the mutex above.
    unsafe { ktrace_unlock_event_mutex() };
}

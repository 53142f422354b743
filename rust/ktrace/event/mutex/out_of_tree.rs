// SPDX-License-Identifier: GPL-2.0

//! The kernel's `event_mutex`, which the kernel does not export.
//!
//! Code that adds or removes events must hold `event_mutex`. The kernel takes this mutex when perf
//! opens an event, and then calls a function of the event. So this module has its own event,
//! `control`, and opens it to make the kernel call this module's function.

use core::ptr;

use kernel::{
    bindings::task_struct,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

kernel::sync::global_lock! {
    // SAFETY: `init` initialises the mutex before any other use of this file.
    unsafe(uninit) static REQUESTS: Mutex<()> = ();
}

/// The task that makes a request, and its request, which only this task reads. Both are set and
/// reset with `REQUESTS` held.
static TASK: Atomic<*mut task_struct> = Atomic::new(ptr::null_mut());
static REQUEST: Atomic<*mut Request<'static>> = Atomic::new(ptr::null_mut());

/// A function to run once.
struct Request<'a>(&'a mut dyn FnMut());

extern "C" {
    fn ktrace_open_control();
}

/// # Safety
///
/// The caller calls this function once, before any other use of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any other use.
    unsafe { REQUESTS.init() };
}

/// Runs `f` with `event_mutex` held, outside callbacks of events. The kernel does not continue an
/// iteration over the events afterwards.
///
/// For [`EventMutex::with`](crate::trace_event::EventMutex::with), which describes the context.
/// `ENOMEM` if the kernel does not call this module, because perf had no memory for the attempt.
pub(crate) fn with_event_mutex<R>(f: impl FnOnce() -> R) -> Result<R> {
    let (mut f, mut result) = (Some(f), None);
    with_locked(&mut Request(&mut || result = f.take().map(|f| f())));
    result.ok_or(ENOMEM)
}

/// Makes the kernel run the request, if possible. This function is not generic, so other modules
/// call only this function of the file.
fn with_locked(request: &mut Request<'_>) {
    let _requests = REQUESTS.lock();
    REQUEST.store(ptr::from_mut(request).cast(), Relaxed);
    // SAFETY: `get_current()` has no requirements.
    let task = unsafe { kernel::bindings::get_current() };
    TASK.store(task, Relaxed);
    // SAFETY: This is process context, and the current task does not hold `event_mutex`.
    unsafe { ktrace_open_control() };
    TASK.store(ptr::null_mut(), Relaxed);
    REQUEST.store(ptr::null_mut(), Relaxed);
}

/// The kernel calls this function when a task opens the control event.
///
/// # Safety
///
/// The caller must hold `event_mutex`.
#[no_mangle]
unsafe extern "C" fn ktrace_event_mutex_held() {
    // SAFETY: `get_current()` has no requirements.
    let task = unsafe { kernel::bindings::get_current() };
    if TASK.load(Relaxed) != task {
        return;
    }
    let request = REQUEST.xchg(ptr::null_mut(), Relaxed);
    if request.is_null() {
        return;
    }
    // The kernel holds `event_mutex` for the current task, runs no callback of another event, and
    // ends its iteration over the events with this event.
    // SAFETY: The current task set the pointer further up its stack, and waits there for this
    // function.
    unsafe { ((*request).0)() };
}

// SPDX-License-Identifier: GPL-2.0

//! The kernel's `event_mutex`, which it does not export.
//!
//! `event_mutex` must be held where events are added and removed. The kernel takes it when perf
//! opens an event, and then calls the event's own function. So this module has an event of its own,
//! `control`, and opens it in order to have its own function called.

use core::{
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings::task_struct,
    ffi::c_void,
    prelude::*, //
};

kernel::sync::global_lock! {
    // SAFETY: Initialised by `init` before anything else here is used.
    unsafe(uninit) static REQUESTS: Mutex<()> = ();
}

/// The task that makes a request, and its request, which only this task reads. Both are set and
/// reset with `REQUESTS` held.
static TASK: AtomicPtr<task_struct> = AtomicPtr::new(ptr::null_mut());
static REQUEST: AtomicPtr<Request> = AtomicPtr::new(ptr::null_mut());

/// A function to be run, once.
struct Request {
    /// Takes `data`.
    run: unsafe fn(*mut c_void),
    data: *mut c_void,
}

/// The data to which [`Request::data`] points.
struct Operation<F, R> {
    f: Option<F>,
    result: Option<R>,
}

extern "C" {
    fn ktrace_open_control();
}

/// # Safety
///
/// Once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any other use.
    unsafe { REQUESTS.init() };
}

/// Runs `f` with `event_mutex` held: in no callback of an event, and no walk of the kernel over the
/// events goes on after this.
///
/// For [`EventMutex::with`](crate::trace_event::EventMutex::with), which describes the context.
/// `ENOMEM` if the kernel does not call this module: perf had no memory for the attempt.
pub(crate) fn with_event_mutex<R>(f: impl FnOnce() -> R) -> Result<R> {
    let mut operation = Operation {
        f: Some(f),
        result: None,
    };
    run_request(&mut operation);
    operation.result.ok_or(ENOMEM)
}

fn run_request<F: FnOnce() -> R, R>(operation: &mut Operation<F, R>) {
    /// # Safety
    ///
    /// `data` must be a valid `Operation<F, R>` that nobody else uses.
    unsafe fn run<F: FnOnce() -> R, R>(data: *mut c_void) {
        // SAFETY: The caller guarantees that `data` is a valid `Operation` of its own.
        let operation = unsafe { &mut *data.cast::<Operation<F, R>>() };
        operation.result = operation.f.take().map(|f| f());
    }

    with_locked(&mut Request {
        run: run::<F, R>,
        data: ptr::from_mut(operation).cast(),
    });
}

/// Has the kernel run the request, if it can. Not generic: other modules call this one, and need
/// nothing else here.
fn with_locked(request: &mut Request) {
    let _requests = REQUESTS.lock();
    REQUEST.store(request, Ordering::Relaxed);
    // SAFETY: `get_current()` has no requirements.
    let task = unsafe { kernel::bindings::get_current() };
    TASK.store(task, Ordering::Relaxed);
    // SAFETY: Process context, without `event_mutex`.
    unsafe { ktrace_open_control() };
    TASK.store(ptr::null_mut(), Ordering::Relaxed);
    REQUEST.store(ptr::null_mut(), Ordering::Relaxed);
}

/// Somebody opens the control event.
///
/// # Safety
///
/// Called by the kernel with `event_mutex` held.
#[no_mangle]
unsafe extern "C" fn ktrace_event_mutex_held() {
    // SAFETY: `get_current()` has no requirements.
    let task = unsafe { kernel::bindings::get_current() };
    if TASK.load(Ordering::Relaxed) != task {
        return;
    }
    let request = REQUEST.swap(ptr::null_mut(), Ordering::Relaxed);
    if request.is_null() {
        return;
    }
    // The kernel holds `event_mutex` for the current task, is not in a callback of another event,
    // and ends its walk over the events with this one.
    // SAFETY: It is the current task that set it, further up its stack, and that waits for us.
    unsafe { ((*request).run)((*request).data) };
}

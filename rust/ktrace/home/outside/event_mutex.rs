// SPDX-License-Identifier: GPL-2.0

//! The kernel's `event_mutex`, which it does not export.
//!
//! It must be held where events are added and removed. The kernel takes it, and then calls the
//! event's own function, where perf opens an event: so this module has an event of its own,
//! `control`, that it opens in order to have its own function called. While the module unloads perf
//! does not open its events any more; then it enables and disables the event, which does the same.
//! That is not the way at other times: with the first event that is enabled the kernel begins to
//! record the names of tasks, and patches its code for that.

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering;

use kernel::bindings::task_struct;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::bindings;
use crate::trace_event::EventMutex;

kernel::sync::global_lock! {
    // SAFETY: Initialised by `init` before anything else here is used.
    unsafe(uninit) static REQUESTS: Mutex<()> = ();
}

/// Whose request is to be run, and which: only that task looks at the latter. Both are set and
/// reset with `REQUESTS` held.
static TASK: AtomicPtr<task_struct> = AtomicPtr::new(ptr::null_mut());
static REQUEST: AtomicPtr<Request> = AtomicPtr::new(ptr::null_mut());

/// A function to be run, once.
struct Request {
    /// Takes `data`.
    run: unsafe fn(*mut c_void, &EventMutex),
    data: *mut c_void,
}

/// What [`Request::data`] points at.
struct Operation<F, R> {
    f: Option<F>,
    result: Option<R>,
}

extern "C" {
    static ktrace_control_system: [c_char; 0];

    fn ktrace_open_control();
}

/// # Safety
///
/// Once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: By the safety requirement.
    unsafe { REQUESTS.init() };
}

/// See [`EventMutex::with`].
///
/// `EAGAIN`, and a line in the kernel's log, where the kernel does not call this module: for want
/// of memory, or, while the module unloads, since there is a trigger on the control event.
pub(crate) fn with_event_mutex<R>(f: impl FnOnce(&EventMutex) -> R) -> Result<R> {
    /// Someone else who enables or disables the control event at the same time can take both
    /// calls away, but not often.
    const ATTEMPTS: usize = 10;

    let mut operation = Operation {
        f: Some(f),
        result: None,
    };
    for _ in 0..ATTEMPTS {
        run_request(&mut operation);
        if let Some(result) = operation.result {
            return Ok(result);
        }
    }
    pr_err!("no use of event_mutex: is there a trigger in events/*/control/trigger?\n");
    Err(EAGAIN)
}

fn run_request<F: FnOnce(&EventMutex) -> R, R>(operation: &mut Operation<F, R>) {
    /// # Safety
    ///
    /// `data` must be a valid `Operation<F, R>` that nobody else uses.
    unsafe fn run<F: FnOnce(&EventMutex) -> R, R>(data: *mut c_void, token: &EventMutex) {
        // SAFETY: By the safety requirement.
        let operation = unsafe { &mut *data.cast::<Operation<F, R>>() };
        operation.result = operation.f.take().map(|f| f(token));
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
    // SAFETY: No requirements.
    let task = unsafe { kernel::bindings::get_current() };
    TASK.store(task, Ordering::Relaxed);
    // SAFETY: Process context, without `event_mutex`.
    unsafe { ktrace_open_control() };
    if !REQUEST.load(Ordering::Relaxed).is_null() {
        // Where the event was enabled already, disabling it serves as well.
        set_control(1);
        set_control(0);
    }
    TASK.store(ptr::null_mut(), Ordering::Relaxed);
    REQUEST.store(ptr::null_mut(), Ordering::Relaxed);
}

/// Enables or disables the control event. The result says nothing about the request.
fn set_control(set: c_int) {
    // SAFETY: Both are strings.
    unsafe {
        bindings::trace_set_clr_event(
            ktrace_control_system.as_ptr(),
            c"control".as_char_ptr(),
            set,
        )
    };
}

/// The control event is being opened, enabled or disabled, by whomever.
///
/// # Safety
///
/// Called by the kernel with `event_mutex` held.
#[no_mangle]
unsafe extern "C" fn ktrace_event_mutex_held() {
    // SAFETY: No requirements.
    let task = unsafe { kernel::bindings::get_current() };
    if TASK.load(Ordering::Relaxed) != task {
        return;
    }
    let request = REQUEST.swap(ptr::null_mut(), Ordering::Relaxed);
    if request.is_null() {
        return;
    }
    // SAFETY: By the safety requirement.
    let token = unsafe { EventMutex::assume_held() };
    // SAFETY: It is the current task that set it, further up its stack, and that waits for us.
    unsafe { ((*request).run)((*request).data, &token) };
}

// SPDX-License-Identifier: GPL-2.0

//! The end of an event.
//!
//! An event that is dropped is removed from the kernel, however long that takes: its code may be
//! gone afterwards. Its records stay in the trace buffers, and with them its number stays reserved
//! (see [`output`]) until the buffers are emptied.

use core::pin::Pin;
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering;

use kernel::bindings::task_struct;
use kernel::bindings::trace_event_call as Call;
use kernel::error::from_err_ptr;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use crate::bindings;
use crate::home;

use super::event_mutex::current;
use super::output;
use super::set_enabled;
use super::EventMutex;
use super::EventMutexHeld;
use super::Inner;

/// Events that were dropped by a task that held `event_mutex`, linked by [`Inner::next`].
struct Abandoned(*mut Inner);

// SAFETY: The events in the list belong to the list alone.
unsafe impl Send for Abandoned {}

impl Abandoned {
    /// Takes an event out, if it is in the list.
    fn take(&mut self, inner: &Inner) {
        let mut place = &mut self.0;
        while !place.is_null() {
            if ptr::eq(*place, inner) {
                *place = inner.next;
                return;
            }
            // SAFETY: The events in the list are live, and nobody else uses the field.
            place = unsafe { &mut (**place).next };
        }
    }
}

kernel::sync::global_lock! {
    // SAFETY: Initialised by `init` before any event is registered.
    unsafe(uninit) static ABANDONED: Mutex<Abandoned> = Abandoned(ptr::null_mut());
}

kernel::sync::global_lock! {
    // Held while abandoned events are removed. Outside of `event_mutex`.
    // SAFETY: Initialised by `init` before any event is registered.
    unsafe(uninit) static REMOVING: Mutex<()> = ();
}

/// The task that holds `REMOVING`, or NULL.
static REMOVER: AtomicPtr<task_struct> = AtomicPtr::new(ptr::null_mut());

// The kernel's structures are only passed on.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_replace_control() -> *mut Call;
    fn ktrace_remove_control() -> *mut Call;
    fn ktrace_free_control(control: *mut Call);
    fn ktrace_keep_trace(file: *mut bindings::trace_event_file);
    fn ktrace_empty_marked_traces() -> bool;
}

/// Makes the control event.
///
/// # Errors
///
/// `ENOMEM`, and those of `trace_add_event_call()`.
///
/// # Safety
///
/// Once, before any event is registered.
pub(crate) unsafe fn init() -> Result {
    // SAFETY: The caller calls this once, before any other use.
    unsafe {
        ABANDONED.init();
        REMOVING.init();
    }
    replace_control()
}

/// Removes the control event, empties the trace buffers that have records of removed events, and
/// gives their numbers back. No event may be registered any more.
pub(crate) fn exit() {
    remove_abandoned();
    let control = loop {
        // SAFETY: `event_mutex` is held.
        if let Ok(control) = EventMutex::with(|_| unsafe { ktrace_remove_control() }) {
            break control;
        }
        // No memory for the attempt to take the mutex.
        fsleep(Delta::from_millis(20));
    };
    // SAFETY: The kernel has let go of it: `event_mutex` was released since.
    unsafe { ktrace_free_control(control) };
    // SAFETY: `event_mutex` is not held.
    unsafe { ktrace_empty_marked_traces() };
    output::release(output::take_reserved());
}

/// Removing the previous control event marks the trace instances to be emptied.
fn replace_control() -> Result {
    // SAFETY: `event_mutex` is held.
    let previous = EventMutex::with(|_| from_err_ptr(unsafe { ktrace_replace_control() }))??;
    // SAFETY: The kernel has let go of it: `event_mutex` was released since.
    unsafe { ktrace_free_control(previous) };
    Ok(())
}

/// Empties the trace buffers of the instances that have records of removed events, and gives the
/// numbers of these events back to the kernel.
///
/// Other records in these buffers are lost, too, as they are when the kernel's own probe events are
/// removed. Process context; sleeps. `EDEADLK` with `event_mutex` held, `ENOMEM`, and `ENOTSUPP`
/// if the kernel has no way to do so (a module, and no `CONFIG_KPROBE_EVENTS`).
pub fn empty_traces() -> Result {
    // The records of these events were made before, so the kernel removes all of them.
    let reserved = output::take_reserved();
    let emptied = replace_control().and_then(|()| {
        // SAFETY: `event_mutex` is not held.
        match unsafe { ktrace_empty_marked_traces() } {
            true => Ok(()),
            false => Err(ENOTSUPP),
        }
    });
    match emptied {
        Ok(()) => output::release(reserved),
        Err(_) => output::put_back(reserved),
    }
    emptied
}

/// Removing an event does not empty the trace buffers of the instance of `file`.
///
/// # Safety
///
/// `file` must be that of a registered event, and disabled.
pub(super) unsafe fn keep_trace(_: &EventMutexHeld, file: *mut bindings::trace_event_file) {
    // SAFETY: The caller guarantees that the file exists. The token says that `event_mutex` is held.
    unsafe { ktrace_keep_trace(file) };
}

/// Removes an event and frees it. Waits until nobody uses the event.
///
/// In a task that holds `event_mutex` this is done when [`EventMutex::with`] next releases it: the
/// mutex may be held for the event's own callback.
pub(super) fn remove(inner: Pin<KBox<Inner>>) {
    if EventMutexHeld::is_current() {
        abandon(inner);
        return;
    }
    wait_until_unregistered(&inner);
    drop(inner);
    remove_abandoned();
}

fn abandon(inner: Pin<KBox<Inner>>) {
    // SAFETY: The event stays in its box, which is pinned again when it leaves the list.
    let inner = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });
    let mut abandoned = ABANDONED.lock();
    // SAFETY: The event is live, and nobody else uses the field.
    unsafe { (*inner).next = abandoned.0 };
    abandoned.0 = inner;
}

/// Removes those abandoned events that nobody uses any more.
pub(super) fn remove_abandoned() {
    // Freeing an event runs the code of its owner, which may come here again.
    if ABANDONED.lock().0.is_null() || REMOVER.load(Ordering::Relaxed) == current() {
        return;
    }
    let _removing = REMOVING.lock();
    REMOVER.store(current(), Ordering::Relaxed);
    let mut next = core::mem::replace(&mut ABANDONED.lock().0, ptr::null_mut());
    while !next.is_null() {
        // SAFETY: The event came from a pinned box, and has left the list.
        let inner = unsafe { Pin::new_unchecked(KBox::from_raw(next)) };
        next = inner.next;
        if !is_unregistered(&inner) {
            abandon(inner);
        }
    }
    REMOVER.store(ptr::null_mut(), Ordering::Relaxed);
}

/// Removes an event that its module left behind.
///
/// # Safety
///
/// `call` must be that of an [`Inner`] that its module does not use or free any more.
pub(super) unsafe fn take_back(call: *mut c_void) {
    // SAFETY: The caller guarantees that this is the call of an event.
    let inner = unsafe { Inner::from_call(call.cast()) };
    // Another task may be removing it just now.
    let _removing = REMOVING.lock();
    ABANDONED.lock().take(inner);
    wait_until_unregistered(inner);
}

/// Unregisters an event. Waits until nobody uses it.
fn wait_until_unregistered(inner: &Inner) {
    let (group, name) = inner.names();
    let mut is_logged = false;
    while !is_unregistered(inner) {
        if !is_logged {
            pr_warn!(
                "waiting until nobody uses the event {}/{}\n",
                group.to_str().unwrap_or(""),
                name.to_str().unwrap_or("")
            );
            is_logged = true;
        }
        fsleep(Delta::from_millis(20));
    }
}

/// Unregisters an event, unless somebody uses it.
fn is_unregistered(inner: &Inner) -> bool {
    let unregister = || home::with_event_mutex(|token| inner.unregister(token));
    let (group, name) = inner.names();
    if matches!(unregister(), Ok(Ok(()))) {
        return true;
    }
    // A user of the top trace instance has no say. An error shows in the next attempt.
    let _ = set_enabled(group, name, 0);
    matches!(unregister(), Ok(Ok(())))
}

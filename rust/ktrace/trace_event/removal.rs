// SPDX-License-Identifier: GPL-2.0

//! The end of an event.
//!
//! An event that is dropped is removed from the kernel, however long that takes: its code may be
//! gone afterwards. Its records stay in the trace buffers, and with them its number stays reserved
//! (see [`output`]) until the buffers are emptied: all of them, and the kernel does not empty that
//! of a CPU that is offline.

use core::{
    pin::Pin,
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings::trace_event_call as Call,
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    },
};

use crate::bindings;

use super::{
    output,
    set_enabled,
    EventMutex,
    EventMutexHeld,
    PinnedEvent, //
};

/// Events that were dropped in the closure of [`EventMutex::with`] that runs now, linked by
/// [`PinnedEvent::next`]. Only the holder of `event_mutex` uses the list.
static ABANDONED: AtomicPtr<PinnedEvent> = AtomicPtr::new(ptr::null_mut());

// The kernel's structures are only passed on.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_replace_control() -> *mut Call;
    fn ktrace_remove_control() -> *mut Call;
    fn ktrace_free_control(control: *mut Call);
    fn ktrace_keep_trace(file: *mut bindings::trace_event_file);
    fn ktrace_empty_marked_traces() -> c_int;
    fn ktrace_watch_cpus() -> c_int;
    fn ktrace_unwatch_cpus();
    fn ktrace_departures() -> c_int;
}

/// Makes the control event.
///
/// # Errors
///
/// `ENOMEM`, `ENOSPC` if the kernel has no room for a callback of CPUs, and those of
/// `trace_add_event_call()`.
pub(crate) fn init() -> Result {
    // SAFETY: Called once, before there are events. `exit` removes the callbacks.
    to_result(unsafe { ktrace_watch_cpus() })?;
    replace_control().inspect_err(|_| {
        // SAFETY: They were set up just now.
        unsafe { ktrace_unwatch_cpus() };
    })
}

/// Removes the control event, empties the trace buffers that have records of removed events, and
/// gives their numbers back. No event may be registered any more.
pub(crate) fn exit() {
    let departures = departures();
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
    while empty_marked_traces() == Err(ENOMEM) {
        fsleep(Delta::from_millis(20));
    }
    release(output::take_reserved(), departures);
    // SAFETY: `init` set them up.
    unsafe { ktrace_unwatch_cpus() };
}

/// How many times a CPU went offline; `EBUSY` while one is that may have records of our events.
fn departures() -> Result<c_int> {
    // SAFETY: Always sound.
    let departures = unsafe { ktrace_departures() };
    to_result(departures)?;
    Ok(departures)
}

/// Gives numbers back to the kernel, now that the trace buffers were emptied: of all CPUs, if none
/// was or went offline since `before`. Otherwise they stay taken for good.
fn release(numbers: output::Reserved, before: Result<c_int>) {
    if before.is_ok() && before == departures() {
        output::release(numbers);
    } else {
        output::abandon(numbers);
    }
}

fn empty_marked_traces() -> Result {
    // SAFETY: `event_mutex` is not held.
    to_result(unsafe { ktrace_empty_marked_traces() })
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
/// numbers of these events back to the kernel. But if a CPU goes offline meanwhile, they stay
/// taken.
///
/// Other records in these buffers are lost, too, as they are when the kernel's own probe events are
/// removed. Process context; sleeps. `EBUSY` while a CPU is offline that may have such records,
/// `EDEADLK` with `event_mutex` held, `ENOMEM`, and `EOPNOTSUPP` if the kernel has no way to do so
/// (a module, and no `CONFIG_KPROBE_EVENTS`).
pub fn empty_traces() -> Result {
    let departures = departures()?;
    // The records of these events were made before, so the kernel removes all of them.
    let reserved = output::take_reserved();
    let emptied = replace_control().and_then(|()| empty_marked_traces());
    match emptied {
        Ok(()) => release(reserved, Ok(departures)),
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
    // SAFETY: The caller guarantees that the file exists. The token says that `event_mutex` is
    // held.
    unsafe { ktrace_keep_trace(file) };
}

/// Removes an event and frees it. Waits until nobody uses the event.
///
/// A task that holds `event_mutex` cannot wait. In the closure of [`EventMutex::with`] the event is
/// removed when that releases the mutex. In a callback of an event, the kernel is walking over the
/// events, and somebody else's task may be there: the event stays until its module goes.
pub(super) fn remove(inner: Pin<KBox<PinnedEvent>>) {
    if !EventMutexHeld::is_current() {
        wait_until_unregistered(&inner);
        return;
    }
    let is_in_callback = EventMutexHeld::is_in_callback();
    inner.is_dropped.store(true, Ordering::Relaxed);
    // SAFETY: The event stays in its box, which is pinned again when somebody removes it.
    let inner = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });
    if is_in_callback {
        pr_warn!("an event was dropped in a callback: it stays until its module goes\n");
        return;
    }
    // SAFETY: The event is live, and nobody else uses the field.
    unsafe { (*inner).next = ABANDONED.load(Ordering::Relaxed) };
    ABANDONED.store(inner, Ordering::Relaxed);
}

/// Takes the events that were dropped under the token.
pub(super) fn take_abandoned(_: &EventMutex) -> Abandoned {
    Abandoned(ABANDONED.swap(ptr::null_mut(), Ordering::Relaxed))
}

/// Events that were dropped, linked by [`PinnedEvent::next`]. Dropping the list removes them.
pub(super) struct Abandoned(*mut PinnedEvent);

impl Drop for Abandoned {
    fn drop(&mut self) {
        while !self.0.is_null() {
            // SAFETY: `remove` took the event out of a pinned box, and it leaves the list.
            let inner = unsafe { Pin::new_unchecked(KBox::from_raw(self.0)) };
            self.0 = inner.next;
            remove(inner);
        }
    }
}

/// Removes an event that its module left behind, and frees it if it was dropped.
///
/// # Safety
///
/// `call` must be that of a [`PinnedEvent`] that its module does not use or free any more.
pub(super) unsafe fn take_back(call: *mut c_void) {
    // SAFETY: The caller guarantees that this is the call of an event.
    let inner = unsafe { PinnedEvent::from_call(call.cast()) };
    wait_until_unregistered(inner);
    if inner.is_dropped.load(Ordering::Relaxed) {
        let inner = ptr::from_ref(inner).cast_mut();
        // SAFETY: `remove` took the event out of a pinned box and left it to nobody else. The code
        // of its module is still there.
        drop(unsafe { Pin::new_unchecked(KBox::from_raw(inner)) });
    }
}

/// Unregisters an event. Waits until nobody uses it.
fn wait_until_unregistered(inner: &PinnedEvent) {
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
fn is_unregistered(inner: &PinnedEvent) -> bool {
    let unregister = || EventMutex::lock(|token| inner.unregister(token));
    let (group, name) = inner.names();
    if matches!(unregister(), Ok(Ok(()))) {
        return true;
    }
    // A user of the top trace instance has no say. An error shows in the next attempt.
    let _ = set_enabled(group, name, 0);
    matches!(unregister(), Ok(Ok(())))
}

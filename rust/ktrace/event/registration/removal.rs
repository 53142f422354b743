// SPDX-License-Identifier: GPL-2.0

//! Removal of events.
//!
//! A dropped event is removed from the kernel, however long the removal takes, because the code of
//! its module may be unloaded afterwards. Its records stay in the trace buffers. Its number stays
//! reserved (see [`output`]) until all these buffers are emptied. The kernel does not empty the
//! buffer of an offline CPU.

use core::ptr::{
    self,
    NonNull, //
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
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

use crate::{
    event::{
        event_probe,
        mutex::{
            EventMutex,
            EventMutexHeld, //
        },
    },
    modules::leftover::Claim, //
};

use super::{
    enabling::set_enabled,
    output::{
        self,
        Output, //
    },
    pinned_event::{
        EventBox,
        PinnedEvent, //
    },
};

/// Events that the running closure of [`EventMutex::with`] has dropped, linked by [`Output::next`].
/// Only the holder of `event_mutex` uses the list.
static ABANDONED: Atomic<*mut Output> = Atomic::new(ptr::null_mut());

// Rust only passes on pointers to these kernel structures.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_replace_control() -> *mut Call;
    fn ktrace_remove_control() -> *mut Call;
    fn ktrace_free_control(control: *mut Call);
    fn ktrace_empty_marked_traces() -> c_int;
    fn ktrace_watch_cpus() -> c_int;
    fn ktrace_unwatch_cpus();
    fn ktrace_departures() -> c_int;
}

/// Creates the control event.
///
/// # Errors
///
/// `ENOMEM`, `ENOSPC` if the kernel has no free slot for a CPU callback, and the errors of
/// `trace_add_event_call()`.
pub(crate) fn init() -> Result {
    // SAFETY: This is called once, before any event exists. `exit` removes the callbacks.
    to_result(unsafe { ktrace_watch_cpus() })?;
    replace_control().inspect_err(|_| {
        // SAFETY: `ktrace_watch_cpus` has set up the callbacks.
        unsafe { ktrace_unwatch_cpus() };
    })
}

/// Removes the control event, empties the trace buffers that have records of removed events, and
/// returns their numbers to the kernel. No event may be registered any more.
pub(crate) fn exit() {
    let departures = departures();
    let control = loop {
        // SAFETY: `event_mutex` is held.
        if let Ok(control) = EventMutex::with(|_| unsafe { ktrace_remove_control() }) {
            break control;
        }
        // The attempt to take the mutex failed for lack of memory. Waits before the next attempt.
        fsleep(Delta::from_millis(20));
    };
    // SAFETY: `event_mutex` was released after the removal, so the kernel has no pointer to the
    // event.
    unsafe { ktrace_free_control(control) };
    while empty_marked_traces() == Err(ENOMEM) {
        fsleep(Delta::from_millis(20));
    }
    release(output::take_reserved(), departures);
    // SAFETY: `init` set up the callbacks.
    unsafe { ktrace_unwatch_cpus() };
}

/// The number of times that a CPU went offline. `EBUSY` while a CPU is offline whose buffer may
/// have records of this crate's events.
fn departures() -> Result<c_int> {
    // SAFETY: The function has no requirements.
    let departures = unsafe { ktrace_departures() };
    to_result(departures)?;
    Ok(departures)
}

/// Returns numbers to the kernel after the trace buffers were emptied. If a CPU was offline at
/// `before`, or went offline since then, not all buffers were emptied, and the numbers stay
/// reserved permanently.
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

/// Replaces the control event. The kernel then marks the trace instances that it has to empty.
fn replace_control() -> Result {
    // SAFETY: `event_mutex` is held.
    let previous = EventMutex::with(|_| from_err_ptr(unsafe { ktrace_replace_control() }))??;
    // SAFETY: `event_mutex` was released after the removal, so the kernel has no pointer to the
    // event.
    unsafe { ktrace_free_control(previous) };
    Ok(())
}

/// Empties the trace buffers of the instances that have records of removed events, and returns the
/// numbers of these events to the kernel. If a CPU goes offline meanwhile, the numbers stay
/// reserved.
///
/// Other records in these buffers are lost, too, as they are when the kernel removes its own probe
/// events. Process context; sleeps. `EBUSY` while a CPU is offline whose buffer may have such
/// records, `EDEADLK` with `event_mutex` held, `ENOMEM`, and `EOPNOTSUPP` if the kernel cannot
/// empty the buffers (for a module, without `CONFIG_KPROBE_EVENTS`).
pub fn empty_traces() -> Result {
    let departures = departures()?;
    // The records of these events precede this call, so the kernel empties all of them.
    let reserved = output::take_reserved();
    let emptied = replace_control().and_then(|()| empty_marked_traces());
    match emptied {
        Ok(()) => release(reserved, Ok(departures)),
        Err(_) => output::put_back(reserved),
    }
    emptied
}

/// Removes an event and frees it. Waits until the event has no user.
///
/// A task that holds `event_mutex` cannot wait. In the closure of [`EventMutex::with`], the event
/// is removed when `with` releases the mutex. In a callback of an event, the kernel iterates over
/// the events, maybe in another task, so the event stays until its module unloads.
///
/// If `leftover`(crate::leftover) removes the event, its memory is never freed.
pub(super) fn remove(inner: EventBox) {
    if !EventMutexHeld::is_current() {
        match inner.entry.claim() {
            Some(claim) => remove_claimed(inner, claim),
            None => _ = inner.into_raw(),
        }
        return;
    }
    if EventMutexHeld::is_in_callback() {
        // `take_back` waits for `event_mutex`, and frees the event afterwards.
        inner.is_dropped.store(true, Relaxed);
        let _ = inner.into_raw();
        pr_warn!("an event was dropped in a callback: it stays until its module goes\n");
        return;
    }
    // Does not wait for another task, which may be waiting for `event_mutex`.
    let claim = inner.entry.try_claim();
    let output = inner.into_raw();
    let Some(claim) = claim else {
        return;
    };
    // `Abandoned` takes it up in this task.
    claim.put_aside();
    let next = ABANDONED.xchg(output.as_ptr(), Relaxed);
    // SAFETY: The event still has its reference to the output.
    unsafe { output.as_ref() }.next.store(next, Relaxed);
}

/// Removes an event and frees it. Waits until the event has no user.
fn remove_claimed(inner: EventBox, claim: Claim) {
    wait_until_unregistered(&inner);
    drop(inner);
    drop(claim);
}

impl EventMutex {
    /// Runs `f` with `event_mutex` held.
    ///
    /// Process context. The caller must not hold a lock that
    /// [`Operations`](crate::trace_event::Operations) or another `f` takes. `EDEADLK` in another
    /// `f` and in the callbacks of events. `ENOMEM` in a build outside the kernel tree, because the
    /// kernel does not export the mutex.
    pub fn with<R>(f: impl FnOnce(&EventMutex) -> R) -> Result<R> {
        EventMutexHeld::check_not_current()?;
        let (result, abandoned) = Self::lock(|token| {
            let result = f(token);
            (result, take_abandoned(token))
        })?;
        drop(abandoned);
        event_probe::finish_puts();
        Ok(result)
    }
}

/// Takes the list of events that were dropped under the token.
fn take_abandoned(_: &EventMutex) -> Abandoned {
    Abandoned(ABANDONED.xchg(ptr::null_mut(), Relaxed))
}

/// A list of dropped events, linked by [`Output::next`]. Dropping the list removes the events.
struct Abandoned(*mut Output);

impl Drop for Abandoned {
    fn drop(&mut self) {
        while let Some(output) = NonNull::new(self.0) {
            // SAFETY: `remove` took the output out of a box. The list no longer has it.
            let inner = unsafe { EventBox::from_raw(output) };
            self.0 = inner.output().next.load(Relaxed);
            let claim = inner.entry.take_up();
            remove_claimed(inner, claim);
        }
    }
}

/// Removes an event that its module left registered, and frees the event if it was dropped.
///
/// # Safety
///
/// `call` must be the call of a registered [`PinnedEvent`]. Only the caller may unregister it.
pub(super) unsafe fn take_back(call: *mut c_void) {
    // SAFETY: The caller guarantees that this is the call of an event.
    let inner = unsafe { PinnedEvent::from_call(call.cast()) };
    wait_until_unregistered(inner);
    if inner.is_dropped.load(Relaxed) {
        let output = NonNull::from(inner.output());
        // SAFETY: `remove` set the flag, took the output out of a box and gave it to no other code.
        // It did so in a callback of an event, with `event_mutex` held, so it does not use the
        // event any more. The code of the event's module is still loaded.
        drop(unsafe { EventBox::from_raw(output) });
    }
}

/// Unregisters an event. Waits until the event has no user.
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

/// Tries to unregister an event. Returns false while the event has a user.
fn is_unregistered(inner: &PinnedEvent) -> bool {
    let unregister = || EventMutex::lock(|token| inner.unregister(token));
    let (group, name) = inner.names();
    if matches!(unregister(), Ok(Ok(()))) {
        return true;
    }
    // This disables the event for a user of the top trace instance, too. The next attempt shows an
    // error.
    let _ = set_enabled(group, name, 0);
    matches!(unregister(), Ok(Ok(())))
}

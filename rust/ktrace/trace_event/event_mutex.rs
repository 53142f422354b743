// SPDX-License-Identifier: GPL-2.0

//! The kernel's `event_mutex`, which protects the kernel's list of events and their users.

use core::{
    ops::Deref,
    ptr,
    sync::atomic::{
        AtomicBool,
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings::{
        self,
        task_struct, //
    },
    ffi::c_int,
    prelude::*,
    types::NotThreadSafe, //
};

use crate::tree;

use super::removal;

/// The task that holds `event_mutex` while it runs code under a token, or NULL. Only the holder of
/// `event_mutex` writes it.
static HOLDER: AtomicPtr<task_struct> = AtomicPtr::new(ptr::null_mut());

/// Whether the holder is in a callback of an event. Only the holder of `event_mutex` uses it.
static IS_IN_CALLBACK: AtomicBool = AtomicBool::new(false);

/// Evidence that the current task holds `event_mutex`.
///
/// The callbacks of an event get this token. The kernel is walking over its events then, and the
/// event's own code runs, so this token cannot add or remove events: [`EventMutex`] can.
///
/// # Invariants
///
/// The current task holds `event_mutex` for as long as the value lives, and is the `HOLDER`.
pub struct EventMutexHeld {
    _here: NotThreadSafe,
    /// The holder before: the current task, or NULL.
    before: *mut task_struct,
    /// The value of [`IS_IN_CALLBACK`] before.
    was_in_callback: bool,
}

impl EventMutexHeld {
    /// For a callback of an event.
    ///
    /// # Safety
    ///
    /// The current task holds `event_mutex`, and keeps it for as long as the value lives.
    pub(crate) unsafe fn assume_held() -> Self {
        // SAFETY: The caller guarantees that the current task holds the mutex.
        unsafe { Self::new(true) }
    }

    /// # Safety
    ///
    /// The current task holds `event_mutex`, and keeps it for as long as the value lives.
    unsafe fn new(is_in_callback: bool) -> Self {
        // INVARIANT: The caller holds the mutex, so nobody else writes the holder.
        Self {
            _here: NotThreadSafe,
            before: HOLDER.swap(current(), Ordering::Relaxed),
            was_in_callback: IS_IN_CALLBACK.swap(is_in_callback, Ordering::Relaxed),
        }
    }

    /// Whether the current task, which holds `event_mutex` under a token, is in a callback.
    pub(crate) fn is_in_callback() -> bool {
        IS_IN_CALLBACK.load(Ordering::Relaxed)
    }

    /// Whether the current task holds `event_mutex` under a token. Any context.
    pub(crate) fn is_current() -> bool {
        HOLDER.load(Ordering::Relaxed) == current()
    }

    /// `EDEADLK` if the current task holds `event_mutex` under a token, and so cannot take it.
    pub(crate) fn check_not_current() -> Result {
        if Self::is_current() {
            return Err(Error::from_errno(-(bindings::EDEADLK as c_int)));
        }
        Ok(())
    }
}

impl Drop for EventMutexHeld {
    fn drop(&mut self) {
        IS_IN_CALLBACK.store(self.was_in_callback, Ordering::Relaxed);
        HOLDER.store(self.before, Ordering::Relaxed);
    }
}

/// Evidence that the current task holds `event_mutex`, and that events can be added and removed.
///
/// # Invariants
///
/// No callback of an event is running in the current task, and the kernel is not in the middle of a
/// walk over the events.
pub struct EventMutex(EventMutexHeld);

impl EventMutex {
    /// # Safety
    ///
    /// The current task holds `event_mutex`, and keeps it for as long as the value lives. It is not
    /// in a callback of an event, and no walk of the kernel over events goes on after this.
    pub(crate) unsafe fn assume_held() -> Self {
        // INVARIANT: The caller guarantees that no callback runs.
        // SAFETY: The caller guarantees that the current task holds the mutex.
        Self(unsafe { EventMutexHeld::new(false) })
    }

    /// Runs `f` with `event_mutex` held.
    ///
    /// Process context, without any lock that is taken in [`Operations`](super::Operations) or in
    /// another `f`. `EDEADLK` in another `f` and in the callbacks of events. Outside of the
    /// kernel's tree, which does not export the mutex, also `ENOMEM`.
    pub fn with<R>(f: impl FnOnce(&EventMutex) -> R) -> Result<R> {
        EventMutexHeld::check_not_current()?;
        let (result, abandoned) = Self::lock(|token| {
            let result = f(token);
            (result, removal::take_abandoned(token))
        })?;
        drop(abandoned);
        Ok(result)
    }

    /// As [`with`](Self::with), for a task that does not hold `event_mutex`. Leaves abandoned
    /// events alone.
    pub(super) fn lock<R>(f: impl FnOnce(&EventMutex) -> R) -> Result<R> {
        tree::with_event_mutex(|| {
            // SAFETY: `tree::with_event_mutex` calls this with `event_mutex` held, in no callback
            // of an event, and without a walk of the kernel over events that goes on after this.
            f(&unsafe { Self::assume_held() })
        })
    }
}

impl Deref for EventMutex {
    type Target = EventMutexHeld;

    fn deref(&self) -> &EventMutexHeld {
        &self.0
    }
}

/// The current task. Any context.
pub(super) fn current() -> *mut task_struct {
    // SAFETY: `get_current()` has no requirements.
    unsafe { bindings::get_current() }
}

// SPDX-License-Identifier: GPL-2.0

//! The kernel's `event_mutex`, which protects the kernel's list of events and their users.

use core::{
    ops::Deref,
    ptr, //
};

use kernel::{
    bindings::{
        self,
        task_struct, //
    },
    ffi::c_int,
    prelude::*,
    sync::atomic::{
        Atomic,
        AtomicFlag,
        Relaxed, //
    },
    types::NotThreadSafe, //
};

use crate::support::tree_variants;

tree_variants!();

/// # Safety
///
/// The caller calls this function once, before any other use of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any other use.
    unsafe { tree::init() };
}

/// The task that holds `event_mutex` while it runs code under a token, or NULL. Only the holder of
/// `event_mutex` writes it.
static HOLDER: Atomic<*mut task_struct> = Atomic::new(ptr::null_mut());

/// Whether the holder is in a callback of an event. Only the holder of `event_mutex` uses it.
static IS_IN_CALLBACK: AtomicFlag = AtomicFlag::new(false);

/// Proof that the current task holds `event_mutex`.
///
/// The callbacks of an event get this token. At that time the kernel iterates over its events, and
/// the event's own code runs. So this token does not allow adding or removing events, but
/// [`EventMutex`] does.
///
/// # Invariants
///
/// The current task holds `event_mutex` for as long as the value lives, and `HOLDER` is that task.
pub struct EventMutexHeld {
    _here: NotThreadSafe,
    /// The previous value of [`HOLDER`]: the current task, or NULL.
    before: *mut task_struct,
    /// The previous value of [`IS_IN_CALLBACK`].
    was_in_callback: bool,
}

impl EventMutexHeld {
    /// Creates a token for a callback of an event.
    ///
    /// # Safety
    ///
    /// The current task must hold `event_mutex` for as long as the value lives.
    pub(crate) unsafe fn assume_held() -> Self {
        // SAFETY: The caller guarantees that the current task holds the mutex.
        unsafe { Self::new(true) }
    }

    /// # Safety
    ///
    /// The current task must hold `event_mutex` for as long as the value lives.
    unsafe fn new(is_in_callback: bool) -> Self {
        // INVARIANT: The caller holds the mutex, so no other task writes the holder.
        Self {
            _here: NotThreadSafe,
            before: HOLDER.xchg(current(), Relaxed),
            was_in_callback: IS_IN_CALLBACK.xchg(is_in_callback, Relaxed),
        }
    }

    /// Whether the current task, which holds `event_mutex` under a token, runs a callback of an
    /// event.
    pub(crate) fn is_in_callback() -> bool {
        IS_IN_CALLBACK.load(Relaxed)
    }

    /// Whether the current task holds `event_mutex` under a token. Any context.
    pub(crate) fn is_current() -> bool {
        HOLDER.load(Relaxed) == current()
    }

    /// Fails with `EDEADLK` if the current task holds `event_mutex` under a token, and so cannot
    /// take the mutex.
    pub(crate) fn check_not_current() -> Result {
        if Self::is_current() {
            return Err(Error::from_errno(-(bindings::EDEADLK as c_int)));
        }
        Ok(())
    }
}

impl Drop for EventMutexHeld {
    fn drop(&mut self) {
        IS_IN_CALLBACK.store(self.was_in_callback, Relaxed);
        HOLDER.store(self.before, Relaxed);
    }
}

/// Proof that the current task holds `event_mutex`, and may add and remove events.
///
/// # Invariants
///
/// The current task runs no callback of an event, and no iteration of the kernel over its events is
/// in progress.
pub struct EventMutex(EventMutexHeld);

impl EventMutex {
    /// # Safety
    ///
    /// The current task must hold `event_mutex` for as long as the value lives. It must not run a
    /// callback of an event. The kernel must not continue an iteration over events afterwards.
    pub(crate) unsafe fn assume_held() -> Self {
        // INVARIANT: The caller guarantees that no callback and no iteration is in progress.
        // SAFETY: The caller guarantees that the current task holds the mutex.
        Self(unsafe { EventMutexHeld::new(false) })
    }

    /// Runs `f` with `event_mutex` held, for a task that does not hold the mutex. Does not remove
    /// the events that `f` drops: see [`with`](Self::with).
    pub(super) fn lock<R>(f: impl FnOnce(&EventMutex) -> R) -> Result<R> {
        tree::with_event_mutex(|| {
            // SAFETY: `tree::with_event_mutex` calls this with `event_mutex` held, outside
            // callbacks of events. The kernel does not continue an iteration over events
            // afterwards.
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

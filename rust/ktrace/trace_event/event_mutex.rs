// SPDX-License-Identifier: GPL-2.0

//! The kernel's `event_mutex`, which must be held where events are added and removed.

use kernel::prelude::*;
use kernel::types::NotThreadSafe;

use crate::home;

/// Evidence that `event_mutex` is held.
///
/// # Invariants
///
/// The current task holds it for as long as the value lives.
pub struct EventMutex(NotThreadSafe);

impl EventMutex {
    /// # Safety
    ///
    /// The current task holds `event_mutex`, and keeps it for as long as the value lives.
    pub(crate) unsafe fn assume_held() -> Self {
        // INVARIANT: By the safety requirement.
        Self(NotThreadSafe)
    }

    /// Runs `f` with `event_mutex` held.
    ///
    /// Process context, without any lock that is taken in [`Operations`](super::Operations) or in
    /// another `f`. Outside of the kernel's tree, which does not export it, this can fail:
    /// `EAGAIN`, and a line in the kernel's log.
    pub fn with<R>(f: impl FnOnce(&EventMutex) -> R) -> Result<R> {
        home::with_event_mutex(f)
    }
}

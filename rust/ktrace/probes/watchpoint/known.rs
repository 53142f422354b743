// SPDX-License-Identifier: GPL-2.0

//! What ktrace knows of the running kernel: where a handler must not run, and what cannot be
//! watched.

use kernel::prelude::*;

use crate::support::unsupported;

use super::{
    entry_memory::EntryMemory,
    guard::Guard, //
};

/// What ktrace knows of the running kernel.
pub(super) struct Known {
    pub(super) guard: Guard,
    pub(super) entry: EntryMemory,
}

kernel::sync::global_lock! {
    // SAFETY: `init` initialises it before any other use of this file.
    unsafe(uninit) static KNOWN: Mutex<Option<Known>> = None;
}

/// # Safety
///
/// The caller must call this function once, before any other use of this file.
pub(super) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe { KNOWN.init() };
}

/// Forgets what is known.
pub(super) fn exit() {
    drop(KNOWN.lock().take());
}

/// Calls `f` with what ktrace knows of the running kernel. The first call finds it out.
///
/// Process context; sleeps. `ENOMEM`, and `EOPNOTSUPP` if the kernel does not know the names of its
/// variables (`CONFIG_KALLSYMS_ALL`).
pub(super) fn with_known<R>(f: impl FnOnce(&Known) -> R) -> Result<R> {
    let mut known = KNOWN.lock();
    let known = match &mut *known {
        Some(known) => known,
        none => {
            let find = || {
                Ok(Known {
                    guard: Guard::find()?,
                    entry: EntryMemory::find()?,
                })
            };
            none.insert(find().map_err(|error| match error {
                ENOMEM => error,
                _ => unsupported(),
            })?)
        }
    };
    Ok(f(known))
}

// SPDX-License-Identifier: GPL-2.0

//! The promises of ktrace for a registered probe, beyond the contract of the kernel.
//!
//! - A probe that nobody drops ends before the code of its handler is freed: see [`leftover`].
//! - A probe in a module that unloads is disarmed before the kernel forgets it: see
//!   [`kprobe_list`].
//! - If the kernel cannot unregister a probe, the memory and the code of its handler stay.
//!
//! An abstraction in the kernel crate has no such promises, and does not need this file: it
//! registers and unregisters a structure by [`Raw::register`] and [`Raw::unregister`].

use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*, //
};

use crate::{
    bindings,
    modules::{
        kprobe_list,
        leftover::{
            self,
            Claim,
            Entry,
            Kind, //
        },
    },
};

use super::{
    Raw,
    Registration, //
};

/// Guards the registration of a structure.
///
/// # Invariants
///
/// If the entry can be claimed, the structure is registered, and only the task that claims the
/// entry unregisters it. While registered, the structure is in [`kprobe_list`] if its code
/// [needs](kprobe_list::needs) it.
pub(super) struct Guard(Entry);

impl Guard {
    /// The guard of a structure that is not registered.
    pub(super) fn new() -> Self {
        // INVARIANT: An entry that has ended cannot be claimed.
        Self(Entry::ended())
    }

    /// Registers the structure.
    ///
    /// Process context. `ENODEV` if the module of the handler is being unloaded, `ENOMEM`, `ENOSPC`
    /// after 4 billion registrations, and the errors of C.
    ///
    /// # Safety
    ///
    /// The structure must be initialised, must not be registered, and must stay in place until
    /// [`unregister`](Self::unregister) has returned. No other code may use it during this call.
    pub(super) unsafe fn register<R: Raw>(&self, raw: *mut R) -> Result {
        // SAFETY: The caller guarantees that the structure is initialised.
        let code = unsafe { R::code(raw) };
        // SAFETY: No other code has the structure yet. `remove` waits until no handler runs, and
        // does not use module notifiers. `unregister` waits until `remove` has returned.
        let claim = unsafe { leftover::track(Kind::Other, &[code], raw.cast(), remove::<R>) }?;
        // SAFETY: The caller guarantees that the structure is initialised and stays in place.
        let register = || to_result(unsafe { R::register(raw) });
        if kprobe_list::needs(code) {
            // SAFETY: Each function that unregisters the probe calls `kprobe_list::remove` before.
            unsafe { kprobe_list::add(R::kprobe(raw), register) }?;
        } else {
            register()?;
        }
        // INVARIANT: This function has just registered the structure, and listed it if necessary.
        self.0.set(claim.keep());
        Ok(())
    }

    /// Unregisters the structure, and waits until no handler runs. Returns false if `leftover` has
    /// unregistered it before.
    ///
    /// Process context. Does not return if the kernel still uses the structure, because its memory
    /// belongs to the caller.
    ///
    /// # Safety
    ///
    /// `raw` must be the guarded structure.
    pub(super) unsafe fn unregister<R: Raw>(&self, raw: *mut R) -> bool {
        // SAFETY: The caller guarantees that this is the guarded structure.
        let Some(claim) = (unsafe { self.claim(raw) }) else {
            return false;
        };
        // SAFETY: By the type invariant, the structure is registered, because this task has the
        // claim.
        unsafe { R::unregister(&mut [raw]) };
        // SAFETY: The structure was unregistered, and its memory is that of the caller.
        if unsafe { keep_if_used(raw) } {
            leftover::keep_memory();
        }
        drop(claim);
        self.0.end();
        true
    }

    /// Claims the structure, and removes it from [`kprobe_list`]. The caller then unregisters it.
    /// `None` if it is not registered any more.
    ///
    /// # Safety
    ///
    /// `raw` must be the guarded structure.
    unsafe fn claim<R: Raw>(&self, raw: *mut R) -> Option<Claim> {
        let claim = self.0.claim_unless_ended()?;
        // SAFETY: By the type invariant, the structure is registered, because this task has the
        // claim.
        unsafe { leave_list(raw) };
        Some(claim)
    }

    /// Arms the probe.
    ///
    /// # Safety
    ///
    /// `raw` must be the guarded structure, and must have been registered.
    pub(super) unsafe fn enable<R: Raw>(&self, raw: *mut R) -> Result {
        let kprobe = R::kprobe(raw);
        // SAFETY: The caller guarantees that the probe was registered, and is not freed.
        if kprobe_list::needs(unsafe { R::code(raw) }) {
            // SAFETY: The caller guarantees that the probe was registered, and is not freed.
            return unsafe { kprobe_list::enable(kprobe) };
        }
        // SAFETY: The caller guarantees that the probe was registered, and is not freed. C checks
        // that it is still registered.
        to_result(unsafe { bindings::enable_kprobe(kprobe) })
    }
}

/// Unregisters many probes, and waits once. Without memory, waits once for each probe.
///
/// Each `P` owns the memory of a probe, as a box does. If the kernel still uses a probe, its owner
/// is forgotten.
pub(crate) fn unregister_all<P, R: Raw>(
    probes: KVVec<P>,
    registration_of: impl Fn(&P) -> &Registration<R>,
) {
    let (Ok(mut raw), Ok(mut claims)) = (
        KVVec::with_capacity(probes.len(), GFP_KERNEL),
        KVVec::with_capacity(probes.len(), GFP_KERNEL),
    ) else {
        // Dropping each probe unregisters it.
        return;
    };
    for registration in probes.iter().map(&registration_of) {
        // SAFETY: The guard of a registration guards its structure.
        if let Some(claim) = unsafe { registration.guard.claim(registration.raw()) } {
            // The lists have capacity for all probes, so no push fails.
            let _ = claims.push_within_capacity(claim);
            let _ = raw.push_within_capacity(registration.raw());
        }
    }
    // SAFETY: By the invariant of `Guard`, each probe is registered, because this task has the
    // claim. Its owner is dropped only after this.
    unsafe { R::unregister(&mut raw) };
    for probe in probes {
        let registration = registration_of(&probe);
        registration.guard.0.end();
        // SAFETY: The probe was unregistered, by this function or by `remove`.
        if unsafe { keep_if_used(registration.raw()) } {
            core::mem::forget(probe);
        }
    }
    // Only now, the code of the handlers may go. The last entries of the list are the cheapest to
    // remove.
    while claims.pop().is_some() {}
}

/// Removes a probe from [`kprobe_list`], if it is there.
///
/// # Safety
///
/// `raw` must be registered.
unsafe fn leave_list<R: Raw>(raw: *mut R) {
    // SAFETY: The caller guarantees that the structure is registered, so its functions are set.
    if kprobe_list::needs(unsafe { R::code(raw) }) {
        kprobe_list::remove(R::kprobe(raw));
    }
}

/// Returns whether the kernel still uses a probe that was unregistered. In this case, the kernel
/// has cleared the address. This function then keeps the probe's code loaded permanently, and does
/// not return if the module of this code goes: see [`leftover::keep_code_of`].
///
/// # Safety
///
/// `raw` must have been unregistered, and must not have been freed.
unsafe fn keep_if_used<R: Raw>(raw: *mut R) -> bool {
    // SAFETY: The caller guarantees that the probe was unregistered, so no other code changes the
    // address.
    let is_used = unsafe { (*R::kprobe(raw)).addr.is_null() };
    if is_used {
        // SAFETY: The functions were set before the registration, and no code changes them.
        leftover::keep_code_of(unsafe { R::code(raw) });
    }
    is_used
}

/// Unregisters a probe that its module left registered.
///
/// # Safety
///
/// `object` must be a registered `R`. Only the caller may unregister it.
unsafe fn remove<R: Raw>(object: *mut c_void) {
    let raw = object.cast::<R>();
    // SAFETY: The caller guarantees that the structure is registered. No other code unregisters or
    // frees it.
    unsafe {
        leave_list(raw);
        R::unregister(&mut [raw]);
        keep_if_used(raw);
    }
}

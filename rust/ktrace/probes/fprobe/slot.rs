// SPDX-License-Identifier: GPL-2.0

//! The memory of probes, which the kernel may look at after the probe is unregistered.

use core::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    ptr::{
        self,
        NonNull, //
    }, //
};

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

use crate::{
    bindings,
    hit::context::monotonic_clock, //
};

use super::sites::Site;

/// The kernel's structure of a probe. It must not move while it is registered.
#[repr(C)]
pub(super) struct FprobeSlot {
    pub(super) fprobe: Opaque<bindings::fprobe>,
    /// The number of the registration. The entry data of its calls begins with this number.
    pub(super) number: u64,
    /// The handler. Its type is the type parameter of the functions in `fprobe`.
    pub(super) handler: *const c_void,
    /// The functions of a probe that the kernel's fprobe does not call. Otherwise empty. Only the
    /// task that registers or unregisters the slot uses this field.
    pub(super) sites: UnsafeCell<KVVec<Site>>,
    /// The next slot in the pool.
    next: *mut FprobeSlot,
}

/// The unused slots of probes with exit handlers.
struct Pool(*mut FprobeSlot);

// SAFETY: Only the pool has pointers to its slots.
unsafe impl Send for Pool {}

kernel::sync::global_lock! {
    // SAFETY: `crate::init` initialises the mutex before any other use.
    unsafe(uninit) static POOL: Mutex<Pool> = Pool(ptr::null_mut());
}

/// The number of the next registration. The first number is the time in ns. A registration takes
/// longer than 1 ns, so the numbers do not repeat until the next boot, not even after a reload.
/// Entry data of another module's probe, which was at the same address, is unlikely to begin with
/// such a number.
static NEXT_NUMBER: Atomic<u64> = Atomic::new(0);

extern "C" {
    fn ktrace_never_free(memory: *const c_void);
}

/// # Safety
///
/// The caller must call this function once, before any other use of this file.
pub(super) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe { POOL.init() };
    NEXT_NUMBER.store(monotonic_clock(), Relaxed);
}

/// Leaves the memory of the pool allocated when the code is unloaded, because a call in flight may
/// still refer to this memory.
pub(super) fn exit() {
    while let Some(slot) = take_from_pool() {
        // SAFETY: The slot is a live allocation that no code frees.
        unsafe { ktrace_never_free(slot.cast()) };
    }
}

fn take_from_pool() -> Option<*mut FprobeSlot> {
    let mut pool = POOL.lock();
    let slot = NonNull::new(pool.0)?.as_ptr();
    // SAFETY: Slots in the pool are live.
    pool.0 = unsafe { (*slot).next };
    Some(slot)
}

/// Returns a slot that is not registered. A probe with an exit handler gets a slot of the pool, if
/// the pool has one. `ENOMEM`.
pub(super) fn take(has_exit: bool) -> Result<*mut FprobeSlot> {
    let pooled = if has_exit { take_from_pool() } else { None };
    Ok(match pooled {
        Some(slot) => slot,
        None => KBox::into_raw(KBox::new(
            FprobeSlot {
                // SAFETY: All-zero is a valid `struct fprobe`.
                fprobe: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                number: 0,
                handler: ptr::null(),
                sites: UnsafeCell::new(KVVec::new()),
                next: ptr::null_mut(),
            },
            GFP_KERNEL,
        )?),
    })
}

/// Returns the number of a new registration.
pub(super) fn next_number() -> u64 {
    NEXT_NUMBER.fetch_add(1, Relaxed)
}

/// Frees a slot that is not registered. Adds a slot with an exit handler to the pool instead.
pub(super) fn give_back(slot: *mut FprobeSlot, has_exit: bool) {
    if has_exit {
        let mut pool = POOL.lock();
        // SAFETY: The slot is live and not registered.
        unsafe { (*slot).next = pool.0 };
        pool.0 = slot;
    } else {
        // SAFETY: The slot is from a `KBox` and is not registered. No call has entry data of it.
        drop(unsafe { KBox::from_raw(slot) });
    }
}

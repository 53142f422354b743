// SPDX-License-Identifier: GPL-2.0

//! Atomic accesses at a hit, and pointers that RCU protects.
//!
//! `kernel::sync::atomic` calls a C function for each access, even for a load. These calls would
//! slow down a hit, and users may trace these functions. So a handler uses the functions of this
//! file. All other code uses `kernel::sync::atomic`.

use kernel::sync::{
    atomic::{
        atomic_store,
        Acquire,
        Atomic,
        AtomicType,
        Full,
        Relaxed,
        Release, //
    },
    rcu, //
};

use probe::object_table;

use crate::arch;

use super::context;

/// Reads a value, without a function call. C: `READ_ONCE()`.
#[inline(always)]
pub(crate) fn read_once<T: AtomicType>(value: &Atomic<T>) -> T {
    // SAFETY: The pointer is from a reference to a valid value. In the kernel's memory model, a
    // volatile access to at most a word is a relaxed atomic access.
    unsafe { value.as_ptr().read_volatile() }
}

/// Writes a value, without a function call. C: `WRITE_ONCE()`.
#[inline(always)]
pub(crate) fn write_once<T: AtomicType>(value: &Atomic<T>, new: T) {
    // SAFETY: The pointer is from a reference. In the kernel's memory model, a volatile access to
    // at most a word is a relaxed atomic access.
    unsafe { value.as_ptr().write_volatile(new) }
}

/// Proof of a read-side critical section of RCU.
pub(crate) trait ReadSide {}

impl ReadSide for rcu::Guard {}

// A grace period also waits for code with preemption disabled. C: `rcu_read_lock_sched()`.
impl ReadSide for context::Atomic {}

/// Reads a pointer that RCU protects. All later accesses see what the writer wrote before it
/// published the pointer. C: `rcu_dereference()`.
///
/// This is an acquire load, as in C with `CONFIG_LTO`, because the compiler may replace a pointer
/// by an equal one, and the accesses then no longer depend on the load.
///
/// # Safety
///
/// `place` must be valid, and all writes to it at the same time must be atomic.
#[inline(always)]
pub(crate) unsafe fn dereference<T>(place: *const *mut T, _: &impl ReadSide) -> *mut T {
    // SAFETY: The caller guarantees that the place is valid.
    unsafe { arch::load_acquire(place) }
}

/// Publishes a pointer. Readers of it see all that the caller wrote before. C:
/// `rcu_assign_pointer()`.
///
/// # Safety
///
/// `place` must be valid, and all accesses to it at the same time must be atomic, or reads in C.
pub(crate) unsafe fn assign<T>(place: *mut *mut T, pointer: *mut T) {
    // SAFETY: The caller guarantees a valid place, and no data race.
    unsafe { atomic_store(place, pointer, Release) };
}

/// A pointer that is published to readers. RCU protects them, or a lock of C code that reads the
/// pointer. The writers exclude each other.
#[repr(transparent)]
pub(crate) struct Published<T>(Atomic<*mut T>);

impl<T> Published<T> {
    /// Creates a pointer that no reader has yet.
    pub(crate) const fn new(pointer: *mut T) -> Self {
        Self(Atomic::new(pointer))
    }

    /// Publishes a pointer. Readers of it see all that the caller wrote before. C:
    /// `rcu_assign_pointer()`.
    pub(crate) fn assign(&self, pointer: *mut T) {
        // SAFETY: The pointer is from a reference, and all other accesses to it are atomic, or
        // reads in C.
        unsafe { assign(self.0.as_ptr(), pointer) };
    }

    /// Publishes a pointer, and returns the one from before. Readers may use that one until a grace
    /// period later. C: `rcu_replace_pointer()`.
    pub(crate) fn replace(&self, pointer: *mut T) -> *mut T {
        self.0.xchg(pointer, Full)
    }

    /// Publishes NULL, and returns the pointer from before. Readers may use it until a grace period
    /// later. C: `rcu_replace_pointer()`.
    pub(crate) fn take(&self) -> *mut T {
        self.0.xchg(core::ptr::null_mut(), Relaxed)
    }

    /// The pointer, for a writer. C: `rcu_dereference_protected()`.
    pub(crate) fn get(&self) -> *mut T {
        read_once(&self.0)
    }

    /// The pointer, for a reader. C: `rcu_dereference()`.
    #[inline(always)]
    pub(crate) fn read(&self, guard: &impl ReadSide) -> *mut T {
        // SAFETY: The pointer is from a reference, and all other accesses to it are atomic.
        unsafe { dereference(self.0.as_ptr(), guard) }
    }
}

/// A word of a table. Its plain accesses make no call, and on x86-64 no access does.
#[repr(transparent)]
pub struct Word(Atomic<u64>);

impl Word {
    /// Creates a word with this value.
    #[inline(always)]
    pub const fn new(value: u64) -> Self {
        Self(Atomic::new(value))
    }
}

impl Default for Word {
    #[inline(always)]
    fn default() -> Self {
        Self::new(0)
    }
}

impl object_table::Word for Word {
    #[inline(always)]
    fn load(&self) -> u64 {
        read_once(&self.0)
    }

    #[inline(always)]
    fn load_acquire(&self) -> u64 {
        // SAFETY: The pointer is from a reference, and all other accesses to the word are atomic. A
        // pointer has the size of the word.
        unsafe { arch::load_acquire(self.0.as_ptr().cast::<*mut u8>()) }.addr() as u64
    }

    #[inline(always)]
    fn store(&self, value: u64) {
        write_once(&self.0, value);
    }

    #[inline(always)]
    fn store_release(&self, value: u64) {
        arch::store_release(&self.0, value);
    }

    #[inline(always)]
    fn fetch_add(&self, number: u64) -> u64 {
        arch::fetch_add(&self.0, number)
    }

    #[inline(always)]
    fn swap(&self, value: u64) -> u64 {
        arch::exchange(&self.0, value)
    }

    #[inline(always)]
    fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
        arch::compare_exchange(&self.0, old, new, Relaxed).map(drop)
    }

    #[inline(always)]
    fn replace_acquire(&self, old: u64, new: u64) -> Result<(), u64> {
        arch::compare_exchange(&self.0, old, new, Acquire).map(drop)
    }

    #[inline(always)]
    fn replace_release(&self, old: u64, new: u64) -> Result<(), u64> {
        arch::compare_exchange(&self.0, old, new, Release).map(drop)
    }
}

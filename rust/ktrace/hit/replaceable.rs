// SPDX-License-Identifier: GPL-2.0

//! A value that handlers use, and that a task can replace meanwhile.
//!
//! C header: [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h)

use core::{
    marker::PhantomData,
    mem::ManuallyDrop, //
};

use kernel::sync::{
    rcu,
    Arc, //
};

use super::{
    atomic::Published,
    context, //
};

/// A value that handlers use, and that a task can replace meanwhile. RCU protects it.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use kernel::sync::Arc;
/// use ktrace::{
///     kprobe::Hit,
///     percpu::Counter,
///     replaceable::Replaceable, //
/// };
///
/// fn count(calls: &Replaceable<Counter>, hit: &Hit<'_>) {
///     calls.get(hit.atomic()).increment();
/// }
///
/// /// The number of calls since this function was called last.
/// fn calls_since(calls: &Replaceable<Counter>) -> Result<u64> {
///     let earlier = calls.replace(Arc::new(Counter::new()?, GFP_KERNEL)?);
///     Ok(earlier.sum())
/// }
/// ```
///
/// # Invariants
///
/// The pointer is from [`Arc::into_raw`], and owns a reference. Whoever replaces it keeps the
/// reference until a grace period is over.
pub struct Replaceable<T>(Published<T>, PhantomData<Arc<T>>);

// SAFETY: The value owns a reference to a `T`, which any task may use and drop.
unsafe impl<T: Send + Sync> Send for Replaceable<T> {}
// SAFETY: Any task may use and replace the value. All accesses to the pointer are atomic.
unsafe impl<T: Send + Sync> Sync for Replaceable<T> {}

impl<T: Send + Sync> Replaceable<T> {
    /// Creates a value that can be replaced.
    pub fn new(value: Arc<T>) -> Self {
        // INVARIANT: The pointer owns the reference that the caller passes.
        Self(Published::new(Arc::into_raw(value).cast_mut()), PhantomData)
    }

    /// The value, in a handler. C: `rcu_dereference_sched()`.
    #[inline(always)]
    pub fn get<'a>(&'a self, atomic: &'a context::Atomic) -> &'a T {
        // SAFETY: By the type invariant, the value lives until a grace period is over. It does not
        // end as long as `atomic` lives, because preemption is disabled.
        unsafe { &*self.0.read(atomic) }
    }

    /// The value. Process context, because the caller may drop the last reference to it. C:
    /// `rcu_dereference()`.
    pub fn load(&self) -> Arc<T> {
        let guard = rcu::read_lock();
        // SAFETY: By the type invariant, the pointer is from `into_raw`, and its reference is not
        // given back before `guard` is dropped. This value does not give it back at all.
        let value = ManuallyDrop::new(unsafe { Arc::from_raw(self.0.read(&guard)) });
        Arc::clone(&value)
    }

    /// Replaces the value, and returns the one before when no handler uses it any more.
    ///
    /// Process context; sleeps. C: `synchronize_rcu()`.
    pub fn replace(&self, value: Arc<T>) -> Arc<T> {
        let before = self.0.replace(Arc::into_raw(value).cast_mut());
        // SAFETY: The function has no requirements in process context.
        unsafe { kernel::bindings::synchronize_rcu() };
        // SAFETY: By the type invariant, the pointer is from `into_raw`. Its reference belongs to
        // this task, because only this task took the pointer out. No reader has it any more.
        unsafe { Arc::from_raw(before) }
    }
}

impl<T> Drop for Replaceable<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the pointer is from `into_raw`, and this value owns its
        // reference. Nobody else uses this value.
        drop(unsafe { Arc::from_raw(self.0.get()) });
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Per-CPU counters whose number is known at run time.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use core::ptr;

use kernel::prelude::*;

use probe::{
    count_value::raise,
    object_table::Word as _, //
};

use crate::arch;

use super::{
    atomic::Word,
    context::Atomic,
    percpu::Area, //
};

/// Counters in an array for each CPU. A [`Counters`](crate::percpu::Counters) costs less, but has a
/// fixed number of them.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     counter_array::CounterArray,
///     kprobe::Hit, //
/// };
///
/// /// Counts by the first argument of the probed function.
/// fn count(by_first: &CounterArray, hit: &Hit<'_>) {
///     by_first.add(hit.atomic(), hit.arg::<usize>(0), 1);
/// }
///
/// let by_first = CounterArray::new(100_000)?;
/// pr_info!("{} calls with 7\n", by_first.sum(7));
/// # Ok::<(), Error>(())
/// ```
///
/// # Invariants
///
/// Each possible CPU's copy of `own` is the address of a row of `rows`, which no other CPU has. A
/// row has `len` counters.
pub struct CounterArray {
    /// The address of the CPU's own row.
    own: Area<*mut Word>,
    rows: KVec<KVVec<Word>>,
    len: usize,
}

// SAFETY: Any task may read and free the rows.
unsafe impl Send for CounterArray {}
// SAFETY: All accesses to a row are atomic. Each CPU writes only to its own row.
unsafe impl Sync for CounterArray {}

impl CounterArray {
    /// Creates `len` counters with the value zero. They take 8 bytes for each CPU. Process context;
    /// sleeps. `ENOMEM`.
    pub fn new(len: usize) -> Result<Self> {
        let own = Area::<*mut Word>::new()?;
        let mut rows = KVec::new();
        for copy in own.copies() {
            let mut row = KVVec::with_capacity(len, GFP_KERNEL)?;
            for _ in 0..len {
                row.push(Word::default(), GFP_KERNEL)?;
            }
            // SAFETY: This is the copy of a CPU, and no other code has the area yet.
            unsafe { copy.write(row.as_mut_ptr()) };
            rows.push(row, GFP_KERNEL)?;
        }
        // INVARIANT: The loop has given each CPU a row of its own. A row does not move when the
        // list grows, because the list has pointers.
        Ok(Self { own, rows, len })
    }

    /// Adds a number to a counter. Does nothing if there is no such counter.
    ///
    /// One instruction does this, or several that an interrupt does not disturb. C:
    /// `local64_add()`.
    #[inline(always)]
    pub fn add(&self, atomic: &Atomic, index: usize, number: u64) {
        if let Some(counter) = self.find(atomic, index) {
            // SAFETY: `find` returns a reference to a counter of this CPU, and no other CPU writes
            // to it. A `Word` has the size of a `u64`.
            unsafe { arch::local_add(ptr::from_ref(counter).cast_mut().cast(), number) };
        }
    }

    /// Adds a number as [`add`](Self::add) does, after all earlier memory accesses. Who finds the
    /// number by [`sum`](Self::sum) then finds what these accesses wrote.
    #[inline(always)]
    pub fn add_release(&self, atomic: &Atomic, index: usize, number: u64) {
        if let Some(counter) = self.find(atomic, index) {
            // SAFETY: `find` returns a reference to a counter of this CPU, and no other CPU writes
            // to it. A `Word` has the size of a `u64`.
            unsafe { arch::local_add_release(ptr::from_ref(counter).cast_mut().cast(), number) };
        }
    }

    /// Raises a counter to a number, if it is smaller. Does nothing if there is no such counter.
    ///
    /// An interrupt that raises the same counter does not disturb this. Returns false if 64 of them
    /// did so within a few instructions: see [`raise`].
    #[inline(always)]
    #[must_use]
    pub fn raise(&self, atomic: &Atomic, index: usize, number: u64) -> bool {
        match self.find(atomic, index) {
            Some(counter) => raise(counter, number),
            None => true,
        }
    }

    /// The sum of a counter over all CPUs, or 0 if there is no such counter. The sum may miss
    /// concurrent additions. Any context.
    pub fn sum(&self, index: usize) -> u64 {
        let values = self.rows.iter().filter_map(|row| row.get(index));
        // Acquire: what was written before a number is older. See `add_release`.
        values.fold(0, |sum, value| sum.wrapping_add(value.load_acquire()))
    }

    /// The greatest number of a counter on all CPUs, or 0 if there is no such counter. It may miss
    /// concurrent raises. Any context.
    pub fn greatest(&self, index: usize) -> u64 {
        let values = self.rows.iter().filter_map(|row| row.get(index));
        values.map(Word::load).max().unwrap_or(0)
    }

    /// This CPU's counter. As long as the caller has the token, no other CPU is this one.
    #[inline(always)]
    fn find<'a>(&'a self, _: &'a Atomic, index: usize) -> Option<&'a Word> {
        if index >= self.len {
            return None;
        }
        // SAFETY: The area is live, and has pointers.
        let row = unsafe { arch::percpu_read(self.own.as_ptr()) };
        // SAFETY: By the type invariant, this CPU's row has `len` counters, and lives as long as
        // `self`.
        Some(unsafe { &*row.add(index) })
    }
}

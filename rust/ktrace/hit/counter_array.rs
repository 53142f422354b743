// SPDX-License-Identifier: GPL-2.0

//! Per-CPU counters whose number is known at run time.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use kernel::{
    prelude::*,
    sync::atomic::Atomic, //
};

use crate::arch;

use super::{
    atomic::read_once,
    context,
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
    own: Area<*mut u64>,
    rows: KVec<KVVec<Atomic<u64>>>,
    len: usize,
}

// SAFETY: Any task may read and free the rows.
unsafe impl Send for CounterArray {}
// SAFETY: Each CPU writes only to its own row, in one instruction. Readers read whole words.
unsafe impl Sync for CounterArray {}

impl CounterArray {
    /// Creates `len` counters with the value zero. They take 8 bytes for each CPU. Process context;
    /// sleeps. `ENOMEM`.
    pub fn new(len: usize) -> Result<Self> {
        let own = Area::<*mut u64>::new()?;
        let mut rows = KVec::new();
        for copy in own.copies() {
            let mut row = KVVec::with_capacity(len, GFP_KERNEL)?;
            for _ in 0..len {
                row.push(Atomic::new(0), GFP_KERNEL)?;
            }
            // SAFETY: This is the copy of a CPU, and no other code has the area yet.
            unsafe { copy.write(row.as_mut_ptr().cast()) };
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
    pub fn add(&self, _atomic: &context::Atomic, index: usize, number: u64) {
        if index >= self.len {
            return;
        }
        // SAFETY: The area is live, and has pointers.
        let row = unsafe { arch::percpu_read(self.own.as_ptr()) };
        // SAFETY: By the type invariant, this CPU's row has `len` counters. No other CPU writes to
        // them, and this one stays the same, because preemption is disabled.
        unsafe { arch::local_add(row.add(index), number) };
    }

    /// The sum of a counter over all CPUs, or 0 if there is no such counter. The sum may miss
    /// concurrent additions. Any context.
    pub fn sum(&self, index: usize) -> u64 {
        let values = self.rows.iter().filter_map(|row| row.get(index));
        values.fold(0, |sum, value| sum.wrapping_add(read_once(value)))
    }
}

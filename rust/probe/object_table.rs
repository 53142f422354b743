// SPDX-License-Identifier: GPL-2.0

//! A bounded table of the addresses of objects.
//!
//! The slots form buckets of eight, one cache line each. An address belongs to one bucket, at any
//! slot. So a search reads eight words, whatever the table contains, and a removal leaves nothing
//! behind. Several CPUs may search, add and remove at the same time, in any context. No function
//! waits or repeats a step.
//!
//! # Examples
//!
//! ```
//! use probe::object_table::{
//!     buckets,
//!     Bucket,
//!     ObjectTable, //
//! };
//!
//! let memory: Vec<_> = (0..buckets(100)).map(|_| Bucket::default()).collect();
//! let table = ObjectTable::new(memory, 100);
//! table.add(0xffff_8880_0123_4500);
//! assert!(table.contains(0xffff_8880_0123_4500));
//! table.remove(0xffff_8880_0123_4500);
//! assert!(!table.contains(0xffff_8880_0123_4500));
//! ```

use core::{
    ops::Deref,
    sync::atomic::{
        AtomicU64,
        AtomicUsize,
        Ordering, //
    },
};

/// The slots of a bucket: a cache line of words. 0 is an empty slot.
pub type Bucket = [AtomicU64; 8];

/// The maximum number of objects that a table can have.
pub const MAX_OBJECTS: u32 = 65_536;

/// The number of buckets of a table for so many objects: at least 2, and a power of two.
///
/// There are 8 slots or more for each object. With so many, a bucket is rarely full before the
/// table has reached its limit: in one of some thousand tables.
pub const fn buckets(objects: u32) -> usize {
    let buckets = objects as usize;
    if buckets < 2 {
        return 2;
    }
    buckets.next_power_of_two()
}

/// A bounded table of the addresses of objects.
#[derive(Debug)]
pub struct ObjectTable<S> {
    buckets: S,
    /// The bits of a hash from this one on choose the bucket. At most 63.
    shift: u32,
    limit: usize,
    /// The slots in use, and those that a CPU is about to use.
    live: AtomicUsize,
    /// The number of objects that found no slot.
    refused: AtomicU64,
}

/// Whether a slot has this value.
#[inline(always)]
fn has(bucket: &Bucket, address: u64) -> bool {
    bucket
        .iter()
        .any(|slot| slot.load(Ordering::Relaxed) == address)
}

impl<S: Deref<Target = [Bucket]>> ObjectTable<S> {
    /// Creates a table for at most `limit` objects. The memory has [`buckets`] buckets, all 0. In
    /// other memory, the table finds fewer objects.
    pub fn new(buckets: S, limit: u32) -> Self {
        Self {
            shift: 64u32.saturating_sub(buckets.len().trailing_zeros().max(1)),
            buckets,
            limit: limit as usize,
            live: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The bucket of an address. `None` only in memory that has not the number of [`buckets`].
    #[inline(always)]
    fn bucket(&self, address: u64) -> Option<&Bucket> {
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = hash.wrapping_shr(self.shift) as usize;
        self.buckets.get(index)
    }

    /// Whether the table contains this address. Any context.
    ///
    /// A CPU that got the address from another CPU, which had added it, finds it: the order of
    /// memory accesses that passed the address also orders the slot.
    #[inline(always)]
    pub fn contains(&self, address: u64) -> bool {
        // NULL is no object, but an empty slot. The check is last, because other addresses then do
        // not pay for it.
        self.bucket(address)
            .is_some_and(|bucket| has(bucket, address))
            && address != 0
    }

    /// Adds an address, unless the table contains it. NULL is ignored. If the table or its bucket
    /// is full, it counts the address as [refused](Self::refused). Any context.
    pub fn add(&self, address: u64) {
        let bucket = self.bucket(address);
        if address == 0 || bucket.is_some_and(|bucket| has(bucket, address)) {
            return;
        }
        if self.live.fetch_add(1, Ordering::Relaxed) < self.limit {
            for slot in bucket.into_iter().flatten() {
                let added = slot.compare_exchange(0, address, Ordering::AcqRel, Ordering::Relaxed);
                if added.is_ok() {
                    return;
                }
            }
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes an address, if the table contains it. Any context.
    ///
    /// Two CPUs that add one address at the same time may use two slots. Both are emptied.
    pub fn remove(&self, address: u64) {
        if address == 0 {
            return;
        }
        for slot in self.bucket(address).into_iter().flatten() {
            let removed = slot.load(Ordering::Relaxed) == address
                && slot
                    .compare_exchange(address, 0, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            if removed {
                self.live.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Removes all addresses. An address that another CPU adds at the same time may stay.
    pub fn clear(&self) {
        for slot in self.buckets.iter().flatten() {
            if slot.swap(0, Ordering::AcqRel) != 0 {
                self.live.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The number of slots in use.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// The number of addresses that found the table or their bucket full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

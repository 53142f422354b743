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
//!     slots,
//!     ObjectTable, //
//! };
//! use std::sync::atomic::AtomicU64;
//!
//! let memory: Vec<_> = (0..slots(100)).map(|_| AtomicU64::new(0)).collect();
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

/// The slots of a bucket: a cache line of words.
const BUCKET: usize = 8;

/// The slots for each object. With so many, a bucket is rarely full before the table has reached
/// its limit: in one of some thousand tables.
const SLOTS_PER_OBJECT: usize = 8;

/// The maximum number of objects that a table can have.
pub const MAX_OBJECTS: u32 = 65_536;

/// The number of slots of a table for so many objects.
pub const fn slots(objects: u32) -> usize {
    let slots = (objects as usize).saturating_mul(SLOTS_PER_OBJECT);
    if slots < BUCKET {
        return BUCKET;
    }
    slots.next_power_of_two()
}

/// A bounded table of the addresses of objects.
#[derive(Debug)]
pub struct ObjectTable<S> {
    /// Addresses. 0 is an empty slot. The number is a power of two.
    slots: S,
    /// The bits of a hash that choose the bucket are above this one.
    shift: u32,
    limit: usize,
    /// The slots in use, and those that a CPU is about to use.
    live: AtomicUsize,
    /// The number of objects that found no slot.
    refused: AtomicU64,
}

impl<S: Deref<Target = [AtomicU64]>> ObjectTable<S> {
    /// Creates a table for at most `limit` objects. The memory has [`slots`] words, all 0. In other
    /// memory, the table finds fewer objects.
    pub fn new(slots: S, limit: u32) -> Self {
        let buckets = slots.len() / BUCKET;
        Self {
            // With one bucket, every hash chooses it.
            shift: 64u32.saturating_sub(buckets.max(1).trailing_zeros()),
            slots,
            limit: limit as usize,
            live: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn bucket(&self, address: u64) -> &[AtomicU64; BUCKET] {
        static EMPTY: [AtomicU64; BUCKET] = [const { AtomicU64::new(0) }; BUCKET];

        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bucket = hash.checked_shr(self.shift).unwrap_or(0) as usize;
        let start = bucket.wrapping_mul(BUCKET);
        self.slots
            .get(start..)
            .and_then(|slots| slots.first_chunk())
            .unwrap_or(&EMPTY)
    }

    /// Whether the table contains this address. Any context.
    ///
    /// A CPU that got the address from another CPU, which had added it, finds it: the order of
    /// memory accesses that passed the address also orders the slot.
    #[inline(always)]
    pub fn contains(&self, address: u64) -> bool {
        // NULL is no object, but an empty slot.
        address != 0
            && self.live.load(Ordering::Relaxed) != 0
            && self
                .bucket(address)
                .iter()
                .any(|slot| slot.load(Ordering::Relaxed) == address)
    }

    /// Adds an address, unless the table contains it. NULL is ignored. If the table or its bucket
    /// is full, it counts the address as [refused](Self::refused). Any context.
    pub fn add(&self, address: u64) {
        let bucket = self.bucket(address);
        if address == 0
            || bucket
                .iter()
                .any(|slot| slot.load(Ordering::Relaxed) == address)
        {
            return;
        }
        if self.live.fetch_add(1, Ordering::Relaxed) < self.limit {
            for slot in bucket {
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
        for slot in self.bucket(address) {
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
        for slot in self.slots.iter() {
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

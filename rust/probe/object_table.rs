// SPDX-License-Identifier: GPL-2.0

//! A bounded table of the addresses of objects.
//!
//! The slots form buckets of eight, one cache line each. An address belongs to one bucket, at any
//! slot. So a search reads eight words, whatever the table contains, and a removal leaves nothing
//! behind. Several CPUs may search, add and remove at the same time, in any context. No function
//! waits, and none repeats a step without a bound.
//!
//! A table can also have a [state](State) for each object. It starts anew when the object is added.
//!
//! The caller chooses the type of the [words](Word): those of the kernel in the kernel, and others
//! in the tests on the host.
//!
//! # Examples
//!
//! ```
//! use probe::object_table::{
//!     buckets,
//!     Bucket,
//!     ObjectTable,
//!     Word, //
//! };
//!
//! fn adds_and_removes<W: Word>(object: u64) -> bool {
//!     let memory: Vec<Bucket<W>> = (0..buckets(100)).map(|_| Bucket::default()).collect();
//!     let table = ObjectTable::new(memory, Vec::new(), 100);
//!     table.add(object);
//!     let was_there = table.contains(object);
//!     table.remove(object);
//!     was_there && !table.contains(object)
//! }
//! ```

use core::ops::Deref;

/// The slots of a bucket.
const SLOTS: usize = 8;

/// A word of 64 bits that several CPUs access at the same time.
///
/// Each function is one atomic access, in any context. Accesses are not ordered with those to other
/// memory, except as the function says.
pub trait Word: Default {
    /// Reads the word.
    fn load(&self) -> u64;

    /// Reads the word, before all later accesses.
    fn load_acquire(&self) -> u64;

    /// Writes the word.
    fn store(&self, value: u64);

    /// Writes the word, after all earlier accesses.
    fn store_release(&self, value: u64);

    /// Adds a number, and returns the value before. The sum wraps.
    fn fetch_add(&self, number: u64) -> u64;

    /// Replaces the value, and returns the one before.
    fn swap(&self, value: u64) -> u64;

    /// Replaces the value if it is `old`, or else returns it as the error.
    fn replace(&self, old: u64, new: u64) -> Result<(), u64>;

    /// Like [`replace`](Self::replace), before all later accesses, if it replaces the value.
    fn replace_acquire(&self, old: u64, new: u64) -> Result<(), u64>;

    /// Like [`replace`](Self::replace), after all earlier accesses, if it replaces the value.
    fn replace_release(&self, old: u64, new: u64) -> Result<(), u64>;
}

/// A bucket: a cache line of slots. 0 is an empty slot.
pub type Bucket<W> = [W; SLOTS];

/// The states of the objects in a bucket.
pub type BucketStates<W> = [ObjectState<W>; SLOTS];

/// The number of records of an object, its last values, and the function that saw them last.
type ObjectState<W> = [W; 3];

/// The maximum number of objects that a table can have.
pub const MAX_OBJECTS: u32 = 65_536;

/// A slot that a CPU is about to use. No object has this address.
const RESERVED: u64 = 1;

/// No values: the object was not compared yet. A random number.
const UNSEEN: u64 = 0xd1b5_4a32_d192_ed03;

/// The number of CPUs that may count an object at the same time.
const MAX_RACES: usize = 64;

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
pub struct ObjectTable<B, S, W> {
    buckets: B,
    /// The states of each bucket, or nothing.
    states: S,
    /// The bits of a hash from this one on choose the bucket. At most 63.
    shift: u32,
    limit: u64,
    /// The slots in use, and those that a CPU is about to use.
    live: W,
    /// The number of objects that found no slot.
    refused: W,
}

/// Whether a slot has this value.
#[inline(always)]
fn has<W: Word>(bucket: &Bucket<W>, address: u64) -> bool {
    bucket.iter().any(|slot| slot.load() == address)
}

impl<B, S, W> ObjectTable<B, S, W>
where
    B: Deref<Target = [Bucket<W>]>,
    S: Deref<Target = [BucketStates<W>]>,
    W: Word,
{
    /// Creates a table for at most `limit` objects. The memory has [`buckets`] buckets, all 0. In
    /// other memory, the table finds fewer objects. There are states for all buckets, or for none.
    pub fn new(buckets: B, states: S, limit: u32) -> Self {
        Self {
            shift: 64u32.saturating_sub(buckets.len().trailing_zeros().max(1)),
            buckets,
            states,
            limit: u64::from(limit),
            live: W::default(),
            refused: W::default(),
        }
    }

    /// The index of the bucket of an address.
    #[inline(always)]
    fn index(&self, address: u64) -> usize {
        spread(address).wrapping_shr(self.shift) as usize
    }

    /// The bucket of an address. `None` if the memory does not have the number of [`buckets`].
    #[inline(always)]
    fn bucket(&self, address: u64) -> Option<&Bucket<W>> {
        self.buckets.get(self.index(address))
    }

    /// Whether the table contains this address. Any context.
    ///
    /// A CPU that got the address from another CPU, which had added it, finds it: the order of
    /// memory accesses that passed the address also orders the slot.
    #[inline(always)]
    pub fn contains(&self, address: u64) -> bool {
        // The values of slots without an object are no objects. This check is last, because other
        // addresses then do not pay for it.
        self.bucket(address)
            .is_some_and(|bucket| has(bucket, address))
            && address > RESERVED
    }

    /// The state of an object, if the table contains the object and has states. Any context.
    ///
    /// If two CPUs added the object at the same time, it may have two states, and each use may find
    /// the other one.
    #[inline(always)]
    pub fn state(&self, address: u64) -> Option<State<'_, W>> {
        if address <= RESERVED {
            return None;
        }
        let (bucket, states) = (self.bucket(address)?, self.states.get(self.index(address))?);
        // Acquire: the state of the object is older than the address in the slot. See `add`.
        let index = bucket
            .iter()
            .position(|slot| slot.load_acquire() == address)?;
        let words = states.get(index)?;
        Some(State { address, words })
    }

    /// Adds an address, unless the table contains it. NULL and 1 are ignored. If the table or its
    /// bucket is full, it counts the address as [refused](Self::refused). Any context.
    pub fn add(&self, address: u64) {
        let bucket = self.bucket(address);
        if address <= RESERVED || bucket.is_some_and(|bucket| has(bucket, address)) {
            return;
        }
        if self.live.fetch_add(1) < self.limit {
            let states = self.states.get(self.index(address));
            for (index, slot) in bucket.into_iter().flatten().enumerate() {
                // Acquire: the start of the state comes after all uses by those that removed the
                // last object, and after its start.
                if slot.replace_acquire(0, RESERVED).is_err() {
                    continue;
                }
                if let Some(words) = states.and_then(|states| states.get(index)) {
                    State { address, words }.start();
                }
                // Release: who finds the address also finds the started state. This fails if
                // `clear` emptied the slot, and counted it.
                let _ = slot.replace_release(RESERVED, address);
                return;
            }
        }
        self.leave();
        self.refuse();
    }

    /// Counts an object as [refused](Self::refused). Any context.
    pub fn refuse(&self) {
        self.refused.fetch_add(1);
    }

    /// Removes an address, if the table contains it. Any context.
    ///
    /// Two CPUs that add one address at the same time may use two slots. Both are emptied.
    pub fn remove(&self, address: u64) {
        if address <= RESERVED {
            return;
        }
        for slot in self.bucket(address).into_iter().flatten() {
            // Release: this CPU's uses of the state come before its next start. See `add`.
            if slot.load() == address && slot.replace_release(address, 0).is_ok() {
                self.leave();
            }
        }
    }

    /// Removes all addresses. An address that another CPU adds at the same time may stay.
    pub fn clear(&self) {
        for slot in self.buckets.iter().flatten() {
            if slot.swap(0) != 0 {
                self.leave();
            }
        }
    }

    /// Counts a slot that is not in use any more.
    fn leave(&self) {
        self.live.fetch_add(1u64.wrapping_neg());
    }

    /// The number of slots in use.
    pub fn live(&self) -> usize {
        self.live.load() as usize
    }

    /// The number of addresses that found the table or their bucket full, and of those that the
    /// caller [refused](Self::refuse).
    pub fn refused(&self) -> u64 {
        self.refused.load()
    }
}

/// The state of a live object.
///
/// A CPU may still use the state when the object has left the table and another one has its slot.
/// So the state tells objects apart by their addresses.
#[derive(Debug)]
pub struct State<'a, W> {
    address: u64,
    words: &'a ObjectState<W>,
}

/// The result of [`State::count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The object has more records to come.
    More,
    /// This is the last record: remove the object.
    Last,
    /// The object has had all its records, or has left the table.
    Ended,
    /// Too many other CPUs count the object at this moment.
    Raced,
}

impl<W: Word> State<'_, W> {
    #[inline(always)]
    fn start(&self) {
        let [records, values, function] = self.words;
        records.store(self.no_records());
        values.store(UNSEEN);
        function.store(0);
    }

    /// No records of this object. The upper half identifies the object.
    #[inline(always)]
    fn no_records(&self) -> u64 {
        (self.address >> 3) << 32
    }

    /// Counts a record of at most `limit`. Any context.
    #[inline(always)]
    pub fn count(&self, limit: u32) -> Counted {
        let [records, ..] = self.words;
        let mut before = records.load();
        for _ in 0..MAX_RACES {
            let count = match before.checked_sub(self.no_records()) {
                Some(count) if count < u64::from(limit) => count.wrapping_add(1),
                _ => return Counted::Ended,
            };
            match records.replace(before, before.wrapping_add(1)) {
                Ok(()) if count == u64::from(limit) => return Counted::Last,
                Ok(()) => return Counted::More,
                Err(now) => before = now,
            }
        }
        Counted::Raced
    }

    /// Keeps the values of the object. Returns whether they differ from those that were kept
    /// before: true for the first ones. Any context.
    ///
    /// The state keeps 8 bytes or less as they are, and a hash of 64 bits of more. So equal values
    /// can count as different, but different values hardly as equal: if they differ in one word
    /// of 8 bytes only, their hashes differ, else they have the same hash with a probability of
    /// 2^-64.
    ///
    /// All CPUs change one word in turn. So each value that differs from the one before it is
    /// reported, by the CPU that keeps it.
    #[inline(always)]
    pub fn differs(&self, values: &[u8]) -> bool {
        let [_, kept, _] = self.words;
        // Values that a CPU keeps for an object that has left differ from those of the next one.
        let new = fingerprint(values) ^ spread(self.address);
        if kept.load() == new && new != UNSEEN {
            return false;
        }
        let before = kept.swap(new);
        before != new || before == UNSEEN
    }

    /// Keeps the address of a function that receives the object. Returns the one that was kept
    /// before, or 0. Any context.
    #[inline(always)]
    pub fn see(&self, function: u64) -> u64 {
        let [.., kept] = self.words;
        kept.swap(function)
    }
}

/// Spreads the bits of an address.
#[inline(always)]
const fn spread(address: u64) -> u64 {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The bytes themselves if there are at most 8, or else their hash.
#[inline(always)]
fn fingerprint(values: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        for (to, byte) in word.iter_mut().zip(bytes) {
            *to = *byte;
        }
        u64::from_le_bytes(word)
    };
    match values.len() {
        ..=8 => word(values),
        len => values
            .chunks(8)
            .fold(len as u64, |hash, bytes| mix(hash ^ word(bytes))),
    }
}

/// A number for each number: no two give the same. Each bit changes about half of the bits.
#[inline(always)]
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

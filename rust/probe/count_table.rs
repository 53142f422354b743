// SPDX-License-Identifier: GPL-2.0

//! A bounded table of keys, to count hits by key.
//!
//! A key is a fixed number of words. The table gives each key a slot, whose number the caller uses
//! as the index of its counters. So the counters can be per CPU, although the table is not. Several
//! CPUs may search and add at the same time, in any context. No function waits, and none repeats a
//! step without a bound.
//!
//! Keys stay. To empty a table, the caller drops it when no hit can use it any more. To restart the
//! counts, a reader subtracts the earlier ones.
//!
//! A slot is empty, claimed or published. A hit that meets a claimed slot does not wait for the key
//! in it, but goes on. So two CPUs that add one key at the same time may use two slots, and so may
//! an interrupt and the code that it interrupts. A reader adds up the counts of equal keys. Keys of
//! one word have no such twins, because one access claims and publishes them.
//!
//! C: `kernel/trace/tracing_map.c`, where a hit waits for a claimed slot.
//!
//! # Examples
//!
//! ```
//! use probe::{
//!     count_table::{
//!         table_words,
//!         CountTable, //
//!     },
//!     object_table::Word, //
//! };
//!
//! fn finds_a_key_again<W: Word>(key: [u64; 2]) -> bool {
//!     let memory: Vec<W> = (0..table_words(2048, 2)).map(|_| W::default()).collect();
//!     let table = CountTable::new(memory, 2048, 2);
//!     let slot = table.find_or_add(&key);
//!     slot.is_some() && table.find_or_add(&key) == slot
//! }
//! ```

use core::ops::Deref;

use crate::object_table::Word;

/// The maximum number of keys that a table can have.
///
/// C: `TRACING_MAP_BITS_MAX`.
pub const MAX_CAPACITY: u32 = 131_072;

/// The tag of a slot without a key.
const EMPTY: u64 = 0;

/// The tag of a slot whose key a CPU is about to write.
const CLAIMED: u64 = 1;

/// A bit in the tag of each published slot with a key of several words.
const PUBLISHED: u64 = 2;

/// The number of slots that a key may have. In a table that is half full, so long a row of used
/// slots is improbable, unless somebody chose the keys.
const MAX_PROBES: usize = 128;

/// An odd number with random bits: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The inverse of [`FACTOR`] modulo 2^64.
const INVERSE: u64 = 0xf1de_83e1_9937_733d;

/// A random number. As the only key of one word, it cannot be in a table.
const NO_KEY: u64 = 0xb5ad_4ece_da1c_e2a9;

/// The number of slots of a table, and of counters that the caller needs: twice as many as keys. A
/// table for keys without a word has one slot.
pub const fn slots(capacity: u32, key_words: usize) -> usize {
    match (key_words, capacity as usize) {
        (0, _) => 1,
        (_, 0) => 2,
        (_, capacity) => capacity.next_power_of_two().saturating_mul(2),
    }
}

/// The number of words of a table's memory.
pub const fn table_words(capacity: u32, key_words: usize) -> usize {
    slots(capacity, key_words).saturating_mul(stride(key_words))
}

/// The number of words of a slot. The tag of a key of one word contains the key.
const fn stride(key_words: usize) -> usize {
    match key_words {
        0 | 1 => 1,
        more => more.saturating_add(1),
    }
}

/// A bounded table of keys.
#[derive(Debug)]
pub struct CountTable<B, W> {
    /// The slots. The first word of each is its tag, and the key of several words follows.
    words: B,
    key_words: usize,
    /// The bits of a hash from this one on choose the slot. At most 63.
    shift: u32,
    capacity: u64,
    /// The slots in use, and those that a CPU is about to use.
    used: W,
}

impl<B, W> CountTable<B, W>
where
    B: Deref<Target = [W]>,
    W: Word,
{
    /// Creates a table for at most `capacity` keys of `key_words` words. The memory has
    /// [`table_words`] words, all 0. In other memory, keys find no slots.
    pub fn new(words: B, capacity: u32, key_words: usize) -> Self {
        let slots = slots(capacity, key_words);
        Self {
            words,
            key_words,
            shift: 64u32.saturating_sub(slots.trailing_zeros().max(1)),
            capacity: u64::from(capacity),
            used: W::default(),
        }
    }

    /// The slot of a key. Adds the key if it has no slot. Any context.
    ///
    /// `None` if the table is full, if the key has another length than those of the table, or if
    /// all 128 slots of the key have other keys. The caller then counts the hit as dropped.
    #[inline(always)]
    pub fn find_or_add(&self, key: &[u64]) -> Option<usize> {
        if key.len() != self.key_words {
            return None;
        }
        if key.is_empty() {
            return Some(0);
        }
        let (tag, hash) = tag(key);
        let slot = hash.wrapping_shr(self.shift) as usize;
        // Most keys are in their first slot.
        if self.has(slot, tag, key) {
            return Some(slot);
        }
        self.search(slot, tag, key)
    }

    /// The number of slots in use. At most the capacity when no hit adds a key.
    pub fn used(&self) -> usize {
        match self.key_words {
            0 => 1,
            _ => self.used.load() as usize,
        }
    }

    /// The published keys. Other CPUs may add more at the same time.
    ///
    /// Whoever gets a key here sees it whole. Equal keys are possible. A key without a word is
    /// there before its first hit.
    pub fn keys(&self) -> impl Iterator<Item = Key<'_, W>> {
        let chunks = self.words.chunks_exact(stride(self.key_words));
        chunks.enumerate().filter_map(|(slot, words)| {
            let (tag, rest) = words.split_first()?;
            // Acquire: the key is older than its tag. See `search`.
            let tag = tag.load_acquire();
            let value = match self.key_words {
                0 => None,
                1 if tag != EMPTY => Some(tag.wrapping_mul(INVERSE) ^ NO_KEY),
                2.. if tag > CLAIMED => None,
                _ => return None,
            };
            Some(Key { slot, value, rest })
        })
    }

    /// Whether the slot has this key.
    #[inline(always)]
    fn has(&self, slot: usize, tag: u64, key: &[u64]) -> bool {
        if let [_] = key {
            // The tag tells the key. No key has the tag of an empty slot.
            return self
                .words
                .get(slot)
                .is_some_and(|word| word.load() == tag && tag != EMPTY);
        }
        let Some([found, words @ ..]) = self.slot(slot, key) else {
            return false;
        };
        // Acquire: the key is older than its tag. See `search`.
        found.load_acquire() == tag && words.iter().zip(key).all(|(a, b)| a.load() == *b)
    }

    /// The words of a slot.
    #[inline(always)]
    fn slot(&self, slot: usize, key: &[u64]) -> Option<&[W]> {
        let stride = stride(key.len());
        let start = slot.wrapping_mul(stride);
        self.words.get(start..)?.get(..stride)
    }

    /// Looks for a key from slot `first` on, and adds it.
    #[inline(never)]
    fn search(&self, first: usize, tag: u64, key: &[u64]) -> Option<usize> {
        if tag == EMPTY {
            return None;
        }
        let last = u64::MAX.wrapping_shr(self.shift) as usize;
        let mut is_counted = false;
        let mut found = None;
        for probe in 0..MAX_PROBES {
            let slot = first.wrapping_add(probe) & last;
            let [state, words @ ..] = self.slot(slot, key)? else {
                break;
            };
            if state.load() == EMPTY {
                // A key that is in the table has no empty slot before its own.
                if !is_counted && !self.count() {
                    return None;
                }
                is_counted = true;
                if words.is_empty() {
                    if state.replace(EMPTY, tag).is_ok() {
                        return Some(slot);
                    }
                } else if state.replace(EMPTY, CLAIMED).is_ok() {
                    for (to, word) in words.iter().zip(key) {
                        to.store(*word);
                    }
                    // Release: who finds the tag also finds the key. Nobody else changes a claimed
                    // slot.
                    let _ = state.replace_release(CLAIMED, tag);
                    return Some(slot);
                }
            }
            // Another CPU may have added the key.
            if self.has(slot, tag, key) {
                found = Some(slot);
                break;
            }
        }
        if is_counted {
            self.used.fetch_add(1u64.wrapping_neg());
        }
        found
    }

    /// Counts a slot that is about to be used. Returns false if the table is full.
    fn count(&self) -> bool {
        // When the table is full, no CPU writes.
        if self.used.load() >= self.capacity {
            return false;
        }
        if self.used.fetch_add(1) < self.capacity {
            return true;
        }
        self.used.fetch_add(1u64.wrapping_neg());
        false
    }
}

/// The tag and the hash of a key. The upper bits of the hash choose the slot.
///
/// The tag of one word is different for each word, and 0 only for [`NO_KEY`].
#[inline(always)]
fn tag(key: &[u64]) -> (u64, u64) {
    if let [word] = key {
        let hash = (word ^ NO_KEY).wrapping_mul(FACTOR);
        return (hash, hash);
    }
    let hash = key.iter().fold(NO_KEY, |hash, word| {
        (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR)
    });
    (hash | PUBLISHED, hash)
}

/// A published key.
#[derive(Debug)]
pub struct Key<'a, W> {
    slot: usize,
    /// The key, if it has one word.
    value: Option<u64>,
    /// The key, if it has several words.
    rest: &'a [W],
}

impl<W: Word> Key<'_, W> {
    /// The slot of the key: the index of its counters.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// The words of the key.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.value
            .into_iter()
            .chain(self.rest.iter().map(Word::load))
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The table of keys: on one CPU against a map, and on several at the same time.

use std::{
    collections::{
        BTreeMap,
        BTreeSet, //
    },
    sync::{
        atomic::{
            AtomicU64,
            Ordering, //
        },
        Barrier, //
    },
    thread, //
};

use probe::count_table::{
    slots,
    table_words,
    CountTable,
    MAX_CAPACITY, //
};
use proptest::prelude::*;

use number::Number;

mod number;

type Table = CountTable<Vec<Number>, Number>;

fn table(capacity: u32, key_words: usize) -> Table {
    let words = table_words(capacity, key_words);
    let memory = (0..words).map(|_| Number::default()).collect();
    CountTable::new(memory, capacity, key_words)
}

/// The keys of a table, with their slots.
fn keys(table: &Table) -> Vec<(usize, Vec<u64>)> {
    table
        .keys()
        .map(|key| (key.slot(), key.words().collect()))
        .collect()
}

/// Numbers as keys have them: small ones, errors, addresses, and all.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..8u64,
        (0..8u64).prop_map(|n| 0u64.wrapping_sub(n)),
        (0..64u64).prop_map(|n| 0xffff_ffff_8110_0000 + n * 16),
        any::<u64>(),
    ]
}

proptest! {
    #[test]
    fn counts_as_a_map(
        key_words in 0..5usize,
        hits in prop::collection::vec(prop::collection::vec(word(), 4), 0..300),
    ) {
        let table = table(300, key_words);
        let mut counters = vec![0; slots(300, key_words)];
        let mut model = BTreeMap::new();
        for hit in &hits {
            let key = &hit[..key_words];
            counters[table.find_or_add(key).unwrap()] += 1;
            *model.entry(key.to_vec()).or_insert(0) += 1;
        }
        let counted = keys(&table).into_iter().map(|(slot, key)| (key, counters[slot]));
        let counted: BTreeMap<_, i32> = counted.filter(|(_, count)| *count > 0).collect();
        prop_assert_eq!(&counted, &model);
        prop_assert_eq!(table.used(), if key_words == 0 { 1 } else { model.len() });
    }

    /// Whatever the keys and the capacity are, keys that are in the table stay in their slots.
    #[test]
    fn a_full_table_only_drops_new_keys(
        capacity in 1..40u32,
        key_words in 1..3usize,
        hits in prop::collection::vec(prop::collection::vec(word(), 2), 0..200),
    ) {
        let table = table(capacity, key_words);
        let mut model = BTreeMap::new();
        for hit in &hits {
            let key = &hit[..key_words];
            let slot = table.find_or_add(key);
            let is_full = model.len() == capacity as usize;
            match model.get(key) {
                Some(earlier) => prop_assert_eq!(slot, Some(*earlier)),
                None if is_full => prop_assert_eq!(slot, None),
                None => drop(model.insert(key.to_vec(), slot.unwrap())),
            }
        }
        prop_assert_eq!(table.used(), model.len());
        let all: BTreeMap<_, _> = keys(&table).into_iter().map(|(slot, key)| (key, slot)).collect();
        prop_assert_eq!(all, model);
    }
}

#[test]
fn the_largest_table_gets_full() {
    for step in [16, 0x240] {
        let table = table(MAX_CAPACITY, 1);
        let mut slots = BTreeSet::new();
        for n in 0..u64::from(MAX_CAPACITY) {
            let slot = table.find_or_add(&[0xffff_ffff_8100_0000 + n * step]);
            assert!(slots.insert(slot.unwrap()));
        }
        assert_eq!(table.find_or_add(&[1]), None);
        assert_eq!(table.used(), MAX_CAPACITY as usize);
    }
}

/// The number that stands for an empty slot. Nobody hits it by chance.
#[test]
fn one_number_is_no_key() {
    let table = table(8, 1);
    assert_eq!(table.find_or_add(&[0xb5ad_4ece_da1c_e2a9]), None);
    assert_eq!((table.used(), keys(&table).len()), (0, 0));
    assert!(table.find_or_add(&[0]).is_some());
    assert_eq!(table.find_or_add(&[0xb5ad_4ece_da1c_e2a9]), None);
    assert_eq!(table.used(), 1);
}

#[test]
fn a_key_without_words_is_one_slot() {
    let table = table(2048, 0);
    assert_eq!(slots(2048, 0), 1);
    assert_eq!(table.find_or_add(&[]), Some(0));
    assert_eq!(keys(&table), [(0, Vec::new())]);
}

#[test]
fn keys_of_another_length_or_memory_are_dropped() {
    for key_words in 0..4 {
        let table = table(8, key_words);
        for len in (0..5).filter(|len| *len != key_words) {
            assert_eq!(table.find_or_add(&vec![0; len]), None);
        }
    }
    for words in 0..3 {
        let memory: Vec<Number> = (0..words).map(|_| Number::default()).collect();
        let table = CountTable::new(memory, 8, 3);
        for n in 0..20 {
            assert_eq!(table.find_or_add(&[n, n, n]), None);
        }
        assert_eq!(keys(&table).len(), 0);
    }
}

/// Somebody who knows the hash finds keys that all want the same slot.
#[test]
fn keys_of_an_attacker_take_a_bounded_number_of_steps() {
    const INVERSE: u64 = 0xf1de_83e1_9937_733d;

    let table = table(2048, 1);
    let key = |n: u64| (0x8000_0000_0000_0000 | n).wrapping_mul(INVERSE) ^ 0xb5ad_4ece_da1c_e2a9;
    let found = (0..2048).filter(|n| table.find_or_add(&[key(*n)]).is_some());
    assert_eq!(found.count(), 128);
    assert_eq!(table.used(), 128);
}

/// Several CPUs count the same keys, of one word and of several, while one reads them.
#[test]
fn several_cpus_lose_no_hit() {
    const CPUS: u64 = 3;
    const KEYS: u64 = 100;
    const ROUNDS: u64 = 50;

    for key_words in [1, 3] {
        let table = table(2048, key_words);
        let counters: Vec<_> = (0..slots(2048, key_words))
            .map(|_| AtomicU64::new(0))
            .collect();
        let start = Barrier::new(CPUS as usize + 1);
        thread::scope(|scope| {
            for _ in 0..CPUS {
                scope.spawn(|| {
                    start.wait();
                    for n in 0..KEYS * ROUNDS {
                        let key = vec![n % KEYS; key_words];
                        let slot = table.find_or_add(&key).unwrap();
                        counters[slot].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            start.wait();
            for _ in 0..ROUNDS {
                for (_, key) in keys(&table) {
                    assert!(key[0] < KEYS && key.iter().all(|word| *word == key[0]));
                }
            }
        });
        let mut counts = BTreeMap::new();
        for (slot, key) in keys(&table) {
            *counts.entry(key[0]).or_insert(0) += counters[slot].load(Ordering::Relaxed);
        }
        assert!(counts
            .into_iter()
            .eq((0..KEYS).map(|key| (key, CPUS * ROUNDS))));
    }
}

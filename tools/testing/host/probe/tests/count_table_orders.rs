// SPDX-License-Identifier: GPL-2.0

//! The table of keys under loom, as in `object_table_orders.rs`.

mod shared_word;

use loom::sync::Arc;
use probe::count_table::{
    table_words,
    CountTable, //
};
use shared_word::{
    model,
    on_cpu,
    Shared, //
};

type Table = CountTable<Vec<Shared>, Shared>;

/// Runs a test with a table of at most 4 slots.
fn check(capacity: u32, key_words: usize, test: impl Fn(Arc<Table>) + Send + Sync + 'static) {
    model().check(move || {
        let words = (0..table_words(capacity, key_words)).map(|_| Shared::default());
        let table = CountTable::new(words.collect(), capacity, key_words);
        test(Arc::new(table));
    });
}

/// The keys of a table: 7 or 8 each, or one of both twice.
fn keys(table: &Table) -> Vec<u64> {
    let keys = table.keys().map(|key| {
        let words: Vec<_> = key.words().collect();
        assert!(
            matches!(words[..], [7] | [8] | [7, 7] | [8, 8]),
            "{words:?}"
        );
        words[0]
    });
    keys.collect()
}

#[test]
fn a_key_of_one_word_has_one_slot() {
    check(2, 1, |table| {
        let add = |table: &Table| table.find_or_add(&[7]);
        let first = on_cpu(1, &table, add);
        let second = on_cpu(2, &table, add);
        let slot = first.join().unwrap();
        assert_eq!(second.join().unwrap(), slot);
        assert_eq!(table.find_or_add(&[7]), slot);
        assert_eq!((keys(&table), table.used()), (vec![7], 1));
    });
}

/// A key can have two slots, and each hit has one of them.
#[test]
fn a_key_of_two_words_has_slots_of_its_own() {
    check(2, 2, |table| {
        let add = |table: &Table| table.find_or_add(&[7, 7]);
        let other = on_cpu(1, &table, add);
        let slots = [add(&table), other.join().unwrap()];
        let of_keys: Vec<_> = table.keys().map(|key| Some(key.slot())).collect();
        assert!(slots.iter().all(|slot| of_keys.contains(slot)));
        assert_eq!(of_keys.len(), table.used());
        assert!(keys(&table).iter().all(|key| *key == 7));
        let slot = add(&table);
        assert!(of_keys.contains(&slot) && add(&table) == slot);
        assert_eq!(of_keys.len(), table.used());
    });
}

/// A reader and another hit never see a key that is only half there.
#[test]
fn who_sees_a_key_sees_it_whole() {
    check(2, 2, |table| {
        let writer = on_cpu(1, &table, |table| table.find_or_add(&[7, 7]));
        let reader = on_cpu(2, &table, |table| keys(table).len());
        let other = table.find_or_add(&[8, 8]);
        assert!(reader.join().unwrap() <= 2);
        let slot = writer.join().unwrap();
        assert!(slot.is_some() && other.is_some() && slot != other);
        let mut keys = keys(&table);
        keys.sort();
        assert_eq!((keys, table.used()), (vec![7, 8], 2));
    });
}

#[test]
fn two_cpus_do_not_exceed_the_capacity() {
    for key_words in [1, 2] {
        check(1, key_words, move |table| {
            let add = move |table: &Table, word| table.find_or_add(&[word; 2][..key_words]);
            let other = on_cpu(1, &table, move |table| add(table, 7));
            let first = add(&table, 8);
            let both = [first, other.join().unwrap()];
            // Both may be dropped, if each one sees that the other one is about to be there.
            let found = both.iter().flatten().count();
            assert!(found <= 1);
            assert_eq!((table.used(), keys(&table).len()), (found, found));
        });
    }
}

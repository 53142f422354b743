// SPDX-License-Identifier: GPL-2.0

//! The table of objects: on one CPU against a set, and on several at the same time.

use std::{
    collections::BTreeSet,
    sync::{
        atomic::{
            AtomicBool,
            Ordering, //
        },
        Barrier, //
    },
    thread, //
};

use probe::object_table::{
    buckets,
    Bucket,
    ObjectTable, //
};
use proptest::prelude::*;

fn memory(buckets: usize) -> Vec<Bucket> {
    (0..buckets).map(|_| Bucket::default()).collect()
}

fn table(limit: u32) -> ObjectTable<Vec<Bucket>> {
    ObjectTable::new(memory(buckets(limit)), limit)
}

/// Addresses as a slab gives them.
fn address(n: u64) -> u64 {
    0xffff_8880_1000_0000 + n * 0x240
}

proptest! {
    #[test]
    fn is_a_set(operations in prop::collection::vec((0..3u8, 0..40u64), 0..400)) {
        let table = table(64);
        let mut model = BTreeSet::new();
        for (operation, n) in operations {
            match operation {
                0 => {
                    table.add(address(n));
                    model.insert(n);
                }
                1 => {
                    table.remove(address(n));
                    model.remove(&n);
                }
                _ => prop_assert_eq!(table.contains(address(n)), model.contains(&n)),
            }
            // No bucket of this table is full with 40 of these objects.
            prop_assert_eq!(table.live(), model.len());
            prop_assert_eq!(table.refused(), 0);
        }
    }
}

#[test]
fn null_is_no_object() {
    let table = table(4);
    table.add(0);
    assert!(!table.contains(0));
    assert_eq!((table.live(), table.refused()), (0, 0));
    table.add(address(1));
    table.remove(0);
    assert!(!table.contains(0));
    assert_eq!(table.live(), 1);
}

#[test]
fn refuses_what_is_above_the_limit() {
    let table = table(4);
    (0..6).for_each(|n| table.add(address(n)));
    assert_eq!((table.live(), table.refused()), (4, 2));
    assert_eq!((0..6).filter(|n| table.contains(address(*n))).count(), 4);
    // An object that is there needs no place.
    table.add(address(0));
    assert_eq!(table.refused(), 2);
    table.remove(address(0));
    table.add(address(5));
    assert!(table.contains(address(5)));
    table.clear();
    assert_eq!(table.live(), 0);
    assert!((0..6).all(|n| !table.contains(address(n))));
    // What was refused stays counted.
    assert_eq!(table.refused(), 2);
}

#[test]
fn a_full_bucket_refuses() {
    let table = ObjectTable::new(memory(2), 100);
    (0..40).for_each(|n| table.add(address(n)));
    assert_eq!((table.live(), table.refused()), (16, 24));
    assert_eq!((0..40).filter(|n| table.contains(address(*n))).count(), 16);
}

#[test]
fn holds_the_objects_of_a_slab() {
    for size in [8, 64, 0x240, 4096, 65536] {
        let table = table(1024);
        let address = |n: u64| 0xffff_8880_1000_0000 + n * size;
        (0..1024).for_each(|n| table.add(address(n)));
        assert_eq!(
            (table.live(), table.refused()),
            (1024, 0),
            "objects of {size} bytes"
        );
    }
}

#[test]
fn finds_fewer_objects_in_less_memory() {
    let table = ObjectTable::new(memory(1), 100);
    (0..40).for_each(|n| table.add(address(n)));
    assert_eq!((0..40).filter(|n| table.contains(address(*n))).count(), 8);
    let table = ObjectTable::new(memory(0), 4);
    table.remove(address(1));
    assert!(!table.contains(address(1)));
}

/// Each CPU owns some objects, which it adds, finds and removes, while the others do the same. One
/// more CPU searches for an object that is always there, and for one that never is.
#[test]
fn several_cpus_do_not_disturb_each_other() {
    const CPUS: u64 = 4;
    const ROUNDS: u64 = 3_000;

    let table = table(256);
    let (always, never) = (address(1_000), address(2_000));
    table.add(always);
    let is_over = AtomicBool::new(false);
    let start = Barrier::new(CPUS as usize + 1);
    thread::scope(|scope| {
        let searcher = scope.spawn(|| {
            start.wait();
            while !is_over.load(Ordering::Relaxed) {
                assert!(table.contains(always));
                assert!(!table.contains(never));
            }
        });
        let owners: Vec<_> = (0..CPUS)
            .map(|cpu| {
                let (table, start) = (&table, &start);
                scope.spawn(move || {
                    start.wait();
                    for round in 0..ROUNDS {
                        let own = (0..16).map(|n| address(cpu + CPUS * n));
                        own.clone().for_each(|address| table.add(address));
                        assert!(
                            own.clone().all(|address| table.contains(address)),
                            "{round}"
                        );
                        own.clone().for_each(|address| table.remove(address));
                        assert!(
                            own.clone().all(|address| !table.contains(address)),
                            "{round}"
                        );
                    }
                })
            })
            .collect();
        owners.into_iter().for_each(|owner| owner.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        searcher.join().unwrap();
    });
    assert_eq!((table.live(), table.refused()), (1, 0));
}

/// All CPUs add and remove the same objects.
#[test]
fn an_object_that_several_cpus_add_is_removed_whole() {
    let table = table(64);
    for _ in 0..300 {
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    (0..8).for_each(|n| table.add(address(n)));
                });
            }
        });
        assert!((0..8).all(|n| table.contains(address(n))));
        (0..8).for_each(|n| table.remove(address(n)));
        assert!((0..8).all(|n| !table.contains(address(n))));
        assert_eq!(table.live(), 0);
    }
    assert_eq!(table.refused(), 0);
}

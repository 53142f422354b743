// SPDX-License-Identifier: GPL-2.0

//! The table of objects: on one CPU against a set, and on several at the same time.

use std::{
    collections::BTreeSet,
    sync::{
        atomic::{
            AtomicBool,
            AtomicU64,
            Ordering, //
        },
        Barrier, //
    },
    thread, //
};

use probe::object_table::{
    buckets,
    Bucket,
    BucketStates,
    Counted,
    ObjectTable, //
};
use proptest::prelude::*;

use number::Number;

mod number;

fn memory<T: Default>(len: usize) -> Vec<T> {
    (0..len).map(|_| T::default()).collect()
}

type Table = ObjectTable<Vec<Bucket<Number>>, Vec<BucketStates<Number>>, Number>;

fn table(limit: u32) -> Table {
    ObjectTable::new(memory(buckets(limit)), Vec::new(), limit)
}

fn table_with_states(limit: u32) -> Table {
    ObjectTable::new(memory(buckets(limit)), memory(buckets(limit)), limit)
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
    let table = Table::new(memory(2), Vec::new(), 100);
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
    let table = Table::new(memory(1), Vec::new(), 100);
    (0..40).for_each(|n| table.add(address(n)));
    assert_eq!((0..40).filter(|n| table.contains(address(*n))).count(), 8);
    let table = Table::new(memory(0), Vec::new(), 4);
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

#[test]
fn a_state_starts_with_each_life() {
    let table = table_with_states(8);
    assert!(table.state(address(0)).is_none());
    assert!(table.state(0).is_none());
    for _ in 0..3 {
        table.add(address(0));
        let state = table.state(address(0)).unwrap();
        assert_eq!(state.count(2), Counted::More);
        assert_eq!(state.count(2), Counted::Last);
        assert_eq!(state.count(2), Counted::Ended);
        assert_eq!(state.see(0x10), 0);
        assert_eq!(state.see(0x20), 0x10);
        assert!(state.differs(&[7]));
        assert!(!state.differs(&[7]));
        assert!(state.differs(&[8]));
        assert!(state.differs(&[7]));
        // An object that is there goes on.
        table.add(address(0));
        assert!(!table.state(address(0)).unwrap().differs(&[7]));
        table.remove(address(0));
    }
    assert!(self::table(8).state(address(0)).is_none());
}

#[test]
fn a_state_counts_to_the_highest_limit() {
    let table = table_with_states(1);
    table.add(u64::MAX);
    let state = table.state(u64::MAX).unwrap();
    assert_eq!(state.count(u32::MAX), Counted::More);
    assert_eq!(state.count(1), Counted::Ended);
}

/// A new state has a number in place of values. The first values may be the same number.
#[test]
fn the_first_values_always_differ() {
    let table = table_with_states(1);
    let start = 0xd1b5_4a32_d192_ed03 ^ address(0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    table.add(address(0));
    let state = table.state(address(0)).unwrap();
    // They differ each time: an extra record is better than a lost one.
    assert!(state.differs(&start.to_le_bytes()));
    assert!(state.differs(&start.to_le_bytes()));
    assert!(state.differs(&[0; 8]));
    assert!(!state.differs(&[0; 8]));
}

/// A CPU that found an object goes on when another object has its slot.
#[test]
fn a_late_cpu_does_not_disturb_the_next_object() {
    let table = Table::new(memory(1), memory(1), 1);
    let is_in_this_bucket = |object: &u64| {
        table.add(*object);
        let has = table.contains(*object);
        table.remove(*object);
        has
    };
    let mut objects = (0..).map(address).filter(is_in_this_bucket);
    let [first, second] = [(); 2].map(|()| objects.next().unwrap());
    for values in [&[0][..], &[1; 8], &[2; 9]] {
        table.add(first);
        let late = table.state(first).unwrap();
        table.remove(first);
        table.add(second);
        assert!(late.differs(values));
        assert_eq!(late.count(3), Counted::Ended);
        // Its first values are never lost.
        let state = table.state(second).unwrap();
        assert!(state.differs(values));
        assert!(!state.differs(values));
        assert_eq!(state.count(1), Counted::Last);
        table.remove(second);
    }
}

proptest! {
    /// Values are the same exactly if their bytes are.
    #[test]
    fn a_state_reports_changes(
        len in 0..40usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8), 1..50),
    ) {
        let table = table_with_states(1);
        table.add(address(0));
        let state = table.state(address(0)).unwrap();
        let mut values = vec![0u8; len];
        let mut last = None;
        for (at, value) in changes {
            if len > 0 {
                values[at.index(len)] = value;
            }
            let is_new = last.as_ref() != Some(&values);
            prop_assert_eq!(state.differs(&values), is_new);
            last = Some(values.clone());
        }
    }
}

/// Several CPUs count one object, which lives several times.
#[test]
fn several_cpus_count_all_records() {
    const LIMIT: u32 = 1_000;

    let table = table_with_states(4);
    for _ in 0..20 {
        table.add(address(0));
        let start = Barrier::new(4);
        let counted = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    while let Some(state) = table.state(address(0)) {
                        match state.count(LIMIT) {
                            Counted::More => drop(counted.fetch_add(1, Ordering::Relaxed)),
                            Counted::Last => {
                                counted.fetch_add(1, Ordering::Relaxed);
                                table.remove(address(0));
                            }
                            Counted::Ended | Counted::Raced => {}
                        }
                    }
                });
            }
        });
        assert_eq!(counted.into_inner(), u64::from(LIMIT));
        assert_eq!(table.live(), 0);
    }
}

/// Several CPUs see values that change. The CPU that sees a change first reports it.
#[test]
fn several_cpus_lose_no_change() {
    const VALUES: u64 = 2_000;

    let table = table_with_states(4);
    table.add(address(0));
    let state = table.state(address(0)).unwrap();
    let reported: Vec<_> = (0..VALUES).map(|_| AtomicU64::new(0)).collect();
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                for value in 0..VALUES {
                    if state.differs(&value.to_le_bytes()) {
                        reported[value as usize].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(reported
        .iter()
        .all(|count| count.load(Ordering::Relaxed) > 0));
}

// SPDX-License-Identifier: GPL-2.0

//! The table of objects under loom, which runs each test with the orders of the memory accesses of
//! its threads that need at most [`PREEMPTIONS`](shared_word::PREEMPTIONS), and with each value
//! that a load can return in the memory model of Rust. The kernel's memory model guarantees at
//! least as much.
//!
//! loom lets a CPU that replaces a value in a state read a value from before its own write to it,
//! if another CPU replaced that one meanwhile. So no late CPU counts records here.

mod shared_word;

use std::array;

use loom::sync::Arc;
use probe::object_table::{
    Bucket,
    BucketStates,
    Counted,
    ObjectTable, //
};
use shared_word::{
    model,
    on_cpu,
    Shared, //
};

type Table = ObjectTable<Vec<Bucket<Shared>>, Vec<BucketStates<Shared>>, Shared>;

const FIRST: u64 = 0xffff_8880_1000_0000;
const SECOND: u64 = 0xffff_8880_1000_0240;

/// Runs a test with a table of one bucket, in which two objects meet.
fn check(limit: u32, test: impl Fn(Arc<Table>) + Send + Sync + 'static) {
    model().check(move || {
        let bucket: Bucket<Shared> = array::from_fn(|slot| match slot {
            0 | 1 => Shared::default(),
            _ => Shared::unwritten(),
        });
        let table = ObjectTable::new(vec![bucket], vec![BucketStates::default()], limit);
        test(Arc::new(table));
    });
}

#[test]
fn two_cpus_add_two_objects() {
    check(2, |table| {
        let first = on_cpu(1, &table, |table| table.add(FIRST));
        let second = on_cpu(2, &table, |table| table.add(SECOND));
        // Any answer is right, but no other object is there.
        table.contains(FIRST);
        assert!(!table.contains(SECOND + 8));
        first.join().unwrap();
        second.join().unwrap();
        assert!(table.contains(FIRST) && table.contains(SECOND));
        assert_eq!((table.live(), table.refused()), (2, 0));
    });
}

#[test]
fn an_object_that_two_cpus_add_is_removed_whole() {
    check(2, |table| {
        let other = on_cpu(1, &table, |table| table.add(FIRST));
        table.add(FIRST);
        assert!(table.contains(FIRST));
        other.join().unwrap();
        table.remove(FIRST);
        assert!(!table.contains(FIRST));
        assert_eq!((table.live(), table.refused()), (0, 0));
    });
}

#[test]
fn two_cpus_remove_an_object_once() {
    check(2, |table| {
        table.add(FIRST);
        let other = on_cpu(1, &table, |table| table.remove(FIRST));
        table.remove(FIRST);
        assert!(!table.contains(FIRST));
        other.join().unwrap();
        assert_eq!(table.live(), 0);
    });
}

/// One CPU is late: it removes an object that has left, while another object takes the slot.
#[test]
fn a_late_removal_spares_the_next_object() {
    check(2, |table| {
        table.add(FIRST);
        let late = on_cpu(1, &table, |table| table.remove(FIRST));
        table.remove(FIRST);
        table.add(SECOND);
        late.join().unwrap();
        assert!(table.contains(SECOND) && !table.contains(FIRST));
        assert_eq!((table.live(), table.refused()), (1, 0));
    });
}

#[test]
fn two_cpus_do_not_exceed_the_limit() {
    check(1, |table| {
        let first = on_cpu(1, &table, |table| table.add(FIRST));
        table.add(SECOND);
        first.join().unwrap();
        // Both may be refused, if each one sees that the other one is about to be there.
        let there = [FIRST, SECOND]
            .into_iter()
            .filter(|object| table.contains(*object));
        assert_eq!(there.count(), table.live());
        assert!(table.live() <= 1);
        assert_eq!(table.live() as u64 + table.refused(), 2);
    });
}

/// A reader that finds an object finds its state started, also in a slot that was used before.
#[test]
fn who_finds_an_object_finds_its_state() {
    check(2, |table| {
        table.add(FIRST);
        assert_eq!(table.state(FIRST).unwrap().count(1), Counted::Last);
        let writers = [
            on_cpu(1, &table, |table| {
                table.remove(FIRST);
                table.add(SECOND);
            }),
            on_cpu(2, &table, |table| table.remove(FIRST)),
        ];
        if let Some(state) = table.state(SECOND) {
            assert_eq!(state.count(2), Counted::More);
            assert_eq!(state.count(2), Counted::Last);
            assert_eq!(state.see(0x10), 0);
        }
        writers.map(|writer| writer.join().unwrap());
        assert!(table.contains(SECOND));
        assert_eq!(table.live(), 1);
    });
}

/// A CPU that found an object goes on when another object has its slot.
#[test]
fn a_late_reader_does_not_disturb_the_next_object() {
    check(2, |table| {
        table.add(FIRST);
        let late = on_cpu(1, &table, |table| {
            if let Some(state) = table.state(FIRST) {
                state.differs(&[7]);
            }
        });
        table.remove(FIRST);
        table.add(SECOND);
        let state = table.state(SECOND).unwrap();
        // The first values are never lost.
        assert!(state.differs(&[7]));
        late.join().unwrap();
    });
}

#[test]
fn uses_before_a_removal_come_before_the_next_object() {
    check(2, |table| {
        table.add(FIRST);
        let last = on_cpu(1, &table, |table| {
            table.state(FIRST).unwrap().see(0x10);
            table.remove(FIRST);
        });
        table.add(SECOND);
        assert_eq!(table.state(SECOND).unwrap().see(0x20), 0);
        last.join().unwrap();
    });
}

#[test]
fn two_cpus_count_each_record_once() {
    check(2, |table| {
        table.add(FIRST);
        let count = |table: &Table| table.state(FIRST).unwrap().count(2);
        let other = on_cpu(1, &table, count);
        let mut counted = [count(&table), other.join().unwrap()];
        counted.sort_by_key(|counted| *counted == Counted::Last);
        assert_eq!(counted, [Counted::More, Counted::Last]);
        assert_eq!(count(&table), Counted::Ended);
    });
}

#[test]
fn one_of_two_cpus_reports_a_change() {
    check(2, |table| {
        table.add(FIRST);
        let differs = |table: &Table| table.state(FIRST).unwrap().differs(&[7]);
        let other = on_cpu(1, &table, differs);
        let reported = [differs(&table), other.join().unwrap()];
        assert_eq!(reported.iter().filter(|is_new| **is_new).count(), 1);
    });
}

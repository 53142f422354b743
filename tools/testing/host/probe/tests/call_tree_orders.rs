// SPDX-License-Identifier: GPL-2.0

//! The calls in progress under loom: see `object_table_orders.rs`.

mod shared_word;

use loom::sync::Arc;
use probe::call_tree::{
    Beginning,
    Bucket,
    Call,
    CallTable,
    OpenStep,
    Step, //
};
use shared_word::{
    model,
    on_cpu,
    Shared, //
};

type Table = CallTable<Vec<Bucket<Shared>>, Vec<Call<Shared>>, Vec<Step<Shared>>, Shared>;

const FIRST: u64 = 0xffff_8880_1000_0000;
const SECOND: u64 = 0xffff_8880_1000_2a80;

/// Runs a test with a table of one bucket and one call with one step, for which two tasks race.
fn check(test: impl Fn(Arc<Table>) + Send + Sync + 'static) {
    model().check(move || {
        let memory = (vec![Bucket::default()], vec![Call::default()]);
        let steps = (0..2).map(|_| Step::default()).collect();
        test(Arc::new(CallTable::new(memory.0, memory.1, steps, 2)));
    });
}

fn beginning(number: u64) -> Beginning {
    Beginning {
        number,
        pid: number as u32,
        comm: [number; 2],
        now: number,
        function: number,
        arguments: [number; 4],
        stack: number,
        untraced: number,
        entry: [number; 8],
    }
}

/// A whole call of a task. Returns whether there was room.
fn call(table: &Table, task: u64, number: u64) -> bool {
    let Some(root) = table.begin(task, &beginning(number)) else {
        assert_eq!(table.find(task), None);
        return false;
    };
    assert_eq!(table.find(task), Some(0));
    let finished = table.finish(task, root, number, number).unwrap();
    assert_eq!(finished.entry_data(), [number; 8]);
    for record in finished.records(|_| 4) {
        assert_eq!(record.words()[..2], [number, number]);
    }
    true
}

#[test]
fn two_tasks_have_the_only_call_one_after_the_other() {
    check(|table| {
        let other = on_cpu(1, &table, |table| call(table, FIRST, 1));
        let mine = call(&table, SECOND, 2);
        assert!(other.join().unwrap() || mine);
        assert_eq!(table.in_progress(), 0);
        assert_eq!((table.find(FIRST), table.find(SECOND)), (None, None));
    });
}

#[test]
fn a_reader_never_mixes_two_calls() {
    check(|table| {
        let other = on_cpu(1, &table, |table| {
            assert!(call(table, FIRST, 1));
            assert!(table.begin(FIRST, &beginning(2)).is_some());
        });
        let mut open = [OpenStep::default()];
        if let Some(call) = table.read(0, &mut open) {
            let number = call.number;
            assert_eq!(u64::from(call.pid), number);
            assert_eq!((call.comm, call.since), ([number; 2], number));
            assert_eq!(open[0].function, number);
        }
        other.join().unwrap();
    });
}

// SPDX-License-Identifier: GPL-2.0

//! The calls in progress and their steps: on one CPU against a model, and several tasks in turn.

use probe::call_tree::{
    buckets,
    has_function,
    Beginning,
    Bucket,
    Call,
    CallTable,
    OpenStep,
    Step,
    StepRecord,
    Token, //
};
use proptest::prelude::*;

use number::Number;

mod number;

fn memory<T: Default>(len: usize) -> Vec<T> {
    (0..len).map(|_| T::default()).collect()
}

type Table = CallTable<Vec<Bucket<Number>>, Vec<Call<Number>>, Vec<Step<Number>>, Number>;

/// A table for `calls` calls with `steps` steps each.
fn table(calls: u32, steps: usize) -> Table {
    let count = calls as usize;
    CallTable::new(
        memory(buckets(calls)),
        memory(count),
        memory(count * (steps + 1)),
        steps + 1,
    )
}

fn beginning(number: u64, now: u64) -> Beginning {
    Beginning {
        number,
        pid: number as u32 + 100,
        comm: [number, 0],
        now,
        function: 0x1000,
        arguments: [1, 2, 3, 4],
        stack: 0x8000,
        untraced: 7,
        entry: [number; 8],
    }
}

fn task(index: u64) -> u64 {
    0xffff_8880_0100_0000 + index * 0x2a80
}

/// The records of a tree, without the root's address: call, depth, function, enter, ns, ret, has.
fn short(record: StepRecord) -> [u64; 7] {
    let words = record.words();
    std::array::from_fn(|index| words[index + 1])
}

#[test]
fn a_thousand_tasks_have_room_wherever_the_kernel_puts_them() {
    let seeds = 0..200_u64;
    let mut missed = 0;
    for seed in seeds {
        let table = table(1024, 0);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for number in 1..=1000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // The kernel aligns tasks to cache lines.
            let task = 0xffff_8880_0000_0000 + state % (1 << 27) * 64;
            missed += usize::from(table.begin(task, &beginning(number, 1)).is_none());
        }
    }
    assert_eq!(missed, 0, "of 200,000");
}

#[test]
fn a_tree_has_its_steps_in_order() {
    let table = table(4, 8);
    let me = task(1);
    assert_eq!((table.find(me), table.has(me)), (None, false));
    let root = table.begin(me, &beginning(5, 100)).unwrap();
    assert!(root.is_root());
    let index = table.find(me).unwrap();
    assert!(table.has(me));
    let enter = |function, now| table.enter(index, function, [function; 4], || now).unwrap();
    let a = enter(0xa, 110);
    assert!(!a.is_root());
    let b = enter(0xb, 120);
    table.leave(me, b, 0xbb, || 125);
    let c = enter(0xc, 130);
    table.leave(me, c, 0xcc, || 135);
    table.leave(me, a, 0xaa, || 140);
    // It does not return before the root.
    enter(0xd, 150);
    let finished = table.finish(me, root, 0x11, 190).unwrap();
    assert_eq!((finished.elapsed(), finished.untraced()), (90, 7));
    assert_eq!(finished.entry_data(), [5; 8]);
    // The tree is being written.
    assert!(table.enter(index, 0xe, [0; 4], || 0).is_none());
    finished.lose(2);
    let words_of = |function| match function {
        0xa => 1,
        0xb => 0,
        _ => 4,
    };
    let records: Vec<_> = finished.records(words_of).collect();
    assert_eq!(
        records.iter().copied().map(short).collect::<Vec<_>>(),
        [
            [5, 0, 0x1000, 0, 90, 0x11, 1],
            [5, 1, 0xa, 10, 30, 0xaa, 1],
            [5, 2, 0xb, 20, 5, 0xbb, 1],
            [5, 2, 0xc, 30, 5, 0xcc, 1],
            [5, 1, 0xd, 50, 0, 0, 0],
        ]
    );
    assert_eq!(records[0].words()[8..], [1, 2, 3, 4, 2 << 32 | 4]);
    assert_eq!(records[1].words()[8..], [0xa, 0, 0, 0, 0]);
    assert_eq!(records[2].words()[8..], [0; 5]);
    assert_eq!(records[3].words()[8..], [0xc, 0xc, 0xc, 0xc, 0]);
    assert!(records.iter().all(|record| record.words()[0] == 0x1000));
    drop(finished);
    assert_eq!((table.find(me), table.in_progress()), (None, 0));
    // Nothing of the call stays.
    assert!(table.finish(me, root, 0, 0).is_none());
    table.leave(me, a, 0, || panic!());
}

#[test]
fn a_sorted_list_has_its_functions_and_no_other() {
    for len in 0..40 {
        let sorted: Vec<usize> = (0..len).map(|index| 10 + index * 2).collect();
        for function in 0..100 {
            let has = sorted.contains(&function);
            assert_eq!(has_function(&sorted, function), has, "{function} of {len}");
        }
    }
}

#[test]
fn steps_without_room_are_counted() {
    let table = table(1, 2);
    let root = table.begin(task(1), &beginning(1, 0)).unwrap();
    let tokens: Vec<_> = (0..5).map(|n| table.enter(0, n, [0; 4], || n)).collect();
    assert_eq!(tokens.iter().flatten().count(), 2);
    let finished = table.finish(task(1), root, 0, 9).unwrap();
    let records: Vec<_> = finished.records(|_| 4).collect();
    assert_eq!(records.len(), 3);
    assert_eq!(records[0].words()[12], 3 << 32 | 2);
}

#[test]
fn a_call_without_room_is_refused_and_another_one_gets_it_later() {
    let table = table(2, 2);
    let first = table.begin(task(1), &beginning(1, 0)).unwrap();
    table.begin(task(2), &beginning(2, 0)).unwrap();
    assert!(table.begin(task(3), &beginning(3, 0)).is_none());
    assert_eq!((table.find(task(3)), table.in_progress()), (None, 2));
    drop(table.finish(task(1), first, 0, 0).unwrap());
    assert!(table.begin(task(3), &beginning(3, 0)).is_some());
    assert!(table.abandon(task(2)));
    assert!(!table.abandon(task(2)));
    assert_eq!(table.in_progress(), 1);
}

#[test]
fn a_token_of_another_call_does_nothing() {
    let table = table(1, 2);
    let me = task(1);
    let old_root = table.begin(me, &beginning(1, 0)).unwrap();
    let old = table.enter(0, 0xa, [0; 4], || 1).unwrap();
    assert!(table.abandon(me));
    let root = table.begin(me, &beginning(2, 0)).unwrap();
    let step = table.enter(0, 0xa, [0; 4], || 1).unwrap();
    assert_ne!(old.word(), step.word());
    table.leave(me, old, 1, || panic!());
    assert!(table.finish(me, old_root, 1, 5).is_none());
    assert!(table.finish(task(2), root, 1, 5).is_none());
    table.leave(task(2), step, 1, || panic!());
    let finished = table.finish(me, root, 1, 5).unwrap();
    assert_eq!(short(finished.records(|_| 4).nth(1).unwrap())[6], 0);
    for word in [0, u64::MAX, 1 << 40] {
        table.leave(me, Token::of(word), 0, || panic!());
        assert!(table.finish(me, Token::of(word), 0, 0).is_none());
    }
}

#[test]
fn a_stack_pointer_above_that_of_the_entry_tells_that_the_call_has_ended() {
    let table = table(1, 2);
    table.begin(task(1), &beginning(1, 0)).unwrap();
    assert!(!table.has_left(0, 0x8000) && !table.has_left(0, 0x7f00));
    assert!(table.has_left(0, 0x8008));
}

#[test]
fn a_reader_sees_the_steps_that_have_not_returned() {
    let table = table(2, 8);
    let mut open = [OpenStep::default(); 3];
    assert!((0..2).all(|index| table.read(index, &mut open).is_none()));
    table.begin(task(1), &beginning(9, 1000)).unwrap();
    let index = table.find(task(1)).unwrap();
    let a = table.enter(index, 0xa, [0; 4], || 1010).unwrap();
    table.leave(task(1), a, 0, || 1020);
    for function in [0xb, 0xc] {
        table.enter(index, function, [0; 4], || 1000 + function);
    }
    let call = table.read(index, &mut open).unwrap();
    assert_eq!((call.number, call.pid, call.comm), (9, 109, [9, 0]));
    assert_eq!((call.since, call.depth), (1000, 2));
    let open = open.map(|step| (step.function, step.enter));
    assert_eq!(open, [(0x1000, 0), (0xb, 0xb), (0xc, 0xc)]);
    // With less room, the innermost steps are missing.
    let mut outer = [OpenStep::default(); 2];
    assert_eq!(table.read(index, &mut outer).unwrap().depth, 2);
    assert_eq!(outer[1].function, 0xb);
    assert!(table.read(7, &mut outer).is_none());
}

/// What a task does next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Enter(u64),
    Leave,
    Vanish,
}

fn act() -> impl Strategy<Value = (u64, Act)> {
    let acts = prop_oneof![
        5 => (1u64..20).prop_map(Act::Enter),
        4 => Just(Act::Leave),
        1 => Just(Act::Vanish),
    ];
    (0u64..5, acts)
}

/// A task of the model: the frames of its stack, and its records.
#[derive(Default)]
struct Model {
    number: u64,
    tokens: Vec<Option<Token>>,
    /// Depth, function and whether it has returned, of each step.
    steps: Vec<(u64, u64, u64)>,
    open: Vec<usize>,
    lost: u64,
}

proptest! {
    #[test]
    fn trees_are_those_of_a_model(acts in prop::collection::vec(act(), 0..400)) {
        const STEPS: usize = 6;
        let table = table(3, STEPS);
        let mut models: Vec<Option<Model>> = (0..5).map(|_| None).collect();
        for (number, (who, act)) in (1..).zip(acts) {
            let me = task(who);
            let in_use = models.iter().flatten().count();
            let model = &mut models[who as usize];
            match (act, model.as_mut()) {
                (Act::Enter(_), None) => {
                    prop_assert_eq!(table.find(me), None);
                    let token = table.begin(me, &beginning(number, 0));
                    prop_assert_eq!(token.is_some(), in_use < 3);
                    if let Some(token) = token {
                        *model = Some(Model {
                            number,
                            tokens: vec![Some(token)],
                            steps: vec![(0, 0x1000, 0)],
                            open: vec![0],
                            lost: 0,
                        });
                    }
                }
                (Act::Enter(function), Some(model)) => {
                    let index = table.find(me).unwrap();
                    let token = table.enter(index, function, [function; 4], || 0);
                    prop_assert_eq!(token.is_some(), model.steps.len() <= STEPS);
                    match token {
                        Some(_) => {
                            model.open.push(model.steps.len());
                            let depth = model.tokens.iter().flatten().count() as u64;
                            model.steps.push((depth, function, 0));
                        }
                        None => model.lost += 1,
                    }
                    model.tokens.push(token);
                }
                (Act::Leave, Some(inner)) => {
                    let Some(token) = inner.tokens.pop().unwrap() else {
                        continue;
                    };
                    let step = inner.open.pop().unwrap();
                    inner.steps[step].2 = 1;
                    if step > 0 {
                        table.leave(me, token, 0, || 0);
                        continue;
                    }
                    let finished = table.finish(me, token, 0, 0).unwrap();
                    let records: Vec<_> = finished.records(|_| 4).collect();
                    let found: Vec<_> = records
                        .iter()
                        .map(|record| short(*record))
                        .map(|[_, depth, function, _, _, _, has]| (depth, function, has))
                        .collect();
                    prop_assert_eq!(&found, &inner.steps);
                    prop_assert!(records.iter().all(|record| record.words()[1] == inner.number));
                    let counts = inner.lost << 32 | (inner.steps.len() as u64 - 1);
                    prop_assert_eq!(records[0].words()[12], counts);
                    drop(finished);
                    *model = None;
                }
                (Act::Vanish, inner) => {
                    let was_in = inner.is_some();
                    prop_assert_eq!(table.abandon(me), was_in);
                    *model = None;
                }
                (Act::Leave, None) => {}
            }
            prop_assert_eq!(table.in_progress(), models.iter().flatten().count());
        }
    }
}

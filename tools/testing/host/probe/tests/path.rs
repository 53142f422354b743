// SPDX-License-Identifier: GPL-2.0

//! The paths of calls: the text of a path, nested calls, and calls against a model.

use std::sync::LazyLock;

use probe::{
    insn::{
        blocks::Block as FunctionBlock,
        route::{
            Node,
            Plan,
            Route, //
        }, //
    },
    path::{
        buckets,
        Blocks,
        Bucket,
        Call,
        Finished,
        Name,
        PathTable,
        TextOf,
        Token,
        Visit,
        MAX_BLOCKS,
        TEXT_WORDS, //
    }, //
};
use proptest::prelude::*;

use number::Number;

mod number;

type Table = PathTable<Vec<Bucket<Number>>, Vec<Call<Number>>, Vec<TextOf<Number>>, Number>;

fn memory<T>(len: usize, new: impl Fn() -> T) -> Vec<T> {
    (0..len).map(|_| new()).collect()
}

fn table(calls: u32) -> Table {
    let text = || std::array::from_fn(|_| Number::default());
    PathTable::new(
        memory(buckets(calls), Bucket::default),
        memory(calls as usize, Call::default),
        memory(calls as usize, text),
    )
}

fn block(index: u16) -> Visit {
    let offset = u64::from(index) * 0x17;
    Visit {
        last: 0x1000 + offset,
        name: Name::of_block(index == 0, "", offset, offset as i64),
    }
}

/// The blocks of a function. None is implied.
fn blocks() -> Blocks<'static> {
    static VISITS: LazyLock<Vec<Visit>> =
        LazyLock::new(|| (0..MAX_BLOCKS as u16).map(block).collect());
    Blocks {
        visits: &VISITS,
        ..Blocks::NONE
    }
}

/// The path, the number of blocks, and the last instruction of a call that returns.
fn finish(table: &Table, task: u64, token: Token) -> Option<(String, u64, u64)> {
    table.finish(task, token, blocks()).map(finished)
}

fn finished(finished: Finished<'_, Number>) -> (String, u64, u64) {
    use probe::object_table::Word;

    let words = finished.text().iter();
    let bytes: Vec<u8> = words.flat_map(|word| word.load().to_le_bytes()).collect();
    let text = bytes.split(|byte| *byte == 0).next().unwrap();
    assert!(text.len() < bytes.len());
    let text = String::from_utf8(text.to_vec()).unwrap();
    (text, finished.blocks(), finished.last())
}

#[test]
fn a_block_has_the_name_of_its_part() {
    let name = |is_first, part, offset, from_start| {
        Name::of_block(is_first, part, offset, from_start)
            .as_str()
            .to_owned()
    };
    assert_eq!(name(true, "", 0, 0), "+0x0");
    assert_eq!(name(false, "", 0x1a4, 0x1a4), " +0x1a4");
    assert_eq!(name(false, ".cold", 0x12, -0x8_0000), " .cold+0x12");
    // The longest name.
    assert_eq!(name(false, ".cold", 0xfffff, 1), " .cold+0xfffff");
    assert_eq!(name(false, ".part.0.cold", 0x12, -0x8_0012), " -0x80012");
    assert_eq!(name(false, ".part.0.cold", 0x12, i64::MIN), " ...");
}

#[test]
fn a_path_has_each_block_once() {
    let table = table(1);
    let token = table.begin(7, blocks()).unwrap();
    for index in [2, 1, 2, 1, 5, 2] {
        table.visit(7, index, blocks());
        // Of another task.
        table.visit(8, index + 1, blocks());
    }
    let path = "+0x0 +0x2e +0x17 +0x73".to_owned();
    assert_eq!(finish(&table, 7, token), Some((path, 4, 0x1000 + 2 * 0x17)));
    assert_eq!(table.in_progress(), 0);
}

#[test]
fn a_long_path_says_that_it_is_cut() {
    let table = table(1);
    let token = table.begin(7, blocks()).unwrap();
    for index in 1..MAX_BLOCKS as u16 {
        table.visit(7, index, blocks());
    }
    let (path, count, last) = finish(&table, 7, token).unwrap();
    assert!(path.ends_with(" ..."));
    assert!(path.len() > TEXT_WORDS * 8 - 40);
    assert_eq!((count, last), (1024, block(1023).last));
    // The next call begins anew.
    let token = table.begin(7, blocks()).unwrap();
    assert_eq!(finish(&table, 7, token).unwrap().0, "+0x0");
}

#[test]
fn a_path_has_the_implied_blocks() {
    // if (a) b(); if (c) d(); return;
    let graph = [Some(2), Some(2), Some(4), Some(4), None];
    let function: Vec<_> = (0..)
        .zip(graph)
        .map(|(address, target)| FunctionBlock {
            address,
            last: address,
            next: target.map(|_| address + 1),
            target: target.filter(|target| *target != address + 1),
        })
        .collect();
    let mut nodes = vec![Node::EMPTY; 5];
    let mut firsts = vec![0; Route::words(5)];
    let mut plan = Plan::new(
        &function,
        |block| block.next.is_none(),
        &[],
        &mut nodes,
        &mut firsts,
    )
    .unwrap();
    plan.choose();
    let all = Blocks {
        route: plan.route(),
        ..blocks()
    };
    let probed: Vec<u16> = (0..5)
        .filter(|at| all.route.needs_probe((*at).into()))
        .collect();
    assert_eq!(probed, [0, 1, 3]);

    let table = table(1);
    let names = |of: &[u16]| {
        of.iter()
            .map(|at| block(*at).name.as_str().to_owned())
            .collect()
    };
    for (hits, path) in [
        (&[][..], &[0, 2, 4][..]),
        (&[1], &[0, 1, 2, 4]),
        (&[3], &[0, 2, 3, 4]),
        (&[1, 3], &[0, 1, 2, 3, 4]),
    ] {
        let token = table.begin(7, all).unwrap();
        hits.iter().for_each(|hit| table.visit(7, *hit, all));
        let text: String = names(path);
        let found = table.finish(7, token, all).map(finished).unwrap();
        assert_eq!(found, (text, path.len() as u64, block(4).last));
    }
}

#[test]
fn a_call_without_room_hides_its_blocks_from_the_call_around_it() {
    let table = table(1);
    let outer = table.begin(7, blocks()).unwrap();
    assert_eq!(table.begin(7, blocks()), None);
    let first = table.hide(7).unwrap();
    // This one is hidden already.
    assert_eq!(table.hide(7), None);
    table.visit(7, 1, blocks());
    assert_eq!(finish(&table, 7, first), None);
    table.visit(7, 2, blocks());
    assert_eq!(table.begin(8, blocks()), None);
    assert_eq!(table.hide(8), None);
    assert_eq!(finish(&table, 7, outer).unwrap().0, "+0x0 +0x2e");
    assert!(table.begin(8, blocks()).is_some());
}

#[test]
fn a_task_that_is_freed_gives_its_calls_back() {
    let table = table(2);
    table.begin(7, blocks()).unwrap();
    table.begin(7, blocks()).unwrap();
    assert_eq!(table.begin(8, blocks()), None);
    assert_eq!(table.abandon(8), 0);
    assert_eq!(table.abandon(7), 2);
    assert_eq!(table.in_progress(), 0);
    table.begin(8, blocks()).unwrap();
    table.begin(9, blocks()).unwrap();
}

/// What a task does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Call,
    Hide,
    Visit(u16),
    Return,
    Die,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Call),
        1 => Just(Step::Hide),
        6 => (0..MAX_BLOCKS as u16).prop_map(Step::Visit),
        3 => (0..8u16).prop_map(Step::Visit),
        2 => Just(Step::Return),
        1 => Just(Step::Die),
    ]
}

/// A call of the model: its token, and its blocks. `None` if it has no path.
type Modelled = (Option<Token>, Option<Vec<u16>>);

proptest! {
    #[test]
    fn paths_are_those_of_a_model(steps in prop::collection::vec((0..3usize, step()), 0..200)) {
        let table = table(4);
        let mut model: [Vec<Modelled>; 3] = Default::default();
        for (task, step) in steps {
            let number = 0xffff_8880_0100_0000 + task as u64 * 0x2a80;
            let in_use: usize = { model.iter().flatten() }.filter(|call| call.1.is_some()).count();
            let calls = &mut model[task];
            match step {
                Step::Call | Step::Hide => {
                    let token = match step {
                        Step::Call => table.begin(number, blocks()),
                        _ => None,
                    };
                    let has_path = matches!(step, Step::Call) && in_use < 4;
                    prop_assert_eq!(token.is_some(), has_path);
                    calls.push((token.or_else(|| table.hide(number)), has_path.then(|| vec![0])));
                }
                Step::Visit(index) => {
                    table.visit(number, index, blocks());
                    if let Some((_, Some(path))) = calls.last_mut() {
                        path.push(index);
                    }
                }
                Step::Return => {
                    let Some((token, path)) = calls.pop() else { continue };
                    let found = token.and_then(|token| finish(&table, number, token));
                    prop_assert_eq!(found.is_some(), path.is_some());
                    if let (Some((text, blocks, last)), Some(path)) = (found, path) {
                        let mut firsts: Vec<u16> = Vec::new();
                        for index in &path {
                            if !firsts.contains(index) {
                                firsts.push(*index);
                            }
                        }
                        let names: Vec<_> = firsts.iter().map(|index| block(*index).name).collect();
                        let all: String = names.iter().map(Name::as_str).collect();
                        match text.strip_suffix(" ...") {
                            Some(start) => prop_assert!(all.starts_with(start)),
                            None => prop_assert_eq!(text, all),
                        }
                        prop_assert_eq!(blocks, firsts.len() as u64);
                        prop_assert_eq!(last, block(*path.last().unwrap()).last);
                    }
                }
                Step::Die => {
                    let count = calls.iter().filter(|call| call.1.is_some()).count();
                    prop_assert_eq!(table.abandon(number), count as u64);
                    calls.clear();
                }
            }
        }
        let in_use = model.iter().flatten().filter(|call| call.1.is_some()).count();
        prop_assert_eq!(table.in_progress(), in_use);
    }
}

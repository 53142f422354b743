// SPDX-License-Identifier: GPL-2.0

//! Which blocks need a probe, and walks through graphs of blocks: from the hits of a walk, the route
//! tells the other blocks.

use probe::insn::{
    blocks::Block,
    route::{
        Node,
        Plan,
        Route,
        UnseenJump, //
    }, //
};
use proptest::prelude::*;

/// The distance of the addresses of two blocks.
const STEP: u64 = 0x10;

/// Blocks that lead to those with these indices.
fn blocks(graph: &[[Option<usize>; 2]]) -> Vec<Block> {
    let address = |index: usize| index as u64 * STEP;
    let all = graph.iter().enumerate();
    all.map(|(index, [next, target])| Block {
        address: address(index),
        last: address(index) + 4,
        next: next.map(address),
        target: target.map(address),
    })
    .collect()
}

/// The indices of the implied blocks of a function that leaves where no block follows.
fn implied(graph: &[[Option<usize>; 2]], jumps: &[UnseenJump]) -> Vec<usize> {
    let mut nodes = vec![Node::EMPTY; graph.len()];
    let mut firsts = vec![0; Route::words(graph.len())];
    let blocks = blocks(graph);
    let leaves = |block: &Block| block.next.or(block.target).is_none();
    let mut plan = Plan::new(&blocks, leaves, jumps, &mut nodes, &mut firsts).unwrap();
    plan.choose();
    let implied = |index: &usize| !plan.route().needs_probe(*index);
    (0..graph.len()).filter(implied).collect()
}

const IF: [[Option<usize>; 2]; 3] = [[Some(1), Some(2)], [Some(2), None], [None, None]];

#[test]
fn the_join_after_an_if_is_implied() {
    assert_eq!(implied(&IF, &[]), [2]);
}

#[test]
fn one_side_of_an_else_is_implied() {
    let graph = [
        [Some(1), Some(2)],
        [None, Some(3)],
        [Some(3), None],
        [None, None],
    ];
    assert_eq!(implied(&graph, &[]), [2, 3]);
}

#[test]
fn two_returns_need_a_probe_on_one() {
    assert_eq!(
        implied(&[[Some(1), Some(2)], [None, None], [None, None]], &[]),
        [2]
    );
}

#[test]
fn a_block_that_never_returns_leads_to_nothing() {
    let mut nodes = vec![Node::EMPTY; 3];
    let mut firsts = vec![0; 3];
    let blocks = blocks(&[[Some(1), Some(2)], [None, None], [None, None]]);
    let leaves = |block: &Block| block.address == STEP;
    let mut plan = Plan::new(&blocks, leaves, &[], &mut nodes, &mut firsts).unwrap();
    plan.choose();
    assert!(!plan.route().needs_probe(1));
    assert_eq!(plan.route().implied(0, None), Some(1));
}

#[test]
fn no_block_of_a_loop_or_behind_it_is_implied() {
    // while (a) b(); c(); if (d) e();
    let graph = [
        [Some(1), None],
        [Some(2), Some(3)],
        [None, Some(1)],
        [Some(4), None],
        [Some(5), Some(6)],
        [Some(6), None],
        [None, None],
    ];
    assert_eq!(implied(&graph, &[]), [4, 6]);
}

#[test]
fn a_block_that_no_jump_reaches_has_a_probe() {
    let graph = [[Some(2), None], [Some(2), None], [None, None]];
    assert_eq!(implied(&graph, &[]), [2]);
}

#[test]
fn around_a_jump_that_the_text_does_not_show_all_have_probes() {
    let jump = |from, to| [UnseenJump { from, to }];
    assert_eq!(implied(&IF, &jump(4, STEP * 2)), [0; 0]);
    assert_eq!(implied(&IF, &jump(0x1000, STEP * 2 + 3)), [0; 0]);
    // From and to other text.
    assert_eq!(implied(&IF, &jump(0x1000, 0x2000)), [2]);
    assert_eq!(implied(&IF, &jump(u64::MAX, u64::MAX)), [2]);
    // A jump that can be turned off leads to the block after it.
    let over = [
        [None, Some(2)],
        [Some(2), None],
        [Some(3), None],
        [None, None],
    ];
    assert_eq!(implied(&over, &[]), [2, 3]);
    assert_eq!(implied(&over, &jump(4, STEP * 2)), [3]);
    // It makes a loop.
    let chain = [
        [Some(1), None],
        [Some(2), None],
        [Some(3), None],
        [None, None],
    ];
    assert_eq!(implied(&chain, &[]), [1, 2, 3]);
    assert_eq!(implied(&chain, &jump(STEP * 2 + 2, STEP)), [0; 0]);
}

#[test]
fn wrong_memory_is_refused() {
    let blocks = blocks(&IF);
    let (mut nodes, mut firsts) = (vec![Node::EMPTY; 4], vec![0; 3]);
    assert!(Plan::new(&blocks, |_| false, &[], &mut nodes, &mut firsts).is_none());
    assert!(Plan::new(&blocks, |_| false, &[], &mut nodes[..3], &mut firsts[..2]).is_none());
}

#[test]
fn a_large_function_has_a_plan() {
    // A chain of decisions to one end, in the reverse order of the addresses, and a loop around it.
    let len = 1024;
    let graph: Vec<_> = (0..len)
        .map(|index| match index {
            0 => [Some(len - 1), None],
            1 => [None, None],
            _ => [Some(index - 1), Some(1)],
        })
        .collect();
    assert_eq!(implied(&graph, &[]), [1, len - 1]);
    let mut graph = graph;
    graph[1] = [Some(len - 1), None];
    assert_eq!(implied(&graph, &[]), [0; 0]);
}

/// A function, and how the kernel changes its flow.
#[derive(Clone, Debug)]
struct Function {
    graph: Vec<[Option<usize>; 2]>,
    leaves: Vec<bool>,
    unseen: Vec<(usize, usize)>,
    refused: Vec<bool>,
}

fn function() -> impl Strategy<Value = Function> {
    (1..40usize).prop_flat_map(|len| {
        // Mostly to the next blocks, as compilers do.
        let successor = move |from: usize| {
            let ahead = (1..6usize).prop_map(move |by| (from + by < len).then_some(from + by));
            let any = (1..len.max(2)).prop_map(move |to| (to < len).then_some(to));
            prop_oneof![8 => ahead, 1 => any, 1 => Just(None)]
        };
        let successors: Vec<_> = (0..len)
            .map(|from| [successor(from), successor(from)])
            .collect();
        let unseen = prop::collection::vec((0..len, 0..len), 0..3);
        let rare = move |share| prop::collection::vec(prop::bool::weighted(share), len);
        (successors, rare(0.3), unseen, rare(0.1)).prop_map(
            |(graph, leaves, unseen, mut refused)| {
                refused[0] = false;
                Function {
                    graph,
                    leaves,
                    unseen,
                    refused,
                }
            },
        )
    })
}

impl Function {
    fn leaves(&self, index: usize) -> bool {
        self.leaves[index]
    }

    /// A walk from the entry to an exit. `None` if it takes long, or does not return.
    fn walk(&self, choices: &[u8]) -> Option<Vec<usize>> {
        let mut walk = vec![0];
        for choice in choices {
            let at = *walk.last()?;
            let mut ways: Vec<_> = self.graph[at]
                .iter()
                .flatten()
                .map(|to| Some(*to))
                .collect();
            ways.extend(self.leaves(at).then_some(None));
            let unseen = self
                .unseen
                .iter()
                .filter(|(from, to)| *from == at && *to != at);
            ways.extend(unseen.map(|(_, to)| Some(*to)));
            match *ways.get(usize::from(*choice) % ways.len().max(1))? {
                Some(next) => walk.push(next),
                None => return Some(walk),
            }
        }
        None
    }
}

/// The first visits of a walk.
fn first_visits(walk: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut first = vec![];
    for index in walk {
        if !first.contains(&index) {
            first.push(index);
        }
    }
    first
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_hits_of_a_walk_tell_all_its_blocks(
        function in function(),
        walks in prop::collection::vec(prop::collection::vec(any::<u8>(), 60), 8)
    ) {
        let len = function.graph.len();
        let blocks = blocks(&function.graph);
        let mut nodes = vec![Node::EMPTY; len];
        let mut firsts = vec![0; Route::words(len)];
        let leaves = |block: &Block| function.leaves[(block.address / STEP) as usize];
        let jumps: Vec<_> = { function.unseen.iter() }
            .map(|(from, to)| UnseenJump {
                from: *from as u64 * STEP + 2,
                to: *to as u64 * STEP,
            })
            .collect();
        let mut plan = Plan::new(&blocks, leaves, &jumps, &mut nodes, &mut firsts).unwrap();
        // As probes are registered.
        let mut probed = vec![false; len];
        let mut tried = vec![false; len];
        while {
            plan.choose();
            let open: Vec<_> = (0..len).filter(|&at| !tried[at] && plan.route().needs_probe(at)).collect();
            for &at in &open {
                tried[at] = true;
                probed[at] = !function.refused[at];
                match probed[at] {
                    true => plan.keep(at),
                    false => plan.refuse(at),
                }
            }
            !open.is_empty()
        } {}
        let route = plan.route();
        prop_assert!((0..len).all(|at| tried[at] == route.needs_probe(at)));

        for walk in walks.iter().filter_map(|choices| function.walk(choices)) {
            let mut found = vec![];
            let mut at = 0;
            let hits = walk.iter().filter(|at| probed[**at]).map(|at| Some(*at));
            for hit in hits.chain([None]) {
                let is_new = hit.is_none_or(|hit| !found.contains(&hit));
                while let Some(implied) = route.implied(at, hit.map(|hit| hit as u16)) {
                    prop_assert!(is_new);
                    prop_assert!(!found.contains(&usize::from(implied)));
                    found.push(implied.into());
                    at = implied;
                }
                if let Some(hit) = hit {
                    if is_new {
                        found.push(hit);
                    }
                    at = hit as u16;
                }
            }
            let is_gap = |at: &usize| tried[*at] && !probed[*at];
            let expected = first_visits(walk.iter().copied().filter(|at| !is_gap(at)));
            prop_assert_eq!(found, expected, "{:?}", walk);
        }
    }
}

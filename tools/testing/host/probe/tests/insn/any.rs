// SPDX-License-Identifier: GPL-2.0

//! What holds for the exits and the blocks of any bytes; the fuzz target has it too.

use std::{
    cell::Cell,
    collections::HashSet, //
};

use probe::insn::{
    blocks::{
        Block,
        Blocks, //
    },
    exits::{
        Destination,
        ExitKind,
        Part,
        SweptFunction,
        Verdict, //
    },
    Decoder,
    Flow,
    Insn,
    Unprobable, //
};

thread_local! {
    static DECODED: Cell<usize> = const { Cell::new(0) };
}

/// A decoder that counts.
struct Counting<D>(D);

impl<D: Decoder> Decoder for Counting<D> {
    const UNIT: usize = D::UNIT;

    fn decode(text: &[u8], address: u64) -> Option<Insn> {
        DECODED.set(DECODED.get() + 1);
        D::decode(text, address)
    }

    fn unprobable(text: &[u8], offset: usize) -> Option<Unprobable> {
        D::unprobable(text, offset)
    }
}

/// Whether no address is in two parts, or after the last address.
fn are_apart(parts: &[Part<'_>]) -> bool {
    let range = |part: &Part<'_>| {
        let start = u128::from(part.address);
        start..start + part.text.len() as u128
    };
    let mut ranges: Vec<_> = parts.iter().map(range).collect();
    ranges.sort_by_key(|range| range.start);
    let last = ranges.last().map_or(0, |range| range.end);
    ranges.windows(2).all(|pair| pair[0].end <= pair[1].start) && last <= 1 << 64
}

/// Asks all that can be asked of some parts.
pub fn ask<D: Decoder>(parts: &[Part<'_>], destination: impl Fn(u64) -> Destination) {
    let len: usize = parts.iter().map(|part| part.text.len()).sum();
    let words = SweptFunction::<Counting<D>>::words(parts);
    assert!(words <= len / 64 + 1);
    DECODED.set(0);
    let mut starts = vec![u64::MAX; words];
    if let Ok(function) = SweptFunction::<Counting<D>>::sweep(parts, &mut starts) {
        let exits: Vec<_> = function.exits(&destination).collect();
        let verdict = function.verdict(&destination);
        for exit in exits.iter().filter(|_| are_apart(parts)) {
            assert!(function.is_boundary(exit.address), "{exit:x?}");
        }
        let is_part = |kind| matches!(kind, ExitKind::Part { .. });
        match verdict {
            Verdict::Returns => assert!(!exits.is_empty()),
            Verdict::NoReturn => {
                assert!(exits.iter().all(|exit| exit.kind == ExitKind::NoReturn));
            }
            Verdict::TailCall(exit) => {
                assert!(exits.contains(&exit));
                assert!(!exits.iter().any(|exit| is_part(exit.kind)));
            }
            Verdict::Part(_) => assert!(exits.iter().any(|exit| is_part(exit.kind))),
        }
        let mut targets = vec![u64::MAX; words];
        if let Ok(blocks) = Blocks::find(&function, &mut targets, &destination) {
            let blocks: Vec<_> = blocks.collect();
            if are_apart(parts) {
                check_blocks(&function, &blocks);
            }
        }
    }
    // Two passes of the sweep, one each for the exits and the verdict, two for the blocks, and one
    // for their check.
    assert!(DECODED.get() <= 7 * len + 1, "{} of {len}", DECODED.get());
}

/// Each instruction is in one block at most, and each successor is a block.
fn check_blocks<D: Decoder>(function: &SweptFunction<'_, D>, blocks: &[Block]) {
    let starts: HashSet<u64> = blocks.iter().map(|block| block.address).collect();
    assert_eq!(starts.len(), blocks.len());
    let successors = blocks.iter().flat_map(|block| [block.next, block.target]);
    for successor in successors.flatten() {
        assert!(starts.contains(&successor), "{successor:x} {blocks:x?}");
    }
    let mut ahead = blocks.iter();
    let mut block: Option<&Block> = None;
    for (address, insn) in function.instructions() {
        if starts.contains(&address) {
            assert!(block.is_none());
            block = ahead.next();
            assert_eq!(block.map(|block| block.address), Some(address));
        }
        match block {
            Some(of) if of.last == address => block = None,
            Some(_) => assert!(!matches!(
                insn.flow,
                Flow::Jump(_) | Flow::Branch(_) | Flow::Return | Flow::FarReturn | Flow::Trap
            )),
            None => assert!(matches!(insn.flow, Flow::Nop | Flow::Breakpoint)),
        }
    }
    assert!(block.is_none() && ahead.next().is_none());
}

// SPDX-License-Identifier: GPL-2.0

//! Instructions of both architectures.
//!
//! The input is an address, and the text that is there.
//!
//! An instruction is within the text, its bytes alone tell that it is one, and where it leads moves
//! with its address. For x86-64, iced-x86 says the same of it, or it is known why it does not.

#![no_main]

use fuzz::{
    keep,
    measure,
    oracle, //
};
use libfuzzer_sys::{
    fuzz_target,
    Corpus, //
};
use probe::insn::{
    arm64::{
        self,
        Arm64, //
    },
    x86::{
        self,
        X86, //
    },
    Decoder,
    Flow,
    Insn, //
};

/// The most steps for one instruction.
const MOST: u64 = 200;

/// How far a branch of arm64 leads at most, in bytes.
const REACH: i64 = 128 << 20;

fuzz_target!(|input: &[u8]| -> Corpus { keep(run(input)) });

fn run(input: &[u8]) -> Option<()> {
    let (address, text) = input.split_first_chunk()?;
    let address = u64::from_le_bytes(*address);
    each::<X86>(text, address, |rest, here, insn| {
        if let Err(error) = oracle::compare(rest, here) {
            panic!("{rest:02x?}: {error}");
        }
        assert!(insn.is_none_or(|insn| usize::from(insn.len) <= x86::MAX_LEN));
    });
    each::<Arm64>(text, address, |rest, here, insn| {
        let class = rest
            .first_chunk()
            .map(|word| arm64::Class::of(u32::from_le_bytes(*word)));
        assert_eq!(class.flatten().is_some(), insn.is_some());
        let target = insn.and_then(|insn| match insn.flow {
            Flow::Literal(target) => Some(target),
            flow => flow.target(),
        });
        if let Some(target) = target {
            let distance = target.wrapping_sub(here) as i64;
            assert!(distance % 4 == 0 && (-REACH..REACH).contains(&distance));
        }
        assert!(insn.is_none_or(|insn| insn.len == 4));
    });
    Some(())
}

/// Each instruction, or what is none, one after the other.
fn each<D: Decoder>(text: &[u8], address: u64, check: impl Fn(&[u8], u64, Option<Insn>)) {
    let mut offset = 0;
    while let Some(rest) = text.get(offset..).filter(|rest| !rest.is_empty()) {
        let here = address.wrapping_add(offset as u64);
        let (insn, steps) = measure(|| D::decode(rest, here));
        assert!(steps < MOST, "{steps} steps");
        if let Some(insn) = insn {
            check_alone::<D>(rest, here, insn);
        }
        check(rest, here, insn);
        offset += insn.map_or(D::UNIT, |insn| usize::from(insn.len));
    }
}

/// What holds for an instruction of any architecture.
fn check_alone<D: Decoder>(text: &[u8], address: u64, insn: Insn) {
    let len = usize::from(insn.len);
    assert!(len > 0 && len <= text.len());
    assert_eq!(D::decode(&text[..len], address), Some(insn));
    for cut in 0..len {
        assert_eq!(D::decode(&text[..cut], address), None);
    }
    const BY: u64 = 0x1234_5678_9abc;
    let moved = D::decode(text, address.wrapping_add(BY)).map(|moved| moved.flow);
    let by = |target: u64| target.wrapping_add(BY);
    let expected = match insn.flow {
        Flow::Call(target) => Flow::Call(by(target)),
        Flow::Branch(target) => Flow::Branch(by(target)),
        Flow::Literal(target) => Flow::Literal(by(target)),
        // jmpabs names its target.
        Flow::Jump(target) if moved != Some(insn.flow) => Flow::Jump(by(target)),
        flow => flow,
    };
    assert_eq!(moved, Some(expected));
}

// SPDX-License-Identifier: GPL-2.0

//! What holds for any function: the sweep ends, in linear work, and finds what was put there.

use probe::insn::{
    arm64::Arm64,
    exits::{
        ExitKind,
        Part,
        Verdict, //
    },
    x86::X86, //
};
use proptest::prelude::*;

use crate::{
    any::ask,
    builder::*, //
};

/// Bytes of which many are instructions of one byte or branches.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        any::<u8>(),
        Just(0x90),
        Just(0xc3),
        Just(0xcc),
        0x70..=0x7f_u8,
        Just(0xeb),
        Just(0x53),
        0..8_u8,
    ];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        prop::collection::vec(byte, 0..300),
    ]
}

/// Addresses at which arithmetic could go wrong, among others.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(ENTRY),
        any::<u64>(),
        0..300_u64,
        (0..300_u64).prop_map(|n| u64::MAX - n)
    ]
}

/// An instruction of a function that is made up.
#[derive(Clone, Debug)]
enum Step {
    Plain(Vec<u8>),
    Nop,
    Trap,
    Return(Vec<u8>),
    ReturnThunk,
    Call,
    /// To the instruction of an index, by a jump or a branch.
    Inner(prop::sample::Index, bool),
    Outer(bool),
    Indirect(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let plain = prop::sample::select(vec![
        vec![0x53],
        vec![0x48, 0x89, 0xc3],
        vec![0xb8, 0xc3, 0xc3, 0xc3, 0xc3],
        vec![0x48, 0xc7, 0x83, 0xc3, 0, 0, 0, 0xe9, 0, 0, 0],
        vec![0xc5, 0xf8, 0x77],
    ]);
    let returns = prop::sample::select(vec![vec![0xc3], vec![0xf3, 0xc3], vec![0xc2, 0, 0]]);
    let indirect = prop::sample::select(vec![vec![0xff, 0xe0], vec![0x41, 0xff, 0xe3]]);
    prop_oneof![
        6 => plain.prop_map(Step::Plain),
        2 => Just(Step::Nop),
        1 => Just(Step::Trap),
        1 => returns.prop_map(Step::Return),
        1 => Just(Step::ReturnThunk),
        1 => Just(Step::Call),
        3 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(to, is)| Step::Inner(to, is)),
        1 => any::<bool>().prop_map(Step::Outer),
        1 => indirect.prop_map(Step::Indirect),
    ]
}

impl Step {
    fn len(&self) -> u64 {
        match self {
            Self::Plain(bytes) | Self::Return(bytes) | Self::Indirect(bytes) => bytes.len() as u64,
            Self::Nop | Self::ReturnThunk | Self::Call => 5,
            Self::Trap => 2,
            Self::Inner(_, is_conditional) | Self::Outer(is_conditional) => {
                5 + u64::from(*is_conditional)
            }
        }
    }

    fn write(&self, text: Text, starts: &[u64]) -> Text {
        let opcode = |is_conditional| match is_conditional {
            true => &[0x0f, 0x84][..],
            false => &[0xe9],
        };
        match self {
            Self::Plain(bytes) | Self::Return(bytes) | Self::Indirect(bytes) => text.raw(bytes),
            Self::Nop => text.raw(&[0x0f, 0x1f, 0x44, 0x00, 0x00]),
            Self::Trap => text.raw(&[0x0f, 0x0b]),
            Self::ReturnThunk => text.to(&[0xe9], RETURN_THUNK),
            Self::Call => text.to(&[0xe8], OTHER),
            Self::Inner(to, is_conditional) => text.to(opcode(*is_conditional), *to.get(starts)),
            Self::Outer(is_conditional) => text.to(opcode(*is_conditional), OTHER),
        }
    }

    fn exit(&self, starts: &[u64]) -> Option<ExitKind> {
        let tail = |target, is_conditional| ExitKind::TailCall {
            target,
            is_conditional,
        };
        match *self {
            Self::Return(_) => Some(ExitKind::Return),
            Self::ReturnThunk => Some(ExitKind::ReturnThunk),
            Self::Indirect(_) => Some(ExitKind::IndirectTailCall),
            Self::Outer(is_conditional) => Some(tail(OTHER, is_conditional)),
            // To its own entry.
            Self::Inner(to, is_conditional) if *to.get(starts) == ENTRY => {
                Some(tail(ENTRY, is_conditional))
            }
            _ => None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_bytes_are_swept_in_linear_work(
        parts in prop::collection::vec((address(), bytes()), 0..4),
    ) {
        let parts: Vec<_> = parts.iter().map(|(address, text)| Part { address: *address, text }).collect();
        ask::<X86>(&parts, destination);
        ask::<Arm64>(&parts, destination);
    }

    /// What was put into a function is found there, all of it and nothing else.
    #[test]
    fn exits_are_those_that_were_put_there(
        steps in prop::collection::vec(step(), 1..60),
        padding in 0..3_usize,
    ) {
        // It ends, and is entered by something that is no padding.
        let steps: Vec<Step> = [Step::Plain(vec![0x53])]
            .into_iter()
            .chain(steps)
            .chain([Step::Return(vec![0xc3])])
            .collect();
        let mut end = ENTRY;
        let starts: Vec<u64> = steps.iter().map(|step| {
            let start = end;
            end += step.len();
            start
        }).collect();
        let text = steps.iter().fold(Text::at(ENTRY), |text, step| step.write(text, &starts));
        prop_assert_eq!(text.bytes.len() as u64, end - ENTRY);
        let text = (0..padding).fold(text, |text, _| Step::Nop.write(text, &[]));

        let expected: Vec<(u64, ExitKind)> = steps
            .iter()
            .zip(&starts)
            .filter_map(|(step, start)| Some((start - ENTRY, step.exit(&starts)?)))
            .collect();
        ask::<X86>(&[Part { address: ENTRY, text: &text.bytes }], destination);
        let (found, verdict) = exits::<X86>(&[text]).unwrap();
        prop_assert_eq!(&found, &expected);
        let is_return = |kind| matches!(kind, ExitKind::Return | ExitKind::ReturnThunk);
        match expected.iter().find(|(_, kind)| !is_return(*kind)) {
            None => prop_assert_eq!(verdict, Verdict::Returns),
            Some((offset, kind)) => {
                let Verdict::TailCall(exit) = verdict else {
                    panic!("{verdict:?}");
                };
                prop_assert_eq!((exit.address - ENTRY, exit.kind), (*offset, *kind));
            }
        }
    }
}

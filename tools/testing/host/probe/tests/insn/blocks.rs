// SPDX-License-Identifier: GPL-2.0

//! Functions of every shape, and their blocks.

use probe::insn::{
    arm64::Arm64,
    blocks::{
        Block,
        Blocks,
        UnknownBlocks, //
    },
    exits::{
        Part,
        SweptFunction, //
    },
    x86::X86,
    Decoder, //
};

use crate::builder::*;

const RET: &[u8] = &[0xc3];
const INT3: &[u8] = &[0xcc];
const PUSH: &[u8] = &[0x53];
const ENDBR: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
const NOP5: &[u8] = &[0x0f, 0x1f, 0x44, 0x00, 0x00];
const UD2: &[u8] = &[0x0f, 0x0b];
const JMP: &[u8] = &[0xe9];
const CALL: &[u8] = &[0xe8];
const JNE: &[u8] = &[0x0f, 0x85];

/// The offset of a block, and the offsets of those that can run after it.
type Found = (u64, Option<u64>, Option<u64>);

fn find<D: Decoder>(texts: &[Text]) -> Result<Vec<Block>, UnknownBlocks> {
    let part = |text: &'static Text| Part {
        address: text.address,
        text: &text.bytes,
    };
    let texts: Vec<Text> = texts
        .iter()
        .map(|text| Text::at(text.address).raw(&text.bytes))
        .collect();
    let parts: Vec<Part<'_>> = Vec::leak(texts).iter().map(part).collect();
    let words = SweptFunction::<D>::words(&parts);
    let (mut starts, mut targets) = (vec![u64::MAX; words], vec![u64::MAX; words]);
    let function = SweptFunction::<D>::sweep(&parts, &mut starts).unwrap();
    let blocks = Blocks::find(&function, &mut targets, destination)?;
    Ok(blocks.collect())
}

#[track_caller]
fn are<D: Decoder>(texts: &[Text], expected: &[Found]) {
    let offset = |address: u64| match address {
        COLD.. => address - COLD + 0x1000,
        _ => address - ENTRY,
    };
    let blocks = find::<D>(texts).unwrap();
    let found: Vec<Found> = blocks
        .iter()
        .map(|block| {
            let [next, target] = [block.next, block.target].map(|to| to.map(offset));
            (offset(block.address), next, target)
        })
        .collect();
    assert_eq!(found, expected);
}

fn entry() -> Text {
    Text::at(ENTRY)
}

#[test]
fn a_function_without_branches_is_one_block() {
    are::<X86>(&[entry().raw(RET)], &[(0, None, None)]);
    are::<X86>(
        &[entry()
            .raw(ENDBR)
            .raw(NOP5)
            .to(CALL, OTHER)
            .raw(PUSH)
            .raw(RET)
            .raw(INT3)],
        &[(0, None, None)],
    );
    // The last call does not return.
    are::<X86>(&[entry().to(CALL, OTHER).raw(INT3)], &[(0, None, None)]);
    // It ends with a tail call, or by falling through.
    are::<X86>(&[entry().raw(PUSH).to(JMP, OTHER)], &[(0, None, None)]);
    are::<X86>(&[entry().raw(PUSH)], &[(0, None, None)]);
}

#[test]
fn branches_and_their_targets_separate_blocks() {
    // jne 1f; ret; 1: push; ret
    are::<X86>(
        &[entry().to(JNE, ENTRY + 7).raw(RET).raw(PUSH).raw(RET)],
        &[(0, Some(6), Some(7)), (6, None, None), (7, None, None)],
    );
    // push; 1: push; jne 1b; ret
    are::<X86>(
        &[entry().raw(PUSH).raw(PUSH).to(JNE, ENTRY + 1).raw(RET)],
        &[(0, Some(1), None), (1, Some(8), Some(1)), (8, None, None)],
    );
    // A conditional tail call, and one to the own entry.
    for target in [OTHER, ENTRY, ENTRY + 4] {
        are::<X86>(
            &[entry().raw(ENDBR).to(JNE, target).raw(RET)],
            &[(0, Some(10), None), (10, None, None)],
        );
    }
    // Into another part and back.
    are::<X86>(
        &[
            entry().to(JNE, COLD).raw(RET),
            Text::at(COLD).raw(PUSH).to(JMP, ENTRY + 6),
        ],
        &[
            (0, Some(6), Some(0x1000)),
            (6, None, None),
            (0x1000, None, Some(6)),
        ],
    );
    // At the end of the function, nothing follows a branch.
    are::<X86>(&[entry().to(JNE, ENTRY)], &[(0, None, None)]);
}

#[test]
fn code_behind_a_jump_is_a_block_although_nothing_leads_to_it() {
    are::<X86>(
        &[entry().raw(RET).raw(PUSH).raw(RET)],
        &[(0, None, None), (1, None, None)],
    );
    are::<X86>(
        &[entry().to(JMP, ENTRY + 6).raw(PUSH).raw(RET)],
        &[(0, None, Some(6)), (5, Some(6), None), (6, None, None)],
    );
    // So is a landing pad.
    are::<X86>(
        &[entry().raw(PUSH).raw(ENDBR).raw(RET)],
        &[(0, Some(1), None), (1, None, None)],
    );
}

#[test]
fn padding_is_in_no_block() {
    // jne 1f; ret; nop; 1: ret; and nops at the end
    are::<X86>(
        &[entry()
            .to(JNE, ENTRY + 12)
            .raw(RET)
            .raw(NOP5)
            .raw(RET)
            .raw(NOP5)],
        &[(0, Some(6), Some(12)), (6, None, None), (12, None, None)],
    );
    are::<X86>(
        &[entry()
            .to(JNE, ENTRY + 9)
            .raw(RET)
            .raw(INT3)
            .raw(INT3)
            .raw(RET)
            .raw(INT3)],
        &[(0, Some(6), Some(9)), (6, None, None), (9, None, None)],
    );
    // A breakpoint and nops after a call that does not return.
    are::<X86>(
        &[entry()
            .to(JNE, ENTRY + 17)
            .to(CALL, OTHER)
            .raw(INT3)
            .raw(NOP5)
            .raw(RET)],
        &[(0, Some(6), Some(17)), (6, None, None), (17, None, None)],
    );
    // Nops that run are in a block, and one that a jump leads to starts one.
    are::<X86>(
        &[entry().to(JNE, ENTRY + 11).raw(NOP5).raw(RET)],
        &[
            (0, Some(6), Some(11)),
            (6, Some(11), None),
            (11, None, None),
        ],
    );
    are::<X86>(
        &[entry().to(JNE, ENTRY + 7).raw(RET).raw(NOP5).raw(RET)],
        &[(0, Some(6), Some(7)), (6, None, None), (7, None, None)],
    );
}

#[test]
fn the_kernel_may_continue_after_a_trap() {
    are::<X86>(
        &[entry().raw(PUSH).raw(UD2).raw(PUSH).raw(RET)],
        &[(0, Some(3), None), (3, None, None)],
    );
    are::<X86>(&[entry().raw(PUSH).raw(UD2)], &[(0, None, None)]);
    are::<X86>(&[entry().raw(UD2).raw(INT3)], &[(0, None, None)]);
    // After padding.
    are::<X86>(
        &[entry().raw(UD2).raw(NOP5).raw(RET)],
        &[(0, Some(7), None), (7, None, None)],
    );
}

#[test]
fn a_jump_to_anywhere_leaves_the_blocks_unknown() {
    let jump = |text: Text| find::<X86>(&[text.raw(INT3)]);
    let unknown = |offset| Err(UnknownBlocks::Jump(ENTRY + offset));
    assert_eq!(jump(entry().raw(PUSH).raw(&[0xff, 0xe0])), unknown(1));
    assert_eq!(jump(entry().to(JMP, INDIRECT_THUNK)), unknown(0));
    // To a part that is missing.
    assert_eq!(jump(entry().raw(PUSH).to(JMP, COLD)), unknown(1));
    // br x16
    let text = entry().words(&[0xd61f_0200]);
    let unknown = Err(UnknownBlocks::Jump(ENTRY));
    assert_eq!(find::<Arm64>(&[text]), unknown);
}

#[test]
fn blocks_of_arm64() {
    const NOP: u32 = 0xd503_201f;
    const RET: u32 = 0xd65f_03c0;
    const BTI_C: u32 = 0xd503_245f;
    const BRK: u32 = 0xd421_0000;
    // bti c; cbz x0, 1f; add x0, x0, #1; ret; nop; 1: b 2f; brk; 2: ret
    let text = entry().words(&[
        BTI_C,
        0xb400_0080,
        0x9100_0400,
        RET,
        NOP,
        0x1400_0002,
        BRK,
        RET,
    ]);
    are::<Arm64>(
        &[text],
        &[
            (0, Some(8), Some(0x14)),
            (8, None, None),
            (0x14, None, Some(0x1c)),
            (0x18, Some(0x1c), None),
            (0x1c, None, None),
        ],
    );
}

#[test]
fn too_little_memory_is_an_error() {
    let parts = [Part {
        address: ENTRY,
        text: RET,
    }];
    let mut starts = [0];
    let function = SweptFunction::<X86>::sweep(&parts, &mut starts).unwrap();
    let blocks = Blocks::find(&function, &mut [], destination);
    assert_eq!(blocks.err(), Some(UnknownBlocks::Memory));
}

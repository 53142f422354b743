// SPDX-License-Identifier: GPL-2.0

//! The targets outside of a function.

use probe::insn::{
    arm64::Arm64,
    outside_targets,
    x86::X86,
    Decoder, //
};
use proptest::prelude::*;

fn targets<D: Decoder>(text: &[u8]) -> Vec<u64> {
    outside_targets::<D>(text, 0x1000).collect()
}

#[test]
fn calls_jumps_and_branches_of_x86() {
    let mut text = vec![];
    // endbr64; call 0x1000 (itself); call 0x3000
    text.extend([0xf3, 0x0f, 0x1e, 0xfa]);
    text.extend([0xe8, 0xf7, 0xff, 0xff, 0xff]);
    text.extend([0xe8, 0xf2, 0x1f, 0, 0]);
    // je 0x1000; jne 0x4000; call *%rax; jmp 0x2000
    text.extend([0x74, 0xf0]);
    text.extend([0x0f, 0x85, 0xea, 0x2f, 0, 0]);
    text.extend([0xff, 0xd0]);
    text.extend([0xe9, 0xe3, 0x0f, 0, 0]);
    assert_eq!(targets::<X86>(&text), [0x3000, 0x4000, 0x2000]);
    // A call to the end of the text is one to the next function.
    assert_eq!(targets::<X86>(&[0xe8, 0, 0, 0, 0]), [0x1005]);
}

#[test]
fn a_breakpoint_hides_one_byte() {
    // int3; call 0x2000, with padding after it.
    let text = [0xcc, 0xe8, 0xfa, 0x0f, 0, 0, 0xcc, 0xcc];
    assert_eq!(targets::<X86>(&text), [0x2000]);
}

#[test]
fn calls_jumps_and_branches_of_arm64() {
    let text: Vec<u8> = [
        0x9400_0400u32, // bl 0x2000
        0x5400_8000,    // b.eq 0x2004
        0xb4ff_ffc0,    // cbz x0, 0x1000
        0xd63f_0000,    // blr x0
        0x1400_0800,    // b 0x3010
    ]
    .iter()
    .flat_map(|insn| insn.to_le_bytes())
    .collect();
    assert_eq!(targets::<Arm64>(&text), [0x2000, 0x2004, 0x3010]);
}

proptest! {
    #[test]
    fn any_text_ends(text in prop::collection::vec(any::<u8>(), 0..256)) {
        let end = 0x1000 + text.len() as u64;
        for target in targets::<X86>(&text).into_iter().chain(targets::<Arm64>(&text)) {
            prop_assert!(!(0x1000..end).contains(&target));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! x86-64, by tables and against iced-x86.

use std::collections::HashMap;

use probe::insn::{
    x86,
    Flow, //
};
use proptest::prelude::*;

use crate::oracle::{
    self,
    Outcome, //
};

const ADDRESS: u64 = 0xffff_ffff_8100_0000;

/// What comes after the first bytes of an instruction.
const REST: &[u8] = &[
    0x81, 0x92, 0xa3, 0x04, 0x15, 0x26, 0x37, 0x48, 0x59, 0x6a, 0x7b, 0x8c,
];

/// Instructions that lead elsewhere, as kernels have them. Targets are relative to the end.
const FLOWS: &[(&[u8], Flow)] = &[
    (&[0xc3], Flow::Return),
    (&[0xf3, 0xc3], Flow::Return),
    (&[0xf2, 0xc3], Flow::Return),
    (&[0xc2, 0x00, 0x00], Flow::Return),
    (&[0xc2, 0x08, 0x00], Flow::ReturnPop),
    (&[0xcb], Flow::FarReturn),
    (&[0xca, 0x08, 0x00], Flow::FarReturn),
    (&[0xcf], Flow::FarReturn),
    (&[0x48, 0xcf], Flow::FarReturn),
    (&[0x48, 0x0f, 0x07], Flow::FarReturn),
    (&[0x0f, 0x35], Flow::FarReturn),
    (&[0x0f, 0xaa], Flow::FarReturn),
    (&[0xf2, 0x0f, 0x01, 0xca], Flow::FarReturn),
    (&[0xf3, 0x0f, 0x01, 0xca], Flow::FarReturn),
    // clac
    (&[0x0f, 0x01, 0xca], Flow::Next),
    (&[0xff, 0x2f], Flow::FarReturn),
    (&[0xe8, 0xf0, 0xff, 0xff, 0xff], Flow::Call(ADDRESS - 0x10)),
    (&[0x2e, 0xe8, 0x10, 0, 0, 0], Flow::Call(ADDRESS + 0x10)),
    (&[0xff, 0xd0], Flow::IndirectCall),
    (&[0x41, 0xff, 0xd3], Flow::IndirectCall),
    (&[0x2e, 0xff, 0xd0], Flow::IndirectCall),
    (&[0xff, 0x15, 0, 0, 0, 0], Flow::IndirectCall),
    (&[0xff, 0x1f], Flow::IndirectCall),
    (&[0xe9, 0x10, 0, 0, 0], Flow::Jump(ADDRESS + 0x10)),
    (&[0x2e, 0xe9, 0x10, 0, 0, 0], Flow::Jump(ADDRESS + 0x10)),
    (&[0x48, 0xe9, 0x10, 0, 0, 0], Flow::Jump(ADDRESS + 0x10)),
    // Where a prefix was put for alignment, and what operand size it has does not matter.
    (
        &[0x66, 0x48, 0xe9, 0x10, 0, 0, 0],
        Flow::Jump(ADDRESS + 0x10),
    ),
    (&[0xeb, 0x80], Flow::Jump(ADDRESS - 0x80)),
    (&[0xff, 0xe0], Flow::IndirectJump),
    (&[0x41, 0xff, 0xe3], Flow::IndirectJump),
    (&[0x3e, 0xff, 0xe0], Flow::IndirectJump),
    (&[0xff, 0x24, 0xc5, 0, 0, 0, 0], Flow::IndirectJump),
    (&[0xff, 0x77, 0x08], Flow::Next),
    (&[0x74, 0x7f], Flow::Branch(ADDRESS + 0x7f)),
    (&[0x2e, 0x75, 0x10], Flow::Branch(ADDRESS + 0x10)),
    (&[0x0f, 0x85, 0x10, 0, 0, 0], Flow::Branch(ADDRESS + 0x10)),
    (
        &[0x3e, 0x0f, 0x84, 0x10, 0, 0, 0],
        Flow::Branch(ADDRESS + 0x10),
    ),
    (&[0xe2, 0xfe], Flow::Branch(ADDRESS - 2)),
    (&[0xe3, 0x10], Flow::Branch(ADDRESS + 0x10)),
    (&[0x67, 0xe3, 0x10], Flow::Branch(ADDRESS + 0x10)),
    (&[0xc7, 0xf8, 0x10, 0, 0, 0], Flow::Branch(ADDRESS + 0x10)),
    (&[0xc6, 0xf8, 0xff], Flow::Next),
    (&[0xcc], Flow::Breakpoint),
    (&[0xd6], Flow::Trap),
    (&[0x0f, 0x0b], Flow::Trap),
    (&[0x67, 0x0f, 0xb9, 0x40, 0x0e], Flow::Trap),
    (&[0x0f, 0xff, 0xc0], Flow::Trap),
    (&[0xcd, 0x80], Flow::Next),
    (&[0xf3, 0x0f, 0x1e, 0xfa], Flow::Landing),
    // rdsspq
    (&[0xf3, 0x48, 0x0f, 0x1e, 0xc8], Flow::Next),
    (&[0x90], Flow::Nop),
    (&[0x66, 0x90], Flow::Nop),
    (&[0x0f, 0x1f, 0x44, 0x00, 0x00], Flow::Nop),
    (&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], Flow::Nop),
    // What stands for an endbr64 that nothing needs: nopl -42(%rax)
    (&[0x0f, 0x1f, 0x40, 0xd6], Flow::Nop),
    // pause; xchg %r8,%rax
    (&[0xf3, 0x90], Flow::Next),
    (&[0x49, 0x90], Flow::Next),
];

/// A c3 that is no instruction.
const OTHERS: &[&[u8]] = &[
    &[0xb8, 0xc3, 0xc3, 0xc3, 0xc3],
    &[0x48, 0xb8, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3],
    &[0x48, 0x8b, 0x80, 0xc3, 0x00, 0x00, 0x00],
    &[0x48, 0x89, 0xc3],
    &[0x83, 0xc3, 0xc3],
    &[0x48, 0x8b, 0x44, 0xc3, 0xc3],
    &[0x66, 0x81, 0xc3, 0xc3, 0x00],
    &[0x48, 0xc7, 0x83, 0xc3, 0, 0, 0, 0xc3, 0, 0, 0],
    &[0x48, 0xa1, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3],
    &[0x67, 0xa0, 0xc3, 0xc3, 0xc3, 0xc3],
    &[0xc8, 0xc3, 0xc3, 0xc3],
    &[0x66, 0x0f, 0x3a, 0x0f, 0xc3, 0xc3],
    &[0xc4, 0xe3, 0x7d, 0x19, 0xc3, 0x01],
    &[0x62, 0xf3, 0x65, 0x48, 0x25, 0xc3, 0xc3],
    &[0xc5, 0xf8, 0x77],
    &[0x0f, 0x22, 0xc3],
    &[0x0f, 0x22, 0x1c],
    &[0x0f, 0x0f, 0xc3, 0x9e],
    &[0xf2, 0x0f, 0x78, 0xc3, 0xc3, 0xc3],
    &[0x66, 0x0f, 0x78, 0xc3, 0xc3, 0xc3],
    &[0x0f, 0x78, 0xc3],
];

/// What iced-x86 does not know, as binutils has it: APX, and model-specific registers by number.
const NEW: &[(&[u8], Flow)] = &[
    // add %r16,%r17
    (&[0xd5, 0x58, 0x01, 0xc1], Flow::Next),
    // mov $0x12345678,%r16d
    (&[0xd5, 0x10, 0xb8, 0x78, 0x56, 0x34, 0x12], Flow::Next),
    // movabs $0x123456789abcdef0,%r31
    (
        &[
            0xd5, 0x19, 0xbf, 0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12,
        ],
        Flow::Next,
    ),
    // mov 0x10(%r20,%r21,4),%r22
    (&[0xd5, 0x78, 0x8b, 0x74, 0xac, 0x10], Flow::Next),
    // imul $0x12345,%r16,%rax
    (
        &[0xd5, 0x18, 0x69, 0xc0, 0x45, 0x23, 0x01, 0x00],
        Flow::Next,
    ),
    // imul $0x1234,%r16w,%bx
    (&[0x66, 0xd5, 0x10, 0x69, 0xd8, 0x34, 0x12], Flow::Next),
    // bswap %r16
    (&[0xd5, 0x98, 0xc8], Flow::Next),
    // movzbl (%r16),%eax
    (&[0xd5, 0x90, 0xb6, 0x00], Flow::Next),
    // pushp %rax
    (&[0xd5, 0x08, 0x50], Flow::Next),
    // jmpabs $0xffffffff81000040
    (
        &[
            0xd5, 0x00, 0xa1, 0x40, 0x00, 0x00, 0x81, 0xff, 0xff, 0xff, 0xff,
        ],
        Flow::Jump(0xffff_ffff_8100_0040),
    ),
    // call *%r16; jmp *%r17
    (&[0xd5, 0x10, 0xff, 0xd0], Flow::IndirectCall),
    (&[0xd5, 0x10, 0xff, 0xe1], Flow::IndirectJump),
    // nop; xchg %r16,%rax
    (&[0xd5, 0x00, 0x90], Flow::Nop),
    (&[0xd5, 0x18, 0x90], Flow::Next),
    // test $0x1,%r16b; test $0x12345678,%r16; not %r16
    (&[0xd5, 0x10, 0xf6, 0xc0, 0x01], Flow::Next),
    (
        &[0xd5, 0x18, 0xf7, 0xc0, 0x78, 0x56, 0x34, 0x12],
        Flow::Next,
    ),
    (&[0xd5, 0x18, 0xf7, 0xd0], Flow::Next),
    // add %r16,%rax,%rbx
    (&[0x62, 0xe4, 0xe4, 0x18, 0x01, 0xc0], Flow::Next),
    // add $0x12,%r16,%rbx
    (&[0x62, 0xfc, 0xe4, 0x18, 0x83, 0xc0, 0x12], Flow::Next),
    // add $0x12345,%r16,%rbx
    (
        &[0x62, 0xfc, 0xe4, 0x18, 0x81, 0xc0, 0x45, 0x23, 0x01, 0x00],
        Flow::Next,
    ),
    // add $0x1234,%r16w,%bx
    (
        &[0x62, 0xfc, 0x65, 0x18, 0x81, 0xc0, 0x34, 0x12],
        Flow::Next,
    ),
    // {evex} not %rax
    (&[0x62, 0xf4, 0xfc, 0x08, 0xf7, 0xd0], Flow::Next),
    // ctestt $0x12,%r16b; of 16 and 32 bits
    (&[0x62, 0xfc, 0x04, 0x0a, 0xf6, 0xc0, 0x12], Flow::Next),
    (
        &[0x62, 0xfc, 0x05, 0x0a, 0xf7, 0xc0, 0x34, 0x12],
        Flow::Next,
    ),
    (
        &[0x62, 0xfc, 0x04, 0x0a, 0xf7, 0xc0, 0x78, 0x56, 0x34, 0x12],
        Flow::Next,
    ),
    // shld $4,%r16,%rax,%rbx
    (&[0x62, 0xe4, 0xe4, 0x18, 0x24, 0xc0, 0x04], Flow::Next),
    // {nf} popcnt %r16,%rax
    (&[0x62, 0xfc, 0xfc, 0x0c, 0x88, 0xc0], Flow::Next),
    // push2 %rax,%rbx; pop2 %rax,%rbx
    (&[0x62, 0xf4, 0x64, 0x18, 0xff, 0xf0], Flow::Next),
    (&[0x62, 0xf4, 0x64, 0x18, 0x8f, 0xc0], Flow::Next),
    // urdmsr $0x12345678,%rax; to %r16
    (
        &[0xc4, 0xe7, 0x7b, 0xf8, 0xc0, 0x78, 0x56, 0x34, 0x12],
        Flow::Next,
    ),
    (
        &[0x62, 0xff, 0x7f, 0x08, 0xf8, 0xc0, 0x78, 0x56, 0x34, 0x12],
        Flow::Next,
    ),
];

/// What is refused, whatever comes after it.
const REFUSED: &[&[u8]] = &[
    // Not defined in 64-bit mode.
    &[0x06],
    &[0x27],
    &[0x60],
    &[0x82],
    &[0x9a],
    &[0xce],
    &[0xd4],
    &[0xea],
    &[0x0f, 0x04],
    &[0x0f, 0x24],
    &[0x0f, 0x3b],
    &[0xfe, 0xd0],
    &[0xff, 0xf8],
    &[0xff, 0xd8],
    &[0xc7, 0xc8],
    &[0x8f, 0xc8],
    // Near branches with the operand-size prefix.
    &[0x66, 0xe9],
    &[0x66, 0xe8],
    &[0x66, 0x0f, 0x84],
    &[0x66, 0x74],
    &[0x66, 0xc3],
    &[0x66, 0xff, 0xe0],
    // VEX, EVEX and REX2 after what they replace, in a map that there is not, with an opcode that
    // has no such form.
    &[0x66, 0xc5, 0xf8, 0x77],
    &[0x48, 0xc5, 0xf8, 0x77],
    &[0xf3, 0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0],
    &[0x48, 0xd5, 0x00, 0x90],
    &[0xc4, 0xe4, 0x7d, 0x19, 0xc3],
    &[0xc5, 0xf8, 0x0b],
    &[0x62, 0xf0, 0x7c, 0x48, 0x58],
    &[0x62, 0xf1, 0x7c, 0x48, 0x77],
    &[0xd5, 0x00, 0x74],
    &[0xd5, 0x00, 0xe9],
    &[0xd5, 0x80, 0x84],
    &[0xd5, 0x00, 0x0f],
    // Longer than 15 bytes.
    &[0x2e; 14],
    &[0x66; 12],
];

fn with_rest(bytes: &[u8]) -> Vec<u8> {
    [bytes, REST].concat()
}

/// That these bytes and no others are an instruction.
fn assert_len(bytes: &[u8]) -> Flow {
    let address = ADDRESS.wrapping_sub(bytes.len() as u64);
    let insn = x86::decode(&with_rest(bytes), address).unwrap_or_else(|| panic!("{bytes:02x?}"));
    assert_eq!(usize::from(insn.len), bytes.len(), "{bytes:02x?}");
    assert_eq!(x86::decode(bytes, address), Some(insn), "{bytes:02x?}");
    for len in 0..bytes.len() {
        assert_eq!(
            x86::decode(&bytes[..len], address),
            None,
            "{bytes:02x?} cut at {len}"
        );
    }
    insn.flow
}

#[test]
fn flow_and_length_are_those_of_the_manuals() {
    for (bytes, flow) in FLOWS.iter().chain(NEW) {
        assert_eq!(assert_len(bytes), *flow, "{bytes:02x?}");
    }
}

#[test]
fn a_ret_within_an_instruction_is_none() {
    for bytes in OTHERS {
        assert_eq!(assert_len(bytes), Flow::Next, "{bytes:02x?}");
    }
}

#[test]
fn what_is_not_certain_is_refused() {
    for bytes in REFUSED {
        assert_eq!(x86::decode(&with_rest(bytes), 0), None, "{bytes:02x?}");
    }
    // The longest.
    let mut longest = [0x2e; 15];
    longest[14] = 0x90;
    assert_eq!(assert_len(&longest), Flow::Nop);
}

#[test]
fn thunks_are_known_by_name() {
    for name in [
        "__x86_return_thunk",
        "retbleed_return_thunk",
        "srso_return_thunk",
        "srso_alias_return_thunk",
        "call_depth_return_thunk",
        "its_return_thunk",
        "__pi___x86_return_thunk",
    ] {
        assert!(x86::is_return_thunk(name), "{name}");
        assert!(!x86::is_indirect_thunk(name), "{name}");
    }
    for name in [
        "__x86_indirect_thunk_rax",
        "__x86_indirect_jump_thunk_r11",
        "__x86_indirect_call_thunk_r8",
        "__x86_indirect_its_thunk_rdx",
        "__x86_indirect_thunk_array",
        "__pi___x86_indirect_thunk_rax",
    ] {
        assert!(x86::is_indirect_thunk(name), "{name}");
        assert!(!x86::is_return_thunk(name), "{name}");
    }
    for name in [
        "vfs_read",
        "srso_untrain_ret",
        "return_thunk",
        "indirect_thunk_rax",
        "",
    ] {
        assert!(
            !x86::is_return_thunk(name) && !x86::is_indirect_thunk(name),
            "{name}"
        );
    }
}

/// Each opcode of each map, with the prefixes and operands that can change what follows it.
#[test]
fn each_opcode_is_decoded_as_iced_does() {
    const PREFIXES: [&[u8]; 9] = [
        &[],
        &[0x66],
        &[0x67],
        &[0xf2],
        &[0xf3],
        &[0x41],
        &[0x48],
        &[0x66, 0x48],
        &[0x48, 0x66],
    ];
    const MAPS: [&[u8]; 4] = [&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    let mut heads = vec![];
    for prefix in PREFIXES {
        heads.extend(MAPS.map(|map| [prefix, map].concat()));
    }
    for pp in 0..4 {
        heads.push(vec![0xc5, 0x78 | pp]);
        for map in 0..8 {
            heads.push(vec![0xc4, 0xe0 | map, 0x78 | pp]);
            heads.push(vec![0x62, 0xf0 | map, 0x7c | pp, 0x48]);
        }
    }
    // With each mode: a register or a base, SIB, and what may be a displacement only.
    let is_other = |modrm: &u8| matches!(modrm & 7, 0 | 4 | 5);
    let modrms: Vec<u8> = (0..=255)
        .filter(is_other)
        .chain([0xca, 0xfa, 0xfb])
        .collect();

    let mut counts = HashMap::new();
    let mut differing = vec![];
    for (head, opcode) in heads
        .iter()
        .flat_map(|head| (0..=255).map(move |opcode| (head, opcode)))
    {
        let is_vector = matches!(head[..], [0xc4 | 0xc5 | 0x62, ..]);
        for modrm in &modrms {
            // Without groups there is no need for each reg.
            if is_vector && modrm >> 3 & 7 > 1 {
                continue;
            }
            for sib in [0x24, 0x25] {
                if sib == 0x25 && modrm & 7 != 4 {
                    continue;
                }
                let bytes = [&head[..], &[opcode, *modrm, sib], REST].concat();
                match oracle::compare(&bytes, ADDRESS) {
                    Ok(outcome) => *counts.entry(outcome).or_insert(0_u32) += 1,
                    Err(error) => differing.push(format!("{bytes:02x?}: {error}")),
                }
            }
        }
    }
    println!("{counts:?}");
    differing
        .iter()
        .take(20)
        .for_each(|line| println!("{line}"));
    assert!(differing.is_empty(), "{} differ", differing.len());
    assert!(counts[&Outcome::Same] > 300_000);
}

/// Bytes that have a chance to be an instruction.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let prefix = prop_oneof![
        Just(0x66),
        Just(0x67),
        Just(0x2e),
        Just(0xf0),
        Just(0xf2),
        Just(0xf3),
        0x40..=0x4f_u8,
    ];
    let lead = prop_oneof![
        4 => Just(vec![]),
        3 => Just(vec![0x0f]),
        1 => Just(vec![0x0f, 0x38]),
        1 => Just(vec![0x0f, 0x3a]),
        1 => any::<u8>().prop_map(|byte| vec![0xc5, byte]),
        1 => (1..4_u8, any::<u8>()).prop_map(|(map, byte)| vec![0xc4, 0xe0 | map, byte]),
        1 => (1..7_u8, any::<u8>(), any::<u8>())
            .prop_map(|(map, second, third)| vec![0x62, 0xf0 | map, second | 4, third]),
    ];
    let prefixes = prop::collection::vec(prefix, 0..5);
    (prefixes, lead, prop::collection::vec(any::<u8>(), 0..14))
        .prop_map(|(prefixes, lead, rest)| [prefixes, lead, rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn any_bytes_are_decoded_as_iced_does(
        bytes in prop_oneof![likely(), prop::collection::vec(any::<u8>(), 0..20)],
        address in any::<u64>(),
    ) {
        if let Err(error) = oracle::compare(&bytes, address) {
            prop_assert!(false, "{bytes:02x?}: {error}");
        }
    }

    /// The bytes of an instruction alone tell that it is one.
    #[test]
    fn what_follows_does_not_matter(bytes in likely(), address in any::<u64>()) {
        if let Some(insn) = x86::decode(&bytes, address) {
            let len = usize::from(insn.len);
            prop_assert!((1..=x86::MAX_LEN).contains(&len) && len <= bytes.len());
            prop_assert_eq!(x86::decode(&bytes[..len], address), Some(insn));
            for cut in 0..len {
                prop_assert_eq!(x86::decode(&bytes[..cut], address), None);
            }
        }
    }
}

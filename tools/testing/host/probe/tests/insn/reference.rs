// SPDX-License-Identifier: GPL-2.0

//! The memory that instructions of x86-64 name, by a table and against iced-x86.

use iced_x86::{
    Decoder,
    DecoderOptions,
    InstructionInfoFactory,
    OpAccess,
    Register, //
};
use probe::insn::{
    x86,
    Reference,
    Use, //
};
use proptest::prelude::*;

const ADDRESS: u64 = 0xffff_ffff_8100_0000;

fn references(text: &[u8]) -> Option<(u8, Vec<Reference>)> {
    let mut found = Vec::new();
    let len = x86::references(text, ADDRESS, |reference| found.push(reference))?;
    Some((len, found))
}

/// An instruction, and the references in it as address, size and use. Addresses below 0x1000 are
/// relative to the end of the instruction.
type Case = (&'static [u8], &'static [(u64, u8, Use)]);

const CASES: &[Case] = &[
    // mov %gs:0x10(%rip),%rax; mov 0x10(%rip),%eax
    (
        &[0x65, 0x48, 0x8b, 0x05, 0x10, 0, 0, 0],
        &[(0x10, 8, Use::Read)],
    ),
    (&[0x8b, 0x05, 0x10, 0, 0, 0], &[(0x10, 4, Use::Read)]),
    // mov %rax,%gs:0x10(%rip); incl %gs:0x10(%rip)
    (
        &[0x65, 0x48, 0x89, 0x05, 0x10, 0, 0, 0],
        &[(0x10, 8, Use::Write)],
    ),
    (&[0x65, 0xff, 0x05, 0x10, 0, 0, 0], &[(0x10, 4, Use::Write)]),
    // movl $1,0x10(%rip): the displacement counts from the end, after the number
    (
        &[0xc7, 0x05, 0x10, 0, 0, 0, 1, 0, 0, 0],
        &[(0x10, 4, Use::Write), (1, 1, Use::Any)],
    ),
    // cmpl $0,0x10(%rip); testb $1,0x10(%rip); verw 0x10(%rip); push 0x10(%rip); call *0x10(%rip)
    (&[0x83, 0x3d, 0x10, 0, 0, 0, 0], &[(0x10, 4, Use::Read)]),
    (&[0xf6, 0x05, 0x10, 0, 0, 0, 1], &[(0x10, 4, Use::Read)]),
    (&[0x0f, 0x00, 0x2d, 0x10, 0, 0, 0], &[(0x10, 4, Use::Read)]),
    (&[0xff, 0x35, 0x10, 0, 0, 0], &[(0x10, 8, Use::Read)]),
    (&[0xff, 0x15, 0x10, 0, 0, 0], &[(0x10, 8, Use::Read)]),
    // lea 0x10(%rip),%rax; bt %rax,0x10(%rip); lidt 0x10(%rip)
    (&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0], &[(0x10, 8, Use::Any)]),
    (
        &[0x48, 0x0f, 0xa3, 0x05, 0x10, 0, 0, 0],
        &[(0x10, 8, Use::Any)],
    ),
    (&[0x0f, 0x01, 0x1d, 0x10, 0, 0, 0], &[(0x10, 4, Use::Any)]),
    // mov %gs:0xffffffff82000000,%rax; mov -0x7e000000(,%rax,8),%rax; mov -0x7e000000(%rax),%rax
    (
        &[0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0x82],
        &[(0xffff_ffff_8200_0000, 8, Use::Read)],
    ),
    (
        &[0x48, 0x8b, 0x04, 0xc5, 0, 0, 0, 0x82],
        &[(0xffff_ffff_8200_0000, 8, Use::Any)],
    ),
    (
        &[0x48, 0x8b, 0x80, 0, 0, 0, 0x82],
        &[(0xffff_ffff_8200_0000, 8, Use::Any)],
    ),
    // mov (,%r12,8),%rax with a displacement: REX.X makes index 4 a register
    (
        &[0x4a, 0x8b, 0x04, 0x25, 0, 0, 0, 0x82],
        &[(0xffff_ffff_8200_0000, 8, Use::Any)],
    ),
    // mov $0xffffffff82000000,%rax; movabs; push; cmp $0xffffffff82000000,%rax
    (
        &[0x48, 0xc7, 0xc0, 0, 0, 0, 0x82],
        &[(0xffff_ffff_8200_0000, 1, Use::Any)],
    ),
    (
        &[0x48, 0xb8, 0, 0, 0, 0x82, 0xff, 0xff, 0xff, 0xff],
        &[(0xffff_ffff_8200_0000, 1, Use::Any)],
    ),
    (
        &[0x68, 0, 0, 0, 0x82],
        &[(0xffff_ffff_8200_0000, 1, Use::Any)],
    ),
    (
        &[0x48, 0x3d, 0, 0, 0, 0x82],
        &[(0xffff_ffff_8200_0000, 1, Use::Any)],
    ),
    // movabs 0xffffffff82000000,%eax; to it
    (
        &[0xa1, 0, 0, 0, 0x82, 0xff, 0xff, 0xff, 0xff],
        &[(0xffff_ffff_8200_0000, 4, Use::Read)],
    ),
    (
        &[0xa3, 0, 0, 0, 0x82, 0xff, 0xff, 0xff, 0xff],
        &[(0xffff_ffff_8200_0000, 4, Use::Write)],
    ),
    // mov 8(%rsp),%rax; mov (%rax),%rbx; call; jmp; nop 0x10(%rip)
    (&[0x48, 0x8b, 0x44, 0x24, 0x08], &[]),
    (&[0x48, 0x8b, 0x18], &[]),
    (&[0xe8, 0, 0, 0, 0x82], &[]),
    (&[0xe9, 0, 0, 0, 0x82], &[]),
    (&[0x0f, 0x1f, 0x05, 0x10, 0, 0, 0], &[]),
];

#[test]
fn named_memory_is_found_with_its_use() {
    for (text, expected) in CASES {
        let (len, found) = references(text).unwrap();
        let end = ADDRESS + text.len() as u64;
        let expected: Vec<_> = expected
            .iter()
            .map(|(address, len, usage)| Reference {
                address: match *len {
                    1 => *address,
                    _ if *address < 0x1000 => end + address,
                    _ => *address,
                },
                len: *len,
                usage: *usage,
            })
            .collect();
        assert_eq!(
            (usize::from(len), found),
            (text.len(), expected),
            "{text:02x?}"
        );
    }
}

/// Checks an instruction against iced-x86: no memory that it names is left out, and what it may
/// write is not taken for what it reads only.
fn compare(bytes: &[u8]) -> Result<(), String> {
    let theirs = Decoder::with_ip(64, bytes, ADDRESS, DecoderOptions::NONE).decode();
    let ours = references(bytes);
    if ours.as_ref().map(|(len, _)| *len) != x86::decode(bytes, ADDRESS).map(|insn| insn.len) {
        return Err("another length than the decoder's".into());
    }
    let Some((_, ours)) = ours.filter(|_| !theirs.is_invalid()) else {
        return Ok(());
    };
    let mut factory = InstructionInfoFactory::new();
    for used in factory.info(&theirs).used_memory() {
        let is_alone = matches!(used.base(), Register::None | Register::RIP | Register::EIP)
            && used.index() == Register::None
            && !matches!(used.access(), OpAccess::NoMemAccess | OpAccess::None);
        let is_32 = bytes
            .iter()
            .take_while(|byte| **byte != 0x0f)
            .any(|byte| *byte == 0x67);
        if !is_alone || is_32 {
            continue;
        }
        let Some(found) = ours
            .iter()
            .find(|found| found.address == used.displacement())
        else {
            return Err(format!("{used:?} is not in {ours:?}"));
        };
        let is_read = matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
        if found.usage == Use::Read && !is_read {
            return Err(format!("{used:?} is written, but {found:?}"));
        }
        let size = used.memory_size().size();
        if found.usage != Use::Any && size > usize::from(found.len) {
            return Err(format!("{used:?} has {size} bytes, but {found:?}"));
        }
    }
    Ok(())
}

/// ModRM of an operand that an address names: relative to the next instruction, or absolute.
fn named() -> impl Strategy<Value = Vec<u8>> {
    (0..8_u8, any::<bool>()).prop_map(|(reg, is_relative)| match is_relative {
        true => vec![reg << 3 | 5],
        false => vec![reg << 3 | 4, 0x25],
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_named_memory_is_left_out(
        prefix in prop::sample::select(vec![
            vec![], vec![0x48], vec![0x65], vec![0x65, 0x48], vec![0x66], vec![0xf0], vec![0xf2], vec![0xf3],
        ]),
        map in prop::sample::select(vec![vec![], vec![0x0f], vec![0x0f, 0x38], vec![0x0f, 0x3a]]),
        opcode in any::<u8>(),
        modrm in named(),
        rest in prop::collection::vec(any::<u8>(), 12),
    ) {
        let bytes = [&prefix[..], &map, &[opcode], &modrm, &rest].concat();
        if let Err(error) = compare(&bytes) {
            prop_assert!(false, "{bytes:02x?}: {error}");
        }
    }

    #[test]
    fn any_bytes_have_the_length_that_the_decoder_says(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        if let Err(error) = compare(&bytes) {
            prop_assert!(false, "{bytes:02x?}: {error}");
        }
    }
}

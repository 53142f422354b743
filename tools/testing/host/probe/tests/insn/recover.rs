// SPDX-License-Identifier: GPL-2.0

//! Text that kprobes have changed.

use probe::insn::{
    arm64::Arm64,
    recover_probed_instructions,
    x86::X86, //
};
use proptest::prelude::*;

use crate::builder::ENTRY;

const INT3: u8 = 0xcc;
/// Where optimized kprobes jump to.
const SLOTS: u64 = 0xffff_ffff_c000_0000;

/// Instructions, by their bytes.
fn instructions() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let instruction = prop::sample::select(vec![
        vec![0x53],
        vec![0x5b],
        vec![0x48, 0x89, 0xc3],
        // Of one that was cut, the rest would be an instruction of another length.
        vec![0xb8, 0xe9, 0xc3, 0xcc, 0xcc],
        vec![0x48, 0xc7, 0x83, 0xc3, 0, 0, 0, 0xe9, 0, 0, 0],
        vec![0x0f, 0x1f, 0x44, 0x00, 0x00],
        vec![0xc3],
        vec![INT3],
        vec![0x0f, 0x0b],
        vec![0xe9, 0, 1, 0, 0],
        vec![0x75, 0xfe],
    ]);
    prop::collection::vec(instruction, 1..60)
}

/// Undoes what `hidden` has at an address, as the kernel would tell it.
fn recovered(text: &[u8], hidden: &[(usize, Vec<u8>)]) -> (Vec<u8>, Vec<u64>) {
    let mut text = text.to_vec();
    let mut asked = Vec::new();
    let may_hide = |_, target| target >= SLOTS;
    recover_probed_instructions::<X86, ()>(ENTRY, &mut text, may_hide, |address, text| {
        asked.push(address);
        let at = (address - ENTRY) as usize;
        let probe = hidden.iter().find(|(start, _)| *start == at);
        if let Some((_, bytes)) = probe {
            text[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(probe.is_some())
    })
    .unwrap();
    (text, asked)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_probes_hide_is_put_back(
        instructions in instructions(),
        probes in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..20),
    ) {
        let original = instructions.concat();
        let starts: Vec<usize> = instructions
            .iter()
            .scan(0, |end, bytes| {
                let start = *end;
                *end += bytes.len();
                Some(start)
            })
            .collect();
        let mut text = original.clone();
        let mut hidden: Vec<(usize, Vec<u8>)> = Vec::new();
        for (index, is_optimized) in probes {
            let start = *index.get(&starts);
            let len = if is_optimized { 5 } else { 1 };
            // There is no room for two, and none after the end; the kernel places none on an int3.
            let is_free = |(other, bytes): &(usize, Vec<u8>)| {
                start + len <= *other || other + bytes.len() <= start
            };
            if !hidden.iter().all(is_free)
                || start + len > text.len()
                || original[start] == INT3
            {
                continue;
            }
            hidden.push((start, original[start..start + len].to_vec()));
            if is_optimized {
                let target = SLOTS.wrapping_sub(ENTRY + start as u64 + 5) as u32;
                text[start] = 0xe9;
                text[start + 1..start + 5].copy_from_slice(&target.to_le_bytes());
            } else {
                text[start] = INT3;
            }
        }
        let (shown, asked) = recovered(&text, &hidden);
        prop_assert_eq!(shown, original.clone());
        // And asked is nothing but that, and the breakpoints that are the function's own.
        let mut expected: Vec<u64> = hidden.iter().map(|(start, _)| *start).chain(
            starts.iter().copied().filter(|start| original[*start] == INT3),
        ).map(|start| ENTRY + start as u64).collect();
        expected.sort_unstable();
        prop_assert_eq!(asked, expected);
    }

    #[test]
    fn any_bytes_end(
        mut text in prop::collection::vec(any::<u8>(), 0..200),
        answers in prop::collection::vec(any::<Option<u8>>(), 1..200),
    ) {
        let mut count = 0;
        let mut answers = answers.iter().cycle();
        let mut put_back = |address: u64, text: &mut [u8]| {
            count += 1;
            let answer = answers.next().copied().flatten();
            if let Some(byte) = answer {
                text[address as usize] = byte;
            }
            Ok(answer.is_some())
        };
        let may_hide = |address, target| (address ^ target) % 2 == 0;
        recover_probed_instructions::<X86, ()>(0, &mut text, may_hide, &mut put_back).unwrap();
        recover_probed_instructions::<Arm64, ()>(0, &mut text, may_hide, &mut put_back).unwrap();
        prop_assert!(count <= 2 * text.len());
    }
}

#[test]
fn the_space_between_sections_is_not_asked_byte_by_byte() {
    let mut text = vec![0xc3];
    text.resize(1 << 20, INT3);
    // A probe on the last of a row that can be padding, one after it, and one after other text.
    text[1000] = 0x90;
    let hidden = [64, 1000, 1064].map(|at| (at, vec![0x5b]));
    text[64] = INT3;
    let (shown, asked) = recovered(&text, &hidden);
    assert_eq!((shown[64], shown[1064]), (0x5b, 0x5b));
    assert_eq!(
        asked,
        [1..=128, 1001..=1128]
            .into_iter()
            .flatten()
            .map(|at| ENTRY + at)
            .collect::<Vec<u64>>()
    );
}

#[test]
fn an_error_ends_it() {
    let mut text = [0x53, INT3, INT3];
    let mut asked = 0;
    let result = recover_probed_instructions::<X86, _>(
        ENTRY,
        &mut text,
        |_, _| false,
        |address, _| {
            asked += 1;
            Err(address)
        },
    );
    assert_eq!((result, asked), (Err(ENTRY + 1), 1));
}

#[test]
fn breakpoints_of_arm64() {
    let words: [u32; 4] = [0xd503_201f, 0xd420_0080, 0xd420_00a0, 0xd65f_03c0];
    let mut text: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut asked = Vec::new();
    recover_probed_instructions::<Arm64, ()>(
        ENTRY,
        &mut text,
        |_, _| false,
        |address, _| {
            asked.push(address);
            Ok(false)
        },
    )
    .unwrap();
    assert_eq!(asked, [ENTRY + 4]);
}

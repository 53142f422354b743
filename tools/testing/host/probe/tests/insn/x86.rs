// SPDX-License-Identifier: GPL-2.0

//! x86-64, by tables and against iced-x86.

use std::collections::HashMap;

use crate::oracle;

const ADDRESS: u64 = 0xffff_ffff_8100_0000;

/// What comes after the first bytes of an instruction.
const REST: &[u8] = &[0x81, 0x92, 0xa3, 0x04, 0x15, 0x26, 0x37, 0x48, 0x59];

/// Each opcode of each map, with the prefixes and operands that can change what follows it.
#[test]
fn each_opcode_is_decoded_as_iced_does() {
    let prefixes: [&[u8]; 13] = [
        &[],
        &[0x66],
        &[0x67],
        &[0xf2],
        &[0xf3],
        &[0xf0],
        &[0x2e],
        &[0x41],
        &[0x48],
        &[0x66, 0x48],
        &[0x48, 0x66],
        &[0xf3, 0x4f],
        &[0x66, 0xf2],
    ];
    // Each mode and each reg, with a register, SIB, and what would be a displacement only.
    let mut modrms: Vec<u8> = (0..=255)
        .filter(|modrm| matches!(modrm & 7, 0 | 4 | 5))
        .collect();
    modrms.extend([0xca, 0xfa, 0xfb]);
    let mut counts = HashMap::new();
    let mut failures = vec![];
    let mut try_all = |head: &[u8], opcode: u8| {
        for modrm in &modrms {
            for sib in [0x24, 0x25] {
                if sib == 0x25 && modrm & 7 != 4 {
                    continue;
                }
                let bytes = [head, &[opcode, *modrm, sib], REST].concat();
                match oracle::compare(&bytes, ADDRESS) {
                    Ok(outcome) => *counts.entry(outcome).or_insert(0_u32) += 1,
                    Err(error) => failures.push(format!("{bytes:02x?}: {error}")),
                }
            }
        }
    };
    for opcode in 0..=255_u8 {
        for prefix in prefixes {
            for map in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]] {
                try_all(&[prefix, map].concat(), opcode);
            }
        }
        for second in 0..4 {
            try_all(&[0xc5, 0x78 | second], opcode);
            for map in 0..8 {
                try_all(&[0xc4, 0xe0 | map, 0x78 | second], opcode);
                try_all(&[0xc4, 0xe0 | map, 0xfc | second], opcode);
                try_all(&[0x62, 0xf0 | map, 0x7c | second, 0x48], opcode);
                try_all(&[0x62, 0xf0 | map, 0xfc | second, 0x48], opcode);
            }
        }
    }
    println!("{counts:?}");
    for failure in failures.iter() {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} differ", failures.len());
}

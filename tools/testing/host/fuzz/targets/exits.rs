// SPDX-License-Identifier: GPL-2.0

//! The exits and the blocks of functions of any bytes.
//!
//! The input is the address of the first part, and the parts: each the distance from the end of the
//! one before it, its length, and its text.
//!
//! Both architectures end in linear work, and what they find belongs together.

#![no_main]

use fuzz::{
    any::ask,
    keep,
    measure, //
};
use libfuzzer_sys::{
    fuzz_target,
    Corpus, //
};
use probe::insn::{
    arm64::Arm64,
    exits::{
        Destination,
        Part, //
    },
    x86::X86, //
};

/// The most parts.
const PARTS: usize = 4;

/// The most steps for each byte and each part.
const EACH: u64 = 500;

fuzz_target!(|input: &[u8]| -> Corpus { keep(run(input)) });

fn run(input: &[u8]) -> Option<()> {
    let (address, mut rest) = input.split_first_chunk()?;
    let mut address = u64::from_le_bytes(*address);
    let mut parts = vec![];
    while parts.len() < PARTS {
        let Some(([low, high, len @ ..], after)) = rest.split_first_chunk::<4>() else {
            break;
        };
        let distance = i16::from_le_bytes([*low, *high]);
        let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
        let (text, after) = after.split_at(len);
        address = address.wrapping_add_signed(distance.into());
        parts.push(Part { address, text });
        address = address.wrapping_add(len as u64);
        rest = after;
    }
    let ((), steps) = measure(|| {
        ask::<X86>(&parts, destination);
        ask::<Arm64>(&parts, destination);
    });
    let most = EACH * (input.len() * (parts.len() + 1)) as u64;
    assert!(steps < most, "{steps} steps");
    Some(())
}

/// Some of each.
fn destination(target: u64) -> Destination {
    match target % 16 {
        0 => Destination::ReturnThunk,
        1 => Destination::IndirectThunk,
        2 => Destination::Part,
        _ => Destination::Function,
    }
}

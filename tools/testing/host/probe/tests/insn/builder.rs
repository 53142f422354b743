// SPDX-License-Identifier: GPL-2.0

//! Functions, byte by byte.

use probe::insn::{
    exits::{
        BadText,
        Destination,
        Exit,
        ExitKind,
        Part,
        SweptFunction,
        Verdict, //
    },
    Decoder, //
};

/// Where the function is, and its part that was moved away.
pub const ENTRY: u64 = 0xffff_ffff_8100_0000;
pub const COLD: u64 = 0xffff_ffff_8200_0000;

/// What else there is.
pub const RETURN_THUNK: u64 = 0xffff_ffff_8300_0000;
pub const INDIRECT_THUNK: u64 = 0xffff_ffff_8300_0040;
pub const OTHER: u64 = 0xffff_ffff_8300_0080;

pub fn destination(target: u64) -> Destination {
    match target {
        RETURN_THUNK => Destination::ReturnThunk,
        INDIRECT_THUNK => Destination::IndirectThunk,
        COLD..=0xffff_ffff_8200_ffff => Destination::Part,
        _ => Destination::Function,
    }
}

/// Text that is being written.
pub struct Text {
    pub address: u64,
    pub bytes: Vec<u8>,
}

impl Text {
    pub fn at(address: u64) -> Self {
        let bytes = vec![];
        Self { address, bytes }
    }

    /// These bytes.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// These words.
    pub fn words(mut self, words: &[u32]) -> Self {
        self.bytes
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self
    }

    /// An opcode and the 32-bit distance to a target.
    pub fn to(mut self, opcode: &[u8], target: u64) -> Self {
        self.bytes.extend(opcode);
        let next = self.address + self.bytes.len() as u64 + 4;
        let distance = target.wrapping_sub(next) as u32;
        self.bytes.extend(distance.to_le_bytes());
        self
    }
}

/// What a function of these parts does: each exit with its offset in its part.
pub fn exits<D: Decoder>(texts: &[Text]) -> Result<(Vec<(u64, ExitKind)>, Verdict), BadText> {
    let parts: Vec<Part<'_>> = texts
        .iter()
        .map(|text| Part {
            address: text.address,
            text: &text.bytes,
        })
        .collect();
    // Whatever is in the memory.
    let mut starts = vec![u64::MAX; SweptFunction::<D>::words(&parts)];
    let function = SweptFunction::<D>::sweep(&parts, &mut starts)?;
    let offset = |address: u64| match address {
        COLD.. => address - COLD,
        _ => address - ENTRY,
    };
    let pair = |exit: Exit| (offset(exit.address), exit.kind);
    let exits = function.exits(destination).map(pair).collect();
    Ok((exits, function.verdict(destination)))
}

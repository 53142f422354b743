// SPDX-License-Identifier: GPL-2.0

//! Instructions of arm64 that a kprobe cannot replace.
//!
//! C: `arch/arm64/kernel/probes/decode-insn.c`, `arch/arm64/include/asm/insn.h`.

use super::super::unprobable::Unprobable;

use super::Class;

/// Implements [`Decoder::unprobable`](super::super::Decoder::unprobable).
///
/// C: `arm_kprobe_decode_insn()`.
pub(super) fn unprobable(text: &[u8], offset: usize) -> Option<Unprobable> {
    let (before, rest) = text.split_at_checked(offset)?;
    if offset % 4 != 0 {
        return Some(Unprobable::Misaligned);
    }
    let word = u32::from_le_bytes(*rest.first_chunk()?);
    of_word(word).or_else(|| {
        let first = before.len().saturating_sub(Unprobable::BYTES_BEFORE);
        after_exclusive_load(before.get(first..)?)
    })
}

/// Whether the last exclusive access before the instruction is a load. Returns the reason if so.
///
/// C: `is_probed_address_atomic()`.
fn after_exclusive_load(before: &[u8]) -> Option<Unprobable> {
    let words = before
        .rchunks_exact(4)
        .filter_map(|word| word.first_chunk());
    let last = words
        .map(|word| u32::from_le_bytes(*word))
        .find(|word| is_exclusive(*word))?;
    is_load(last).then(|| Unprobable::ExclusiveAccess {
        load: exclusive_name(last),
    })
}

/// The reason why a kprobe cannot replace an instruction, regardless of its neighbours.
///
/// C: `aarch64_insn_is_steppable()`, and the instructions that `arm_probe_decode_insn()` simulates.
fn of_word(word: u32) -> Option<Unprobable> {
    if is_exclusive(word) {
        let reason = match (is_pair_swap(word), is_load(word)) {
            (true, _) => "compare and swap of a pair",
            (_, true) => "exclusive load",
            (_, false) => "exclusive store",
        };
        return Some(Unprobable::new(exclusive_name(word), reason));
    }
    if word & 0x3b20_0c00 == 0x1900_0400 {
        let reason = "one of three instructions that must stay together";
        return Some(Unprobable::new(copy_name(word), reason));
    }
    if word >> 24 == 0xd8 {
        return Some(Unprobable::new(
            "prfm",
            "address relative to the instruction",
        ));
    }
    match word >> 24 {
        // A kprobe is already here, so another kprobe is possible.
        0xd4 if Class::of(word) == Some(Class::Breakpoint) => None,
        0xd4 => Some(Unprobable::new(exception_name(word), "exception")),
        0xd5 => of_system(word),
        0xd6 | 0xd7 => of_signed_branch(word),
        _ => None,
    }
}

/// Whether a word is an exclusive load or store, or a swap of pairs.
///
/// C: `aarch64_insn_is_exclusive()`.
const fn is_exclusive(word: u32) -> bool {
    word & 0x3f80_0000 == 0x0800_0000
}

const fn is_load(word: u32) -> bool {
    word & 1 << 22 != 0
}

/// Whether a word is `casp` or similar. Among the encodings of pairs, these have no size.
const fn is_pair_swap(word: u32) -> bool {
    word & (1 << 31 | 1 << 21) == 1 << 21
}

const fn exclusive_name(word: u32) -> &'static str {
    let has_order = word & 1 << 15 != 0;
    let size = word >> 30;
    match (is_load(word), has_order, word & 1 << 21 != 0, size) {
        (false, false, true, 0 | 1) => "casp",
        (false, true, true, 0 | 1) => "caspl",
        (true, false, true, 0 | 1) => "caspa",
        (true, true, true, 0 | 1) => "caspal",
        (false, false, true, _) => "stxp",
        (false, true, true, _) => "stlxp",
        (true, false, true, _) => "ldxp",
        (true, true, true, _) => "ldaxp",
        (false, false, false, 0) => "stxrb",
        (false, true, false, 0) => "stlxrb",
        (true, false, false, 0) => "ldxrb",
        (true, true, false, 0) => "ldaxrb",
        (false, false, false, 1) => "stxrh",
        (false, true, false, 1) => "stlxrh",
        (true, false, false, 1) => "ldxrh",
        (true, true, false, 1) => "ldaxrh",
        (false, false, false, _) => "stxr",
        (false, true, false, _) => "stlxr",
        (true, false, false, _) => "ldxr",
        (true, true, false, _) => "ldaxr",
    }
}

/// The name of an instruction that copies or fills memory.
///
/// C: `aarch64_insn_is_mops()`.
const fn copy_name(word: u32) -> &'static str {
    let is_other = word & 1 << 26 != 0;
    match (word >> 22 & 3, is_other, word >> 14 & 3) {
        (0, false, _) => "cpyfp",
        (1, false, _) => "cpyfm",
        (2, false, _) => "cpyfe",
        (0, true, _) => "cpyp",
        (1, true, _) => "cpym",
        (2, true, _) => "cpye",
        (_, false, 0) => "setp",
        (_, false, 1) => "setm",
        (_, false, _) => "sete",
        (_, true, 0) => "setgp",
        (_, true, 1) => "setgm",
        (_, true, _) => "setge",
    }
}

/// C: `aarch64_insn_is_exception()`.
const fn exception_name(word: u32) -> &'static str {
    match (word >> 21 & 7, word & 3) {
        (0, 1) => "svc",
        (0, 2) => "hvc",
        (0, 3) => "smc",
        (1, 0) => "brk",
        (2, 0) => "hlt",
        (5, 1) => "dcps1",
        (5, 2) => "dcps2",
        (5, 3) => "dcps3",
        _ => "exception",
    }
}

/// C: `aarch64_insn_is_msr_imm()`, `aarch64_insn_is_msr_reg()`, `aarch64_insn_is_mrs()`,
/// `aarch64_insn_is_steppable_hint()`.
fn of_system(word: u32) -> Option<Unprobable> {
    const STATE: &str = "change of the processor's state";
    if word & 0xfff8_f01f == 0xd500_401f {
        let name = match (word >> 16 & 7, word >> 5 & 7) {
            (0, 0) => "cfinv",
            (0, 1) => "xaflag",
            (0, 2) => "axflag",
            _ => "msr",
        };
        return Some(Unprobable::new(name, STATE));
    }
    if word >> 20 == 0xd51 {
        return Some(Unprobable::new("msr", STATE));
    }
    if word & !0x1f == 0xd53b_4220 {
        return Some(Unprobable::new(
            "mrs",
            "reads the interrupt mask, which the probe changes",
        ));
    }
    if word & 0xffff_f01f == 0xd503_201f {
        return of_hint(word >> 5 & 0x7f);
    }
    None
}

fn of_hint(number: u32) -> Option<Unprobable> {
    let name = match number {
        1 => "yield",
        2 => "wfe",
        3 => "wfi",
        4 => "sev",
        5 => "sevl",
        6 => "dgh",
        12 => "autia1716",
        14 => "autib1716",
        16 => "esb",
        17 => "psb",
        18 => "tsb",
        20 => "csdb",
        22 => "clrbhb",
        28 => "autiaz",
        29 => "autiasp",
        30 => "autibz",
        31 => "autibsp",
        // nop, xpaclri, pacia1716, pacib1716, paciaz to pacibsp, bti
        0 | 7 | 8 | 10 | 24..=27 | 32 | 34 | 36 | 38 => return None,
        _ => "hint",
    };
    let reason = match number {
        12 | 14 | 28..=31 => "check of a signed address",
        _ => "hint to the processor",
    };
    Some(Unprobable::new(name, reason))
}

/// C: `aarch64_insn_is_br_auth()`, `aarch64_insn_is_blr_auth()`, `aarch64_insn_is_ret_auth()`,
/// `aarch64_insn_is_eret()`, `aarch64_insn_is_eret_auth()`.
fn of_signed_branch(word: u32) -> Option<Unprobable> {
    // Two bits select the key: no key, key A or key B. The modifier is 0 or in a register.
    let key_b = word & 1 << 10 != 0;
    let is_signed = word & 1 << 11 != 0;
    let has_modifier = word & 1 << 24 != 0;
    let (name, reason) = match (Class::of(word)?, is_signed, has_modifier, key_b) {
        (Class::Eret, false, ..) if word == 0xd69f_03e0 => ("eret", "return from an exception"),
        (Class::Eret, true, _, false) => ("eretaa", "return from an exception"),
        (Class::Eret, true, _, true) => ("eretab", "return from an exception"),
        (Class::Br { .. }, true, false, false) => ("braaz", "jump to a signed address"),
        (Class::Br { .. }, true, false, true) => ("brabz", "jump to a signed address"),
        (Class::Br { .. }, true, true, false) => ("braa", "jump to a signed address"),
        (Class::Br { .. }, true, true, true) => ("brab", "jump to a signed address"),
        (Class::Blr { .. }, true, false, false) => ("blraaz", "call of a signed address"),
        (Class::Blr { .. }, true, false, true) => ("blrabz", "call of a signed address"),
        (Class::Blr { .. }, true, true, false) => ("blraa", "call of a signed address"),
        (Class::Blr { .. }, true, true, true) => ("blrab", "call of a signed address"),
        (Class::RetSigned, _, _, false) => ("retaa", "return to a signed address"),
        (Class::RetSigned, _, _, true) => ("retab", "return to a signed address"),
        _ => return None,
    };
    Some(Unprobable::new(name, reason))
}

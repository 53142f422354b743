// SPDX-License-Identifier: GPL-2.0

//! The place for the fields of a record, and writes to it.
//!
//! All code here runs on each hit of a probe. Rare code is out of line.

use crate::types::{
    Bits,
    Space,
    Width, //
};

use super::context::Context;

// Numbers are read into, and cut out of, the low end of a word.
const _: () = assert!(cfg!(target_endian = "little"));

/// The place for the fields that are still to come; nothing where a field did not fit.
///
/// Fields and gaps follow each other in the order of their programs. So a program takes its field
/// off the front, and needs no other check.
pub(super) type Rest<'o> = &'o mut [u8];

/// Writes the low bytes of a value as a field of `bytes` bytes.
#[inline]
pub(super) fn put(fields: &mut [u8], value: u64, bytes: usize) -> Rest<'_> {
    // This writes eight bytes if there is room. The next fields overwrite the bytes that are not of
    // this field. So no branch depends on the width.
    let Some(word) = fields.first_chunk_mut() else {
        return put_exactly(fields, value, bytes);
    };
    *word = value.to_le_bytes();
    fields.get_mut(bytes..).unwrap_or(&mut [])
}

/// Does what [`put`] does if there is less room than eight bytes.
#[cold]
#[inline(never)]
fn put_exactly(fields: &mut [u8], value: u64, bytes: usize) -> Rest<'_> {
    let Some((field, rest)) = fields.split_at_mut_checked(bytes) else {
        return &mut [];
    };
    for (to, from) in field.iter_mut().zip(value.to_le_bytes()) {
        *to = from;
    }
    rest
}

/// Writes adjacent fields of eight bytes. `BYTES` is the size of all.
#[inline(always)]
pub(super) fn put_words<const N: usize, const BYTES: usize>(
    fields: &mut [u8],
    words: [u64; N],
) -> Rest<'_> {
    const { assert!(BYTES == N * 8) };
    let Some((field, rest)) = fields.split_first_chunk_mut::<BYTES>() else {
        return &mut [];
    };
    for (to, word) in field.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    rest
}

/// Writes zeroes before a field.
#[inline]
pub(super) fn put_gap(fields: &mut [u8], bytes: u8) -> Rest<'_> {
    // As `put` does.
    match fields.first_chunk_mut() {
        Some(word) => *word = [0; 8],
        None => fields.fill(0),
    }
    fields.get_mut(bytes.into()..).unwrap_or(&mut [])
}

/// Reads a field of `bytes` bytes from memory to the front of `fields`. After a fault, `on_fault`
/// writes the field.
#[inline(always)]
pub(super) fn copy<'o>(
    ctx: impl Context,
    space: Space,
    address: u64,
    fields: &'o mut [u8],
    bytes: usize,
    on_fault: impl FnOnce(&mut [u8]),
) -> Rest<'o> {
    let Some(field) = fields.get_mut(..bytes) else {
        return &mut [];
    };
    if ctx.read(space, address, field).is_err() {
        on_fault(field);
    }
    fields.get_mut(bytes..).unwrap_or(&mut [])
}

/// Reads the numbers of a field one by one: an array of which a part can be read keeps this part.
#[cold]
#[inline(never)]
pub(super) fn copy_each<C: Context + Copy>(
    ctx: C,
    space: Space,
    address: u64,
    field: &mut [u8],
    width: Width,
) {
    let mut address = address;
    for number in field.chunks_mut(width.bytes()) {
        if ctx.read(space, address, number).is_err() {
            number.fill(0);
        }
        address = address.wrapping_add(width.bytes() as u64);
    }
}

/// The bits of a number, by the shifts that leave only these: as C shifts in a number of this
/// width, which here is the upper end of a word.
///
/// C: `fetch_apply_bitfield()`.
#[inline]
pub(super) fn cut(value: u64, width: Width, bits: Bits) -> u64 {
    let unused = 64u32.wrapping_sub((width.bytes() as u32).wrapping_mul(8));
    value
        .wrapping_shl(unused.wrapping_add(u32::from(bits.left)))
        .wrapping_shr(unused.wrapping_add(u32::from(bits.right)))
}

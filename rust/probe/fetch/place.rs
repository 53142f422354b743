// SPDX-License-Identifier: GPL-2.0

//! Writes fields to their place in a record.
//!
//! All code here runs on each hit of a probe. Rare code is out of line.

use crate::types::{
    Bits,
    Space,
    Width, //
};

use super::context::Context;

// The functions here read numbers into the low end of a word, and write fields from the low end.
// This needs a little-endian machine.
const _: () = assert!(cfg!(target_endian = "little"));

/// The place for the remaining fields. Empty if a field did not fit.
///
/// Fields and gaps follow each other in the order of their programs. A program takes its field from
/// the front, so no other check is necessary.
pub(super) type Rest<'o> = &'o mut [u8];

/// Writes the low bytes of a value as a field of `bytes` bytes.
#[inline]
pub(super) fn put(fields: &mut [u8], value: u64, bytes: usize) -> Rest<'_> {
    // Writes eight bytes if they fit. The next fields overwrite the bytes after this field. So no
    // branch depends on the width.
    let Some(word) = fields.first_chunk_mut() else {
        return put_exactly(fields, value, bytes);
    };
    *word = value.to_le_bytes();
    fields.get_mut(bytes..).unwrap_or(&mut [])
}

/// Does the work of [`put`] if fewer than eight bytes are left.
#[cold]
#[inline(never)]
fn put_exactly(fields: &mut [u8], value: u64, bytes: usize) -> Rest<'_> {
    let Some((field, rest)) = fields.split_at_mut_checked(bytes) else {
        return &mut [];
    };
    match field {
        [a] => *a = value as u8,
        [a, b] => [*a, *b] = (value as u16).to_le_bytes(),
        field => match <&mut [u8; 4]>::try_from(&mut *field) {
            Ok(field) => *field = (value as u32).to_le_bytes(),
            Err(_) => {
                for (to, from) in field.iter_mut().zip(value.to_le_bytes()) {
                    *to = from;
                }
            }
        },
    }
    rest
}

/// Writes the location of a string as a field of `bytes` bytes.
#[inline(always)]
pub(super) fn put_location(fields: &mut [u8], location: u32, bytes: usize) -> Rest<'_> {
    // A string is often the last field. Then `put` would need its slow path.
    match <&mut [u8; 4]>::try_from(&mut *fields) {
        Ok(field) => {
            *field = location.to_le_bytes();
            &mut []
        }
        Err(_) => put(fields, location.into(), bytes),
    }
}

/// Writes adjacent fields of eight bytes. `BYTES` is the size of all fields.
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
    // Writes eight bytes if they fit, as `put` does.
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

/// Reads the numbers of a field one by one. If a part of an array is not readable, keeps the other
/// numbers.
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

/// Extracts the bits of a bitfield from a number, with two shifts. C shifts in a number of `width`.
/// This function shifts in the upper end of a word.
///
/// C: `fetch_apply_bitfield()`.
#[inline]
pub(super) fn cut(value: u64, width: Width, bits: Bits) -> u64 {
    let unused = 64u32.wrapping_sub((width.bytes() as u32).wrapping_mul(8));
    value
        .wrapping_shl(unused.wrapping_add(u32::from(bits.left)))
        .wrapping_shr(unused.wrapping_add(u32::from(bits.right)))
}

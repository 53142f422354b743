// SPDX-License-Identifier: GPL-2.0

//! The strings of a record: the bytes behind its fields, and where they are.

use crate::types::Space;

use super::context::{
    Context,
    Fault, //
};

/// The most bytes that a string has in a record, its NUL included.
///
/// C: `MAX_STRING_SIZE`.
pub const MAX_STRING: usize = 4096;

/// No page is smaller than this: memory that does not cross a multiple of it can be read as a
/// whole or not at all.
const PAGE: u64 = 4096;

/// The bytes that are read at first: most strings that are traced fit.
const FIRST_STEP: usize = 64;

/// The place for the strings of one record.
pub(super) struct Strings<'o> {
    out: &'o mut [u8],
    /// The offset of `out` in the record: what the location of a string is counted from.
    offset: usize,
    used: usize,
}

impl<'o> Strings<'o> {
    /// The strings go to `out`, which starts `offset` bytes into the record.
    #[inline]
    pub(super) fn new(out: &'o mut [u8], offset: usize) -> Self {
        Self {
            out,
            offset,
            used: 0,
        }
    }

    /// The bytes that are used up.
    #[inline]
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Appends the string at `address` and returns its location.
    #[inline(always)]
    pub(super) fn add<C: Context + Copy>(&mut self, ctx: C, space: Space, address: u64) -> u32 {
        let len = copy(ctx, space, address, self.room()).unwrap_or(0);
        self.append(len)
    }

    /// The same as a function of its own.
    #[inline(never)]
    pub(super) fn add_apart<C: Context + Copy>(
        &mut self,
        ctx: C,
        space: Space,
        address: u64,
    ) -> u32 {
        self.add(ctx, space, address)
    }

    /// Appends the symbol of `address` as text and returns its location.
    #[inline(never)]
    pub(super) fn add_symbol<C: Context + Copy>(&mut self, ctx: C, address: u64) -> u32 {
        let len = write_symbol(ctx, address, self.room());
        self.append(len)
    }

    /// The room for the next string.
    #[inline(always)]
    fn room(&mut self) -> &mut [u8] {
        // A location has 16 bits for the offset.
        let end = usize::from(u16::MAX).saturating_sub(self.offset);
        let end = end.min(self.out.len());
        let end = end.min(self.used.saturating_add(MAX_STRING));
        self.out.get_mut(self.used..end).unwrap_or(&mut [])
    }

    /// Appends the first bytes of the room and returns their location.
    #[inline(always)]
    fn append(&mut self, len: usize) -> u32 {
        let location = location(self.offset.saturating_add(self.used), len);
        self.used = self.used.wrapping_add(len);
        location
    }

    /// The location of a string that could not be read.
    pub(super) fn none(&self) -> u32 {
        location(self.offset.saturating_add(self.used), 0)
    }
}

/// C: `make_data_loc()`.
#[inline]
fn location(offset: usize, len: usize) -> u32 {
    u32::from(len as u16).wrapping_shl(16) | u32::from(offset as u16)
}

/// Copies the string at `address` to `out`, and returns its length with the NUL. One that does not
/// fit is cut short to the length of `out`; the length is 0 only where `out` is empty.
///
/// The string is read once: it may change under the reader, and it costs. It is read in steps that
/// stay within a page, so that what is read beyond the NUL cannot be what faults.
#[inline(always)]
fn copy<C: Context + Copy>(
    ctx: C,
    space: Space,
    address: u64,
    out: &mut [u8],
) -> Result<usize, Fault> {
    if address % PAGE <= PAGE - FIRST_STEP as u64 {
        if let Some(first) = out.first_chunk_mut::<FIRST_STEP>() {
            ctx.read(space, address, first)?;
            if let Some(at) = find_nul(first) {
                return Ok(at.wrapping_add(1));
            }
            return copy_from(ctx, space, address, out, FIRST_STEP);
        }
    }
    copy_from(ctx, space, address, out, 0)
}

/// The same, where so many bytes of it are in `out` already.
#[inline(never)]
fn copy_from<C: Context + Copy>(
    ctx: C,
    space: Space,
    address: u64,
    out: &mut [u8],
    mut done: usize,
) -> Result<usize, Fault> {
    let mut address = address.wrapping_add(done as u64);
    let mut step = FIRST_STEP;
    loop {
        let in_page = (PAGE as usize).wrapping_sub((address % PAGE) as usize);
        let end = done.wrapping_add(step.min(in_page)).min(out.len());
        let Some(chunk @ [_, ..]) = out.get_mut(done..end) else {
            break;
        };
        ctx.read(space, address, chunk)?;
        if let Some(at) = find_nul(chunk) {
            return Ok(done.wrapping_add(at).wrapping_add(1));
        }
        address = address.wrapping_add(chunk.len() as u64);
        done = end;
        step = step.wrapping_mul(2).min(PAGE as usize);
    }
    if let Some(last) = out.last_mut() {
        *last = 0;
    }
    Ok(out.len())
}

/// Writes the symbol of `address` with a NUL, and returns the length of both: 0 only where `out` is
/// empty.
fn write_symbol<C: Context + Copy>(ctx: C, address: u64, out: &mut [u8]) -> usize {
    let Some((last, room)) = out.split_last_mut() else {
        return 0;
    };
    let len = ctx.symbol(address, room).min(room.len());
    match room.get_mut(len) {
        Some(nul) => *nul = 0,
        None => *last = 0,
    }
    len.wrapping_add(1)
}

/// The index of the first NUL.
#[inline]
fn find_nul(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    let mut words = bytes.chunks_exact(8);
    for (index, word) in words.by_ref().enumerate() {
        // The lowest byte that is 0 is the lowest that gets its high bit set. Above it, a borrow
        // can set others.
        let word = word
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word));
        let nuls = word.wrapping_sub(LOW) & !word & HIGH;
        if nuls != 0 {
            return Some(
                index
                    .wrapping_mul(8)
                    .wrapping_add(nuls.trailing_zeros() as usize / 8),
            );
        }
    }
    let rest = words.remainder();
    let at = rest.iter().position(|byte| *byte == 0)?;
    Some(bytes.len().wrapping_sub(rest.len()).wrapping_add(at))
}

// SPDX-License-Identifier: GPL-2.0

//! The strings of a record: their bytes after the fields, and their locations.

use core::mem;

use crate::types::Space;

use super::{
    context::{
        Context,
        Fault, //
    },
    field::Field,
};

/// Maximum size of a string in a record, in bytes, including its NUL.
///
/// C: `MAX_STRING_SIZE`.
pub const MAX_STRING: usize = 4096;

/// The size of a location, in bytes.
pub(super) const LOCATION_BYTES: usize = 4;

/// The minimum size of a page, in bytes. Memory that does not cross a multiple of this size is
/// readable as a whole or not at all.
const PAGE: u64 = 4096;

/// Size of the first read, in bytes. Most traced strings fit.
const FIRST_STEP: usize = 64;

/// Writes a location to each string of a record without values: a string without characters, whose
/// NUL is at byte `nul` of the record. `fields` are the fields of the record. `at` is the offset of
/// the first field that is in `out`.
pub fn write_empty_strings(
    fields: impl Iterator<Item = Field>,
    at: usize,
    nul: usize,
    out: &mut [u8],
) {
    let empty = location(nul, 1).to_ne_bytes();
    for field in fields.filter(|field| field.is_dynamic()) {
        let Some(start) = field.offset().checked_sub(at) else {
            continue;
        };
        let end = start.saturating_add(field.bytes());
        let locations = out.get_mut(start..end).unwrap_or(&mut []);
        for location in locations.chunks_exact_mut(LOCATION_BYTES) {
            location.copy_from_slice(&empty);
        }
    }
}

/// The place for the strings of one record.
pub(super) struct Strings<'o> {
    /// The unused part of the place.
    room: &'o mut [u8],
    /// The offset of `room` in the record, in bytes. Locations count from the start of the record.
    offset: usize,
}

impl<'o> Strings<'o> {
    /// Creates a place for strings. `out` starts at byte `offset` of the record.
    #[inline]
    pub(super) fn new(out: &'o mut [u8], offset: usize) -> Self {
        // A location has 16 bits for the offset.
        let end = usize::from(u16::MAX).saturating_sub(offset);
        let end = end.min(out.len());
        Self {
            room: out.get_mut(..end).unwrap_or(&mut []),
            offset,
        }
    }

    /// The offset of the unused part in the record, in bytes.
    #[inline]
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// Appends the string at `address` and returns its location.
    #[inline(always)]
    pub(super) fn add<C: Context + Copy>(&mut self, ctx: C, space: Space, address: u64) -> u32 {
        match copy(ctx, space, address, self.room) {
            Ok(len) => self.append(len),
            Err(Fault) => self.none(),
        }
    }

    /// Appends the string as [`add`](Self::add) does, out of line.
    #[inline(never)]
    pub(super) fn add_apart<C: Context + Copy>(
        &mut self,
        ctx: C,
        space: Space,
        address: u64,
    ) -> u32 {
        self.add(ctx, space, address)
    }

    /// Appends the symbol of `address` as a string, and returns its location.
    #[inline(never)]
    pub(super) fn add_symbol<C: Context + Copy>(&mut self, ctx: C, address: u64) -> u32 {
        match write_symbol(ctx, address, room_of_one(self.room)) {
            Some(len) => self.append(len),
            None => self.none(),
        }
    }

    /// Marks the first `len` bytes of the unused part as used. Returns their location.
    #[inline(always)]
    fn append(&mut self, len: usize) -> u32 {
        let location = location(self.offset, len);
        self.offset = self.offset.wrapping_add(len);
        self.room = mem::take(&mut self.room).get_mut(len..).unwrap_or(&mut []);
        location
    }

    /// Appends a NUL, and returns the location of a string that is not readable: a string of 0
    /// bytes at the NUL.
    ///
    /// The kernel's filters and histograms read such a string up to the next NUL, which could be
    /// beyond the record. C appends no NUL.
    #[cold]
    pub(super) fn none(&mut self) -> u32 {
        let Some((nul, room)) = mem::take(&mut self.room).split_first_mut() else {
            // The strings before it fill the record, and end with a NUL. There are some, because
            // the fields of an event do not fill a record.
            return location(self.offset.wrapping_sub(1), 0);
        };
        *nul = 0;
        let location = location(self.offset, 0);
        self.offset = self.offset.wrapping_add(1);
        self.room = room;
        location
    }
}

/// The part of the room that one string can have.
fn room_of_one(room: &mut [u8]) -> &mut [u8] {
    let end = room.len().min(MAX_STRING);
    room.get_mut(..end).unwrap_or(&mut [])
}

/// Creates the location of a string.
///
/// C: `make_data_loc()`.
#[inline]
fn location(offset: usize, len: usize) -> u32 {
    u32::from(len as u16).wrapping_shl(16) | u32::from(offset as u16)
}

/// The offset of a string in its record and its length, in bytes, by its location.
///
/// C: `get_loc_offs()`, `get_loc_len()`.
#[inline]
pub(super) fn place_of(location: u32) -> (usize, usize) {
    let len = (location >> 16) as u16;
    (usize::from(location as u16), usize::from(len))
}

/// Copies the string at `address` to `room`. Returns its length including the NUL. Truncates a
/// string that does not fit. Fails if `room` is empty.
///
/// Reads the string only once, because the string can change, and reads are expensive. Each read
/// stays in a page, so bytes after the NUL cannot cause a fault.
#[inline(always)]
fn copy<C: Context + Copy>(
    ctx: C,
    space: Space,
    address: u64,
    room: &mut [u8],
) -> Result<usize, Fault> {
    if address % PAGE <= PAGE - FIRST_STEP as u64 {
        if let Some(first) = room.first_chunk_mut::<FIRST_STEP>() {
            ctx.read_short(space, address, first)?;
            if let Some(at) = find_nul(first) {
                return Ok(at.wrapping_add(1));
            }
            return copy_from(ctx, space, address, room, FIRST_STEP);
        }
    }
    copy_from(ctx, space, address, room, 0)
}

/// Copies the string as [`copy`] does. The first `done` bytes are in `room` already.
#[inline(never)]
fn copy_from<C: Context + Copy>(
    ctx: C,
    space: Space,
    address: u64,
    room: &mut [u8],
    mut done: usize,
) -> Result<usize, Fault> {
    let out = room_of_one(room);
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
    *out.last_mut().ok_or(Fault)? = 0;
    Ok(out.len())
}

/// Writes the symbol of `address` with a NUL. Returns the length including the NUL, or `None` if
/// `out` is empty.
fn write_symbol<C: Context + Copy>(ctx: C, address: u64, out: &mut [u8]) -> Option<usize> {
    let (last, room) = out.split_last_mut()?;
    let len = ctx.symbol(address, room).min(room.len());
    match room.get_mut(len) {
        Some(nul) => *nul = 0,
        None => *last = 0,
    }
    Some(len.wrapping_add(1))
}

/// The index of the first NUL.
#[inline]
fn find_nul(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    let mut words = bytes.chunks_exact(8);
    for (index, word) in words.by_ref().enumerate() {
        // The lowest set bit marks the lowest byte that is 0. A borrow can set higher bits.
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

// SPDX-License-Identifier: GPL-2.0

//! Runs the programs of an event.
//!
//! All code here runs on each hit of a probe. Rare code is out of line.

use core::num::NonZeroU8;

use crate::{
    argument::{
        Deref,
        RecordField,
        RecordValue, //
    },
    types::{
        Bits,
        Space,
        Width, //
    },
};

use super::{
    context::{
        Context,
        Fault, //
    },
    place::{
        copy,
        copy_each,
        cut,
        put,
        put_gap,
        put_location,
        put_words,
        Rest, //
    },
    program::{
        size,
        DirectBase,
        FetchOp,
        GenericFetch,
        Load,
        NumberFetch,
        NumbersFetch,
        Path,
        Program,
        SlowBase,
        SlowFetchOp,
        SlowerFetchOp,
        Store,
        StringFetch, //
    },
    string::{
        Strings,
        LOCATION_BYTES, //
    },
};

/// Runs the programs of an event. Writes their fields to `out`, and their strings after the fields.
/// Returns the number of used bytes: `fixed` plus the size of the strings.
///
/// `fixed` is the size of all fields, from [`Layout::bytes`](super::Layout::bytes). `header` is the
/// size of the part of the record before `out`. Locators count from the start of the record.
///
/// If no field is [dynamic](super::Layout::is_dynamic), `out` can be just the place for the fields
/// in the record. Otherwise `out` should also have room for the strings. Truncates a string that
/// does not fit. Records a string without any room like a string that is not readable. The content
/// of `out` after the used bytes is undefined. If `out` is too small for the fields, returns 0 and
/// writes nothing.
///
/// If memory is not readable, a number is 0 and a string has length 0.
///
/// Runs in any context, like [`Context`]. Does not allocate, and takes less than 512 bytes of
/// stack.
///
/// C: `__get_data_size()` and `store_trace_args()`.
#[inline(always)]
pub fn record<C: Context + Copy>(
    programs: &[Program],
    fixed: usize,
    header: usize,
    ctx: C,
    out: &mut [u8],
) -> usize {
    let Some((fields, rest)) = out.split_at_mut_checked(fixed) else {
        return 0;
    };
    let start = header.saturating_add(fixed);
    let mut strings = Strings::new(rest, start);
    run(programs, ctx, fields, &mut strings);
    fixed.wrapping_add(strings.offset().wrapping_sub(start))
}

/// Runs programs as [`record`] does, if none of them writes a string. `fields` is the place for
/// their fields.
#[inline(always)]
pub fn record_fixed<C: Context + Copy>(programs: &[Program], ctx: C, fields: &mut [u8]) {
    run(programs, ctx, fields, &mut NoStrings);
}

#[inline(always)]
fn run<C: Context + Copy>(
    mut programs: &[Program],
    ctx: C,
    mut fields: &mut [u8],
    strings: &mut impl ProvideStrings,
) {
    // Slices make shorter code than an iterator.
    while let [Program(op), rest @ ..] = programs {
        fields = match op {
            FetchOp::Register(from, width) => put(fields, ctx.register(*from), width.bytes()),
            FetchOp::Slow(op) => op.run(ctx, fields, strings),
        };
        programs = rest;
    }
}

impl Program {
    /// The number that the program of a number stores, if that is a register, a word of entry data
    /// or the number of the task. Bits above the width of the field are undefined.
    #[inline(always)]
    pub(super) fn quick_number<C: Context>(&self, ctx: C) -> Option<u64> {
        match &self.0 {
            FetchOp::Register(from, _) => Some(ctx.register(*from)),
            FetchOp::Slow(SlowFetchOp::Slower(SlowerFetchOp::Word(index, _))) => {
                Some(ctx.entry_data(*index))
            }
            FetchOp::Slow(SlowFetchOp::Slower(SlowerFetchOp::Generic(GenericFetch {
                load: Load::Pid,
                ..
            }))) => Some(ctx.pid()),
            FetchOp::Slow(_) => None,
        }
    }

    /// The number that the program of a number stores. Bits above the width of the field are
    /// undefined.
    #[inline(always)]
    pub(super) fn number<C: Context + Copy>(&self, ctx: C) -> u64 {
        match &self.0 {
            FetchOp::Register(from, _) => ctx.register(*from),
            FetchOp::Slow(SlowFetchOp::Number(number)) => number.read(ctx),
            FetchOp::Slow(op) => op.number(ctx),
        }
    }
}

/// Provides the place for strings to the operations that need it.
trait ProvideStrings {
    fn with<R>(&mut self, f: impl FnOnce(&mut Strings<'_>) -> R) -> R;

    /// Appends the string at `address`. This method exists because the compiler does not always
    /// inline a closure for [`with`](Self::with).
    fn add<C: Context + Copy>(&mut self, ctx: C, space: Space, address: u64) -> u32;
}

impl ProvideStrings for Strings<'_> {
    #[inline(always)]
    fn with<R>(&mut self, f: impl FnOnce(&mut Strings<'_>) -> R) -> R {
        f(self)
    }

    #[inline(always)]
    fn add<C: Context + Copy>(&mut self, ctx: C, space: Space, address: u64) -> u32 {
        Strings::add(self, ctx, space, address)
    }
}

/// Provides no place for strings. Creates an empty [`Strings`] only if an operation needs it.
struct NoStrings;

impl ProvideStrings for NoStrings {
    #[inline(never)]
    fn with<R>(&mut self, f: impl FnOnce(&mut Strings<'_>) -> R) -> R {
        f(&mut Strings::new(&mut [], 0))
    }

    #[inline(never)]
    fn add<C: Context + Copy>(&mut self, ctx: C, space: Space, address: u64) -> u32 {
        Strings::new(&mut [], 0).add(ctx, space, address)
    }
}

impl SlowFetchOp {
    /// Writes the field to the front of `fields`.
    #[inline(always)]
    fn run<'o, C: Context + Copy>(
        &self,
        ctx: C,
        fields: &'o mut [u8],
        strings: &mut impl ProvideStrings,
    ) -> Rest<'o> {
        match self {
            Self::Number(number) => put(fields, number.read(ctx), number.advance.bytes()),
            Self::Slower(op) => op.run(ctx, fields, strings),
        }
    }

    /// The number that the operation of a number stores.
    #[inline(never)]
    fn number<C: Context + Copy>(&self, ctx: C) -> u64 {
        let mut word = [0; 8];
        self.run(ctx, &mut word, &mut NoStrings);
        u64::from_le_bytes(word)
    }
}

impl SlowerFetchOp {
    /// Writes the field to the front of `fields`.
    #[inline(always)]
    fn run<'o, C: Context + Copy>(
        &self,
        ctx: C,
        fields: &'o mut [u8],
        strings: &mut impl ProvideStrings,
    ) -> Rest<'o> {
        match self {
            Self::Base(base, width) => put(fields, base.load(ctx), width.bytes()),
            Self::ThreeRegisters(from) => {
                put_words::<3, 24>(fields, from.map(|from| ctx.register(from)))
            }
            Self::TwoRegisters(from) => {
                put_words::<2, 16>(fields, from.map(|from| ctx.register(from)))
            }
            Self::TwoWords(from) => {
                put_words::<2, 16>(fields, from.map(|index| ctx.entry_data(index)))
            }
            Self::Word(index, width) => put(fields, ctx.entry_data(*index), width.bytes()),
            Self::Numbers(numbers) => numbers.run(ctx, fields),
            Self::Bits(number, bits) => {
                let value = cut(number.read(ctx), number.width, *bits);
                put(fields, value, number.advance.bytes())
            }
            Self::String(string) => {
                let location = strings.add(ctx, string.at.space, string.address(ctx));
                put_location(fields, location, string.advance.bytes())
            }
            Self::Gap(bytes) => put_gap(fields, *bytes),
            Self::Generic(fetch) => fetch.run(ctx, fields, strings),
        }
    }
}

impl DirectBase {
    #[inline(always)]
    fn load(&self, ctx: impl Context) -> u64 {
        match self {
            Self::Register(register) => ctx.register(*register),
            Self::Slow(base) => base.load(ctx),
        }
    }
}

impl SlowBase {
    #[inline(always)]
    fn load(&self, ctx: impl Context) -> u64 {
        match *self {
            Self::ThisCpu(address) => ctx.this_cpu(address),
            Self::Current => ctx.current(),
        }
    }
}

impl NumberFetch {
    /// Reads the number. Returns 0 after a fault.
    #[inline(always)]
    fn read<C: Context + Copy>(&self, ctx: C) -> u64 {
        let address = address(self.base.load(ctx), self.at);
        ctx.number(self.at.space, address, self.width)
    }
}

impl StringFetch {
    #[inline(always)]
    fn address<C: Context>(&self, ctx: C) -> u64 {
        address(ctx.register(self.register), self.at)
    }
}

impl NumbersFetch {
    /// Writes the numbers to the front of `fields`.
    #[inline(always)]
    fn run<'o, C: Context + Copy>(&self, ctx: C, fields: &'o mut [u8]) -> Rest<'o> {
        let (at, bytes) = (self.address(ctx), self.bytes.into());
        copy(ctx, self.at.space, at, fields, bytes, |field| {
            self.copy_each(ctx, field)
        })
    }

    /// Reads the numbers one by one. Computes the address again, so that the fast path need not
    /// save it.
    #[cold]
    #[inline(never)]
    fn copy_each<C: Context + Copy>(&self, ctx: C, field: &mut [u8]) {
        copy_each(ctx, self.at.space, self.address(ctx), field, self.width);
    }

    #[inline(always)]
    fn address<C: Context>(&self, ctx: C) -> u64 {
        address(ctx.register(self.register), self.at)
    }
}

impl GenericFetch {
    /// Writes the field to the front of `fields`.
    #[inline(never)]
    fn run<'o, C: Context + Copy>(
        &self,
        ctx: C,
        fields: &'o mut [u8],
        strings: &mut impl ProvideStrings,
    ) -> Rest<'o> {
        let value = match self.load {
            Load::Register(register) => ctx.register(register),
            Load::Stack(n) => ctx.stack(n),
            Load::EntryData(index) => ctx.entry_data(index),
            Load::Elapsed => ctx.elapsed(),
            Load::Caller => ctx.caller(),
            Load::Exit => ctx.exit(),
            Load::Path => ctx.path(),
            Load::Blocks => ctx.blocks(),
            Load::Watched => ctx.watched(),
            Load::Field(field) => read_field(ctx.record(), field),
            Load::Comm => ctx.comm(),
            Load::Current => ctx.current(),
            Load::Pid => ctx.pid(),
            Load::Value(value) => value,
        };
        let Ok(value) = self.path.follow(ctx, value) else {
            return self.store.nothing(fields, strings);
        };
        match self.store {
            Store::Value(width) => put(fields, value, width.bytes()),
            Store::ValueBits(width, bits) => put(fields, cut(value, width, bits), width.bytes()),
            Store::Numbers(at, width, count) => {
                let (from, bytes) = (address(value, at), size(width, count));
                copy(ctx, at.space, from, fields, bytes, |field| {
                    copy_each(ctx, at.space, from, field, width)
                })
            }
            Store::Bits(at, width, count, bits) => {
                copy_bits(ctx, at, value, fields, width, count, bits)
            }
            Store::Symbol => {
                let location = strings.with(|strings| strings.add_symbol(ctx, value));
                put_location(fields, location, LOCATION_BYTES)
            }
            Store::String(at) => {
                let from = address(value, at);
                let location = strings.with(|strings| strings.add_apart(ctx, at.space, from));
                put_location(fields, location, LOCATION_BYTES)
            }
            Store::Strings {
                pointers,
                text,
                count,
            } => strings.with(move |strings| {
                add_strings(ctx, pointers, value, text, count, fields, strings)
            }),
        }
    }
}

impl Path {
    /// Follows the path from `value`.
    #[inline]
    fn follow<C: Context + Copy>(&self, ctx: C, mut value: u64) -> Result<u64, Fault> {
        if self.user | self.this_cpu != 0 {
            return self.follow_all(ctx, value);
        }
        for offset in self.offsets.iter().take(usize::from(self.len)) {
            value = read_step(ctx, Space::Kernel, value, *offset)?;
        }
        Ok(value)
    }

    /// Follows a path with steps of any kind.
    #[inline(never)]
    fn follow_all<C: Context + Copy>(&self, ctx: C, mut value: u64) -> Result<u64, Fault> {
        let (mut user, mut this_cpu) = (self.user, self.this_cpu);
        for offset in self.offsets.iter().take(usize::from(self.len)) {
            value = match (this_cpu & 1, user & 1) {
                (0, 0) => read_step(ctx, Space::Kernel, value, *offset)?,
                (0, _) => read_step(ctx, Space::User, value, *offset)?,
                _ => ctx.this_cpu(value),
            };
            user >>= 1;
            this_cpu >>= 1;
        }
        Ok(value)
    }
}

/// Reads a word at `value` plus `offset` bytes.
#[inline(always)]
fn read_step<C: Context>(ctx: C, space: Space, value: u64, offset: i32) -> Result<u64, Fault> {
    let address = value.wrapping_add_signed(i64::from(offset));
    ctx.read_word(space, address)
}

impl Store {
    /// Writes the field of a value that is not readable.
    #[cold]
    #[inline(never)]
    fn nothing<'o>(&self, fields: &'o mut [u8], strings: &mut impl ProvideStrings) -> Rest<'o> {
        let mut none = || strings.with(|strings| strings.none());
        let zeroes = match *self {
            Self::Value(width) | Self::ValueBits(width, _) => width.bytes(),
            Self::Numbers(_, width, count) | Self::Bits(_, width, count, _) => size(width, count),
            Self::String(_) | Self::Symbol => return put_location(fields, none(), LOCATION_BYTES),
            Self::Strings { count, .. } => {
                let mut fields = fields;
                for _ in 0..count.get() {
                    fields = put_location(fields, none(), LOCATION_BYTES);
                }
                return fields;
            }
        };
        let Some((field, rest)) = fields.split_at_mut_checked(zeroes) else {
            return &mut [];
        };
        field.fill(0);
        rest
    }
}

/// The value of a field. Returns 0 if the record does not contain the field.
///
/// C: `get_event_field()`. C counts [`RecordValue::RelLoc`] from the start of the field.
/// `filter_pred_strrelloc()` and rkprobe count from its end.
#[inline]
fn read_field(record: &[u8], field: RecordField) -> u64 {
    let start = usize::from(field.offset);
    let number = |width: Width| {
        let bytes = record
            .get(start..)
            .and_then(|rest| rest.get(..width.bytes()));
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes.unwrap_or(&[])) {
            *to = *from;
        }
        u64::from_le_bytes(word)
    };
    let address = (record.as_ptr().addr() as u64).wrapping_add(start as u64);
    // The upper half is the length.
    let location = || u64::from(number(Width::W4) as u16);
    match field.value {
        RecordValue::Number(width) => number(width),
        RecordValue::Signed(width) => {
            let unused = 64u32.wrapping_sub((width.bytes() as u32).wrapping_mul(8));
            (number(width).wrapping_shl(unused) as i64).wrapping_shr(unused) as u64
        }
        RecordValue::Text | RecordValue::Address => address,
        RecordValue::DataLoc => (record.as_ptr().addr() as u64).wrapping_add(location()),
        RecordValue::RelLoc => address.wrapping_add(4).wrapping_add(location()),
    }
}

/// The address that a dereference of `value` reads.
#[inline]
fn address(value: u64, at: Deref) -> u64 {
    value.wrapping_add_signed(i64::from(at.offset))
}

/// Reads numbers from memory and writes some of their bits.
#[inline]
fn copy_bits<'o, C: Context + Copy>(
    ctx: C,
    at: Deref,
    value: u64,
    fields: &'o mut [u8],
    width: Width,
    count: NonZeroU8,
    bits: Bits,
) -> Rest<'o> {
    let mut fields = fields;
    let mut address = address(value, at);
    for _ in 0..count.get() {
        let number = ctx.number(at.space, address, width);
        fields = put(fields, cut(number, width, bits), width.bytes());
        address = address.wrapping_add(width.bytes() as u64);
    }
    fields
}

/// Follows the pointers in memory and appends the strings that they point to.
#[inline(never)]
fn add_strings<'o, C: Context + Copy>(
    ctx: C,
    pointers: Deref,
    value: u64,
    text: Space,
    count: NonZeroU8,
    fields: &'o mut [u8],
    strings: &mut Strings<'_>,
) -> Rest<'o> {
    let mut fields = fields;
    let mut address = address(value, pointers);
    for _ in 0..count.get() {
        let location = match ctx.read_word(pointers.space, address) {
            Ok(pointer) => strings.add_apart(ctx, text, pointer),
            Err(Fault) => strings.none(),
        };
        fields = put_location(fields, location, LOCATION_BYTES);
        address = address.wrapping_add(8);
    }
    fields
}

// SPDX-License-Identifier: GPL-2.0

//! A compiled fetch argument, and how it is run on a hit.
//!
//! All code here runs on each hit of a probe. [`compile`](super::compile()) makes all decisions
//! that do not depend on the hit. Rare code is out of line.

use core::num::NonZeroU8;

use crate::{
    arch::Register,
    argument::{
        Argument,
        Deref,
        RecordField,
        RecordValue,
        Step,
        Steps, //
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
    field::Layout,
    string::Strings, //
};

/// The size of a string's location, in bytes.
const LOCATION_BYTES: usize = 4;

// Numbers are read into, and cut out of, the low end of a word.
const _: () = assert!(cfg!(target_endian = "little"));

/// How one fetch argument gets into a record.
///
/// C: the `fetch_insn` array of a `struct probe_arg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(FetchOp);

/// The operation of a program. Each variant has its own code.
///
/// The operations are in three enumerations, by how often they occur. The frequent ones need fewer
/// comparisons. An explicit tag takes one comparison. A tag in the unused values of a field takes
/// three.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum FetchOp {
    /// Stores a register.
    Register(Register, Width),
    /// Does anything else, after one more comparison.
    Slow(SlowFetchOp),
}

/// The operations that are less frequent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum SlowFetchOp {
    /// Stores a number in memory.
    Number(NumberFetch),
    /// Does anything else, after more comparisons.
    Slower(SlowerFetchOp),
}

/// The rest of the operations. The code of all but the last is short, and is part of the loop of
/// [`record`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum SlowerFetchOp {
    /// Stores the base itself.
    Base(SlowBase, Width),
    /// Stores three registers in adjacent fields of eight bytes.
    ThreeRegisters([Register; 3]),
    /// Stores two registers in adjacent fields of eight bytes.
    TwoRegisters([Register; 2]),
    /// Stores two words of the entry data in adjacent fields of eight bytes.
    TwoWords([u8; 2]),
    /// Stores a word of the entry data.
    Word(u8, Width),
    /// Stores several numbers in memory.
    Numbers(NumbersFetch),
    /// Stores some bits of a number in memory.
    Bits(NumberFetch, Bits),
    /// Stores a string in memory.
    String(StringFetch),
    /// Stores zeroes before a field, so that it is aligned.
    Gap(u8),
    /// Stores anything else.
    Generic(GenericFetch),
}

/// An address that needs no read of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Base {
    Register(Register),
    Slow(SlowBase),
}

/// The bases that are less frequent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
enum SlowBase {
    /// The current CPU's copy of the variable at this address.
    ThisCpu(u64),
    /// The current task.
    Current,
}

/// Stores a number in memory. The base points to the number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NumberFetch {
    base: Base,
    at: Deref,
    width: Width,
    advance: Advance,
}

/// Stores adjacent numbers in memory. The register points to the first number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NumbersFetch {
    register: Register,
    at: Deref,
    width: Width,
    /// The size of all numbers.
    bytes: u16,
}

/// Stores a string in memory. The register points to the string.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StringFetch {
    register: Register,
    at: Deref,
    advance: Advance,
}

/// The size of a field and of the gap behind it, in bytes. The program writes the gap with the
/// field. This is an enumeration, so that the compiler knows the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Advance {
    B1 = 1,
    B2 = 2,
    B3 = 3,
    B4 = 4,
    B5 = 5,
    B6 = 6,
    B7 = 7,
    B8 = 8,
}

impl Advance {
    const ALL: [Self; 8] = [
        Self::B1,
        Self::B2,
        Self::B3,
        Self::B4,
        Self::B5,
        Self::B6,
        Self::B7,
        Self::B8,
    ];

    /// A field without a gap.
    const fn of(width: Width) -> Self {
        match width {
            Width::W1 => Self::B1,
            Width::W2 => Self::B2,
            Width::W4 => Self::B4,
            Width::W8 => Self::B8,
        }
    }

    /// The same field with a gap of this size. `None` if both take more than eight bytes.
    fn with_gap(self, gap: u8) -> Option<Self> {
        let bytes = self.bytes().wrapping_add(gap.into());
        Self::ALL.get(bytes.wrapping_sub(1)).copied()
    }

    #[inline(always)]
    const fn bytes(self) -> usize {
        self as usize
    }
}

/// The three stages of a fetch: load a value, follow a path through memory, store the result.
///
/// C: the stages of `process_fetch_insn_bottom()`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GenericFetch {
    load: Load,
    path: Path,
    store: Store,
}

/// The source of the first value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Register(Register),
    Stack(u16),
    EntryData(u8),
    Elapsed,
    Exit,
    Watched,
    Field(RecordField),
    Comm,
    Current,
    Value(u64),
}

/// What is stored of the value, as a field of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    /// The value itself.
    Value(Width),
    /// Some bits of the value itself.
    ValueBits(Width, Bits),
    /// One or more adjacent numbers in memory.
    Numbers(Deref, Width, NonZeroU8),
    /// Some bits of each of the numbers in memory, next to each other.
    Bits(Deref, Width, NonZeroU8, Bits),
    /// The symbol of the value, as text.
    Symbol,
    /// A string in memory.
    String(Deref),
    /// Strings in memory, with pointers to them in memory, next to each other.
    Strings {
        pointers: Deref,
        text: Space,
        count: NonZeroU8,
    },
}

/// The steps between the value that is loaded and the place that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    offsets: [i32; Steps::MAX],
    /// Bit N is set where step N reads user memory.
    user: u16,
    /// Bit N is set where step N reads nothing, but finds the current CPU's copy of a variable.
    this_cpu: u16,
    len: u8,
}

impl Path {
    /// A path of the first [`Steps::MAX`] of these.
    pub(super) fn new(steps: &[Step]) -> Self {
        let mut path = Self {
            offsets: [0; Steps::MAX],
            user: 0,
            this_cpu: 0,
            len: 0,
        };
        for (step, offset) in steps.iter().zip(&mut path.offsets) {
            let bit = 1u16.wrapping_shl(u32::from(path.len));
            match step {
                Step::Deref(deref) => {
                    *offset = deref.offset;
                    if deref.space == Space::User {
                        path.user |= bit;
                    }
                }
                Step::ThisCpu => path.this_cpu |= bit,
            }
            path.len = path.len.wrapping_add(1);
        }
        path
    }

    /// Follows the path from `value` on.
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

    /// The same for a path with steps of any kind.
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

/// Reads a word behind `value`.
#[inline(always)]
fn read_step<C: Context>(ctx: C, space: Space, value: u64, offset: i32) -> Result<u64, Fault> {
    let address = value.wrapping_add_signed(i64::from(offset));
    ctx.read_word(space, address)
}

/// Runs the programs of an event: writes their fields, and behind them their strings, to `out`.
/// Returns the number of bytes that are used: `fixed`, and those of the strings.
///
/// `fixed` is the size of all fields, as [`Layout::bytes`] says. `header` is the size of what comes
/// before `out` in the record, since strings are located from its start.
///
/// Where no field is [dynamic](Layout::is_dynamic), `out` may be just the place for the
/// fields in the record. Otherwise it should be large enough for the strings as well: one that
/// does not fit is cut short, and one for which not a byte is left is recorded like one that could
/// not be read. What is in `out` behind the bytes that are used is undefined. An `out` that is too
/// small for the fields is left alone, and 0 is returned.
///
/// Memory that cannot be read gives 0 for a number and a string of no length.
///
/// Runs in any context, like [`Context`]; does not allocate, and takes less than 512 bytes of
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
    let mut strings = Strings::new(rest, header.saturating_add(fixed));
    run(programs, ctx, fields, &mut strings);
    fixed.wrapping_add(strings.used())
}

/// Does what [`record`] does for programs of which none makes a string: `fields` is the place for
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

/// Provides the place for strings to the operations that need it.
trait ProvideStrings {
    fn with<R>(&mut self, f: impl FnOnce(&mut Strings<'_>) -> R) -> R;

    /// Appends the string at `address`. A closure for [`with`](Self::with) is not always inlined.
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

/// No place for strings. Makes an empty [`Strings`] only if an operation needs one.
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

/// The place for the fields that are still to come; nothing where a field did not fit.
///
/// Fields and gaps follow each other in the order of their programs. So a program takes its field
/// off the front, and needs no other check.
type Rest<'o> = &'o mut [u8];

impl Program {
    /// The program of the gap before the field of the next argument, if there is a gap.
    pub fn gap_before(next: &Argument<'_>, so_far: Layout) -> Option<Self> {
        let bytes = so_far.gap_before(next) as u8;
        (bytes != 0).then_some(Self(FetchOp::slower(SlowerFetchOp::Gap(bytes))))
    }

    /// Makes one program of this one and the next one, if one program can do what both do. Returns
    /// the next one otherwise.
    pub fn join(&mut self, next: Self) -> Option<Self> {
        use SlowerFetchOp::{
            Gap,
            ThreeRegisters,
            TwoRegisters,
            TwoWords,
            Word, //
        };
        match (&mut self.0, &next.0) {
            (&mut FetchOp::Register(a, Width::W8), &FetchOp::Register(b, Width::W8)) => {
                self.0 = FetchOp::slower(TwoRegisters([a, b]));
            }
            (
                &mut FetchOp::Slow(SlowFetchOp::Slower(TwoRegisters([a, b]))),
                &FetchOp::Register(c, Width::W8),
            ) => {
                self.0 = FetchOp::slower(ThreeRegisters([a, b, c]));
            }
            (
                &mut FetchOp::Slow(SlowFetchOp::Slower(Word(a, Width::W8))),
                &FetchOp::Slow(SlowFetchOp::Slower(Word(b, Width::W8))),
            ) => {
                self.0 = FetchOp::slower(TwoWords([a, b]));
            }
            (FetchOp::Slow(op), &FetchOp::Slow(SlowFetchOp::Slower(Gap(gap)))) => {
                let Some(advance) = op.zero_extended() else {
                    return Some(next);
                };
                let Some(with_gap) = advance.with_gap(gap) else {
                    return Some(next);
                };
                *advance = with_gap;
            }
            _ => return Some(next),
        }
        None
    }

    /// Chooses the fastest operation.
    pub(super) fn new(load: Load, path: Path, store: Store) -> Self {
        Self(match (load, path.len, store) {
            (Load::Register(from), 0, Store::Value(width)) => FetchOp::Register(from, width),
            _ => FetchOp::Slow(SlowFetchOp::new(load, path, store)),
        })
    }
}

impl FetchOp {
    fn slower(op: SlowerFetchOp) -> Self {
        Self::Slow(SlowFetchOp::Slower(op))
    }
}

impl Base {
    /// The value at the end of a path, if it is a base.
    fn new(load: Load, path: &Path) -> Option<Self> {
        match (load, path.len) {
            (Load::Register(register), 0) => Some(Self::Register(register)),
            (Load::Value(address), 1) if path.this_cpu != 0 => {
                Some(Self::Slow(SlowBase::ThisCpu(address)))
            }
            (Load::Current, 0) => Some(Self::Slow(SlowBase::Current)),
            _ => None,
        }
    }

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

impl SlowFetchOp {
    fn new(load: Load, path: Path, store: Store) -> Self {
        if let (Load::EntryData(index), 0, Store::Value(width)) = (load, path.len, store) {
            return Self::Slower(SlowerFetchOp::Word(index, width));
        }
        Self::Slower(match (Base::new(load, &path), store) {
            (Some(base), Store::Numbers(at, width, NonZeroU8::MIN)) => {
                return Self::Number(NumberFetch::new(base, at, width));
            }
            (Some(Base::Slow(base)), Store::Value(width)) => SlowerFetchOp::Base(base, width),
            (Some(base), Store::Bits(at, width, NonZeroU8::MIN, bits)) => {
                SlowerFetchOp::Bits(NumberFetch::new(base, at, width), bits)
            }
            (Some(Base::Register(register)), Store::Numbers(at, width, count)) => {
                SlowerFetchOp::Numbers(NumbersFetch {
                    register,
                    at,
                    width,
                    bytes: size(width, count) as u16,
                })
            }
            (Some(Base::Register(register)), Store::String(at)) => {
                SlowerFetchOp::String(StringFetch {
                    register,
                    at,
                    advance: Advance::B4,
                })
            }
            _ => SlowerFetchOp::Generic(GenericFetch { load, path, store }),
        })
    }

    /// The advance of an operation that writes zeroes behind its field.
    fn zero_extended(&mut self) -> Option<&mut Advance> {
        match self {
            Self::Number(number) | Self::Slower(SlowerFetchOp::Bits(number, _)) => {
                Some(&mut number.advance)
            }
            Self::Slower(SlowerFetchOp::String(string)) => Some(&mut string.advance),
            Self::Slower(_) => None,
        }
    }

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
                put(fields, location.into(), string.advance.bytes())
            }
            Self::Gap(bytes) => put_gap(fields, *bytes),
            Self::Generic(fetch) => fetch.run(ctx, fields, strings),
        }
    }
}

impl NumberFetch {
    fn new(base: Base, at: Deref, width: Width) -> Self {
        Self {
            base,
            at,
            width,
            advance: Advance::of(width),
        }
    }

    /// Reads the number; 0 after a fault.
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

    /// Computes the address again, so that the fast path need not save it.
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
            Load::Exit => ctx.exit(),
            Load::Watched => ctx.watched(),
            Load::Field(field) => read_field(ctx.record(), field),
            Load::Comm => ctx.comm(),
            Load::Current => ctx.current(),
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
                put(fields, location.into(), LOCATION_BYTES)
            }
            Store::String(at) => {
                let from = address(value, at);
                let location = strings.with(|strings| strings.add_apart(ctx, at.space, from));
                put(fields, location.into(), LOCATION_BYTES)
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

impl Store {
    /// Writes the field of a value that could not be had.
    #[cold]
    #[inline(never)]
    fn nothing<'o>(&self, fields: &'o mut [u8], strings: &mut impl ProvideStrings) -> Rest<'o> {
        let mut none = || u64::from(strings.with(|strings| strings.none()));
        let zeroes = match *self {
            Self::Value(width) | Self::ValueBits(width, _) => width.bytes(),
            Self::Numbers(_, width, count) | Self::Bits(_, width, count, _) => size(width, count),
            Self::String(_) | Self::Symbol => return put(fields, none(), LOCATION_BYTES),
            Self::Strings { count, .. } => {
                let mut fields = fields;
                for _ in 0..count.get() {
                    fields = put(fields, none(), LOCATION_BYTES);
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

/// The value of a field, and 0 for one that is not in the record.
///
/// C: `get_event_field()`. It counts [`RecordValue::RelLoc`] from the start of the field;
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
        RecordValue::Address => address,
        RecordValue::DataLoc => (record.as_ptr().addr() as u64).wrapping_add(location()),
        RecordValue::RelLoc => address.wrapping_add(4).wrapping_add(location()),
    }
}

/// The address of a dereference of `value`.
#[inline]
fn address(value: u64, at: Deref) -> u64 {
    value.wrapping_add_signed(i64::from(at.offset))
}

/// The size of an array in bytes.
#[inline]
fn size(width: Width, count: NonZeroU8) -> usize {
    width.bytes().wrapping_mul(usize::from(count.get()))
}

/// The bits of a number, by the shifts that leave only these: as C shifts in a number of this
/// width, which here is the upper end of a word.
///
/// C: `fetch_apply_bitfield()`.
#[inline]
fn cut(value: u64, width: Width, bits: Bits) -> u64 {
    let unused = 64u32.wrapping_sub((width.bytes() as u32).wrapping_mul(8));
    value
        .wrapping_shl(unused.wrapping_add(u32::from(bits.left)))
        .wrapping_shr(unused.wrapping_add(u32::from(bits.right)))
}

/// Writes the low bytes of a value as a field of `bytes` bytes.
#[inline]
fn put(fields: &mut [u8], value: u64, bytes: usize) -> Rest<'_> {
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
fn put_words<const N: usize, const BYTES: usize>(fields: &mut [u8], words: [u64; N]) -> Rest<'_> {
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
fn put_gap(fields: &mut [u8], bytes: u8) -> Rest<'_> {
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
fn copy<'o>(
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
fn copy_each<C: Context + Copy>(
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

/// Follows the pointers in memory and records the strings that they point to.
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
        fields = put(fields, location.into(), LOCATION_BYTES);
        address = address.wrapping_add(8);
    }
    fields
}

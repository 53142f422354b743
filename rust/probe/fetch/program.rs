// SPDX-License-Identifier: GPL-2.0

//! The program of a fetch argument: its operation.
//!
//! [`compile`](super::compile()) makes all decisions that do not depend on the hit, and
//! [`record`](super::record) runs the operation on each hit.

use core::num::NonZeroU8;

use crate::{
    arch::Register,
    argument::{
        Argument,
        Deref,
        RecordField,
        Step,
        Steps, //
    },
    types::{
        Bits,
        Space,
        Width, //
    },
};

use super::field::Layout;

/// A compiled fetch argument. It writes one field of a record, or several joined fields.
///
/// C: the `fetch_insn` array of a `struct probe_arg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(pub(super) FetchOp);

/// The operation of a program. Each variant has its own code.
///
/// Three enumerations contain the operations, by frequency, so that frequent operations need fewer
/// comparisons. The explicit tag of `repr(u8)` takes one comparison. A tag in the unused values of
/// a field would take three.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FetchOp {
    /// Stores a register.
    Register(Register, Width),
    /// Runs a less frequent operation, after one more comparison.
    Slow(SlowFetchOp),
}

/// The less frequent operations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SlowFetchOp {
    /// Stores a number in memory.
    Number(NumberFetch),
    /// Runs a rare operation, after more comparisons.
    Slower(SlowerFetchOp),
}

/// The other operations. The code of each but the last is short, and is part of the loop of
/// [`record`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SlowerFetchOp {
    /// Stores the base.
    Base(SlowBase, Width),
    /// Stores three registers in adjacent fields of eight bytes.
    ThreeRegisters([Register; 3]),
    /// Stores two registers in adjacent fields of eight bytes.
    TwoRegisters([Register; 2]),
    /// Stores two words of entry data in adjacent fields of eight bytes.
    TwoWords([u8; 2]),
    /// Stores a word of entry data.
    Word(u8, Width),
    /// Stores several numbers in memory.
    Numbers(NumbersFetch),
    /// Stores some bits of a number in memory.
    Bits(NumberFetch, Bits),
    /// Stores a string in memory.
    String(StringFetch),
    /// Stores zeroes in the gap before an aligned field.
    Gap(u8),
    /// Stores any other value.
    Generic(GenericFetch),
}

/// An address that needs no read of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum DirectBase {
    Register(Register),
    Slow(SlowBase),
}

/// The less frequent bases.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SlowBase {
    /// The current CPU's copy of the variable at this address.
    ThisCpu(u64),
    /// The current task.
    Current,
}

/// Stores a number in memory. The base points to the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberFetch {
    pub(super) base: DirectBase,
    pub(super) at: Deref,
    pub(super) width: Width,
    pub(super) advance: Advance,
}

/// Stores adjacent numbers in memory. The register points to the first number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumbersFetch {
    pub(super) register: Register,
    pub(super) at: Deref,
    pub(super) width: Width,
    /// The size of all numbers, in bytes.
    pub(super) bytes: u16,
}

/// Stores a string in memory. The register points to the string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StringFetch {
    pub(super) register: Register,
    pub(super) at: Deref,
    pub(super) advance: Advance,
}

/// The size of a field and of the gap after it, in bytes. The program writes the gap together with
/// the field. This type is an enumeration, so that the compiler knows the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Advance {
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

    /// The size of a field without a gap.
    const fn of(width: Width) -> Self {
        match width {
            Width::W1 => Self::B1,
            Width::W2 => Self::B2,
            Width::W4 => Self::B4,
            Width::W8 => Self::B8,
        }
    }

    /// Adds a gap of `gap` bytes. Returns `None` if the sum is more than eight bytes.
    fn with_gap(self, gap: u8) -> Option<Self> {
        let bytes = self.bytes().wrapping_add(gap.into());
        Self::ALL.get(bytes.wrapping_sub(1)).copied()
    }

    #[inline(always)]
    pub(super) const fn bytes(self) -> usize {
        self as usize
    }
}

/// The three stages of a fetch: load a value, follow a path through memory, store the result.
///
/// C: the stages of `process_fetch_insn_bottom()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GenericFetch {
    pub(super) load: Load,
    pub(super) path: Path,
    pub(super) store: Store,
}

/// The source of the first value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Register(Register),
    Stack(u16),
    EntryData(u8),
    Elapsed,
    Caller,
    Exit,
    /// The text of a path.
    Path,
    /// The number of blocks of a path.
    Blocks,
    Watched,
    Field(RecordField),
    Comm,
    Current,
    Pid,
    Value(u64),
}

/// The part of the value that a program stores as a field of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    /// The value.
    Value(Width),
    /// Some bits of the value.
    ValueBits(Width, Bits),
    /// One or more adjacent numbers in memory.
    Numbers(Deref, Width, NonZeroU8),
    /// Some bits of one or more adjacent numbers in memory.
    Bits(Deref, Width, NonZeroU8, Bits),
    /// The symbol of the value, as a string.
    Symbol,
    /// A string in memory.
    String(Deref),
    /// Strings in memory. Adjacent pointers in memory point to them.
    Strings {
        pointers: Deref,
        text: Space,
        count: NonZeroU8,
    },
}

/// The steps between the loaded value and the stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) offsets: [i32; Steps::MAX],
    /// Bit N is set if step N reads user memory.
    pub(super) user: u16,
    /// Bit N is set if step N reads no memory, but computes the address of the current CPU's copy
    /// of a variable.
    pub(super) this_cpu: u16,
    pub(super) len: u8,
}

impl Path {
    /// Creates a path of the first [`Steps::MAX`] steps.
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
}

impl Program {
    /// Creates the program that fills the gap before the field of `next`. Returns `None` if there
    /// is no gap.
    pub fn gap_before(next: &Argument<'_>, so_far: Layout) -> Option<Self> {
        let bytes = so_far.gap_before(next) as u8;
        (bytes != 0).then_some(Self(FetchOp::slower(SlowerFetchOp::Gap(bytes))))
    }

    /// Joins this program and `next` if one program can do the work of both. Otherwise returns
    /// `next`.
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

    /// Creates a program with the fastest operation.
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

impl DirectBase {
    /// The base that equals the value at the end of a path. Returns `None` for other paths.
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
}

impl SlowFetchOp {
    fn new(load: Load, path: Path, store: Store) -> Self {
        if let (Load::EntryData(index), 0, Store::Value(width)) = (load, path.len, store) {
            return Self::Slower(SlowerFetchOp::Word(index, width));
        }
        Self::Slower(match (DirectBase::new(load, &path), store) {
            (Some(base), Store::Numbers(at, width, NonZeroU8::MIN)) => {
                return Self::Number(NumberFetch::new(base, at, width));
            }
            (Some(DirectBase::Slow(base)), Store::Value(width)) => SlowerFetchOp::Base(base, width),
            (Some(base), Store::Bits(at, width, NonZeroU8::MIN, bits)) => {
                SlowerFetchOp::Bits(NumberFetch::new(base, at, width), bits)
            }
            (Some(DirectBase::Register(register)), Store::Numbers(at, width, count)) => {
                SlowerFetchOp::Numbers(NumbersFetch {
                    register,
                    at,
                    width,
                    bytes: size(width, count) as u16,
                })
            }
            (Some(DirectBase::Register(register)), Store::String(at)) => {
                SlowerFetchOp::String(StringFetch {
                    register,
                    at,
                    advance: Advance::B4,
                })
            }
            _ => SlowerFetchOp::Generic(GenericFetch { load, path, store }),
        })
    }

    /// The advance of an operation that can write zeroes after its field. `None` for other
    /// operations.
    fn zero_extended(&mut self) -> Option<&mut Advance> {
        match self {
            Self::Number(number) | Self::Slower(SlowerFetchOp::Bits(number, _)) => {
                Some(&mut number.advance)
            }
            Self::Slower(SlowerFetchOp::String(string)) => Some(&mut string.advance),
            Self::Slower(_) => None,
        }
    }
}

impl NumberFetch {
    fn new(base: DirectBase, at: Deref, width: Width) -> Self {
        Self {
            base,
            at,
            width,
            advance: Advance::of(width),
        }
    }
}

/// The size of an array, in bytes.
#[inline]
pub(super) fn size(width: Width, count: NonZeroU8) -> usize {
    width.bytes().wrapping_mul(usize::from(count.get()))
}

// SPDX-License-Identifier: GPL-2.0

//! A fetch argument: `[NAME=]BODY[:TYPE]`.
//!
//! C: `traceprobe_parse_probe_arg()` in `kernel/trace/trace_probe.c`.

use core::fmt;
use core::num::NonZeroU8;

use super::error::Errno;
use super::number;
use crate::arch::Register;

/// Where the probe stands in the function that it probes: it decides which variables there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The entry: `$argN` is available.
    Entry,
    /// Any other instruction.
    Inside,
    /// The return: `$retval` and `$elapsed` are available, and `$argN` as it was at the entry.
    Return,
    /// An instruction with which the function returns: `$retval` and `$exit` are available, but
    /// nothing of the entry.
    ReturnInsn,
    /// A tracepoint: `$argN` is available.
    Tracepoint,
    /// No function, but a trace event: the fields of its record are available.
    Event,
}

/// One fetch argument, borrowed from the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The name that the field gets.
    pub name: Name<'a>,
    /// What follows the name, as written: it stands in the listing.
    pub body: &'a str,
    /// Where the value comes from.
    pub fetch: Fetch<'a>,
    /// What is stored of it.
    pub ty: Type,
    /// The number of elements of an array, at most 64.
    pub count: Option<NonZeroU8>,
}

impl Argument<'_> {
    /// The name of the type, as C compares it for the probes of one event: a bitfield is the
    /// number that it is in, and a string is what the command calls it, wherever it is read.
    ///
    /// C: `struct fetch_type`.
    pub fn type_name(&self) -> &'static str {
        match self.ty {
            Type::String(_) => match self.body.split_once(':') {
                Some((_, name)) if name.starts_with('u') => "ustring",
                _ => "string",
            },
            Type::Symstr => "symstr",
            Type::Number(width, style) | Type::Bitfield(width, style, _) => width.type_name(style),
        }
    }
}

/// The name of an argument. `Display` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Written in front of a `=`, or the variable that is the argument.
    Given(&'a str),
    /// Left out: `argN`, counted from 1.
    Numbered(usize),
}

impl Name<'_> {
    /// Whether two names are written alike.
    pub fn is_same(self, other: Name<'_>) -> bool {
        match (self, other) {
            (Name::Given(a), Name::Given(b)) => a == b,
            (Name::Numbered(a), Name::Numbered(b)) => a == b,
            (Name::Given(name), Name::Numbered(n)) | (Name::Numbered(n), Name::Given(name)) => {
                // `arg01` is another name than `arg1`, and `arg+1` is none.
                name.strip_prefix("arg")
                    .filter(|number| !number.starts_with(['0', '+']))
                    .and_then(|number| number::unsigned(number, 10).ok())
                    .is_some_and(|number| usize::try_from(number) == Ok(n))
            }
        }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Name::Given(name) => f.write_str(name),
            Name::Numbered(n) => write!(f, "arg{n}"),
        }
    }
}

/// The source of a value: a base and the memory that is read from there on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// The first value.
    pub base: Base<'a>,
    /// The dereferences, innermost first.
    pub derefs: Derefs,
}

/// Where a fetch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base<'a> {
    /// `%REG`.
    Register(Register),
    /// `$stack`: the stack pointer.
    StackPointer,
    /// `$stackN`: the Nth word of the kernel stack.
    Stack(u16),
    /// `$argN`, counted from 0. What a tracepoint calls has an argument of its own in front.
    Argument(u16),
    /// `$argN` of a return probe, counted from 0: it is kept from the entry of the call.
    EntryArgument(u16),
    /// `$retval`.
    ReturnValue,
    /// `$elapsed`: the time from the entry of the call to its return, in ns. Ours; C has no such.
    Elapsed,
    /// `$exit`: the address of the instruction with which the function returns. Ours; C has no
    /// such.
    Exit,
    /// `$FIELD`: a field of the record of the event that an event probe is attached to.
    Field(RecordField),
    /// `$comm`: the address of the name of the current task.
    Comm,
    /// `\IMM`, or the address of `@ADDR` (which adds a dereference).
    Immediate(u64),
    /// `\"TEXT"`: the address of this text.
    Text(&'a str),
    /// `@SYM[+|-OFF]`: the address of a symbol (with a dereference), as written; see
    /// [`split_symbol`]. C looks it up when it registers the probe: a malformed offset is
    /// `FailRegProbe`, a missing symbol `BadProbeAddr`, both at the target.
    Symbol(&'a str),
}

/// A field in the record of an event: where it is, and what its value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// In bytes from the start of the record.
    pub offset: u16,
    /// What is there.
    pub value: RecordValue,
}

/// What a field of a record gives.
///
/// C: `get_event_field()` in `kernel/trace/trace_eprobe.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordValue {
    /// A number.
    Number(Width),
    /// One with a sign.
    Signed(Width),
    /// The address of the field: of a string in it, or of whatever is no number.
    Address,
    /// The address of a string whose location is in the field, from the start of the record:
    /// `__data_loc`.
    Located,
    /// The same from the end of the field on: `__rel_loc`.
    LocatedFromHere,
}

/// Splits `SYM[+|-OFF]` into the symbol, which may be empty, and the offset in bytes.
///
/// C: `traceprobe_split_symbol_offset()`.
///
/// # Errors
///
/// EINVAL where the offset is no number, ERANGE where it does not fit.
pub fn split_symbol(text: &str) -> Result<(&str, i64), Errno> {
    let start = text.find(['+', '-']).unwrap_or(text.len());
    match text.split_at_checked(start) {
        None | Some((_, "")) => Ok((text, 0)),
        Some((symbol, offset)) => Ok((symbol, number::signed(offset)?)),
    }
}

/// Whose memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The kernel's.
    Kernel,
    /// That of the current process.
    User,
}

/// One read of memory at a value plus an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deref {
    /// Whose memory.
    pub space: Space,
    /// Added to the address, in bytes.
    pub offset: i32,
}

/// The dereferences of a fetch: the kernel allows 16 steps for a whole argument, three of which
/// load, store and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derefs {
    items: [Deref; Self::MAX],
    len: u8,
}

impl Derefs {
    /// The most there can be.
    pub const MAX: usize = 14;

    /// None.
    pub const fn new() -> Self {
        Self {
            items: [Deref {
                space: Space::Kernel,
                offset: 0,
            }; Self::MAX],
            len: 0,
        }
    }

    /// Adds one on the outside, and gives it back where there is no room.
    pub fn push(&mut self, deref: Deref) -> Result<(), Deref> {
        match self.items.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = deref;
                self.len = self.len.saturating_add(1);
                Ok(())
            }
            None => Err(deref),
        }
    }

    /// Takes the outermost away.
    pub fn pop(&mut self) -> Option<Deref> {
        self.len = self.len.checked_sub(1)?;
        self.items.get(usize::from(self.len)).copied()
    }

    /// The dereferences, innermost first.
    pub fn as_slice(&self) -> &[Deref] {
        self.items.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

impl Default for Derefs {
    fn default() -> Self {
        Self::new()
    }
}

/// The type of the field that an argument becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number of 1, 2, 4 or 8 bytes.
    Number(Width, Style),
    /// `bW@O/S`: W bits at bit O of a number of S bits. Only what BTF calls one is signed, and by
    /// its name alone: its value has no sign.
    Bitfield(Width, Style, Bits),
    /// `string`, `ustring`: the bytes up to the first NUL, with the space they are read from: the
    /// user's for `ustring`, and, but for an array, where the outermost dereference is `+u`.
    String(Space),
    /// `symstr`: the symbol that a value is in, with offset and size, as a text that is made at the
    /// hit.
    Symstr,
}

impl Type {
    /// What one value takes in the fixed part of a record, in bytes: of a text its locator.
    pub const fn size(self) -> usize {
        match self {
            Self::Number(width, _) | Self::Bitfield(width, ..) => width.bytes(),
            Self::String(_) | Self::Symstr => 4,
        }
    }
}

/// How many bytes a number has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 8 bits.
    W1 = 1,
    /// 16 bits.
    W2 = 2,
    /// 32 bits.
    W4 = 4,
    /// 64 bits.
    W8 = 8,
}

impl Width {
    /// In bytes.
    pub const fn bytes(self) -> usize {
        self as usize
    }

    /// The name of a number of this width.
    const fn type_name(self, style: Style) -> &'static str {
        match (style, self) {
            (Style::Unsigned, Self::W1) => "u8",
            (Style::Unsigned, Self::W2) => "u16",
            (Style::Unsigned, Self::W4) => "u32",
            (Style::Unsigned, Self::W8) => "u64",
            (Style::Signed, Self::W1) => "s8",
            (Style::Signed, Self::W2) => "s16",
            (Style::Signed, Self::W4) => "s32",
            (Style::Signed, Self::W8) => "s64",
            (Style::Hex, Self::W1) => "x8",
            (Style::Hex, Self::W2) => "x16",
            (Style::Hex, Self::W4) => "x32",
            (Style::Hex, Self::W8) => "x64",
            (Style::Char, _) => "char",
            (Style::Symbol, _) => "symbol",
        }
    }
}

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `u8` to `u64`.
    Unsigned,
    /// `s8` to `s64`.
    Signed,
    /// `x8` to `x64`: `0x` and hexadecimal digits.
    Hex,
    /// `char`: one byte in quotes.
    Char,
    /// `symbol`: an address, shown as symbol+offset/size.
    Symbol,
}

/// The place of a bitfield within its number: shifts that leave only its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// First to the left...
    pub left: u8,
    /// ...then to the right.
    pub right: u8,
}

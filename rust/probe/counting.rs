// SPDX-License-Identifier: GPL-2.0

//! Resolved keys of an event that counts at the hit.
//!
//! The parser creates [`Key`]s. At a hit, the words of all keys form the key of the
//! [table](crate::count_table).
//!
//! C: `struct hist_field` in `kernel/trace/trace_events_hist.c`.

use core::num::NonZeroU64;

use crate::{
    argument::{
        Argument,
        Base, //
    },
    types::{
        FetchType,
        Style,
        Width, //
    },
};

/// The number of words of a stack.
///
/// C: `HIST_STACKTRACE_DEPTH`.
pub const STACK_WORDS: usize = 16;

/// The number of words of the name of a task.
///
/// C: `TASK_COMM_LEN`.
pub const COMM_WORDS: usize = 2;

/// The number of words of any other string. The table has only the start of a longer string.
pub const STRING_WORDS: usize = 8;

/// A key of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The name in the table: that of the argument, or the text of the key.
    pub name: &'a str,
    /// The source of the value.
    pub source: KeySource<'a>,
    /// The change of the value, or its form.
    pub modifier: Modifier,
}

/// The source of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource<'a> {
    /// `func`: the address of the probed function, or of the probe.
    Function,
    /// `stack`: the addresses of the callers.
    Stack,
    /// `common_pid`: the number of the task.
    Pid,
    /// An argument of the event, or a fetch argument. Its name has no meaning.
    Argument(Argument<'a>),
}

/// The modifier of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Modifier {
    /// No modifier.
    #[default]
    None,
    /// `.hex`: the number in hexadecimal.
    Hex,
    /// `.sym`: the symbol of an address.
    Sym,
    /// `.sym-offset`: the symbol of an address, with offset and size.
    SymOffset,
    /// `.execname`: the name of the task with a number.
    Execname,
    /// `.syscall`: the name of the system call with a number.
    Syscall,
    /// `.log2`: the power of two at or above the number.
    Log2,
    /// `.buckets=N`: the range of N numbers that contains the number.
    Buckets(NonZeroU64),
}

impl<'a> Key<'a> {
    /// The form of the key in the table.
    pub fn form(&self) -> KeyForm {
        let (value, modifier) = (self.value(), self.modifier);
        KeyForm { value, modifier }
    }

    /// The argument that the key reads.
    pub fn argument(&self) -> Option<&Argument<'a>> {
        match &self.source {
            KeySource::Argument(argument) => Some(argument),
            KeySource::Function | KeySource::Stack | KeySource::Pid => None,
        }
    }

    fn value(&self) -> KeyValue {
        match &self.source {
            KeySource::Function => KeyValue::Number,
            KeySource::Stack => KeyValue::Stack,
            KeySource::Pid => KeyValue::Number,
            KeySource::Argument(argument) => match argument.ty {
                FetchType::Number(_, Style::Errno) if self.modifier == Modifier::None => {
                    KeyValue::Error
                }
                FetchType::Number(..) | FetchType::Bitfield(..) => KeyValue::Number,
                FetchType::String(_) if is_comm(argument) => KeyValue::Comm,
                FetchType::String(_) | FetchType::Symstr => KeyValue::String,
            },
        }
    }

    /// The change of a number at the hit.
    pub fn number(&self) -> KeyNumber {
        let ty = match &self.source {
            KeySource::Argument(argument) => argument.ty,
            KeySource::Pid => FetchType::Number(Width::W4, Style::Signed),
            _ => FetchType::Number(Width::W8, Style::Hex),
        };
        KeyNumber {
            extend: Extend::of(ty),
            modifier: self.modifier,
        }
    }

    /// Whether the modifier fits the value.
    ///
    /// As in the kernel, `.execname` is only for the number of the task itself, because no other
    /// task is certain to exist at the hit.
    pub(crate) fn fits(&self) -> bool {
        use Modifier::*;

        match &self.source {
            KeySource::Function => matches!(self.modifier, None | Hex | Sym | SymOffset),
            KeySource::Stack => self.modifier == None,
            KeySource::Pid => matches!(self.modifier, None | Hex | Execname),
            KeySource::Argument(argument) => match (self.modifier, argument.ty) {
                (None, _) => true,
                (Execname, _) => false,
                (Sym | SymOffset, ty) => matches!(ty, FetchType::Number(Width::W8, _)),
                (_, ty) => !ty.is_text(),
            },
        }
    }
}

/// The form of a key in the table, and in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyForm {
    /// The kind of the value.
    pub value: KeyValue,
    /// The modifier of the key.
    pub modifier: Modifier,
}

/// The kind of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// A number or an address: a word. With `.execname`, the name of the task follows.
    Number,
    /// The number of an error, without a modifier: a word.
    Error,
    /// The name of the task: a string of [`COMM_WORDS`].
    Comm,
    /// A string of [`STRING_WORDS`].
    String,
    /// Addresses. A 0 ends the stack.
    Stack,
}

impl KeyForm {
    /// The number of words in the table.
    pub const fn words(self) -> usize {
        match (self.value, self.modifier) {
            (KeyValue::Number, Modifier::Execname) => COMM_WORDS.saturating_add(1),
            (KeyValue::Number | KeyValue::Error, _) => 1,
            (KeyValue::Comm, _) => COMM_WORDS,
            (KeyValue::String, _) => STRING_WORDS,
            (KeyValue::Stack, _) => STACK_WORDS,
        }
    }
}

/// Writes a string into words: its bytes up to the first NUL, in the order of memory of a
/// little-endian processor, and zeros. A longer string is cut. Any context.
#[inline(always)]
pub fn write_string(text: &[u8], words: &mut [u64]) {
    let mut rest = text;
    for to in words {
        let word = match rest.split_first_chunk() {
            Some((bytes, behind)) => {
                rest = behind;
                u64::from_le_bytes(*bytes)
            }
            None => {
                let mut bytes = [0; 8];
                for (to, byte) in bytes.iter_mut().zip(rest) {
                    *to = *byte;
                }
                rest = &[];
                u64::from_le_bytes(bytes)
            }
        };
        let is_end;
        (*to, is_end) = cut(word);
        if is_end {
            rest = &[];
        }
    }
}

/// The name of a task without what follows its first NUL. Any context.
#[inline(always)]
pub fn cut_comm([first, second]: [u64; COMM_WORDS]) -> [u64; COMM_WORDS] {
    match cut(first) {
        (first, true) => [first, 0],
        (first, false) => [first, cut(second).0],
    }
}

/// A word of a string, without what follows the first NUL, and whether there is one.
#[inline(always)]
const fn cut(word: u64) -> (u64, bool) {
    let nuls = nuls(word);
    // The bits below the lowest one. Of the byte with the NUL, they are zeros.
    (word & nuls.wrapping_sub(1) & !nuls, nuls != 0)
}

/// A word that is 0 if no byte is a NUL. Otherwise, its lowest bit is the highest bit of the first
/// NUL.
#[inline(always)]
const fn nuls(word: u64) -> u64 {
    const LOWEST: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = 0x8080_8080_8080_8080;

    word.wrapping_sub(LOWEST) & !word & HIGHEST
}

/// Whether the string is `$comm`.
fn is_comm(argument: &Argument<'_>) -> bool {
    argument.fetch.base == Base::Comm && argument.fetch.steps.as_slice().is_empty()
}

/// Extends a number to 64 bits, with its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extend {
    unused: u8,
    is_signed: bool,
}

impl Extend {
    /// Extends numbers of a type. As in a record, the value of a bitfield has no sign.
    pub const fn of(ty: FetchType) -> Self {
        let (width, is_signed) = match ty {
            FetchType::Number(width, style) => (width, style.is_signed()),
            FetchType::Bitfield(width, ..) => (width, false),
            FetchType::String(_) | FetchType::Symstr => (Width::W8, false),
        };
        Self {
            unused: 64u8.saturating_sub((width.bytes() as u8).saturating_mul(8)),
            is_signed,
        }
    }

    /// Whether numbers of the type have a sign.
    pub const fn is_signed(self) -> bool {
        self.is_signed
    }

    /// Extends a number. Its bits above its width have no effect. Any context.
    #[inline(always)]
    pub const fn extend(self, number: u64) -> u64 {
        let unused = self.unused as u32;
        let shifted = number.wrapping_shl(unused);
        if self.is_signed {
            (shifted as i64).wrapping_shr(unused) as u64
        } else {
            shifted.wrapping_shr(unused)
        }
    }
}

/// Makes the word of a number in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyNumber {
    extend: Extend,
    modifier: Modifier,
}

impl KeyNumber {
    /// The word of a number. The bits above its width have no effect. Any context.
    ///
    /// C: `hist_field_log2()`, `hist_field_bucket()`.
    #[inline(always)]
    pub fn word(self, number: u64) -> u64 {
        let number = self.extend.extend(number);
        match self.modifier {
            Modifier::Log2 => log2(number),
            Modifier::Buckets(size) => bucket(number, size),
            _ => number,
        }
    }
}

/// The exponent of the lowest power of two that is not below the number. 0 for 0.
///
/// C: `order_base_2()`.
#[inline(always)]
pub const fn log2(number: u64) -> u64 {
    let below = number.saturating_sub(1);
    64u32.saturating_sub(below.leading_zeros()) as u64
}

/// The first number of the range of `size` numbers that contains the number.
#[inline(always)]
pub const fn bucket(number: u64, size: NonZeroU64) -> u64 {
    number.wrapping_sub(number % size.get())
}

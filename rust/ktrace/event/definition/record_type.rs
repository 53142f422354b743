// SPDX-License-Identifier: GPL-2.0

//! The types of fields in a record, and their offsets.
//!
//! The fields of an event form a nested list of types: `((((), A), B), C)`. So the offset of each
//! field is a constant, which follows from the fields before it.

use core::{
    num::NonZeroU8,
    ptr, //
};

use kernel::{
    ffi::c_char,
    prelude::*,
    str::CStr, //
};

use probe::{
    fetch::{
        self,
        FieldFormat, //
    },
    types::{
        FetchType,
        Space,
        Style,
        Width, //
    },
};

use crate::{
    arch,
    event::{
        record::{
            print::TraceSeq,
            sink::HEADER_LEN, //
        },
        registration::field::{
            Field,
            Number,
            COMM_LEN, //
        },
    },
};

/// The name of the current task, as a field of an event. C: `current->comm`.
///
/// The record holds the name itself, as a `char[16]`. In an interrupt, the current task is the
/// interrupted task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Comm;

/// Display in the type's default format: numbers are decimal.
#[derive(Clone, Copy)]
pub struct Plain;

/// Display as hexadecimal numbers.
#[derive(Clone, Copy)]
pub struct Hex;

/// Display as the symbol and offset of a code address.
#[derive(Clone, Copy)]
pub struct Symbol;

/// The description of a type for the kernel, user space and the printer.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A value, an array of values, or a string.
    Value {
        /// The type of each value.
        ty: FetchType,
        /// The type in `format`. `None` for a string.
        number: Option<Number>,
        /// The number of elements of an array.
        count: Option<NonZeroU8>,
    },
    /// A [`Comm`].
    Comm,
}

impl Kind {
    const fn new(ty: FetchType, number: Option<Number>) -> Self {
        Self::Value {
            ty,
            number,
            count: None,
        }
    }

    const fn array<const N: usize>(self) -> Self {
        match self {
            // `SIZE` of the array type checks that the number fits.
            Self::Value { ty, number, .. } => Self::Value {
                ty,
                number,
                count: NonZeroU8::new(N as u8),
            },
            Self::Comm => self,
        }
    }
}

/// Keeps other crates from implementing the traits of record types.
pub trait Sealed {}

/// A type of field in a record, displayed as `S`.
#[diagnostic::on_unimplemented(
    message = "a record cannot have a field of type `{Self}` that is shown as `{S}`",
    label = "not a type for a record",
    note = "as `Plain`: `u8` to `u64`, `usize`, `i8` to `i64`, `isize`, `bool`, arrays of them, \
            references to such arrays, `Comm`, `&str` and `&CStr`",
    note = "as `Hex` (`= hex`): unsigned integers and arrays of them",
    note = "as `Symbol` (`= symbol`): `usize`, `u64` and arrays of them"
)]
pub trait RecordType<S = Plain>: Copy + Sealed {
    /// The type for the kernel, user space and the printer.
    const KIND: Kind;

    /// The size of the field, in bytes. Excludes its string.
    const SIZE: usize;

    /// The alignment of the field, in bytes. A power of two.
    const ALIGN: usize;

    /// The number of strings that the field has after the fields.
    const STRINGS: usize = 0;

    /// The string after the fields.
    #[inline(always)]
    fn string(&self) -> &[u8] {
        &[]
    }

    /// Writes all bytes of the field. `location` is the location of its string, if it has one.
    fn write(&self, field: &mut [u8], location: u32);
}

macro_rules! numbers {
    ($($type:ty: $style:ident = $width:ident $shown:ident $($number:ident)?,)*) => {$(
        impl RecordType<$style> for $type {
            const KIND: Kind = {
                let ty = FetchType::Number(Width::$width, Style::$shown);
                assert!(size_of::<Self>() == ty.size());
                // Only some types have another name in `format` than the number of their size.
                let number = [$(Some(Number::$number),)? Number::of(ty)][0];
                Kind::new(ty, number)
            };
            const SIZE: usize = size_of::<Self>();
            const ALIGN: usize = align_of::<Self>();

            #[inline(always)]
            fn write(&self, field: &mut [u8], _location: u32) {
                if let Some(field) = field.first_chunk_mut() {
                    *field = Bytes::bytes(*self);
                }
            }
        }
    )*};
}

/// A number of `N` bytes.
trait Bytes<const N: usize>: Copy {
    fn bytes(self) -> [u8; N];
}

macro_rules! number_types {
    ($($type:ty)*) => {$(
        impl Sealed for $type {}

        impl Bytes<{ size_of::<$type>() }> for $type {
            #[inline(always)]
            fn bytes(self) -> [u8; size_of::<$type>()] {
                self.to_ne_bytes()
            }
        }
    )*};
}

number_types! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }

impl Sealed for bool {}

impl Bytes<1> for bool {
    #[inline(always)]
    fn bytes(self) -> [u8; 1] {
        [self.into()]
    }
}

numbers! {
    u8: Plain = W1 Unsigned,
    u16: Plain = W2 Unsigned,
    u32: Plain = W4 Unsigned,
    u64: Plain = W8 Unsigned,
    usize: Plain = W8 Unsigned UnsignedLong,
    i8: Plain = W1 Signed,
    i16: Plain = W2 Signed,
    i32: Plain = W4 Signed,
    i64: Plain = W8 Signed,
    isize: Plain = W8 Signed Long,
    bool: Plain = W1 Unsigned Bool,
    u8: Hex = W1 Hex,
    u16: Hex = W2 Hex,
    u32: Hex = W4 Hex,
    u64: Hex = W8 Hex,
    usize: Hex = W8 Hex UnsignedLong,
    u64: Symbol = W8 Symbol,
    usize: Symbol = W8 Symbol UnsignedLong,
}

/// The type of an element of an array in a record.
#[diagnostic::on_unimplemented(
    message = "a record cannot have an array of `{Self}` that is shown as `{S}`",
    label = "not a type for an array in a record",
    note = "as `Plain`: `u8` to `u64`, `usize`, `i8` to `i64`, `isize` and `bool`",
    note = "as `Hex` (`= hex`): unsigned integers",
    note = "as `Symbol` (`= symbol`): `usize` and `u64`"
)]
pub trait Element<S>: RecordType<S> {}

macro_rules! elements {
    ($($style:ident: $($type:ty)*,)*) => {$($(
        impl Element<$style> for $type {}
    )*)*};
}

elements! {
    Plain: u8 u16 u32 u64 usize i8 i16 i32 i64 isize bool,
    Hex: u8 u16 u32 u64 usize,
    Symbol: u64 usize,
}

impl<T, const N: usize> Sealed for [T; N] {}

impl<S, T: Element<S>, const N: usize> RecordType<S> for [T; N] {
    const KIND: Kind = T::KIND.array::<N>();
    const SIZE: usize = {
        assert!(
            N >= 1 && N <= u8::MAX as usize,
            "an array in a record has 1 to 255 elements"
        );
        T::SIZE * N
    };
    const ALIGN: usize = T::ALIGN;

    #[inline(always)]
    fn write(&self, field: &mut [u8], location: u32) {
        for (to, value) in field.chunks_exact_mut(T::SIZE).zip(self) {
            value.write(to, location);
        }
    }
}

impl<T, const N: usize> Sealed for &[T; N] {}

/// Copies the array from its place to the record.
impl<S, T: Element<S>, const N: usize> RecordType<S> for &[T; N] {
    const KIND: Kind = <[T; N] as RecordType<S>>::KIND;
    const SIZE: usize = <[T; N] as RecordType<S>>::SIZE;
    const ALIGN: usize = <[T; N] as RecordType<S>>::ALIGN;

    #[inline(always)]
    fn write(&self, field: &mut [u8], location: u32) {
        (**self).write(field, location);
    }
}

impl Sealed for Comm {}

impl RecordType for Comm {
    const KIND: Kind = Kind::Comm;
    const SIZE: usize = COMM_LEN;
    const ALIGN: usize = 1;

    #[inline(always)]
    fn write(&self, field: &mut [u8], _location: u32) {
        if let Some(field) = field.first_chunk_mut() {
            // SAFETY: The current task exists.
            let name: *const [c_char; COMM_LEN] = unsafe { &raw const (*arch::current()).comm };
            // SAFETY: Any bytes are valid. Another task may change the name during the copy. The
            // record then has parts of both names, as in C.
            *field = unsafe { ptr::read_volatile(name.cast::<[u8; COMM_LEN]>()) };
        }
    }
}

macro_rules! strings {
    ($($type:ty: $bytes:ident,)*) => {$(
        impl Sealed for &$type {}

        impl RecordType for &$type {
            const KIND: Kind = Kind::new(FetchType::String(Space::Kernel), None);
            const SIZE: usize = size_of::<u32>();
            const ALIGN: usize = align_of::<u32>();
            const STRINGS: usize = 1;

            #[inline(always)]
            fn string(&self) -> &[u8] {
                self.$bytes()
            }

            #[inline(always)]
            fn write(&self, field: &mut [u8], location: u32) {
                RecordType::<Plain>::write(&location, field, 0);
            }
        }
    )*};
}

strings! {
    str: as_bytes,
    CStr: to_bytes,
}

/// The value of a field, and its display format.
#[derive(Clone, Copy)]
pub struct Value<T, S>(T, S);

impl<T> Value<T, Plain> {
    /// Displays the value in the type's default format.
    #[inline(always)]
    pub fn plain(value: T) -> Self {
        Self(value, Plain)
    }
}

impl<T> Value<T, Hex> {
    /// Displays the value as hexadecimal numbers.
    #[inline(always)]
    pub fn hex(value: T) -> Self {
        Self(value, Hex)
    }
}

impl<T> Value<T, Symbol> {
    /// Displays the value as symbols.
    #[inline(always)]
    pub fn symbol(value: T) -> Self {
        Self(value, Symbol)
    }
}

/// The strings of a record that is being written.
pub struct Strings<'a> {
    /// The remaining bytes for the strings.
    to: &'a mut [u8],
    /// The offset of these bytes from the start of the record.
    at: usize,
    /// The number of bytes that the strings may still take, without their NULs.
    room: usize,
}

impl<'a> Strings<'a> {
    #[inline(always)]
    pub(super) fn new(to: &'a mut [u8], at: usize, room: usize) -> Self {
        Self { to, at, room }
    }

    /// Adds a string, and returns its location.
    #[inline(always)]
    fn add(&mut self, string: &[u8]) -> u32 {
        let len = string.len().min(self.room);
        let size = len.wrapping_add(1);
        let location = (size << 16 | self.at) as u32;
        let to = core::mem::take(&mut self.to);
        if let Some((to, rest)) = to.split_at_mut_checked(size) {
            // SAFETY: `to` has one byte more than the copy, and is borrowed mutably, so the string
            // does not overlap `to`.
            unsafe {
                ptr::copy_nonoverlapping(string.as_ptr(), to.as_mut_ptr(), len);
                to.as_mut_ptr().add(len).write(0);
            }
            self.to = rest;
        }
        self.at = self.at.wrapping_add(size);
        self.room = self.room.wrapping_sub(len);
        location
    }
}

/// The fields of an event.
pub trait Fields: Copy + Sealed {
    /// The end of the fields, in bytes from the start of the record.
    const END: usize;

    /// The number of strings after the fields.
    const STRINGS: usize;

    /// The number of bytes that the strings take, with their NULs. `room` is the number of bytes
    /// that they may take without their NULs.
    fn strings_len(&self, room: &mut usize) -> usize;

    /// Writes all bytes of the fields, from the header of the record to [`END`](Self::END).
    fn write(&self, record: &mut [u8], strings: &mut Strings<'_>);

    /// Describes the fields. `names` are their names. `ENOMEM`.
    fn describe(names: &[&'static CStr], columns: &mut KVec<Column>) -> Result;
}

impl Sealed for () {}

impl Fields for () {
    const END: usize = HEADER_LEN;
    const STRINGS: usize = 0;

    #[inline(always)]
    fn strings_len(&self, _room: &mut usize) -> usize {
        0
    }

    #[inline(always)]
    fn write(&self, _record: &mut [u8], _strings: &mut Strings<'_>) {}

    fn describe(_names: &[&'static CStr], _columns: &mut KVec<Column>) -> Result {
        Ok(())
    }
}

impl<F, T, S> Sealed for (F, Value<T, S>) {}

impl<F: Fields, T: RecordType<S>, S: Copy> Fields for (F, Value<T, S>) {
    const END: usize = F::END.next_multiple_of(T::ALIGN) + T::SIZE;
    const STRINGS: usize = F::STRINGS + T::STRINGS;

    #[inline(always)]
    fn strings_len(&self, room: &mut usize) -> usize {
        let (before, Value(value, _)) = self;
        let len = before.strings_len(room);
        if T::STRINGS == 0 {
            return len;
        }
        let string = value.string().len().min(*room);
        *room = room.wrapping_sub(string);
        len.wrapping_add(string).wrapping_add(1)
    }

    #[inline(always)]
    fn write(&self, record: &mut [u8], strings: &mut Strings<'_>) {
        let (before, Value(value, _)) = self;
        before.write(record, strings);
        let start = Self::END - T::SIZE - HEADER_LEN;
        if let Some(gap) = record.get_mut(F::END - HEADER_LEN..start) {
            gap.fill(0);
        }
        let location = if T::STRINGS == 0 {
            0
        } else {
            strings.add(value.string())
        };
        if let Some(field) = record.get_mut(start..Self::END - HEADER_LEN) {
            value.write(field, location);
        }
    }

    fn describe(names: &[&'static CStr], columns: &mut KVec<Column>) -> Result {
        F::describe(names, columns)?;
        let name = *names.get(columns.len()).ok_or(EINVAL)?;
        let column = Column {
            name,
            kind: T::KIND,
            offset: (Self::END - T::SIZE).try_into()?,
        };
        columns.push(column, GFP_KERNEL)?;
        Ok(())
    }
}

/// A field of an event: its name, type and place.
#[derive(Clone, Copy)]
pub struct Column {
    name: &'static CStr,
    kind: Kind,
    /// The offset from the start of the record, in bytes.
    offset: u16,
}

impl Column {
    fn name(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }

    /// Creates the field for the kernel. `ENOMEM`.
    pub(super) fn field(&self) -> Result<Field> {
        let offset = self.offset.into();
        let (number, count) = match self.kind {
            // SAFETY: The name of a task ends with a NUL, which `Comm` copies.
            Kind::Comm => return unsafe { Field::comm(self.name, offset) },
            Kind::Value { number, count, .. } => (number, count),
        };
        let Some(number) = number else {
            // SAFETY: `Fields::write` writes the location of a string with its NUL, within the
            // record.
            return unsafe { Field::strings(self.name, count, offset, false) };
        };
        match count {
            Some(count) => Field::array(self.name, number, count, offset),
            None => Field::number(self.name, number, offset),
        }
    }

    /// The name and the format, for `print fmt`.
    pub(super) fn format(&self) -> (&'static str, FieldFormat) {
        let format = match self.kind {
            Kind::Value { ty, count, .. } => {
                let format: FieldFormat = fetch::Field::new(0, ty, count).into();
                // libtraceevent prints small negative numbers as positive numbers with `%d`.
                let conversion = match ty {
                    FetchType::Number(Width::W1, Style::Signed) => "%hhd",
                    FetchType::Number(Width::W2, Style::Signed) => "%hd",
                    _ => format.conversion,
                };
                FieldFormat {
                    conversion,
                    ..format
                }
            }
            Kind::Comm => FieldFormat {
                conversion: "\\\"%s\\\"",
                count: None,
                is_dynamic: false,
                is_errno: false,
            },
        };
        (self.name(), format)
    }

    /// Prints ` NAME=VALUE`. `record` may hold any bytes.
    pub(super) fn print(&self, record: &[u8], seq: &mut TraceSeq) {
        let offset = usize::from(self.offset);
        match self.kind {
            Kind::Value { ty, count, .. } => {
                let offset = self.offset.wrapping_sub(HEADER_LEN as u16);
                let field = fetch::Field::new(offset, ty, count);
                let fields = core::iter::once((self.name(), field));
                // A write to a `TraceSeq` cannot fail: the kernel cuts text that does not fit.
                let _ = fetch::print(fields, record, HEADER_LEN, seq);
            }
            Kind::Comm => {
                let bytes = record.get(offset..).unwrap_or_default();
                let bytes = bytes.get(..COMM_LEN).unwrap_or(bytes);
                let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                for part in [b" ", self.name().as_bytes(), b"=\"", name, b"\""] {
                    seq.bytes(part);
                }
            }
        }
    }
}

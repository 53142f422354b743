// SPDX-License-Identifier: GPL-2.0

//! The fields of an event.

use core::{
    mem::size_of,
    num::NonZeroU8,
    ops::Deref, //
};

use kernel::{
    ffi::c_int,
    prelude::*,
    str::{
        CStr,
        CString, //
    },
};

use probe::{
    command::is_valid_field,
    types::{
        FetchType,
        Width, //
    },
};

use crate::event::record::sink::{
    HEADER_LEN,
    MAX_LEN, //
};

/// The length of the name of a task, in bytes, with its NUL. C: `TASK_COMM_LEN`.
pub(in crate::event) const COMM_LEN: usize = 16;

/// A C string that is either static or allocated. A static string takes no memory.
pub enum CowCStr {
    /// A static string.
    Static(&'static CStr),
    /// An allocated string. Dropping the value frees the string.
    Owned(CString),
}

impl From<&'static CStr> for CowCStr {
    fn from(text: &'static CStr) -> Self {
        Self::Static(text)
    }
}

impl From<CString> for CowCStr {
    fn from(text: CString) -> Self {
        Self::Owned(text)
    }
}

impl Deref for CowCStr {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        match self {
            Self::Static(text) => text,
            Self::Owned(text) => text,
        }
    }
}

/// The type of a number in a record. The kernel derives the size of the number, and the
/// instructions that filters and histograms use, from the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// 8 bits, unsigned.
    U8,
    /// 16 bits, unsigned.
    U16,
    /// 32 bits, unsigned.
    U32,
    /// 64 bits, unsigned.
    U64,
    /// 8 bits, signed.
    S8,
    /// 16 bits, signed.
    S16,
    /// 32 bits, signed.
    S32,
    /// 64 bits, signed.
    S64,
    /// One byte, 0 or 1.
    Bool,
    /// A word, unsigned.
    UnsignedLong,
    /// A word, signed.
    Long,
}

impl Number {
    /// The type of the number that a field of type `ty` contains. `None` for a string.
    pub const fn of(ty: FetchType) -> Option<Self> {
        let (FetchType::Number(width, style) | FetchType::Bitfield(width, style, _)) = ty else {
            return None;
        };
        Some(match (width, style.is_signed()) {
            (Width::W1, true) => Self::S8,
            (Width::W2, true) => Self::S16,
            (Width::W4, true) => Self::S32,
            (Width::W8, true) => Self::S64,
            (Width::W1, false) => Self::U8,
            (Width::W2, false) => Self::U16,
            (Width::W4, false) => Self::U32,
            (Width::W8, false) => Self::U64,
        })
    }

    /// The size, in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::U8 | Self::S8 | Self::Bool => 1,
            Self::U16 | Self::S16 => 2,
            Self::U32 | Self::S32 => 4,
            Self::U64 | Self::S64 => 8,
            Self::UnsignedLong | Self::Long => size_of::<usize>(),
        }
    }

    /// Whether the number is signed.
    pub const fn is_signed(self) -> bool {
        matches!(
            self,
            Self::S8 | Self::S16 | Self::S32 | Self::S64 | Self::Long
        )
    }

    /// The type in `format`.
    pub const fn c_type(self) -> &'static CStr {
        match self {
            Self::U8 => c"u8",
            Self::U16 => c"u16",
            Self::U32 => c"u32",
            Self::U64 => c"u64",
            Self::S8 => c"s8",
            Self::S16 => c"s16",
            Self::S32 => c"s32",
            Self::S64 => c"s64",
            Self::Bool => c"bool",
            Self::UnsignedLong => c"unsigned long",
            Self::Long => c"long",
        }
    }
}

/// A field of an event, as `format` shows it, and as filters and histograms use it.
///
/// The size of a field follows from its type. The kernel reads fields by their types, so a field
/// with a wrong size would let filters and histograms read beyond the record. For the same reason,
/// safe code cannot create a field with a string: the kernel expects a NUL in it.
///
/// # Invariants
///
/// `size` is the size of the type, and is not 0. The field is after the header of a record, and
/// ends within [`MAX_LEN`] bytes. If `is_located` is set, each word of the field in a record
/// locates a string within the record.
pub struct Field {
    name: CowCStr,
    ty: CowCStr,
    offset: u16,
    size: u16,
    /// The number of elements of an array, or 0.
    len: u8,
    is_signed: bool,
    is_located: bool,
}

impl Field {
    /// Creates a field for a number. `offset` is in bytes from the start of the record, including
    /// its header of [`HEADER_LEN`] bytes. The name is a C identifier.
    ///
    /// `EINVAL` for another name, or if the field overlaps the header. `E2BIG` if the field does
    /// not fit in a record of [`MAX_LEN`] bytes.
    pub fn number(name: impl Into<CowCStr>, number: Number, offset: usize) -> Result<Self> {
        // INVARIANT: The field has the size of a number, and is not located.
        Self {
            name: name.into(),
            ty: number.c_type().into(),
            offset: 0,
            size: number.size() as u16,
            len: 0,
            is_signed: number.is_signed(),
            is_located: false,
        }
        .at(offset)
    }

    /// Creates a field for an array of `len` numbers. Context and errors are those of
    /// [`number`](Self::number), and `ENOMEM`.
    pub fn array(
        name: impl Into<CowCStr>,
        element: Number,
        len: NonZeroU8,
        offset: usize,
    ) -> Result<Self> {
        let ty = CString::try_from_fmt(format_args!("{}[{len}]", element.c_type().to_str()?))?;
        // INVARIANT: The field has the size of `len` numbers, and is not located.
        Self {
            name: name.into(),
            ty: ty.into(),
            offset: 0,
            size: element.size() as u16 * u16::from(len.get()),
            len: len.get(),
            is_signed: element.is_signed(),
            is_located: false,
        }
        .at(offset)
    }

    /// Creates a field that locates a string, of type `__data_loc char[]`, or an array of such
    /// fields. Each is a word of 32 bits. Its lower half is the offset of the string, in bytes from
    /// the start of the record. Its upper half is the size of the string with its NUL, in bytes.
    ///
    /// `format` shows `is_signed`, and the kernel does not use it. Context and errors are those of
    /// [`array`](Self::array).
    ///
    /// # Safety
    ///
    /// In every record, each such word must locate bytes within the record, and the last of them
    /// must be a NUL. If the size is 0, there must be a NUL in the record at the offset or after
    /// it. The kernel uses the word without a check, for example in filters.
    pub unsafe fn strings(
        name: impl Into<CowCStr>,
        len: Option<NonZeroU8>,
        offset: usize,
        is_signed: bool,
    ) -> Result<Self> {
        const TYPE: &CStr = c"__data_loc char[]";
        let ty = match len {
            Some(len) => CString::try_from_fmt(format_args!("{}[{len}]", TYPE.to_str()?))?.into(),
            None => TYPE.into(),
        };
        // INVARIANT: The field has the size of its words. The caller guarantees that each word
        // locates a string within the record.
        Self {
            name: name.into(),
            ty,
            offset: 0,
            size: size_of::<u32>() as u16 * u16::from(len.map_or(1, NonZeroU8::get)),
            // BPF programs cannot read a string through a field that is an array.
            len: 0,
            is_signed,
            is_located: true,
        }
        .at(offset)
    }

    /// Creates a field for the name of a task: `char[16]`.
    ///
    /// # Safety
    ///
    /// In every record, the field must have a NUL.
    pub(in crate::event) unsafe fn comm(name: &'static CStr, offset: usize) -> Result<Self> {
        const _: () = assert!(COMM_LEN == 16);
        // INVARIANT: The field has the size of its type, and is not located.
        Self {
            name: name.into(),
            ty: c"char[16]".into(),
            offset: 0,
            size: COMM_LEN as u16,
            len: COMM_LEN as u8,
            is_signed: false,
            is_located: false,
        }
        .at(offset)
    }

    /// Creates a field for a word with a code address: the word number `index` after the header.
    /// Takes no memory. The name is a C identifier:
    /// [`TraceEvent::register`](crate::trace_event::TraceEvent) fails with `EINVAL` for another
    /// name.
    pub const fn code(name: &'static CStr, index: u8) -> Self {
        const WORD: u16 = size_of::<usize>() as u16;
        const { assert!(HEADER_LEN + (u8::MAX as usize + 1) * WORD as usize <= MAX_LEN) };
        // INVARIANT: The field has the size of a word and is not located. The assertion checks that
        // the last word ends within the longest record.
        Self {
            name: CowCStr::Static(name),
            ty: CowCStr::Static(Number::UnsignedLong.c_type()),
            offset: HEADER_LEN as u16 + index as u16 * WORD,
            size: WORD,
            len: 0,
            is_signed: false,
            is_located: false,
        }
    }

    /// Moves the field to its place.
    fn at(mut self, offset: usize) -> Result<Self> {
        if offset < HEADER_LEN || !self.has_valid_name() {
            return Err(EINVAL);
        }
        if offset.saturating_add(self.size()) > MAX_LEN {
            return Err(E2BIG);
        }
        // INVARIANT: The code above has checked the start and the end of the field.
        self.offset = offset.try_into()?;
        Ok(self)
    }

    /// Whether the name is a C identifier.
    pub(super) fn has_valid_name(&self) -> bool {
        is_valid_field(self.name.to_bytes())
    }

    /// The name of the field.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// The C type of the field.
    pub fn ty(&self) -> &CStr {
        &self.ty
    }

    /// The offset of the field from the start of the record, in bytes.
    pub fn offset(&self) -> usize {
        self.offset.into()
    }

    /// The size of the field, in bytes.
    pub fn size(&self) -> usize {
        self.size.into()
    }

    /// Whether the field is signed.
    pub fn is_signed(&self) -> bool {
        self.is_signed
    }

    /// The number of elements of an array, for `format`.
    pub(super) fn array_len(&self) -> Option<c_int> {
        (self.len != 0).then(|| self.len.into())
    }

    /// Whether the name and the type are static strings.
    pub(super) fn is_static(&self) -> bool {
        matches!(
            (&self.name, &self.ty),
            (CowCStr::Static(_), CowCStr::Static(_))
        )
    }

    /// The end of the field, in bytes from the start of the record.
    pub(super) fn end(&self) -> usize {
        self.offset().saturating_add(self.size())
    }

    /// The end of the data that the field locates, in bytes from the start of the record. `fixed`
    /// holds all fields of the record. Any context.
    pub(super) fn end_of_located(&self, fixed: &[u8]) -> Option<usize> {
        if !self.is_located {
            return None;
        }
        let words = fixed
            .get(self.offset()..self.end())?
            .chunks_exact(size_of::<u32>());
        words
            .filter_map(|word| Some(u32::from_ne_bytes(word.try_into().ok()?)))
            .map(|word| (word & 0xffff) as usize + (word >> 16) as usize)
            .max()
    }
}

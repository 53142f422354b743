// SPDX-License-Identifier: GPL-2.0

//! The fields of an event.

use core::{
    mem::size_of,
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

use super::sink::{
    HEADER_LEN,
    MAX_LEN, //
};

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

/// A field of an event, as `format` shows it, and as filters and histograms use it.
///
/// # Invariants
///
/// The field ends within [`MAX_LEN`] bytes. If `is_located` is set, each word of the field in a
/// record locates bytes within the record.
pub struct Field {
    name: CowCStr,
    ty: CowCStr,
    offset: u16,
    size: u16,
    is_signed: bool,
    is_located: bool,
}

impl Field {
    /// Creates a field of a C type. `offset` is in bytes from the start of the record, including
    /// its header of [`HEADER_LEN`](super::HEADER_LEN) bytes. `size` is in bytes.
    ///
    /// `EINVAL` for a type that locates data elsewhere in the record (see
    /// [`located`](Self::located)). `EINVAL` for `char *`: whatever the size of the field, the
    /// kernel treats it as a word with the address of a string, and its histograms look for the end
    /// of the string in the word itself. Use `unsigned long` for an address. `E2BIG` if the field
    /// does not fit in a record of [`MAX_LEN`] bytes.
    pub fn new(
        name: impl Into<CowCStr>,
        ty: impl Into<CowCStr>,
        offset: usize,
        size: usize,
        is_signed: bool,
    ) -> Result<Self> {
        let ty = ty.into();
        // C: `filter_assign_type()` searches the whole type for the marks.
        let ty_bytes = ty.to_bytes();
        if [&b"__data_loc"[..], b"__rel_loc"]
            .iter()
            .any(|mark| ty_bytes.windows(mark.len()).any(|part| part == *mark))
            || matches!(ty_bytes, b"char *" | b"const char *")
        {
            return Err(EINVAL);
        }
        // INVARIANT: The field is not located.
        Self::make(name.into(), ty, offset, size, is_signed, false)
    }

    /// Creates a field of type `__data_loc`, or an array of them. Each is a word of 32 bits. Its
    /// lower half is the offset of data, in bytes from the start of the record. Its upper half is
    /// the length of the data in bytes.
    ///
    /// # Safety
    ///
    /// In every record, each such word must locate bytes within the record. The kernel uses the
    /// word without a check, for example in filters.
    pub unsafe fn located(
        name: impl Into<CowCStr>,
        ty: impl Into<CowCStr>,
        offset: usize,
        size: usize,
        is_signed: bool,
    ) -> Result<Self> {
        // INVARIANT: The caller guarantees that each word of the field locates bytes within the
        // record.
        Self::make(name.into(), ty.into(), offset, size, is_signed, true)
    }

    /// Creates a field for a word with a code address: the word number `index` behind the header.
    /// Takes no memory.
    pub const fn code(name: &'static CStr, index: u8) -> Self {
        const WORD: u16 = size_of::<usize>() as u16;
        const { assert!(HEADER_LEN + (u8::MAX as usize + 1) * WORD as usize <= MAX_LEN) };
        // INVARIANT: The field is not located. The assertion checks that the last word ends within
        // the longest record.
        Self {
            name: CowCStr::Static(name),
            ty: CowCStr::Static(c"unsigned long"),
            offset: HEADER_LEN as u16 + index as u16 * WORD,
            size: WORD,
            is_signed: false,
            is_located: false,
        }
    }

    fn make(
        name: CowCStr,
        ty: CowCStr,
        offset: usize,
        size: usize,
        is_signed: bool,
        is_located: bool,
    ) -> Result<Self> {
        if offset.saturating_add(size) > MAX_LEN {
            return Err(E2BIG);
        }
        // INVARIANT: The code above has checked the end of the field.
        Ok(Self {
            name,
            ty,
            offset: offset.try_into()?,
            size: size.try_into()?,
            is_signed,
            is_located,
        })
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

    /// The number of elements of a type such as `u8[4]`.
    pub(super) fn array_len(&self) -> Option<c_int> {
        let (element, len) = self.ty.to_str().ok()?.strip_suffix(']')?.split_once('[')?;
        if element.is_empty() || self.is_located {
            return None;
        }
        len.parse().ok()
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

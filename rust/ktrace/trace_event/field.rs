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

use super::{
    HEADER_LEN,
    MAX_LEN, //
};

/// A string of C that is either static or allocated. A static one takes no memory.
pub enum CowCStr {
    /// It is there for good.
    Static(&'static CStr),
    /// It is freed with its user.
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

/// A field of an event, as `format` shows it and filters and histograms use it.
///
/// # Invariants
///
/// It ends within [`MAX_LEN`] bytes. Where `is_located`, each word of it in a record locates bytes
/// within the record.
pub struct Field {
    name: CowCStr,
    ty: CowCStr,
    offset: u16,
    size: u16,
    is_signed: bool,
    is_located: bool,
}

impl Field {
    /// A field of a C type, at `offset` bytes from the start of the record (its header, of
    /// [`HEADER_LEN`](super::HEADER_LEN) bytes, included) and of `size` bytes.
    ///
    /// `EINVAL` for a type that locates something elsewhere in the record (see
    /// [`located`](Self::located)), and for `char *`: the kernel takes it for a word that is the
    /// address of a string, whatever its size, and its histograms look for the end of the string in
    /// the word itself. For an address `unsigned long` will do. `E2BIG` where it does not fit
    /// a record of [`MAX_LEN`] bytes.
    pub fn new(
        name: impl Into<CowCStr>,
        ty: impl Into<CowCStr>,
        offset: usize,
        size: usize,
        is_signed: bool,
    ) -> Result<Self> {
        let ty = ty.into();
        // C: `filter_assign_type()` looks for the marks anywhere in the type.
        let ty_bytes = ty.to_bytes();
        if [&b"__data_loc"[..], b"__rel_loc"]
            .iter()
            .any(|mark| ty_bytes.windows(mark.len()).any(|part| part == *mark))
            || matches!(ty_bytes, b"char *" | b"const char *")
        {
            return Err(EINVAL);
        }
        // INVARIANT: Not located.
        Self::make(name.into(), ty, offset, size, is_signed, false)
    }

    /// A field, or an array of them, of type `__data_loc`: words of 32 bits that say where in the
    /// record something is (lower half, in bytes from its start) and how long it is (upper half).
    ///
    /// # Safety
    ///
    /// In each record that is made, each such word must locate bytes within the record: the kernel
    /// follows it, in filters for one, without a check.
    pub unsafe fn located(
        name: impl Into<CowCStr>,
        ty: impl Into<CowCStr>,
        offset: usize,
        size: usize,
        is_signed: bool,
    ) -> Result<Self> {
        // INVARIANT: By the safety requirement.
        Self::make(name.into(), ty.into(), offset, size, is_signed, true)
    }

    /// A word with the address of code, the `index`th behind the header. Takes no memory.
    pub const fn code(name: &'static CStr, index: u8) -> Self {
        const WORD: u16 = size_of::<usize>() as u16;
        const { assert!(HEADER_LEN + (u8::MAX as usize + 1) * WORD as usize <= MAX_LEN) };
        // INVARIANT: Not located. The last word ends within the longest record, as asserted.
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
        // INVARIANT: It was checked above where the field ends.
        Ok(Self {
            name,
            ty,
            offset: offset.try_into()?,
            size: size.try_into()?,
            is_signed,
            is_located,
        })
    }

    /// Its name.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// Its C type.
    pub fn ty(&self) -> &CStr {
        &self.ty
    }

    /// The offset from the start of the record, in bytes.
    pub fn offset(&self) -> usize {
        self.offset.into()
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.size.into()
    }

    /// Whether it is signed.
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

    /// Where that ends which it locates, in bytes from the start of the record; `fixed` are all
    /// fields of the record. Any context.
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

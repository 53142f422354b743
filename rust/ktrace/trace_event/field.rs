// SPDX-License-Identifier: GPL-2.0

//! The fields of an event.

use core::mem::size_of;

use kernel::prelude::*;
use kernel::str::CStr;
use kernel::str::CString;

/// A field of an event, as `format` shows it and filters and histograms use it.
///
/// # Invariants
///
/// Where `is_located`, each word of it in a record locates bytes within the record.
pub struct Field {
    name: CString,
    ty: CString,
    offset: usize,
    size: usize,
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
    /// the word itself. For an address `unsigned long` will do.
    pub fn new(
        name: CString,
        ty: CString,
        offset: usize,
        size: usize,
        is_signed: bool,
    ) -> Result<Self> {
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
        Ok(Self {
            name,
            ty,
            offset,
            size,
            is_signed,
            is_located: false,
        })
    }

    /// A field, or an array of them, of type `__data_loc`: words of 32 bits that say where in the
    /// record something is (lower half, in bytes from its start) and how long it is (upper half).
    ///
    /// # Safety
    ///
    /// In each record that is made, each such word must locate bytes within the record: the kernel
    /// follows it, in filters for one, without a check.
    pub unsafe fn located(
        name: CString,
        ty: CString,
        offset: usize,
        size: usize,
        is_signed: bool,
    ) -> Self {
        // INVARIANT: By the safety requirement.
        Self {
            name,
            ty,
            offset,
            size,
            is_signed,
            is_located: true,
        }
    }

    /// Its name.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// Its C type.
    pub fn ty(&self) -> &CStr {
        &self.ty
    }

    /// Where it is, in bytes from the start of the record.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether it is signed.
    pub fn is_signed(&self) -> bool {
        self.is_signed
    }

    /// Where it ends, in bytes from the start of the record.
    pub(super) fn end(&self) -> usize {
        self.offset.saturating_add(self.size)
    }

    /// Where that ends which it locates, in bytes from the start of the record; `fixed` are all
    /// fields of the record. Any context.
    pub(super) fn end_of_located(&self, fixed: &[u8]) -> Option<usize> {
        if !self.is_located {
            return None;
        }
        let words = fixed
            .get(self.offset..self.end())?
            .chunks_exact(size_of::<u32>());
        words
            .filter_map(|word| Some(u32::from_ne_bytes(word.try_into().ok()?)))
            .map(|word| (word & 0xffff) as usize + (word >> 16) as usize)
            .max()
    }
}

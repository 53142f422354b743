// SPDX-License-Identifier: GPL-2.0

//! The fields of a record: their places and their types.
//!
//! C: `struct fetch_type`, `traceprobe_define_arg_fields()`.

use core::{
    fmt,
    num::NonZeroU8, //
};

use crate::{
    argument::{
        Argument,
        MAX_EVENT_SIZE, //
    },
    types::FetchType, //
};

/// A field: the place and the type of an argument in the record.
///
/// A field does not contain its name. The owner of the field stores the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: u16,
    ty: FetchType,
    count: Option<NonZeroU8>,
}

impl Field {
    /// Creates a field of an event that no command defines. See [`offset`](Self::offset).
    pub const fn new(offset: u16, ty: FetchType, count: Option<NonZeroU8>) -> Self {
        Self { offset, ty, count }
    }

    /// The offset from the first field, in bytes. The first field starts directly after the header
    /// of the record.
    pub const fn offset(self) -> usize {
        self.offset as usize
    }

    /// The size in bytes. For an array, the size of all elements.
    pub const fn bytes(self) -> usize {
        self.ty.size().wrapping_mul(self.elements())
    }

    /// The type of the field, or of each element.
    pub const fn ty(self) -> FetchType {
        self.ty
    }

    /// The number of elements of an array. `None` for other fields.
    pub const fn count(self) -> Option<NonZeroU8> {
        self.count
    }

    /// Whether the `format` file says that the field is signed. True for strings, too.
    pub const fn is_signed(self) -> bool {
        match self.ty {
            FetchType::Number(_, style) => style.is_signed(),
            _ => self.is_dynamic(),
        }
    }

    /// Whether the field has bytes after all fields.
    pub const fn is_dynamic(self) -> bool {
        self.ty.is_text()
    }

    /// The type in the `format` file, such as `u64`, `u8[4]` or `__data_loc char[]`.
    pub const fn type_text(self) -> TypeText {
        TypeText(self)
    }

    /// The number of values in the field. 1 if it is not an array.
    pub(super) const fn elements(self) -> usize {
        match self.count {
            Some(count) => count.get() as usize,
            None => 1,
        }
    }
}

/// Writes the type of a field as in the `format` file.
///
/// An array of strings is `__data_loc char[][N]`, as in C.
#[derive(Clone, Copy, Debug)]
pub struct TypeText(Field);

impl fmt::Display for TypeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.ty.row().c_type)?;
        match self.0.count {
            Some(count) => write!(f, "[{count}]"),
            None => Ok(()),
        }
    }
}

/// The layout of an event's fields, which follow each other. The layout aligns each field to its
/// size, and an array to the size of an element. BPF programs can only read aligned fields.
///
/// C aligns the fields of a `TRACE_EVENT()` in this way, but not the fields of a probe event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    bytes: u16,
    /// Bytes of the gaps.
    gaps: u16,
    dynamic: bool,
}

impl Layout {
    /// Creates a layout without fields.
    pub const fn new() -> Self {
        Self {
            bytes: 0,
            gaps: 0,
            dynamic: false,
        }
    }

    /// Appends the field of an argument.
    ///
    /// # Errors
    ///
    /// [`TooBig`] if the fields without the gaps take more than [`MAX_EVENT_SIZE`] bytes. The
    /// layout does not change.
    pub fn add(&mut self, argument: &Argument<'_>) -> Result<Field, TooBig> {
        let gap = self.gap_before(argument);
        let field = Field {
            offset: self.bytes.wrapping_add(gap),
            ty: argument.ty.of_field(),
            count: argument.count,
        };
        let without_gaps = self.bytes.wrapping_sub(self.gaps);
        if usize::from(without_gaps).wrapping_add(field.bytes()) > MAX_EVENT_SIZE {
            return Err(TooBig);
        }
        self.bytes = field.offset.wrapping_add(field.bytes() as u16);
        self.gaps = self.gaps.wrapping_add(gap);
        self.dynamic |= field.is_dynamic();
        Ok(field)
    }

    /// Bytes of the gap before the field of `next`.
    pub(super) fn gap_before(&self, next: &Argument<'_>) -> u16 {
        // The size is a power of two.
        self.bytes.wrapping_neg() & (next.ty.size() as u16).wrapping_sub(1)
    }

    /// The size of all fields, and of the gaps between them, in bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.bytes as usize
    }

    /// Whether a record can have bytes after its fields.
    #[inline]
    pub const fn is_dynamic(self) -> bool {
        self.dynamic
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self::new()
    }
}

/// The fields of an event take more than [`MAX_EVENT_SIZE`] bytes, without the gaps.
///
/// C: `TP_ERR_EVENT_TOO_BIG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig;

/// Compares the arguments of two probes. Returns the index, from 0, of the first argument that
/// differs in name, type or number of elements, so that the probes cannot share an event. If the
/// numbers of arguments differ, returns the smaller number.
///
/// C: `trace_probe_compare_arg_type()`, which counts from 1. It, too, compares the numbers of
/// arguments first.
pub fn first_difference<'a, 'b>(
    a: impl ExactSizeIterator<Item = (&'a str, Field)>,
    b: impl ExactSizeIterator<Item = (&'b str, Field)>,
) -> Option<usize> {
    if a.len() != b.len() {
        return Some(a.len().min(b.len()));
    }
    a.zip(b).position(|((a_name, a), (b_name, b))| {
        a_name != b_name || a.ty != b.ty || a.count != b.count
    })
}

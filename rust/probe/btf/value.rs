// SPDX-License-Identifier: GPL-2.0

//! The value of a variable, and the way to fetch it.
//!
//! C: `fetch_type_from_btf_type()`, `parse_btf_bitfield()` and `check_prepare_btf_string_fetch()`
//! in `kernel/trace/trace_probe.c`.

use crate::types::{
    Bits,
    FetchType,
    Space,
    Style,
    Width, //
};

use super::{
    index::Btf,
    types::{
        Int,
        Type,
        TypeKind, //
    },
};

/// The type of a variable with its fields, and the bits of a bitfield.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// The type of the value, without typedefs and qualifiers.
    pub ty: Type<'a>,
    /// The number of the value's first bit in its first byte.
    pub first_bit: u8,
    /// The number of bits of a bitfield. 0 for other values.
    pub bitfield: u8,
}

/// The kind of a value that a string can be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringSource {
    /// An array of bytes.
    Array,
    /// A pointer to bytes in this address space.
    Pointer(Space),
}

impl<'a> Btf<'a> {
    /// The names and the values of the enumerators of a type. A type that is not an enumeration has
    /// none.
    pub fn enumerators(&self, ty: Type<'a>) -> impl Iterator<Item = (&'a str, i64)> + use<'a> {
        let sections = self.sections;
        let count = |kind| if ty.kind() == kind { ty.count() } else { 0 };
        let narrow = ty.elements(0).take(count(TypeKind::Enum));
        let wide = ty.elements(0).take(count(TypeKind::Enum64));
        let narrow = narrow.map(move |[name, value]| match ty.flag() {
            true => (name, i64::from(value as i32)),
            false => (name, i64::from(value)),
        });
        let wide =
            wide.map(|[name, low, high]| (name, (u64::from(low) | u64::from(high) << 32) as i64));
        narrow
            .chain(wide)
            .map(move |(name, value)| (sections.text(name).unwrap_or(""), value))
    }
}

impl<'a> Value<'a> {
    /// Creates a value that consists of whole bytes.
    pub(super) const fn new(ty: Type<'a>) -> Self {
        Self {
            ty,
            first_bit: 0,
            bitfield: 0,
        }
    }

    /// The default type of an argument.
    ///
    /// Numbers are `u8` to `s64`, depending on their size and sign. Enumerations are signed.
    /// Pointers, and values that are not numbers, are `x64`. `None` if a bitfield spans nine bytes.
    /// C would shift such a bitfield by more bits than the number has.
    ///
    /// The results differ from C in three cases. A bitfield of whole bytes excludes its neighbours.
    /// The read of a bitfield that extends beyond its number is wider than the number. The read of
    /// an enumeration with fewer than four bytes has the enumeration's size. As in C, only the name
    /// of a bitfield's type is signed. The value is not.
    pub fn fetch_type(&self) -> Option<FetchType> {
        let (width, style, odd_bits) = number(&self.ty);
        let bits = match (self.bitfield, odd_bits) {
            (_, Some(int)) => int.bits(),
            // A bit offset without a size does not make a bitfield.
            (0, None) => return Some(FetchType::Number(width, style)),
            (bits, None) => bits,
        };
        let first = self
            .first_bit
            .checked_add(odd_bits.map_or(0, Int::offset))?;
        if (first, usize::from(bits)) == (0, width.bytes().wrapping_mul(8)) {
            return Some(FetchType::Number(width, style));
        }
        let end = first.checked_add(bits)?;
        [Width::W1, Width::W2, Width::W4, Width::W8]
            .into_iter()
            .filter(|wider| wider.bytes() >= width.bytes())
            .find_map(|width| {
                let all = u8::try_from(width.bytes()).ok()?.checked_mul(8)?;
                let bits = Bits {
                    left: all.checked_sub(end)?,
                    right: all.checked_sub(bits)?,
                };
                Some(FetchType::Bitfield(width, style, bits))
            })
    }

    /// The address space that a pointer points to. It is the memory of the process if the kernel's
    /// source says `__user` and the compiler records this.
    pub fn points_to(&self, btf: &Btf<'a>) -> Space {
        if self.ty.kind() == TypeKind::Ptr && btf.has_tag(self.ty.target(), "user") {
            Space::User
        } else {
            Space::Kernel
        }
    }

    /// The value of the enumerator with this name, if the value is an enumeration that has it.
    pub fn enumerator(&self, btf: &Btf<'a>, name: &str) -> Option<i64> {
        btf.enumerators(self.ty)
            .find_map(|(other, value)| (other == name).then_some(value))
    }

    /// The kind of the value, if it is an array of bytes or a pointer to bytes. Otherwise `None`.
    /// Bytes are unsigned, like `char` in the kernel.
    ///
    /// The caller converts `None` into
    /// [`ErrorKind::BadType4str`](crate::error::ErrorKind::BadType4str) (EINVAL) at the argument. C
    /// uses the size of a number as the type of a pointer, and so accepts some invalid values.
    pub fn string_source(&self, btf: &Btf<'a>) -> Option<StringSource> {
        let (element, text) = match self.ty.kind() {
            TypeKind::Array => (self.ty.array()?.element, StringSource::Array),
            TypeKind::Ptr => (self.ty.target(), StringSource::Pointer(self.points_to(btf))),
            _ => return None,
        };
        let int = btf.resolve(element)?.int()?;
        (!int.is_signed() && int.bits() == 8).then_some(text)
    }
}

/// The properties of a type as a number: its width, its style, and, if its bits are not whole
/// bytes, the number itself.
fn number(ty: &Type<'_>) -> (Width, Style, Option<Int>) {
    let whole = |width, style| (width, style, None);
    match (ty.kind(), ty.int()) {
        (TypeKind::Enum, _) => {
            let style = if ty.flag() {
                Style::Signed
            } else {
                Style::Unsigned
            };
            match ty.size() {
                1 => whole(Width::W1, style),
                2 => whole(Width::W2, style),
                _ => whole(Width::W4, Style::Signed),
            }
        }
        (TypeKind::Enum64, _) => whole(Width::W8, Style::Signed),
        (TypeKind::Int, Some(int)) => {
            let style = if int.is_signed() {
                Style::Signed
            } else {
                Style::Unsigned
            };
            match int.bits() {
                8 => whole(Width::W1, style),
                16 => whole(Width::W2, style),
                32 => whole(Width::W4, style),
                64 => whole(Width::W8, style),
                // `__int128`, or a value without a size. C shows the lower half, or the bytes at
                // the address.
                0 | 65.. if int.is_signed() => whole(Width::W8, Style::Hex),
                0 | 65.. => whole(Width::W8, Style::Unsigned),
                _ => (Width::W8, Style::Unsigned, Some(int)),
            }
        }
        _ => whole(Width::W8, Style::Hex),
    }
}

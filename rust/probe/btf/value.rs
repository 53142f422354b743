// SPDX-License-Identifier: GPL-2.0

//! The value of a variable, and how a program fetches it.
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

/// The type and the offset in bytes of a variable with its fields.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// Its type, without names and qualifiers.
    pub ty: Type<'a>,
    /// The bit of its first byte that it starts at.
    pub first_bit: u8,
    /// The number of bits of a bitfield; 0 where it is none.
    pub bitfield: u8,
}

/// The value that leads to the bytes of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringSource {
    /// An array of bytes.
    Array,
    /// A pointer to bytes, in the memory of this space.
    Pointer(Space),
}

impl<'a> Value<'a> {
    /// A value that is all of its bytes.
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
    /// Pointers, and values that are not numbers, are `x64`. `None` if a bitfield spans nine bytes:
    /// C would shift it by more bits than the number has.
    ///
    /// Unlike in C, a bitfield of whole bytes is separated from its neighbours, a bitfield that
    /// extends beyond its number is read from a wider number, and an enumeration of fewer than four
    /// bytes is read with its own size. As in C, only the name of a bitfield's type is signed: its
    /// value is not.
    pub fn fetch_type(&self) -> Option<FetchType> {
        let (width, style, odd_bits) = number(&self.ty);
        let bits = match (self.bitfield, odd_bits) {
            (_, Some(int)) => int.bits(),
            // A bit offset without a size: this is not a bitfield.
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

    /// The address space that a pointer points to. This is the memory of the process if the
    /// kernel's source says `__user`, and the compiler records it.
    pub fn points_to(&self, btf: &Btf<'a>) -> Space {
        if self.ty.kind() == TypeKind::Ptr && btf.has_tag(self.ty.target(), "user") {
            Space::User
        } else {
            Space::Kernel
        }
    }

    /// Whether the value is an array of bytes or a pointer to bytes, if it can be shown as a
    /// string. Bytes are unsigned, as `char` is in the kernel.
    ///
    /// `None` is [`ErrorKind::BadType4str`](crate::error::ErrorKind::BadType4str) (EINVAL) at the
    /// argument. C uses the size of a number as the type of a pointer, and so accepts some invalid
    /// values.
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

/// The number that a type is: its width, its style, and the number itself where its bits are no
/// bytes.
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
                // `__int128`, or a value without a size: C shows the lower half, or the bytes at
                // the address.
                0 | 65.. if int.is_signed() => whole(Width::W8, Style::Hex),
                0 | 65.. => whole(Width::W8, Style::Unsigned),
                _ => (Width::W8, Style::Unsigned, Some(int)),
            }
        }
        _ => whole(Width::W8, Style::Hex),
    }
}

// SPDX-License-Identifier: GPL-2.0

//! How the value of a variable is fetched.
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

/// What a variable with its fields is: a type, at a byte.
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

    /// The type that an argument gets of which the command says none.
    ///
    /// Numbers are `u8` to `s64`, by their size and sign; enumerations signed; pointers, and what
    /// has no number, `x64`. `None` where a bitfield spans nine bytes, which C would shift by more
    /// than the bits there are.
    ///
    /// Other than in C, a bitfield of whole bytes is cut off its neighbours; one that leaves the
    /// number it is in is read from a wider one; and an enumeration of fewer than four bytes is
    /// read as that. As in C a bitfield has the sign of its type by name only: its value has none.
    pub fn fetch_type(&self) -> Option<FetchType> {
        let (width, style, odd_bits) = number(&self.ty);
        let bits = match (self.bitfield, odd_bits) {
            (_, Some(int)) => int.bits(),
            // At a bit without having a size: that is no bitfield.
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

    /// Whose memory a pointer points to: that of the process where the kernel's source says
    /// `__user`, and the compiler passes that on.
    pub fn points_to(&self, btf: &Btf<'a>) -> Space {
        if self.ty.kind() == TypeKind::Ptr && btf.has_tag(self.ty.target(), "user") {
            Space::User
        } else {
            Space::Kernel
        }
    }

    /// Whether the value is an array of bytes or a pointer to them, if it can be shown as a string.
    /// Bytes are unsigned, as `char` is in the kernel.
    ///
    /// `None` is [`ErrorKind::BadType4str`](crate::error::ErrorKind::BadType4str) (EINVAL) at the
    /// argument. C takes the size of a number for the type of a pointer, and so lets some pass.
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
                // `__int128`, or nothing: C shows the lower half, or what is there.
                0 | 65.. if int.is_signed() => whole(Width::W8, Style::Hex),
                0 | 65.. => whole(Width::W8, Style::Unsigned),
                _ => (Width::W8, Style::Unsigned, Some(int)),
            }
        }
        _ => whole(Width::W8, Style::Hex),
    }
}

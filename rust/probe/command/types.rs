// SPDX-License-Identifier: GPL-2.0

//! Parses the type of an argument: `TYPE[COUNT]` after the `:`.
//!
//! C: `parse_probe_arg_type()`, `find_fetch_type()` and `__parse_bitfield_probe_arg()` in
//! `kernel/trace/trace_probe.c`.

use core::num::NonZeroU8;

use crate::{
    error::ErrorKind,
    types::{
        Bits,
        FetchType,
        Space,
        Style,
        Width, //
    },
};

use super::{
    error::ArgumentError,
    level::Text,
    number, //
};

/// Maximum length of an argument's body, in bytes.
///
/// C: `MAX_ARGSTR_LEN`.
pub(super) const MAX_BODY: usize = 255;

/// Maximum number of elements of an array.
const MAX_ARRAY: u8 = 64;

/// The type of an argument, as the user wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenType {
    /// The type that the command names.
    Explicit(FetchType),
    /// The default type. The command names no type. If BTF has a type for the value, that type
    /// replaces the default.
    Default(FetchType),
    /// The type of the field in its event, or else this type. The command names no type.
    OfField(FetchType),
    /// A bitfield in a number of this width. `None` if its bits are malformed or exceed the number:
    /// errors of the value come before this error.
    Bitfield(Width, Option<Bits>),
}

impl WrittenType {
    /// The size of the value in the record, in bytes.
    pub(super) const fn size(self) -> usize {
        match self {
            Self::Explicit(ty) | Self::Default(ty) | Self::OfField(ty) => ty.size(),
            Self::Bitfield(width, _) => width.bytes(),
        }
    }
}

/// The type of an argument and the number of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeSuffix {
    /// The type.
    pub(super) ty: WrittenType,
    /// Byte offset of the type in the body, or 0 if the body has no type.
    pub(super) at: u16,
    /// The number of elements of an array.
    pub(super) count: Option<NonZeroU8>,
}

impl TypeSuffix {
    /// The type of a value without a type.
    ///
    /// In an event probe, `$comm` can be a field. As in C, no value of an event probe has a string
    /// as its default type.
    pub(super) fn default_of(value: &str, is_event: bool) -> Self {
        let ty = if !is_event && is_string(value) {
            FetchType::String(Space::Kernel)
        } else if !is_event && value == "$elapsed" {
            FetchType::Number(Width::W8, Style::Unsigned)
        } else {
            // The default type has the width of a register.
            FetchType::Number(Width::W8, Style::Hex)
        };
        Self {
            ty: WrittenType::Default(ty),
            at: 0,
            count: None,
        }
    }

    /// Replaces a default type by that of the field.
    pub(super) fn or_of_field(self) -> Self {
        let ty = match self.ty {
            WrittenType::Default(ty) => WrittenType::OfField(ty),
            ty => ty,
        };
        Self { ty, ..self }
    }

    /// Parses `text`, the type of `value`.
    pub(super) fn parse(
        value: &str,
        text: Text<'_>,
        is_event: bool,
    ) -> Result<Self, ArgumentError> {
        let offset = text.offset();
        let Text { text, at } = text;
        let (name, count) = match text.split_once('[') {
            None => (text, None),
            Some((name, count)) => {
                let at = at.saturating_add(name.len()).saturating_add(1);
                (name, Some(parse_count(count, at)?))
            }
        };
        if !is_event && is_string(value) && (count.is_some() || name != "string") {
            return Err(ArgumentError::invalid(ErrorKind::NeedStringType, at));
        }
        Ok(Self {
            ty: parse_name(name).ok_or(ArgumentError::invalid(ErrorKind::BadType, at))?,
            at: offset,
            count,
        })
    }
}

/// Whether `value` is a string, and not the address of a string.
fn is_string(value: &str) -> bool {
    matches!(value, "$comm" | "$COMM") || value.starts_with("\\\"")
}

/// Parses the number of elements and the `]` after it.
fn parse_count(text: &str, at: usize) -> Result<NonZeroU8, ArgumentError> {
    let Some((count, suffix)) = text.split_once(']') else {
        let end = at.saturating_add(text.len());
        return Err(ArgumentError::invalid(ErrorKind::ArrayNoClose, end));
    };
    if !suffix.is_empty() {
        let behind = at.saturating_add(count.len()).saturating_add(1);
        return Err(ArgumentError::invalid(ErrorKind::BadArraySuffix, behind));
    }
    // C parses 32 bits, so it reports that a number that does not fit is invalid, and not too big.
    let count = number::unsigned(count, 0)
        .ok()
        .and_then(|count| u32::try_from(count).ok())
        .filter(|count| *count != 0)
        .ok_or(ArgumentError::invalid(ErrorKind::BadArrayNum, at))?;
    u8::try_from(count)
        .ok()
        .filter(|count| *count <= MAX_ARRAY)
        .and_then(NonZeroU8::new)
        .ok_or(ArgumentError::invalid(ErrorKind::ArrayTooBig, at))
}

/// Parses the name of a type, without the number of elements.
fn parse_name(name: &str) -> Option<WrittenType> {
    // In C, every type that starts with `b` is a bitfield.
    if name.starts_with('b') {
        let (_, bits) = name.split_once('/')?;
        let width = match number::unsigned(bits, 0) {
            Ok(8) => Width::W1,
            Ok(16) => Width::W2,
            Ok(32) => Width::W4,
            Ok(64) => Width::W8,
            _ => return None,
        };
        return Some(WrittenType::Bitfield(width, parse_bits(name, width)));
    }

    FetchType::from_name(name).map(WrittenType::Explicit)
}

/// Parses `bW@O/…`, some bits of a number of `width`. Returns `None` if the bits exceed the
/// number.
fn parse_bits(text: &str, width: Width) -> Option<Bits> {
    let (count, rest) = number::leading(text.strip_prefix('b')?);
    let rest = rest.strip_prefix('@')?;
    let (first, tail) = number::leading(rest);
    if tail.len() == rest.len() || !tail.starts_with('/') {
        return None;
    }

    let (count, first) = (count?, first?);
    let bits = u64::try_from(width.bytes()).ok()?.checked_mul(8)?;
    // C accepts a sum that wraps around.
    let left = bits.checked_sub(count.checked_add(first)?)?;
    if count == 0 {
        return None;
    }
    Some(Bits {
        left: u8::try_from(left).ok()?,
        right: u8::try_from(bits.checked_sub(count)?).ok()?,
    })
}

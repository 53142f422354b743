// SPDX-License-Identifier: GPL-2.0

//! Resolves the type of an argument after its value.
//!
//! C: `find_fetch_type_from_btf_type()`, `check_prepare_btf_string_fetch()` and
//! `finalize_fetch_insn()` in `kernel/trace/trace_probe.c`.

use crate::{
    argument::{
        Base,
        Deref,
        RecordValue,
        Step, //
    },
    btf,
    error::{
        Errno,
        ErrorKind, //
    },
    types::{
        FetchType,
        Space,
        Style, //
    },
};

use super::{
    error::ArgumentError,
    fetch::ResolvedFetch,
    types::{
        TypeSuffix,
        WrittenType, //
    },
};

/// If an argument has no type, sets the type to the type of its value in BTF. Adds the dereference
/// of a pointer to a string.
///
/// C: `find_fetch_type_from_btf_type()`, `check_prepare_btf_string_fetch()`.
pub(super) fn apply_btf_type<'b>(
    value: &btf::Value<'b>,
    suffix: &mut TypeSuffix,
    resolved: &mut ResolvedFetch<'_, 'b>,
) -> Result<(), ArgumentError> {
    let wrong = |kind| ArgumentError::invalid(kind, resolved.at);
    match suffix.ty {
        WrittenType::Default(_) | WrittenType::OfField(_) => {
            let ty = value.fetch_type().ok_or(wrong(ErrorKind::BadBitfield))?;
            suffix.ty = WrittenType::Default(ty);
        }
        WrittenType::Explicit(FetchType::String(space)) => {
            let source = resolved.btf.and_then(|btf| value.string_source(&btf));
            match source.ok_or(wrong(ErrorKind::BadType4str))? {
                btf::StringSource::Array => {}
                btf::StringSource::Pointer(points_to) => {
                    let full = ArgumentError::new(ErrorKind::TooManyOps, resolved.at, Errno::E2BIG);
                    let space = match space {
                        Space::User => Space::User,
                        Space::Kernel => points_to,
                    };
                    let deref = Deref { space, offset: 0 };
                    resolved.push(Step::Deref(deref), full)?;
                }
            }
        }
        WrittenType::Explicit(_) | WrittenType::Bitfield(..) => {}
    }
    Ok(())
}

/// If the type is that of a field, sets it. A value that is read from memory has no such type.
pub(super) fn apply_field_type(suffix: &mut TypeSuffix, resolved: &ResolvedFetch<'_, '_>) {
    let WrittenType::OfField(default) = suffix.ty else {
        return;
    };
    let string = FetchType::String(Space::Kernel);
    let ty = match (resolved.fetch.steps.as_slice(), resolved.fetch.base) {
        ([], Base::Comm) => string,
        ([], Base::Field(field)) => match field.value {
            RecordValue::Number(width) => FetchType::Number(width, Style::Unsigned),
            RecordValue::Signed(width) => FetchType::Number(width, Style::Signed),
            RecordValue::Text | RecordValue::DataLoc | RecordValue::RelLoc => string,
            RecordValue::Address => default,
        },
        _ => default,
    };
    suffix.ty = WrittenType::Default(ty);
}

/// Resolves the type of an argument. Fails if its value cannot have this type.
pub(super) fn resolve_type(
    suffix: &TypeSuffix,
    resolved: &ResolvedFetch<'_, '_>,
) -> Result<FetchType, ArgumentError> {
    let outermost = resolved.fetch.steps.as_slice().last();
    let reads = match outermost {
        Some(Step::Deref(deref)) => Some(deref.space),
        Some(Step::ThisCpu) | None => None,
    };
    let at = suffix.at.into();
    let bad_string = ArgumentError::invalid(ErrorKind::BadString, at);

    let ty = match suffix.ty {
        WrittenType::Explicit(ty @ FetchType::String(_))
        | WrittenType::Default(ty @ FetchType::String(_)) => {
            let is_address = matches!(
                resolved.fetch.base,
                Base::Immediate(_) | Base::Comm | Base::Text(_) | Base::Field(_)
            );
            // A dereference reads the string.
            let is_read = reads.is_some() || (is_address && outermost.is_none());
            if !is_read {
                return Err(bad_string);
            }
            ty
        }
        WrittenType::Explicit(FetchType::Symstr) => {
            // As in C, an entry argument cannot be a symbol.
            let is_value = match (outermost, resolved.fetch.base) {
                (Some(_), _) => reads == Some(Space::Kernel),
                (None, Base::Register(_) | Base::Stack(_)) => true,
                (None, Base::Argument(_) | Base::ReturnValue | Base::Field(_)) => true,
                (None, Base::Caller | Base::EntryCaller) => true,
                (None, _) => false,
            };
            if !is_value {
                return Err(ArgumentError::invalid(ErrorKind::BadSymstring, at));
            }
            FetchType::Symstr
        }
        WrittenType::Explicit(ty) | WrittenType::Default(ty) | WrittenType::OfField(ty) => ty,
        WrittenType::Bitfield(width, bits) => bits
            .map(|bits| FetchType::Bitfield(width, Style::Unsigned, bits))
            .ok_or(ArgumentError::invalid(ErrorKind::BadBitfield, at))?,
    };

    if suffix.count.is_some() {
        // C has no loop over numbers of user space, and none over symbols. An array of errors would
        // repeat all names in the `format` file for each element.
        let can_loop = match ty {
            FetchType::String(_) => true,
            FetchType::Symstr | FetchType::Number(_, Style::Errno) => false,
            FetchType::Number(..) | FetchType::Bitfield(..) => reads == Some(Space::Kernel),
        };
        if !can_loop {
            return Err(bad_string);
        }
    }
    Ok(ty)
}

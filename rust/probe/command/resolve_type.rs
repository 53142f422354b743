// SPDX-License-Identifier: GPL-2.0

//! Resolves the type of an argument after its value was parsed.
//!
//! C: `find_fetch_type_from_btf_type()`, `check_prepare_btf_string_fetch()` and
//! `finalize_fetch_insn()` in `kernel/trace/trace_probe.c`.

use crate::{
    argument::{
        Base,
        Deref,
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
    fetch::{
        ParsedFetch,
        LAST_STEP, //
    },
    types::{
        parse_bits,
        SplitBody,
        TypeSpec, //
    },
};

/// If an argument has no type, sets the type to the type of its value in BTF. Adds the dereference
/// of a pointer to a string.
///
/// C: `find_fetch_type_from_btf_type()`, `check_prepare_btf_string_fetch()`.
pub(super) fn apply_btf_type<'b>(
    value: &btf::Value<'b>,
    split: &mut SplitBody<'_>,
    parsed: &mut ParsedFetch<'_, 'b>,
) -> Result<(), ArgumentError> {
    let wrong = |kind| ArgumentError::invalid(kind, parsed.at);
    match split.ty {
        TypeSpec::Default(_) => {
            let ty = value.fetch_type().ok_or(wrong(ErrorKind::BadBitfield))?;
            split.ty = TypeSpec::Default(ty);
        }
        TypeSpec::Explicit(FetchType::String(space)) => {
            let source = parsed.btf.and_then(|btf| value.string_source(&btf));
            match source.ok_or(wrong(ErrorKind::BadType4str))? {
                btf::StringSource::Array => {}
                btf::StringSource::Pointer(points_to) => {
                    let full = ArgumentError::new(ErrorKind::TooManyOps, parsed.at, Errno::E2BIG);
                    let space = match space {
                        Space::User => Space::User,
                        Space::Kernel => points_to,
                    };
                    let deref = Deref { space, offset: 0 };
                    parsed.push(Step::Deref(deref), full)?;
                }
            }
        }
        TypeSpec::Explicit(_) | TypeSpec::Bitfield(..) => {}
    }
    Ok(())
}

/// Resolves the type of an argument. Fails if its value cannot have this type.
pub(super) fn resolve_type(
    split: &SplitBody<'_>,
    parsed: &ParsedFetch<'_, '_>,
) -> Result<FetchType, ArgumentError> {
    let outermost = parsed.fetch.steps.as_slice().last();
    let reads = match outermost {
        Some(Step::Deref(deref)) => Some(deref.space),
        Some(Step::ThisCpu) | None => None,
    };
    let bad_string = ArgumentError::invalid(ErrorKind::BadString, split.at);
    let full = |errno| ArgumentError::new(ErrorKind::TooManyOps, parsed.at, errno);
    let mut last = parsed.last;
    let mut next = || {
        last = last.saturating_add(1);
        last <= LAST_STEP
    };

    let ty = match split.ty {
        TypeSpec::Explicit(ty @ FetchType::String(_))
        | TypeSpec::Default(ty @ FetchType::String(_)) => {
            let is_address = matches!(
                parsed.fetch.base,
                Base::Immediate(_) | Base::Comm | Base::Text(_) | Base::Field(_)
            );
            match (outermost, reads) {
                // In C, an array of strings is an array of pointers. A separate instruction reads
                // the strings.
                (_, Some(_)) if split.count.is_some() => {
                    if !next() {
                        return Err(full(Errno::EINVAL));
                    }
                }
                // The dereference reads the string.
                (_, Some(_)) => {}
                (None, None) if is_address && next() => {}
                (_, None) => return Err(bad_string),
            }
            ty
        }
        TypeSpec::Explicit(FetchType::Symstr) => {
            // As in C, an entry argument cannot be a symbol.
            let is_value = match (outermost, parsed.fetch.base) {
                (Some(_), _) => reads == Some(Space::Kernel),
                (None, Base::Register(_) | Base::Stack(_)) => true,
                (None, Base::Argument(_) | Base::ReturnValue | Base::Field(_)) => true,
                (None, _) => false,
            };
            if !is_value {
                return Err(ArgumentError::invalid(ErrorKind::BadSymstring, split.at));
            }
            if !next() {
                return Err(full(Errno::EINVAL));
            }
            FetchType::Symstr
        }
        TypeSpec::Explicit(ty) | TypeSpec::Default(ty) => {
            // In C, a value that does not come from memory takes an additional instruction for the
            // store.
            if reads.is_none() && !next() {
                return Err(full(Errno::E2BIG));
            }
            // In C, a bitfield takes an additional instruction.
            if matches!(ty, FetchType::Bitfield(..)) && !next() {
                return Err(full(Errno::EINVAL));
            }
            ty
        }
        TypeSpec::Bitfield(width, text) => {
            if reads.is_none() && !next() {
                return Err(full(Errno::E2BIG));
            }
            // C also reports an invalid bitfield if no instruction is left for it.
            parse_bits(text, width)
                .filter(|_| next())
                .map(|bits| FetchType::Bitfield(width, Style::Unsigned, bits))
                .ok_or(ArgumentError::invalid(ErrorKind::BadBitfield, split.at))?
        }
    };

    if split.count.is_some() {
        // C has no loop over numbers of user space, and none over symbols.
        let can_loop = match ty {
            FetchType::String(_) => true,
            FetchType::Symstr => false,
            FetchType::Number(..) | FetchType::Bitfield(..) => reads == Some(Space::Kernel),
        };
        if !can_loop {
            return Err(bad_string);
        }
        if !next() {
            return Err(full(Errno::E2BIG));
        }
    }
    Ok(ty)
}

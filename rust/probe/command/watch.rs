// SPDX-License-Identifier: GPL-2.0

//! Parses the target of a watchpoint: `[r|w|rw|x]@ADDR|SYM[+|-OFF][:LEN]`.
//!
//! The kernel's watchpoint probes, proposed on its mailing lists in 2026, have the same syntax and
//! the same error texts. They have no `r` and no `x`.

use crate::error::ErrorKind;

use super::{
    error::Error,
    number,
    symbol::split_symbol,
    target::{
        Access,
        Place,
        Watched, //
    },
};

/// Default length of a watchpoint, in bytes. Applies if the command has no length and the watched
/// memory has no known type.
pub const DEFAULT_LEN: u8 = 4;

impl<'a> Watched<'a> {
    /// Parses the second word of a `w`.
    pub(super) fn parse(word: &'a str) -> Result<Self, Error> {
        let refuse = |kind, offset| Err(Error::invalid(kind, 1, offset));
        let Some((access, rest)) = word.split_once('@') else {
            return refuse(ErrorKind::BadAccessFmt, 0);
        };
        let access = match access {
            "" | "rw" => Access::ReadWrite,
            "w" => Access::Write,
            "x" => Access::Execute,
            "r" => Access::Read,
            _ => return refuse(ErrorKind::BadAccessType, 0),
        };
        let start = word.len().saturating_sub(rest.len());
        let (place, len) = match rest.rsplit_once(':') {
            // Otherwise the place is `MODULE:SYMBOL`.
            Some((place, len)) if !len.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                let at = start.saturating_add(place.len()).saturating_add(1);
                let len = number::unsigned(len, 0)
                    .ok()
                    .and_then(|len| u8::try_from(len).ok())
                    .filter(|len| matches!(len, 1 | 2 | 4 | 8) && access != Access::Execute);
                let wrong = Error::invalid(ErrorKind::BadAccessLen, 1, at);
                (place, Some(len.ok_or(wrong)?))
            }
            _ => (rest, None),
        };
        let wrong = Error::invalid(ErrorKind::BadAccessAddr, 1, start);
        let place = match number::unsigned(place, 0) {
            Ok(address) => Place::Address(address),
            Err(_) if place.starts_with(|c: char| c.is_ascii_digit()) => return Err(wrong),
            Err(_) => {
                let sign = place.find(['+', '-']).unwrap_or(0);
                let (symbol, offset) = split_symbol(place)
                    .ok()
                    .and_then(|(symbol, offset)| Some((symbol, i32::try_from(offset).ok()?)))
                    .ok_or(Error::invalid(
                        ErrorKind::BadAccessAddr,
                        1,
                        start.saturating_add(sign),
                    ))?;
                if symbol.is_empty() {
                    return Err(wrong);
                }
                Place::Symbol { symbol, offset }
            }
        };
        let len = match (place, access) {
            (_, Access::Execute) => None,
            (Place::Address(_), _) => Some(len.unwrap_or(DEFAULT_LEN)),
            (Place::Symbol { .. }, _) => len,
        };
        let watched = Self { access, place, len };
        if let Place::Address(address) = place {
            watched
                .check(address)
                .map_err(|kind| Error::invalid(kind, 1, start))?;
        }
        Ok(watched)
    }

    /// Checks that a watchpoint can watch this address.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BadAccessAddr`] for an address of user space. [`ErrorKind::UnalignedAccess`]
    /// for an address that is not a multiple of the length.
    pub fn check(&self, address: u64) -> Result<(), ErrorKind> {
        if address >> 63 == 0 {
            return Err(ErrorKind::BadAccessAddr);
        }
        if address & u64::from(self.len.unwrap_or(1).saturating_sub(1)) != 0 {
            return Err(ErrorKind::UnalignedAccess);
        }
        Ok(())
    }

    /// Checks that the processor can watch these accesses.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ReadAccess`] if it cannot watch reads alone.
    pub fn check_access(&self, watches_reads: bool) -> Result<(), ErrorKind> {
        match self.access {
            Access::Read if !watches_reads => Err(ErrorKind::ReadAccess),
            _ => Ok(()),
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Parses numbers as the kernel does.
//!
//! C: `lib/kstrtox.c`, and `simple_strtoul()` in `lib/vsprintf.c`.

use crate::error::Errno;

/// The parsed digits at the start of a text.
struct Digits<'a> {
    /// `None` if the value needs more than 64 bits.
    value: Option<u64>,
    /// The number of digits, without the `0x`.
    count: usize,
    rest: &'a str,
}

/// The value of a digit in base 16 or less.
const fn digit(byte: u8) -> Option<u64> {
    let (first, value) = match byte {
        b'0'..=b'9' => (b'0', 0),
        b'a'..=b'f' => (b'a', 10),
        b'A'..=b'F' => (b'A', 10),
        _ => return None,
    };
    Some(byte.wrapping_sub(first) as u64 + value)
}

/// Parses digits in `base`, at most 16. If `base` is 0, a leading `0x` selects base 16, a leading
/// `0` selects base 8, and other texts select base 10.
///
/// C: `_parse_integer_fixup_radix()`, `_parse_integer()`.
fn digits(text: &str, base: u64) -> Digits<'_> {
    let hex = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (text, base) = match (base, hex) {
        (0, Some(rest)) => (rest, 16),
        (0, None) if text.starts_with('0') => (text, 8),
        (0, None) => (text, 10),
        (base, _) => (text, base),
    };

    let mut value = Some(0u64);
    let mut count = 0usize;
    for digit in text.bytes().map_while(digit).take_while(|d| *d < base) {
        value = value
            .and_then(|v| v.checked_mul(base))
            .and_then(|v| v.checked_add(digit));
        count = count.saturating_add(1);
    }
    Digits {
        value,
        count,
        rest: text.get(count..).unwrap_or(""),
    }
}

/// Parses all of `text` as a number without a sign.
fn whole(text: &str, base: u64) -> Result<u64, Errno> {
    let digits = digits(text, base);
    // As in C, a number that does not fit is ERANGE, and the rest of the text does not matter.
    let value = digits.value.ok_or(Errno::ERANGE)?;
    if digits.count == 0 || !digits.rest.is_empty() {
        return Err(Errno::EINVAL);
    }
    Ok(value)
}

/// Parses a number, which can have a leading `+`. If `base` is 0, the prefix determines the base.
///
/// C: `kstrtoul()`.
pub(super) fn unsigned(text: &str, base: u64) -> Result<u64, Errno> {
    whole(text.strip_prefix('+').unwrap_or(text), base)
}

/// Parses a number, which can have one leading sign. The prefix determines the base.
///
/// C: `kstrtol()` with base 0.
pub(super) fn signed(text: &str) -> Result<i64, Errno> {
    match text.strip_prefix('-') {
        Some(digits) => negative(digits),
        None => i64::try_from(unsigned(text, 0)?).map_err(|_| Errno::ERANGE),
    }
}

/// Parses the part of a number after its `-`. The prefix determines the base.
pub(super) fn negative(digits: &str) -> Result<i64, Errno> {
    let value = whole(digits, 0)?;
    0i64.checked_sub_unsigned(value).ok_or(Errno::ERANGE)
}

/// Parses the number at the start of `text`. Returns the number, or 0 without a number, and the
/// rest of `text`. The prefix determines the base. `None` means a number of more than 64 bits.
///
/// C: `simple_strtoul()` with base 0.
pub(super) fn leading(text: &str) -> (Option<u64>, &str) {
    let digits = digits(text, 0);
    (digits.value, digits.rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_decides_the_base() {
        for (text, value) in [
            ("0", Ok(0)),
            ("10", Ok(10)),
            ("010", Ok(8)),
            ("0x10", Ok(16)),
            ("0XfF", Ok(255)),
            ("+7", Ok(7)),
            ("++7", Err(Errno::EINVAL)),
            ("-7", Err(Errno::EINVAL)),
            ("08", Err(Errno::EINVAL)),
            ("0x", Err(Errno::EINVAL)),
            ("0xg", Err(Errno::EINVAL)),
            ("", Err(Errno::EINVAL)),
            ("+", Err(Errno::EINVAL)),
            ("1a", Err(Errno::EINVAL)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(Errno::ERANGE)),
            ("99999999999999999999x", Err(Errno::ERANGE)),
        ] {
            assert_eq!(unsigned(text, 0), value, "{text}");
        }
        assert_eq!(unsigned("010", 10), Ok(10));
        assert_eq!(unsigned("0x10", 10), Err(Errno::EINVAL));
    }

    #[test]
    fn a_signed_number_is_checked_at_both_ends() {
        for (text, value) in [
            ("-0", Ok(0)),
            ("-0x10", Ok(-16)),
            ("+5", Ok(5)),
            ("-+5", Err(Errno::EINVAL)),
            ("--5", Err(Errno::EINVAL)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("9223372036854775808", Err(Errno::ERANGE)),
            ("-9223372036854775808", Ok(i64::MIN)),
            ("-9223372036854775809", Err(Errno::ERANGE)),
        ] {
            assert_eq!(signed(text), value, "{text}");
        }
    }

    #[test]
    fn a_leading_number_stops_where_it_ends() {
        for (text, value) in [
            ("4@0/8", (Some(4), "@0/8")),
            ("0x1f/8", (Some(31), "/8")),
            ("0x/8", (Some(0), "x/8")),
            ("@", (Some(0), "@")),
            ("18446744073709551616@", (None, "@")),
        ] {
            assert_eq!(leading(text), value, "{text}");
        }
    }
}

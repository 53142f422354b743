// SPDX-License-Identifier: GPL-2.0

//! Durations, as the user writes and reads them.

const UNITS: [(&str, u64); 5] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
];

/// Parses `10ms` or `1.5s`. A number without a unit counts in `default` units. Returns ns.
pub fn parse(text: &str, default: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = if unit.is_empty() { default } else { unit };
    let factor = UNITS.iter().find(|(name, _)| *name == unit);
    let (Ok(number), Some((_, factor))) = (number.parse::<f64>(), factor) else {
        return Err(format!(
            "{text} is no duration: write 10ms, 1.5s, 200us, 500ns or 2m"
        ));
    };
    let ns = number * *factor as f64;
    if ns >= 1e18 {
        return Err(format!("{text} is too long"));
    }
    Ok(ns as u64)
}

/// Three digits and a unit: `1.50 ms`.
pub fn show(ns: u64) -> String {
    let (unit, factor) = UNITS[..4]
        .iter()
        .rev()
        .find(|(_, factor)| ns >= *factor)
        .unwrap_or(&UNITS[0]);
    let value = ns as f64 / *factor as f64;
    match () {
        () if *factor == 1 => format!("{ns} ns"),
        () if value < 10.0 => format!("{value:.2} {unit}"),
        () if value < 100.0 => format!("{value:.1} {unit}"),
        () => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_numbers_with_units() {
        assert_eq!(parse("10ms", "s"), Ok(10_000_000));
        assert_eq!(parse("1.5", "s"), Ok(1_500_000_000));
        assert_eq!(parse("7ns", "s"), Ok(7));
        for wrong in [
            "",
            "ms",
            "10 ms",
            "1e3s",
            "-1s",
            "10h",
            "1.2.3",
            "99999999999999m",
        ] {
            assert!(parse(wrong, "s").is_err(), "{wrong}");
        }
    }

    #[test]
    fn shows_three_digits() {
        assert_eq!(show(0), "0 ns");
        assert_eq!(show(999), "999 ns");
        assert_eq!(show(1_500), "1.50 us");
        assert_eq!(show(65_536), "65.5 us");
        assert_eq!(show(123_000_000), "123 ms");
        assert_eq!(show(u64::MAX), "18446744074 s");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Tables of counts, in the text of the kernel's histograms.

use std::collections::HashMap;

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The values of the keys, in the order of the keys.
    pub keys: Vec<String>,
    /// The number of hits.
    pub hits: u64,
    /// The sum of a field, if there is one.
    pub sum: u64,
    /// The smallest and the greatest number of this field, as far as they are known. Of a negative number, the bits.
    pub min: Option<u64>,
    pub max: Option<u64>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hist {
    /// Its rows, in the order of the file.
    pub rows: Vec<Row>,
    /// The hits for which the table had no row left.
    pub dropped: u64,
}

impl Hist {
    /// The number of hits that have a row.
    pub fn counted(&self) -> u64 {
        self.rows.iter().map(|row| row.hits).sum()
    }

    /// The hits since the table was `before`.
    pub fn since(&self, before: &Self) -> Self {
        let known: HashMap<_, _> = before.rows.iter().map(|row| (&row.keys, row)).collect();
        let since = |row: &Row| match known.get(&row.keys) {
            Some(before) => Row {
                keys: row.keys.clone(),
                hits: row.hits.saturating_sub(before.hits),
                sum: row.sum.saturating_sub(before.sum),
                // If they are the same as before, they can be those of earlier hits.
                min: row.min.filter(|_| row.min != before.min),
                max: row.max.filter(|_| row.max != before.max),
            },
            None => row.clone(),
        };
        let rows = self.rows.iter().map(since);
        Self {
            rows: rows.filter(|row| row.hits > 0).collect(),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }
}

/// Parses a table. `keys` are the names of the keys, and `value` is the name of the field that has a sum.
pub fn parse(text: &str, keys: &[&str], value: Option<&str>) -> Hist {
    const END: &str = "} hitcount:";

    let mut hist = Hist::default();
    let mut rest = text;
    while let Some(end) = rest.find(END) {
        // A key that is a string can contain braces. A row starts at the start of a line.
        let row = rest[..end]
            .rfind("\n{ ")
            .map_or(&rest[..end], |start| &rest[start + 1..end]);
        rest = &rest[end + END.len()..];
        let line = rest.lines().next().unwrap_or("");
        let mut numbers = line.split_whitespace();
        let hits = numbers
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0);
        let number = |prefix: &str| -> Option<u64> {
            let (_, number) = line.split_once(&format!(" {prefix}{}:", value?))?;
            let word = number.split_whitespace().next()?;
            let negative = || word.parse().ok().map(bits);
            word.parse().ok().or_else(negative)
        };
        if let Some(keys) = split_keys(row, keys) {
            hist.rows.push(Row {
                keys,
                hits,
                sum: number("").unwrap_or(0),
                min: number("min_"),
                max: number("max_"),
            });
        }
    }
    hist.dropped = rest
        .lines()
        .find_map(|line| line.trim().strip_prefix("Dropped:")?.trim().parse().ok())
        .unwrap_or(0);
    hist
}

/// The bits of a number with a sign.
fn bits(number: i64) -> u64 {
    u64::from_ne_bytes(number.to_ne_bytes())
}

fn split_keys(row: &str, keys: &[&str]) -> Option<Vec<String>> {
    let mut rest = row.trim_start().strip_prefix('{')?;
    let mut values = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        rest = rest.trim_start().trim_start_matches(',').trim_start();
        rest = rest.strip_prefix(key)?.strip_prefix(':')?;
        let end = keys
            .get(index + 1)
            .map_or(Some(rest.len()), |next| rest.rfind(&format!(", {next}:")))?;
        values.push(rest[..end].trim().to_string());
        rest = &rest[end..];
    }
    Some(values)
}

/// The upper bound of the bucket that the kernel shows as `~ 2^N` or `~ FIRST-LAST`. Its numbers are not above the bound,
/// or for `FIRST-LAST` below it. `None` if the numbers are negative.
pub fn bound(value: &str) -> Option<u64> {
    let range = value.strip_prefix("~ ")?.trim();
    if let Some(exponent) = range.strip_prefix("2^") {
        return 1_u64.checked_shl(exponent.parse().ok()?);
    }
    let (first, last) = range.split_once('-')?;
    let first: u64 = first.parse().ok()?;
    let last: u64 = last.parse().ok()?;
    (first <= u64::MAX / 2).then(|| last.saturating_add(1))
}

/// The name in a value that the kernel shows as `[ADDRESS] NAME`.
pub fn symbol(value: &str) -> &str {
    value
        .split_once("] ")
        .map_or(value, |(_, name)| name)
        .trim()
}

/// The lines of a key. A stack has a place in each line, the innermost first.
pub fn lines(key: &str) -> impl Iterator<Item = &str> {
    key.lines().map(str::trim)
}

/// A key in one line.
pub fn one_line(key: &str) -> String {
    lines(key).collect::<Vec<_>>().join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "# event histogram\n#\n# trigger info: hist:keys=comm,ns.log2\n#\n\n\
        { comm: cat                , ns: ~ 2^14 } hitcount:        141  ns:    1500000\n\
        { comm: a, ns: {b          , ns: ~ 2^15 } hitcount:          3  ns:      70000\n\n\
        Totals:\n    Hits: 144\n    Entries: 2\n    Dropped: 5\n";

    #[test]
    fn splits_keys_and_values() {
        let hist = parse(TWO, &["comm", "ns"], Some("ns"));
        assert_eq!((hist.counted(), hist.dropped), (144, 5));
        assert_eq!(hist.rows.len(), 2);
        assert_eq!(hist.rows[0].keys, ["cat", "~ 2^14"]);
        assert_eq!((hist.rows[0].hits, hist.rows[0].sum), (141, 1_500_000));
        assert_eq!(hist.rows[1].keys[0], "a, ns: {b");
        assert_eq!(bound(&hist.rows[1].keys[1]), Some(1 << 15));
    }

    #[test]
    fn buckets_of_negative_numbers_have_no_bound() {
        for (key, expected) in [
            ("~ 2^0 ", Some(1)),
            ("~ 2^12", Some(4096)),
            ("~ 2^64", None),
            ("~ 0-99", Some(100)),
            ("~ 400-499", Some(500)),
            ("~ 18446744073709551000-18446744073709551099", None),
            ("7", None),
        ] {
            assert_eq!(bound(key), expected, "{key}");
        }
        let hist = parse(
            "{ x: ~ 2^64 } hitcount: 2  x: 18446744073709551605  min_x: -11  max_x: 0\n",
            &["x"],
            Some("x"),
        );
        assert_eq!(hist.rows[0].min, Some(bits(-11)));
        assert_eq!(hist.rows[0].max, Some(0));
    }

    #[test]
    fn the_extremes_of_an_interval_are_known_if_they_are_new() {
        let table = |row| parse(&format!("{{ a: 1 }} hitcount: {row}\n"), &["a"], Some("ns"));
        let before = table("8  ns: 64  min_ns: 5  max_ns: 11");
        let after = table("9  ns: 84  min_ns: 5  max_ns: 20");
        let row = &after.since(&before).rows[0];
        assert_eq!(
            (row.hits, row.sum, row.min, row.max),
            (1, 20, None, Some(20))
        );
        let row = &after.since(&Hist::default()).rows[0];
        assert_eq!((row.min, row.max), (Some(5), Some(20)));
        assert_eq!(table("1  ns: 5").rows[0].max, None);
    }

    #[test]
    fn reads_stacks_and_symbols() {
        let text = "\n{ common_stacktrace:\n         vfs_read+0x1/0x2\n         ksys_read+0x3/0x4\n\
            , ns: ~ 2^3 } hitcount: 2\n{ common_stacktrace:\n         a+0x1/0x2\n, ns: ~ 2^4 } hitcount: 1\n";
        let hist = parse(text, &["common_stacktrace", "ns"], None);
        assert_eq!(hist.rows[0].keys[0].lines().count(), 2);
        assert_eq!(hist.rows[1].keys, ["a+0x1/0x2", "~ 2^4"]);
        assert_eq!(symbol("[ffffffff8e5aac20] vfs_open   "), "vfs_open");
    }

    #[test]
    fn an_interval_has_its_own_hits_alone() {
        let row = |key: &str, hits, sum| Row {
            min: None,
            max: None,
            keys: vec![key.into()],
            hits,
            sum,
        };
        let before = Hist {
            rows: vec![row("a", 5, 50), row("b", 1, 7)],
            dropped: 2,
        };
        let now = Hist {
            rows: vec![row("b", 4, 17), row("a", 5, 50), row("c", 1, 1)],
            dropped: 3,
        };
        let expected = Hist {
            rows: vec![row("b", 3, 10), row("c", 1, 1)],
            dropped: 1,
        };
        assert_eq!(now.since(&before), expected);
        assert_eq!(now.since(&Hist::default()), now);
    }

    #[test]
    fn accepts_an_empty_file() {
        assert_eq!(parse("", &["a"], None), Hist::default());
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Names that are similar to one that does not exist.

/// The `count` names that are nearest to `wanted`, the nearest first.
pub fn similar<'a>(
    wanted: &str,
    names: impl Iterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    let limit = wanted.len() / 3 + 1;
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len().abs_diff(wanted.len()) <= limit)
        .map(|name| (distance(wanted.as_bytes(), name.as_bytes()), name))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .take(count)
        .map(|(_, name)| name)
        .collect()
}

/// The number of bytes to insert, to remove, to replace, or to swap with the next.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = last[j] + usize::from(a[i] != b[j]);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_nearest_first() {
        let names = ["vfs_write", "vfs_read", "vfs_readv", "do_exit", "vfs_read"];
        assert_eq!(
            similar("vfs_raed", names.into_iter(), 2),
            ["vfs_read", "vfs_readv"]
        );
        assert!(similar("zzzz", names.into_iter(), 3).is_empty());
    }

    #[test]
    fn counts_changes() {
        for (a, b, expected) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Names that are similar to one that does not exist.

use strsim::osa_distance;

/// The `count` names that are nearest to `wanted`, the nearest first.
pub fn similar<'a>(
    wanted: &str,
    names: impl Iterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    let limit = wanted.len() / 3 + 1;
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len().abs_diff(wanted.len()) <= limit)
        .map(|name| (osa_distance(wanted, name), name))
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
}

// SPDX-License-Identifier: GPL-2.0

//! Patterns for the names of functions, with `*`, `?` and `[...]`.

/// Whether a name is a pattern for many functions.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Whether a text matches a pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    is_match(pattern.as_bytes(), text.as_bytes())
}

fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return text.is_empty();
    };
    let Some((byte, after)) = text.split_first() else {
        return *first == b'*' && is_match(rest, text);
    };
    match *first {
        b'*' => is_match(rest, text) || is_match(pattern, after),
        b'?' => is_match(rest, after),
        b'[' => match rest.iter().position(|byte| *byte == b']') {
            Some(end) => is_in(&rest[..end], *byte) && is_match(&rest[end + 1..], after),
            None => false,
        },
        _ => first == byte && is_match(rest, after),
    }
}

/// Whether a byte is in a set such as `a-c_` or `!x`.
fn is_in(set: &[u8], byte: u8) -> bool {
    let (is_negated, mut set) = match set.strip_prefix(b"!") {
        Some(set) => (true, set),
        None => (false, set),
    };
    let mut is_found = false;
    while let [low, rest @ ..] = set {
        let (high, rest) = match rest {
            [b'-', high, rest @ ..] => (high, rest),
            _ => (low, rest),
        };
        is_found |= (*low..=*high).contains(&byte);
        set = rest;
    }
    is_found != is_negated
}

/// Patterns and names that match all of `chosen` and none of `others`, and no text twice. Both lists are sorted, and
/// have no name in common.
pub fn cover(chosen: &[&str], others: &[&str]) -> Vec<String> {
    let mut patterns = Vec::new();
    add_cover(chosen, others, 0, &mut patterns);
    patterns
}

/// Adds patterns for names whose first `len` bytes are equal, also in `others`.
fn add_cover(chosen: &[&str], others: &[&str], len: usize, patterns: &mut Vec<String>) {
    let prefix = match chosen {
        [] => return,
        [name] => return patterns.push((*name).into()),
        [name, ..] => &name[..len],
    };
    if others.is_empty() {
        // The names differ from others already. A longer prefix keeps away what is loaded later.
        let last = chosen[chosen.len() - 1].bytes();
        let common = chosen[0].bytes().zip(last).take_while(|(a, b)| a == b);
        return patterns.push(format!("{}*", &chosen[0][..common.count()]));
    }
    let without_prefix = |names: &&[&str]| usize::from(names[0].len() == len);
    let others = &others[without_prefix(&others)..];
    let mut chosen = match without_prefix(&chosen) {
        0 => chosen,
        _ => {
            patterns.push(prefix.into());
            &chosen[1..]
        }
    };
    // The next bytes that only chosen names have share one pattern.
    let mut set = String::new();
    let mut only: Vec<&str> = Vec::new();
    while let Some(first) = chosen.first() {
        let byte = first.as_bytes()[len];
        let (mine, rest) =
            chosen.split_at(chosen.partition_point(|name| name.as_bytes()[len] <= byte));
        let start = others.partition_point(|name| name.as_bytes()[len] < byte);
        let end = others.partition_point(|name| name.as_bytes()[len] <= byte);
        match &others[start..end] {
            // At the start of names, they have nothing in common.
            [] if len > 0 => {
                set.push(byte.into());
                only.extend(mine);
            }
            theirs => add_cover(mine, theirs, len + 1, patterns),
        }
        chosen = rest;
    }
    match set.len() {
        0 | 1 => add_cover(&only, &[], len, patterns),
        _ => patterns.push(format!("{prefix}[{set}]*")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a?", "a", false),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "bx", false),
            ("[a-c-]x", "-x", true),
            ("[a", "a", false),
            ("**a*", "ba", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_cover_names() {
        for (chosen, others, expected) in [
            (&[][..], &["a"][..], &[][..]),
            (&["vfs_read", "vfs_write"], &[], &["vfs_*"]),
            (
                &["a1", "vfs_read", "vfs_write"],
                &["do_exit"],
                &["a1", "vfs_*"],
            ),
            (&["vfs_read"], &["vfs_readv"], &["vfs_read"]),
            (
                &["vfs_open", "vfs_read", "vfs_sync", "vfs_write"],
                &["vfs_stat", "vfs_statx"],
                &["vfs_sync", "vfs_[orw]*"],
            ),
            (&["a", "ab", "abc"], &["ad", "b"], &["a", "ab*"]),
            (&["ab", "ac", "b", "ba"], &["a"], &["a[bc]*", "b*"]),
            (&["abx", "aby", "ac", "ad"], &["a"], &["a[bcd]*"]),
        ] {
            let found = cover(chosen, others);
            assert_eq!(found, expected);
            for name in chosen {
                let count = found
                    .iter()
                    .filter(|pattern| matches(pattern, name))
                    .count();
                assert_eq!(count, 1, "{name} {found:?}");
            }
            for name in others {
                let is_covered = found.iter().any(|pattern| matches(pattern, name));
                assert!(!is_covered, "{name} {found:?}");
            }
        }
    }
}

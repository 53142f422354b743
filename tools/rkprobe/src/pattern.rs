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
}

// SPDX-License-Identifier: GPL-2.0

//! Values as the kernel prints them in a record, for an answer in text or in JSON.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::format::FAULT;

/// The most characters of a string in an answer that is not JSON.
const MAX_TEXT: usize = 200;

/// The string in the quotes of the kernel, which does not escape quotes in it.
pub fn unquote(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"')
}

/// A string in quotes, as in C. A long one ends with `...`.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for (count, c) in text.chars().enumerate() {
        if count == MAX_TEXT {
            return quoted + "\"...";
        }
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.extend(c.escape_default()),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// A field that the kernel prints, as text: a string can have line breaks and quotes.
pub fn plain_text(raw: &str) -> Cow<'_, str> {
    unquote(raw).map_or(raw.into(), |text| quote(text).into())
}

/// A field that the kernel prints, as JSON.
pub fn plain_json(raw: &str) -> Json {
    match (raw.parse::<i64>(), raw.parse::<u64>(), unquote(raw)) {
        (Ok(number), ..) => number.into(),
        (_, Ok(number), _) => number.into(),
        (.., Some(text)) => text.into(),
        _ if raw == FAULT => Json::Null,
        _ => raw.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_strings_are_cut() {
        let text = "x".repeat(MAX_TEXT);
        assert_eq!(quote(&text), format!("\"{text}\""));
        assert_eq!(quote(&format!("{text}y")), format!("\"{text}\"..."));
        assert_eq!(quote("a\n\u{7f}"), "\"a\\n\\u{7f}\"");
        assert_eq!(plain_text("\"a\n\"\""), "\"a\\n\\\"\"");
        assert_eq!(plain_text("{\"a\"}"), "{\"a\"}");
    }

    #[test]
    fn json_has_numbers() {
        for (raw, expected) in [
            ("18446744073709551615", "18446744073709551615"),
            ("-1", "-1"),
            ("0x10", "\"0x10\""),
            ("{1,2}", "\"{1,2}\""),
            ("(fault)", "null"),
            ("\"x\"", "\"x\""),
        ] {
            assert_eq!(plain_json(raw).to_string(), expected);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! JSON. An answer is a few objects, for which a library is too much.

use std::fmt::Write;

/// An object under construction.
pub struct Object(String);

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self("{".into())
    }

    /// Adds a member whose value is a string.
    pub fn string(self, name: &str, value: &str) -> Self {
        let value = quote(value);
        self.raw(name, &value)
    }

    /// Adds a member whose value is a number.
    pub fn number(self, name: &str, value: impl Into<i128>) -> Self {
        let value: i128 = value.into();
        self.raw(name, &value.to_string())
    }

    /// Adds a member whose value is JSON.
    pub fn raw(mut self, name: &str, value: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        // Writing to a string does not fail.
        let _ = write!(self.0, "{}:{value}", quote(name));
        self
    }

    /// The text of the object.
    pub fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// The text of an array.
pub fn array(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// A string in quotes.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if u32::from(c) < 0x20 => {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_nests() {
        let inner = Object::new().number("n", -1).end();
        let text = Object::new()
            .string("a\"", "b\\\n")
            .raw("c", &array([inner]))
            .end();
        assert_eq!(text, r#"{"a\"":"b\\\u000a","c":[{"n":-1}]}"#);
        assert_eq!(array([]), "[]");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The `print fmt` of a trace event: which fields it prints as names, as symbols or in hexadecimal digits.

use crate::{
    flags::Flags,
    kinds::Kind, //
};

/// How people read a field by the `print fmt` of its event. `None` if it is a plain value there.
pub fn kind(print: &str, field: &str) -> Option<Kind> {
    let values = names(print, "__print_symbolic(", field);
    if !values.is_empty() {
        return Some(Kind::Names(values));
    }
    let bits = names(print, "__print_flags(", field);
    if !bits.is_empty() {
        let bits = bits.into_iter().map(|(name, bits)| (name, bits as u64));
        return Some(Kind::Flags(Flags::of(bits)));
    }
    let arguments = parts(print);
    let (format, arguments) = arguments.split_first()?;
    let conversions = conversions(format);
    let mut all = conversions.iter().zip(arguments);
    let (conversion, _) = all.find(|(_, argument)| is_field(argument, field))?;
    match *conversion {
        "ps" | "pS" => Some(Kind::Symbol),
        "x" | "X" => Some(Kind::Hex),
        _ => None,
    }
}

/// The names of the values of a field, by the calls of a function for this field. A value that only the kernel knows has
/// none, and neither have values whose names depend on another field.
fn names(print: &str, call: &str, field: &str) -> Vec<(String, i64)> {
    let calls = print
        .match_indices(call)
        .map(|(at, _)| &print[at + call.len()..]);
    let all = calls.map(|rest| parts(inside(rest)));
    let name = |entry: &&str| -> Option<(String, i64)> {
        let entry = entry.strip_prefix('{')?.strip_suffix('}')?;
        let [value, name] = parts(entry)[..] else {
            return None;
        };
        let name = name.strip_prefix('"')?.strip_suffix('"')?;
        Some((name.into(), Expression(value).value()?))
    };
    let mut tables = all
        .filter(|arguments| is_masked_field(arguments[0], field))
        .map(|arguments| arguments.iter().filter_map(name).collect());
    let first: Vec<(String, i64)> = tables.next().unwrap_or_default();
    match tables.all(|other| other == first) {
        true => first,
        false => Vec::new(),
    }
}

/// Whether an argument is a field, perhaps cast to another type.
fn is_field(argument: &str, field: &str) -> bool {
    let parts = argument.trim_end_matches([')', ' ']).rsplit_once("REC->");
    let is_cast =
        |before: &str| !before.contains(['<', '>', '+', '-', '/', '~', '?', '|', '&', '!']);
    parts.is_some_and(|(before, name)| name == field && is_cast(before))
}

/// Whether an argument is a field, or some bits of it.
fn is_masked_field(argument: &str, field: &str) -> bool {
    let whole = argument
        .split_once(" & ")
        .map_or(argument, |(whole, _)| whole);
    is_field(whole, field)
}

/// The text up to the bracket that closes.
fn inside(text: &str) -> &str {
    let end = levels(text).find(|(_, _, level)| *level < 0);
    end.map_or(text, |(end, _, _)| &text[..end])
}

/// The parts between commas that no brackets and no quotes contain.
fn parts(text: &str) -> Vec<&str> {
    let commas = levels(text).filter(|(_, c, level)| *c == ',' && *level == 0);
    let ends = commas.map(|(at, _, _)| at).chain([text.len()]);
    let mut start = 0;
    let mut parts = Vec::new();
    for end in ends {
        parts.push(text[start..end].trim());
        start = end + 1;
    }
    parts
}

/// The characters that no quotes contain: their places, and how many brackets are open after them.
fn levels(text: &str) -> impl Iterator<Item = (usize, char, i32)> + '_ {
    let (mut is_quoted, mut is_escaped, mut level) = (false, false, 0);
    text.char_indices().filter_map(move |(at, c)| {
        let is_quote = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_quoted ^= is_quote;
        if is_quoted || is_quote {
            return None;
        }
        match c {
            '(' | '{' => level += 1,
            ')' | '}' => level -= 1,
            _ => {}
        }
        Some((at, c, level))
    })
}

/// The conversions of a format, one for each argument: their letters, without flags, width and length.
fn conversions(format: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let letters =
            after.trim_start_matches(|c: char| "-+ #.hlLqzjt".contains(c) || c.is_ascii_digit());
        let end = match letters.chars().next() {
            Some('p') => letters
                .find(|c: char| !c.is_ascii_alphanumeric())
                .unwrap_or(letters.len()),
            Some(c) => c.len_utf8(),
            None => 0,
        };
        let (conversion, after) = letters.split_at(end);
        rest = after;
        match conversion {
            "%" | "" => {}
            // The width is an argument, and so is the value, whatever its conversion is.
            "*" => found.extend(["*", ""]),
            _ => found.push(conversion),
        }
    }
    found
}

/// A constant expression in C, as far as `print fmt` has them: numbers, casts, `~`, `<<`, `+`, `-` and `|`.
struct Expression<'t>(&'t str);

impl Expression<'_> {
    /// The value of the whole text. `None` if it contains anything else, such as a name.
    fn value(mut self) -> Option<i64> {
        let value = self.or()?;
        self.0.trim().is_empty().then_some(value)
    }

    fn take(&mut self, token: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn or(&mut self) -> Option<i64> {
        let mut value = self.shift()?;
        while self.take("|") {
            value |= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<i64> {
        let mut value = self.sum()?;
        while self.take("<<") {
            value = value.checked_shl(self.sum()?.try_into().ok()?)?;
        }
        Some(value)
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.unary()?;
        loop {
            if self.take("+") {
                value = value.checked_add(self.unary()?)?;
            } else if self.take("-") {
                value = value.checked_sub(self.unary()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn unary(&mut self) -> Option<i64> {
        if self.take("~") {
            return Some(!self.unary()?);
        }
        if self.take("-") {
            return self.unary()?.checked_neg();
        }
        if !self.take("(") {
            return self.number();
        }
        let (inner, rest) = self.0.split_once(')')?;
        let is_cast = inner
            .trim_start()
            .starts_with(|c: char| c.is_alphabetic() || c == '_');
        if is_cast {
            self.0 = rest;
            return self.unary();
        }
        let value = self.or()?;
        self.take(")").then_some(value)
    }

    fn number(&mut self) -> Option<i64> {
        let text = self.0.trim_start();
        let end = text
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        let word = word.trim_end_matches(['u', 'U', 'l', 'L']);
        let value = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => word.parse().ok()?,
        };
        Some(value as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: Option<Kind>) -> Vec<(String, i64)> {
        match kind {
            Some(Kind::Names(names)) => names,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_have_names() {
        let print = r#""a, %s} state=%s why=%s%s call=%pS x=0x%08lx n=%d", REC->a, (REC->state & 3) ?
            __print_flags(REC->state & 3, "|", { 0x1, "S" }, { (1UL << 1), "a, b" }, { NAME, "N" }) : "R",
            __print_symbolic(REC->why, { -1, "(none)" }, {( unsigned long)((( gfp_t)((((1UL))) << (3))) | 1), "nine"}),
            REC->why ? "+" : "", (void *)REC->call, ((unsigned long)(REC->x)), REC->n"#;
        let names = named(kind(print, "why"));
        assert_eq!(names, [("(none)".into(), -1), ("nine".into(), 9)]);
        match kind(print, "state") {
            Some(Kind::Flags(flags)) => assert_eq!(flags.show(7), "S|a, b|0x4"),
            other => panic!("{other:?}"),
        }
        let two = r#"__print_symbolic(REC->a, { 1, "x" }) __print_symbolic(REC->a, { 1, "y" })"#;
        assert_eq!(kind(two, "a"), None);
        assert_eq!(
            kind(r#"__print_flags((1 << REC->a), "", { 1, "x" })"#, "a"),
            None
        );
        assert_eq!(kind(print, "call"), Some(Kind::Symbol));
        assert_eq!(kind(print, "x"), Some(Kind::Hex));
        for other in ["a", "n", "wh", "cal", "none"] {
            assert_eq!(kind(print, other), None, "{other}");
        }
    }

    #[test]
    fn a_width_is_an_argument() {
        assert_eq!(
            conversions(r#""%% %5d %-16s %*s %pI4, %.*s""#),
            ["d", "s", "*", "", "pI4", "*", ""]
        );
    }

    #[test]
    fn no_text_is_too_strange() {
        for text in [
            "",
            "\"",
            "\"%",
            "\"%*",
            "__print_symbolic(",
            "{",
            ")",
            "\"\\",
        ] {
            assert_eq!(kind(text, "a"), None, "{text}");
        }
        assert_eq!(kind("__print_symbolic(REC->a, { 1, \"x", "a"), None);
        for (text, value) in [
            ("1 | (2 << 3)", Some(17)),
            ("~0", Some(-1)),
            ("(((1) + 1) << 1) - 1", Some(3)),
            ("1 << 2 + 1", Some(8)),
            ("0xffffffffffffffff", Some(-1)),
            ("1 << 64", None),
            ("(1", None),
            ("NAME", None),
            ("1 2", None),
            ("9223372036854775807 + 1", None),
        ] {
            assert_eq!(Expression(text).value(), value, "{text}");
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Places in the source, as the user writes them.

use crate::failure::{
    Failure,
    Result, //
};

/// How a name asks for the copies of a function.
const INLINE: &str = "%inline";
/// How it asks for the returns of a function.
pub const RETURN: &str = "%return";

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source<'t> {
    /// A line of a file.
    Line(&'t str, u64),
    /// A point of a function.
    Function(Named<'t>, Point),
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Named<'t> {
    pub name: &'t str,
    /// The file that defines it, if the user says so.
    pub file: Option<&'t str>,
}

/// A point of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Point {
    /// So many bytes after the start.
    Offset(u64),
    /// So many lines after the one that declares it.
    Line(u64),
    /// Where its copies in other functions begin.
    Copies,
    /// Before its return instructions.
    Returns,
}

/// A place in the source, of the kernel or of a module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked<'t> {
    /// Empty for the kernel.
    pub module: &'t str,
    pub source: Source<'t>,
}

impl<'t> Asked<'t> {
    /// Reads `FILE:LINE`, `FUNCTION[@FILE]:LINE`, `FUNCTION[@FILE]%inline`, `FUNCTION[@FILE][:]%return` or
    /// `FUNCTION@FILE[+OFFSET]`, with or without `MODULE:` in front. `None` for other texts, which choose functions.
    pub fn parse(text: &'t str) -> Option<Self> {
        if text.contains([',', '!', '*', '?', '[']) {
            return None;
        }
        let (rest, point) = if let Some(rest) = text.strip_suffix(INLINE) {
            (rest, Point::Copies)
        } else if let Some(rest) = text.strip_suffix(RETURN) {
            (rest.strip_suffix(':').unwrap_or(rest), Point::Returns)
        } else if let Some((rest, line)) = split_number(text, ':') {
            (rest, Point::Line(line))
        } else if let Some((rest, offset)) = split_number(text, '+') {
            (rest, Point::Offset(offset))
        } else {
            (text, Point::Offset(0))
        };
        let (module, rest) = rest.split_once(':').unwrap_or(("", rest));
        // Names of functions have neither, unless the compiler made them.
        let is_file = |text: &str| text.contains(['.', '/']);
        let (name, file) = match rest.split_once('@') {
            Some((name, file)) if !is_file(name) => (name, Some(file)),
            _ => (rest, None),
        };
        let source = match point {
            // Such a text chooses functions.
            Point::Offset(_) if file.is_none() => return None,
            Point::Line(line) if file.is_none() && is_file(rest) => Source::Line(rest, line),
            point => Source::Function(Named { name, file }, point),
        };
        let is_named = match source {
            Source::Line(..) => true,
            Source::Function(named, _) => !named.name.is_empty() && named.file != Some(""),
        };
        is_named.then_some(Self { module, source })
    }
}

/// Splits off a number at the end. One that is too large is as large as possible.
fn split_number(text: &str, separator: char) -> Option<(&str, u64)> {
    let (rest, number) = text.rsplit_once(separator)?;
    let (digits, radix) = match number.strip_prefix("0x") {
        Some(digits) if separator == '+' => (digits, 16),
        _ => (number, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    is_number.then(|| (rest, u64::from_str_radix(digits, radix).unwrap_or(u64::MAX)))
}

/// Fails for a place in the source, where a command needs whole functions.
pub fn refuse_place(text: &str) -> Result {
    match Asked::parse(text) {
        None => Ok(()),
        Some(Asked {
            source: Source::Function(_, Point::Offset(0)),
            ..
        }) => Err(Failure::new(format!(
            "{text}: FUNCTION@FILE is no part of a list, and not for this command"
        ))),
        Some(_) => Err(Failure::new(format!(
            "{text} is a place inside functions, which has no duration, result or exits: args, count, \
             hist, vars, leaks, follow and the time of an object take one such place"
        ))),
    }
}

/// Whether a text has `FUNCTION+OFFSET`, which is no [`Asked`] place.
pub fn has_offset(text: &str) -> bool {
    text.contains('+') && Asked::parse(text).is_none()
}

/// Fails for `FUNCTION+OFFSET`, where a command needs the return of a function. The kernel takes
/// an offset of few bytes for the function itself.
pub fn refuse_offset(text: &str) -> Result {
    match has_offset(text) {
        false => Ok(()),
        true => Err(Failure::new(format!(
            "{text} is a place inside a function, which has no duration, result or exits: \
             args, count, hist and vars take one such place"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_places() {
        let asked = |text| Asked::parse(text).map(|asked| (asked.module, asked.source));
        let function = |name, file, point| Source::Function(Named { name, file }, point);
        let f = |point| function("f", None, point);
        let of_file = |point| function("f", Some("a/b.c"), point);
        for (text, module, source) in [
            ("fs/a.c:7", "", Source::Line("fs/a.c", 7)),
            ("m:a.c:7", "m", Source::Line("a.c", 7)),
            ("a b/c d.c:7", "", Source::Line("a b/c d.c", 7)),
            (
                "d@x/a.c:7",
                "",
                function("d", Some("x/a.c"), Point::Line(7)),
            ),
            ("x/d@x/a.c:7", "", Source::Line("x/d@x/a.c", 7)),
            (
                "a.c:99999999999999999999",
                "",
                Source::Line("a.c", u64::MAX),
            ),
            ("f:0", "", f(Point::Line(0))),
            ("m:f:12", "m", f(Point::Line(12))),
            ("f%inline", "", f(Point::Copies)),
            ("m:f%inline", "m", f(Point::Copies)),
            ("f%return", "", f(Point::Returns)),
            ("f:%return", "", f(Point::Returns)),
            ("m:f:%return", "m", f(Point::Returns)),
            ("f@a/b.c", "", of_file(Point::Offset(0))),
            ("m:f@a/b.c", "m", of_file(Point::Offset(0))),
            ("f@a/b.c+0x1f", "", of_file(Point::Offset(31))),
            ("f@a/b.c:3", "", of_file(Point::Line(3))),
            ("f@a/b.c%inline", "", of_file(Point::Copies)),
            ("m:f@a/b.c:%return", "m", of_file(Point::Returns)),
        ] {
            assert_eq!(asked(text), Some((module, source)), "{text}");
        }
        for text in [
            "m:f",
            "a.c",
            "a.c:x",
            "a.c:+1",
            "a.c:0x1",
            "f",
            "f+1",
            "f%all",
            "vfs_*",
            "vfs_*:3",
            "g,a.c:3",
            "",
            ":5",
            "@a.c",
            "f@",
            "m:%inline",
            "%return",
        ] {
            assert_eq!(asked(text), None, "{text}");
        }
    }

    #[test]
    fn a_command_for_whole_functions_refuses_places() {
        for text in ["f:3", "a.c:3", "f@a.c:3", "f%inline", "f%return", "f@a.c"] {
            assert!(refuse_place(text).is_err(), "{text}");
        }
        for text in ["f", "m:f", "f+3", "vfs_*", "f%all"] {
            assert!(refuse_place(text).is_ok(), "{text}");
        }
        for text in ["f+3", "m:f+0x3", "f+3,g"] {
            assert!(refuse_offset(text).is_err(), "{text}");
        }
        for text in ["f", "f@a.c", "vfs_*", "f@c++.c"] {
            assert!(refuse_offset(text).is_ok(), "{text}");
        }
    }
}

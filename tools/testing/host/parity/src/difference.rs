// SPDX-License-Identifier: GPL-2.0

//! The file of the differences that are there on purpose.
//!
//! ```text
//! # A comment
//! case	p:ev 0x*
//! what	listing
//! kernel	p:kprobes/ev 0x*
//! ours	p:kprobes/ev 0xffffffff*
//! why	the kernel's is no address
//! ```
//!
//! A difference has these five lines. The first four say when it occurs: the commands of the case, with
//! ` then ` between them; the name of what differs, as it is reported; what the two have there, of
//! several lines. All but the second are patterns with `*` and `?`. Where it is the results that differ,
//! nothing else is compared; where it is the error log, its carets are not.

use crate::case::Case;

/// A difference that is there on purpose.
#[derive(Debug, Default)]
pub struct Difference {
    /// In the file, from 1 on.
    pub line: usize,
    case: String,
    what: String,
    kernel: String,
    ours: String,
    why: String,
}

impl Difference {
    /// Can it occur in this case?
    pub fn is_of(&self, case: &Case) -> bool {
        matches(&self.case, &case.commands.join(" then "))
    }

    /// Is it this one?
    pub fn is(&self, case: &Case, what: &str, kernel: &str, ours: &str) -> bool {
        self.what == what
            && matches(&self.kernel, kernel.trim_end())
            && matches(&self.ours, ours.trim_end())
            && self.is_of(case)
    }
}

/// Reads the file.
///
/// # Errors
///
/// What is wrong, with the number of the line.
pub fn parse(text: &str) -> Result<Vec<Difference>, String> {
    let mut differences: Vec<Difference> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || format!("line {}: what is this: {line}", index + 1);
        let (key, value) = line.split_once('\t').ok_or_else(wrong)?;
        if key == "case" {
            differences.push(Difference {
                line: index + 1,
                ..Difference::default()
            });
        }
        let difference = differences.last_mut().ok_or_else(wrong)?;
        let place = match key {
            "case" => &mut difference.case,
            "what" => &mut difference.what,
            "kernel" => &mut difference.kernel,
            "ours" => &mut difference.ours,
            "why" => &mut difference.why,
            _ => return Err(wrong()),
        };
        if !place.is_empty() {
            return Err(wrong());
        }
        *place = value.to_string();
    }
    match differences
        .iter()
        .find(|difference| difference.why.is_empty())
    {
        Some(difference) => Err(format!("line {}: there is no reason", difference.line)),
        None => Ok(differences),
    }
}

/// Does `text` match a pattern with `*` and `?`?
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where the last `*` is, and how far the text is that it takes.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else {
                    return false;
                };
                star = Some((star_at, taken + 1));
                p = star_at + 1;
                t = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case;

    #[test]
    fn patterns() {
        for (pattern, text) in [
            ("", ""),
            ("a?c", "abc"),
            ("*", ""),
            ("a*b*c", "axbbyc"),
            ("*a", "aba"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("a*b", "abc"),
            ("*ab*", "ba"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_difference_has_five_parts() {
        let text = "# x\ncase\tp * then p *\nwhat\tlisting\nkernel\ta\nours\t?\nwhy\tso\n";
        let differences = parse(text).unwrap();
        assert_eq!(differences.len(), 1);
        let cases = case::parse("p a\n\tthen p b\nr a\n").unwrap();
        let difference = &differences[0];
        assert!(difference.is(&cases[0], "listing", "a\n", "b\n"));
        assert!(!difference.is(&cases[0], "result", "a\n", "b\n"));
        assert!(!difference.is(&cases[0], "listing", "b\n", "b\n"));
        assert!(!difference.is(&cases[0], "listing", "a\n", "bc\n"));
        assert!(!difference.is(&cases[1], "listing", "a\n", "b\n"));
        assert!(parse(&text.replace("why\tso\n", "")).is_err());
        assert!(parse("what\tlisting\n").is_err());
        assert!(parse("case\ta\ncase\tb\nwhy\tc\n").is_err());
    }
}

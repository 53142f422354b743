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
//! A difference has these five lines, and perhaps `since` or `before` with a version of the kernel, as
//! `since	7.3`, or `on` with an architecture, as `on	aarch64`: on other kernels it does not occur. The first four say when it occurs: the commands of the case, with
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
    since: String,
    before: String,
    on: String,
}

/// A kernel: its version, and its architecture, as [`std::env::consts::ARCH`] calls it.
#[derive(Clone, Copy)]
struct Kernel<'a> {
    version: (u32, u32),
    arch: &'a str,
}

/// A version of the kernel, of a text that begins with it, as `7.3.4+deb13-amd64` does.
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.split_once('.')?;
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let minor = &rest[..end.unwrap_or(rest.len())];
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Difference {
    /// Can it occur on this kernel? `None` where it says no version.
    fn is_on(&self, kernel: Kernel<'_>) -> Option<bool> {
        let since = self.since.is_empty() || version(&self.since)? <= kernel.version;
        let before = self.before.is_empty() || kernel.version < version(&self.before)?;
        let on = self.on.is_empty() || self.on == kernel.arch;
        Some(since && before && on)
    }

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

/// Reads the file. The result is what can occur on the kernel of this release and architecture.
///
/// # Errors
///
/// What is wrong, with the number of the line.
pub fn parse(text: &str, release: &str, arch: &str) -> Result<Vec<Difference>, String> {
    let version = version(release).ok_or_else(|| format!("which kernel is this: {release}"))?;
    let kernel = Kernel { version, arch };
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
            "since" => &mut difference.since,
            "before" => &mut difference.before,
            "on" => &mut difference.on,
            _ => return Err(wrong()),
        };
        if !place.is_empty() {
            return Err(wrong());
        }
        *place = value.to_string();
    }
    let mut on_this = Vec::new();
    for difference in differences {
        let line = difference.line;
        if difference.why.is_empty() {
            return Err(format!("line {line}: there is no reason"));
        }
        match difference.is_on(kernel) {
            Some(true) => on_this.push(difference),
            Some(false) => {}
            None => return Err(format!("line {line}: which version is this?")),
        }
    }
    Ok(on_this)
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
        let differences = parse(text, "7.2.12+deb13-amd64", "x86_64").unwrap();
        assert_eq!(differences.len(), 1);
        let cases = case::parse("p a\n\tthen p b\nr a\n").unwrap();
        let difference = &differences[0];
        assert!(difference.is(&cases[0], "listing", "a\n", "b\n"));
        assert!(!difference.is(&cases[0], "result", "a\n", "b\n"));
        assert!(!difference.is(&cases[0], "listing", "b\n", "b\n"));
        assert!(!difference.is(&cases[0], "listing", "a\n", "bc\n"));
        assert!(!difference.is(&cases[1], "listing", "a\n", "b\n"));
        for wrong in [
            text.replace("why\tso\n", ""),
            text.replace("why\tso\n", "why\tso\nsince\tx\n"),
            "what\tlisting\n".to_string(),
            "case\ta\ncase\tb\nwhy\tc\n".to_string(),
        ] {
            assert!(parse(&wrong, "7.2", "x86_64").is_err(), "{wrong}");
        }
        assert!(parse(text, "linux", "x86_64").is_err());
    }

    #[test]
    fn a_difference_may_be_of_some_kernels() {
        let text = "case\ta\nwhy\tb\n";
        let is_on = |lines: &str, release| {
            let differences = parse(&format!("{text}{lines}"), release, "aarch64");
            !differences.unwrap().is_empty()
        };
        assert!(is_on("since\t7.3\n", "7.3.4+deb13-amd64"));
        assert!(is_on("since\t7.3\n", "7.10-rc1"));
        assert!(is_on("since\t7.3\n", "8.0"));
        assert!(!is_on("since\t7.3\n", "7.2.12+deb13-amd64"));
        assert!(is_on("before\t7.3\n", "7.2.12"));
        assert!(!is_on("before\t7.3\n", "7.3"));
        assert!(!is_on("since\t7.3\nbefore\t7.4\n", "7.4.1"));
        assert!(is_on("on\taarch64\n", "7.3"));
        assert!(!is_on("on\tx86_64\n", "7.3"));
    }
}

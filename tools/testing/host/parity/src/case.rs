// SPDX-License-Identifier: GPL-2.0

//! A file of cases.
//!
//! A line is a case: a command. Lines that are indented belong to the case above them:
//!
//! ```text
//! # A comment, at the start of a line only
//! p:ev vfs_read a=$arg1
//! 	then p:ev vfs_write a=$arg1
//! 	run read
//! 	in dynamic_events
//! ```
//!
//! `then` is a further command, `run` something that is done with the events enabled (see
//! [`crate::workload`]), `in` the file of the kernel's that the commands are written to. That is by
//! default `dynamic_events` where the first command starts with `f`, `t` or `!`, and
//! `kprobe_events` elsewhere.
//!
//! Commands are written as they stand, but for what is in braces:
//!
//! | in braces | stands for |
//! | --- | --- |
//! | `{0a}` | the byte of this number, in two hexadecimal digits |
//! | `{x*64}` | the text, so many times |
//! | `{@vfs_read}` | the address of the symbol, with `0x` |
//!
//! The registers and the system calls are those of x86-64: see [`crate::arch`].

use crate::workload::Workload;

/// Commands, and where they go.
#[derive(Debug)]
pub struct Case {
    /// In the file, from 1 on.
    pub line: usize,
    /// The commands as the file has them.
    pub commands: Vec<String>,
    pub file: ControlFile,
    pub run: Option<Workload>,
}

/// A file that takes commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFile {
    Kprobes,
    All,
}

impl ControlFile {
    /// The name of the kernel's file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kprobes => "kprobe_events",
            Self::All => "dynamic_events",
        }
    }

    /// The one that a command goes to by default.
    pub fn of(command: &str) -> Self {
        if command.starts_with(['f', 't', '!']) {
            Self::All
        } else {
            Self::Kprobes
        }
    }
}

/// Reads a file of cases.
///
/// # Errors
///
/// What is wrong, with the number of the line.
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(more) = line.strip_prefix('\t') else {
            cases.push(Case {
                line: number,
                commands: vec![line.to_string()],
                file: ControlFile::of(line),
                run: None,
            });
            continue;
        };
        let wrong = || format!("line {number}: what is this: {more}");
        let case = cases.last_mut().ok_or_else(wrong)?;
        match more.split_once(' ').ok_or_else(wrong)? {
            ("then", command) => case.commands.push(command.to_string()),
            ("run", name) => case.run = Some(Workload::find(name).ok_or_else(wrong)?),
            ("in", name) => {
                case.file = [ControlFile::Kprobes, ControlFile::All]
                    .into_iter()
                    .find(|file| file.name() == name)
                    .ok_or_else(wrong)?;
            }
            _ => return Err(wrong()),
        }
    }
    Ok(cases)
}

/// A command as it is written to the file. `address_of` finds a symbol.
///
/// # Errors
///
/// What is wrong with a pair of braces.
pub fn expand(command: &str, address_of: impl Fn(&str) -> Option<u64>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = command;
    while let Some((before, braced)) = rest.split_once('{') {
        bytes.extend_from_slice(before.as_bytes());
        let wrong = || format!("what is this: {{{braced}");
        let (inside, after) = braced.split_once('}').ok_or_else(wrong)?;
        if let Some(symbol) = inside.strip_prefix('@') {
            let address = address_of(symbol).ok_or_else(|| format!("no symbol {symbol}"))?;
            bytes.extend_from_slice(format!("{address:#x}").as_bytes());
        } else if let Some((text, count)) = inside.rsplit_once('*') {
            let count = count.parse().map_err(|_| wrong())?;
            bytes.extend_from_slice(text.repeat(count).as_bytes());
        } else {
            bytes.push(u8::from_str_radix(inside, 16).map_err(|_| wrong())?);
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_lines_belong_to_the_case_above() {
        let cases = parse("# no case\np a\n\nr b\n\tthen r c\n\trun read\n\tin dynamic_events\n");
        let cases = cases.unwrap();
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].commands, ["p a"]);
        assert_eq!(cases[0].file, ControlFile::Kprobes);
        assert_eq!((cases[1].line, cases[1].file), (4, ControlFile::All));
        assert_eq!(cases[1].commands, ["r b", "r c"]);
        assert!(cases[0].run.is_none() && cases[1].run.is_some());
    }

    #[test]
    fn what_is_no_case_is_refused() {
        for text in [
            "\tthen p a\n",
            "p a\n\tthen\n",
            "p a\n\trun nothing\n",
            "p a\n\tin a\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn braces_are_expanded() {
        let address_of = |symbol: &str| (symbol == "s").then_some(0xff00);
        let expand = |command| expand(command, address_of).ok();
        let expanded = |text: &[u8]| Some(text.to_vec());
        assert_eq!(expand("p v{61*3}{09}{ff}{}*2}"), None);
        assert_eq!(
            expand("p {ab*2}{09}{ff} {@s}."),
            expanded(b"p abab\t\xff 0xff00.")
        );
        assert_eq!(expand("{x*0}{**2}"), expanded(b"**"));
        for wrong in ["{", "{zz}", "{@t}", "{a*b}"] {
            assert_eq!(expand(wrong), None, "{wrong}");
        }
    }
}

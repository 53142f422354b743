// SPDX-License-Identifier: GPL-2.0

//! Functions in Rust: their symbols, and the names that their source has.
//!
//! Inside of the tool, a function is its symbol, because tracefs, kallsyms and JSON have it. Only a text for a person has
//! the name: [`Context::print`](crate::context::Context::print), the screen and the pictures call [`shown`].

use std::borrow::Cow;

use rustc_demangle::try_demangle;

/// How the symbols start. C: `-Csymbol-mangling-version=v0`.
const START: &str = "_R";

/// The name of a function in the source. `None` if the symbol is none of Rust.
pub fn name(symbol: &str) -> Option<String> {
    let symbol = Some(symbol).filter(|symbol| symbol.starts_with(START));
    // Without the hashes of the crates.
    let name = symbol.and_then(|symbol| try_demangle(symbol).ok());
    name.map(|name| format!("{name:#}"))
}

/// A text with the names in the place of the symbols. A string in quotes is a value, and stays as it is.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(START) {
        return text.into();
    }
    let lines = text.split_inclusive('\n').map(line);
    lines.collect::<String>().into()
}

fn line(line: &str) -> Cow<'_, str> {
    if !line.contains(START) {
        return line.into();
    }
    let mut shown = String::new();
    let mut is_string = false;
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !is_of_symbol(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end.max(first.len_utf8()));
        match name(word).filter(|_| !is_string) {
            Some(name) => shown += &name,
            None => shown += word,
        }
        is_string ^= first == '"';
        rest = after;
    }
    shown.into()
}

fn is_of_symbol(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOL: &str = "_RNvMNtNtCs1_7rkprobe8registry5eventNtB2_5Event6enable";
    const NAME: &str = "<rkprobe::registry::event::Event>::enable";

    #[test]
    fn a_symbol_of_rust_has_the_name_of_the_source() {
        assert_eq!(name(SYMBOL).unwrap(), NAME);
        assert_eq!(
            name("_RINvNtC7rkprobe3hit3runmE").unwrap(),
            "rkprobe::hit::run::<u32>"
        );
        for other in ["vfs_read", "_R", "_Rx", "__R", "", "_RNvC1a"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn a_text_has_names_wherever_a_function_is() {
        for (before, after) in [
            ("       3  ", "  EINVAL\n"),
            ("cat-7  ", "(a=1) = 0\n"),
            ("vfs_read;", ";vfs_write 5"),
            ("          ", "+0x1c/0x40 [rkprobe]\n"),
            ("", ".cold+0x1/0x2"),
            ("\u{2502} \u{2514}\u{2500}", "(...)\nf\n"),
            ("f(name=\"a\") from ", ""),
        ] {
            let text = |name| format!("{before}{name}{after}");
            assert_eq!(shown(&text(SYMBOL)), text(NAME));
            assert_eq!(shown(&text(NAME)), text(NAME));
        }
        let two = shown(&format!("{SYMBOL} {SYMBOL}")).into_owned();
        assert_eq!(two, format!("{NAME} {NAME}"));
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "",
            "f(g)",
            "x_RNvC1a1b",
            "_Rust",
            "open(filename=\"_RNvC1a1b\")",
            "\u{fc}_Rx\u{fc}\n",
        ] {
            assert_eq!(shown(text), text);
        }
    }
}

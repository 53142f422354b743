// SPDX-License-Identifier: GPL-2.0

//! The lists of files in rkprobe-internals.rst: each file uses only files of the lines above it.

use std::{
    collections::HashMap,
    fs,
    path::Path, //
};

const DOCUMENT: &str = include_str!("../../../../../Documentation/rust/rkprobe-internals.rst");
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../rust/");
const CLAIM: &str = ", each file uses only files of the lines above it::\n\n";

/// The directories that the document describes, each with the line of each file.
fn lists() -> Vec<(&'static str, HashMap<&'static str, usize>)> {
    let mut parts = DOCUMENT.split(CLAIM);
    let mut before = parts.next().unwrap();
    let mut lists = vec![];
    for part in parts {
        let directory = before.rsplit("elow ``").next().unwrap();
        let mut lines = HashMap::new();
        for (index, line) in part.lines().take_while(|line| !line.is_empty()).enumerate() {
            for name in line.split_whitespace() {
                assert_eq!(lines.insert(name, index), None, "{name} is listed twice");
            }
        }
        lists.push((directory.strip_suffix("/``").unwrap(), lines));
        before = part;
    }
    lists
}

/// The first names behind `prefix` in the imports of a file, such as `error` of
/// `use super::error::Error;`.
fn imports(source: &str, prefix: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or("").trim())
        .map(|line| line.to_string() + "\n")
        .collect();
    let start = format!("\nuse {prefix}");
    let trees = code.split(&start).skip(1);
    trees
        .flat_map(|rest| names(rest.split(';').next().unwrap()))
        .collect()
}

/// The first name of each path of `{a::b, c::{d, e}}` or of `a::b`.
fn names(tree: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let (mut depth, top) = (0, usize::from(tree.starts_with('{')));
    for c in tree.chars().filter(|c| !c.is_whitespace()) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == top => names.push(String::new()),
            _ if depth == top => names.last_mut().unwrap().push(c),
            _ => {}
        }
    }
    let first = |path: String| path.split("::").next().unwrap().to_string();
    names.into_iter().map(first).collect()
}

#[test]
fn names_are_those_of_the_first_level() {
    assert_eq!(names("a::b"), ["a"]);
    assert_eq!(names("a::{b, c}"), ["a"]);
    assert_eq!(names("{a::b, c::{d, e}, f}"), ["a", "c", "f"]);
}

#[test]
fn each_file_uses_files_of_the_lines_above_it() {
    let lists = lists();
    assert_eq!(lists.len(), 4, "lists in the document");
    for (directory, lines) in lists {
        let path = Path::new(SOURCES).join(directory);
        let mut files = 0;
        for entry in fs::read_dir(&path).unwrap() {
            let file = entry.unwrap().path();
            let stem = file.file_stem().unwrap().to_str().unwrap();
            if file.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            files += 1;
            let line = lines
                .get(stem)
                .unwrap_or_else(|| panic!("{directory}/{stem}.rs is not listed"));
            let source = fs::read_to_string(&file).unwrap();
            let prefix = if directory.contains('/') {
                "super::"
            } else {
                "crate::"
            };
            for name in imports(&source, prefix) {
                if let Some(used) = lines.get(name.as_str()) {
                    assert!(used < line, "{directory}/{stem}.rs uses {name}");
                }
            }
        }
        assert_eq!(
            files,
            lines.len(),
            "{directory}: files that the list has, and that exist"
        );
    }
}

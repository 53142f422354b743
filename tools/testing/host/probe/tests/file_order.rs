// SPDX-License-Identifier: GPL-2.0

//! The lists of files in rkprobe-internals.rst: each file uses only files of the lines above it. A
//! file and the directory of its name are one module, with one name in a list. The list of the
//! command-line tool is in its main.rs, and has one file after the other.

use std::{
    collections::{
        HashMap,
        HashSet, //
    },
    fs,
    path::Path, //
};

const DOCUMENT: &str = include_str!("../../../../../Documentation/rust/rkprobe-internals.rst");
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../rust/");
const TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../tools/rkprobe/src");
const TOOL_MAIN: &str = include_str!("../../../../../tools/rkprobe/src/main.rs");
const TOOL_CLAIM: &str = "each of which uses only those before it: ";
const TESTS: &str = "#[cfg(test)]\nmod tests {";
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

/// The paths in the code of a file that begin with `crate` or `super`. Imports are resolved into
/// single paths: `use super::{a, b::C};` gives `super::a` and `super::b::C`.
fn paths(source: &str) -> Vec<Vec<String>> {
    let code: Vec<char> = source
        .lines()
        .flat_map(|line| line.split("//").next().unwrap_or("").chars().chain(['\n']))
        .collect();
    let mut paths = vec![];
    let mut position = 0;
    while position < code.len() {
        let start = position;
        let name = identifier(&code, &mut position);
        if name.is_empty() {
            position = start + 1;
            continue;
        }
        let is_start = start == 0 || !matches!(code[start - 1], ':' | '$');
        if is_start && ["crate", "super"].contains(&name.as_str()) {
            add_tree(&code, &mut position, vec![name], &mut paths);
        }
    }
    paths
}

/// The identifier at `position`, which moves past it.
fn identifier(code: &[char], position: &mut usize) -> String {
    let rest = code[*position..].iter();
    let name: String = rest
        .take_while(|c| c.is_alphanumeric() || **c == '_')
        .collect();
    *position += name.chars().count();
    name
}

/// Adds the paths of `::a::b`, `::{a, b::c}` or nothing at `position`, after `path`.
fn add_tree(
    code: &[char],
    position: &mut usize,
    mut path: Vec<String>,
    paths: &mut Vec<Vec<String>>,
) {
    while code[*position..].starts_with(&[':', ':']) {
        *position += 2;
        if code.get(*position) == Some(&'{') {
            *position += 1;
            while code[*position] != '}' {
                let name = identifier(code, position);
                if name.is_empty() {
                    *position += 1;
                    continue;
                }
                let mut inner = path.clone();
                if name != "self" {
                    inner.push(name);
                }
                add_tree(code, position, inner, paths);
                // After the path may be `as` and another name.
                while !matches!(code[*position], ',' | '}') {
                    *position += 1;
                }
            }
            *position += 1;
            return;
        }
        let name = identifier(code, position);
        if name.is_empty() {
            break;
        }
        path.push(name);
    }
    paths.push(path);
}

/// The path of a module or an item from the root of its crate, for a path in the module `module`.
fn resolve(module: &[String], path: &[String]) -> Vec<String> {
    let supers = path.iter().take_while(|name| *name == "super").count();
    let (mut resolved, rest) = match path[0].as_str() {
        "crate" => (vec![], &path[1..]),
        _ => (module[..module.len() - supers].to_vec(), &path[supers..]),
    };
    resolved.extend_from_slice(rest);
    resolved
}

/// The source files in a directory and below it, each with its path without `.rs`.
fn files(directory: &Path) -> Vec<(Vec<String>, String)> {
    let mut found = vec![];
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        if path.is_dir() {
            for (mut below, source) in files(&path) {
                below.insert(0, name.clone());
                found.push((below, source));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((vec![name], fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

#[test]
fn paths_are_found_in_imports_and_in_code() {
    let found = |source: &str| -> Vec<String> {
        let paths = paths(source).into_iter();
        paths.map(|path| path.join("::")).collect()
    };
    assert_eq!(found("use super::a::b;"), ["super::a::b"]);
    assert_eq!(
        found(
            "pub use crate::{\n    a::{\n        self,\n        B, //\n    },\n    c as d, //\n};"
        ),
        ["crate::a", "crate::a::B", "crate::c"]
    );
    assert_eq!(
        found("f(crate::a::b::<T>(), super::super::c)"),
        ["crate::a::b", "super::super::c"]
    );
    assert_eq!(
        found("/// See [`crate::a`].\n$crate::b!(supercrate::c);"),
        [""; 0]
    );
}

#[test]
fn paths_are_resolved_from_their_module() {
    let strings = |names: &[&str]| -> Vec<String> { names.iter().map(|n| n.to_string()).collect() };
    let module = strings(&["a", "b"]);
    assert_eq!(resolve(&module, &strings(&["crate", "c"])), ["c"]);
    assert_eq!(
        resolve(&module, &strings(&["super", "c", "D"])),
        ["a", "c", "D"]
    );
    assert_eq!(resolve(&module, &strings(&["super", "super", "c"])), ["c"]);
}

/// Checks the files of a directory, which is at `names` from the root of its crate, against the
/// line of each file.
fn check(
    directory: &str,
    names: &[&str],
    files: Vec<(Vec<String>, String)>,
    lines: &HashMap<&str, usize>,
) {
    let mut modules = HashSet::new();
    for (below, source) in files {
        let own = &below[0];
        let line = lines
            .get(own.as_str())
            .unwrap_or_else(|| panic!("{directory}/{own} is not listed"));
        modules.insert(own.clone());
        let module: Vec<String> = names
            .iter()
            .map(|name| name.to_string())
            .chain(below.clone())
            .collect();
        for path in paths(&source) {
            let used = resolve(&module, &path);
            if used.len() <= names.len() || used[..names.len()] != *names {
                continue;
            }
            let used = &used[names.len()];
            match lines.get(used.as_str()) {
                Some(above) => assert!(
                    above < line || used == own,
                    "{directory}/{} uses {used}",
                    below.join("/")
                ),
                // A module that the root of ktrace re-exports has another path in the crate.
                None => assert!(
                    directory != "ktrace" || !used.starts_with(char::is_lowercase),
                    "{directory}/{} uses {used}, which is not listed",
                    below.join("/")
                ),
            }
        }
    }
    assert_eq!(
        modules.len(),
        lines.len(),
        "{directory}: modules that the list has, and that exist"
    );
}

#[test]
fn each_file_uses_files_of_the_lines_above_it() {
    let lists = lists();
    assert_eq!(lists.len(), 8, "lists in the document");
    for (directory, lines) in lists {
        // The names from the root of the crate to the directory.
        let names: Vec<&str> = directory.split('/').skip(1).collect();
        let files = files(&Path::new(SOURCES).join(directory));
        check(directory, &names, files, &lines);
    }
}

#[test]
fn each_file_of_the_tool_uses_files_before_it() {
    let comment: String = TOOL_MAIN
        .lines()
        .filter_map(|line| line.strip_prefix("//! "))
        .flat_map(|line| [line, " "])
        .collect();
    let (_, list) = comment.split_once(TOOL_CLAIM).unwrap();
    let (list, _) = list.split_once('.').unwrap();
    let mut lines = HashMap::new();
    for (index, name) in list.split(", ").enumerate() {
        let name = name.trim_matches('`');
        assert_eq!(lines.insert(name, index), None, "{name} is listed twice");
    }
    // The root uses all files, and tests can use files that come later.
    let mut files = files(Path::new(TOOL));
    files.retain(|(below, _)| !["main", "schema"].contains(&below[0].as_str()));
    for (_, source) in &mut files {
        source.truncate(source.find(TESTS).unwrap_or(source.len()));
    }
    check("tools/rkprobe/src", &[], files, &lines);
}

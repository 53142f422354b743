// SPDX-License-Identifier: GPL-2.0

//! The documents for users: their list of errors is that of the source, they refer to sections that
//! exist, and the lists of documents are complete.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use probe::error::ErrorKind;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../..");
const ERRORS: &str = include_str!("../../../../../Documentation/trace/rkprobe-errors.rst");

/// The messages that the document explains: in a line of their own, with indented text below.
fn explained() -> Vec<&'static str> {
    let lines: Vec<_> = ERRORS.lines().collect();
    lines
        .windows(2)
        .filter(|pair| pair[1].starts_with("  "))
        .filter_map(|pair| pair[0].strip_prefix("``")?.strip_suffix("``"))
        .collect()
}

#[test]
fn every_error_is_explained_once() {
    let explained = explained();
    for kind in ErrorKind::ALL {
        let times = explained
            .iter()
            .filter(|text| **text == kind.text())
            .count();
        assert_eq!(times, 1, "{kind:?}: {}", kind.text());
    }
}

#[test]
fn every_explained_error_is_there() {
    let there: BTreeSet<_> = ErrorKind::ALL.iter().map(|kind| kind.text()).collect();
    for text in explained() {
        assert!(there.contains(text), "{text}");
    }
}

/// The text of a file of the project.
fn read(path: &str) -> String {
    fs::read_to_string(Path::new(TOP).join(path)).unwrap()
}

/// The documents below `Documentation/trace`, by name.
fn documents() -> BTreeMap<String, String> {
    let directory = "Documentation/trace";
    fs::read_dir(Path::new(TOP).join(directory))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".rst"))
        .map(|name| (name.clone(), read(&format!("{directory}/{name}"))))
        .collect()
}

/// The titles of a document's sections: lines above a line of `=` or `-`.
fn titles(document: &str) -> BTreeSet<String> {
    let is_underline = |line: &str, of: &str| {
        line.len() >= of.len()
            && (line.bytes().all(|b| b == b'=') || line.bytes().all(|b| b == b'-'))
    };
    let lines: Vec<_> = document.lines().collect();
    lines
        .windows(2)
        .filter(|pair| pair[0].starts_with(char::is_alphanumeric) && is_underline(pair[1], pair[0]))
        .map(|pair| pair[0].to_lowercase())
        .collect()
}

/// The form of a title's anchor in a web page.
fn anchor(title: &str) -> String {
    title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// A document's prose in one line: without literals, and with one blank between words.
fn prose(document: &str) -> String {
    let text = document.split("``").step_by(2).collect::<Vec<_>>().join("");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_reference_has_its_section() {
    let documents = documents();
    let has = |name: &str, title: &str| {
        let document = documents.get(name);
        document.is_some_and(|text| titles(text).contains(&title.to_lowercase()))
    };
    let mut references = 0;
    for (name, document) in &documents {
        let prose = prose(document);
        let parts: Vec<_> = prose.split('`').collect();
        for pair in parts.windows(2) {
            let (title, after) = (pair[0], pair[1]);
            if let Some(after) = after.strip_prefix(" in ") {
                let Some((other, _)) = after.split_once(".rst") else {
                    continue;
                };
                let other = format!("{other}.rst");
                if !other.contains(' ') {
                    references += 1;
                    assert!(has(&other, title), "{name}: `{title}` in {other}");
                }
            } else if after.starts_with('_') && !title.contains('<') {
                references += 1;
                assert!(has(name, title), "{name}: `{title}`_");
            }
        }
        for word in prose.split(' ') {
            let word = word.trim_matches(|c: char| "(),.:;".contains(c));
            let Some(title) = word.strip_suffix('_') else {
                continue;
            };
            if title.chars().all(char::is_alphanumeric) && !title.is_empty() {
                references += 1;
                assert!(has(name, title), "{name}: {word}");
            }
        }
    }
    assert!(references > 50);
}

#[test]
fn every_link_has_its_section() {
    let documents = documents();
    let mut links = 0;
    for file in ["README.md", "CONTRIBUTING.md", "Documentation/install.rst"] {
        let text = read(file);
        for link in text.split("trace/").skip(1) {
            let end = link
                .find([')', '>', ' ', '\n', '`', ','])
                .unwrap_or(link.len());
            let Some((name, section)) = link[..end].split_once('#') else {
                continue;
            };
            let document = documents
                .get(name)
                .unwrap_or_else(|| panic!("{file}: {name}"));
            let anchors: Vec<_> = titles(document).iter().map(|title| anchor(title)).collect();
            assert!(
                anchors.iter().any(|a| a == section),
                "{file}: {name}#{section}"
            );
            links += 1;
        }
    }
    assert!(links > 3);
}

/// The tool has no place in the kernel's tree, and its document is not in the package of the module.
#[test]
fn every_document_is_in_the_lists() {
    let tree = read("scripts/in-tree.diff");
    let package = read("debian/rkprobe-dkms.docs");
    for name in documents()
        .into_keys()
        .filter(|name| name != "rkprobe-tool.rst")
    {
        let stem = name.strip_suffix(".rst").unwrap();
        assert!(
            tree.contains(&format!("\n+   {stem}\n")),
            "scripts/in-tree.diff: {stem}"
        );
        let path = format!("Documentation/trace/{name}\n");
        assert!(package.contains(&path), "debian/rkprobe-dkms.docs: {name}");
    }
}

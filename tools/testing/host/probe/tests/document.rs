// SPDX-License-Identifier: GPL-2.0

//! The table of errors in the document for users is that of the source.

use std::collections::BTreeSet;

use probe::error::ErrorKind;

const DOCUMENT: &str = include_str!("../../../../../Documentation/trace/rkprobe.rst");

/// The messages that the document explains: in a line of their own, with indented text below.
fn explained() -> Vec<&'static str> {
    let (_, rest) = DOCUMENT.split_once("\nErrors\n======\n").unwrap();
    let (section, _) = rest.split_once("\n======").unwrap();
    let lines: Vec<_> = section.lines().collect();
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

// SPDX-License-Identifier: GPL-2.0

//! The files in `tools/testing/parity`, and the cases that are generated.

use std::{
    fs,
    path::Path, //
};

use parity::{
    case::{
        self,
        Case, //
    },
    difference,
    generate::generate, //
};

fn text(name: &str) -> String {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../parity");
    fs::read_to_string(Path::new(directory).join(name)).unwrap()
}

fn cases() -> Vec<Case> {
    [text("corners.cases"), generate()]
        .iter()
        .flat_map(|text| case::parse(text).unwrap())
        .collect()
}

#[test]
fn every_command_can_be_written() {
    let cases = cases();
    assert!(cases.len() > 2000);
    for command in cases.iter().flat_map(|case| &case.commands) {
        case::expand(command, |_| Some(0)).unwrap();
    }
}

#[test]
fn every_difference_is_of_a_case() {
    let cases = cases();
    let on = |release, arch| difference::parse(&text("differences"), release, arch).unwrap();
    let differences = ["7.2", "7.3"]
        .iter()
        .flat_map(|release| ["x86_64", "aarch64"].map(|arch| on(release, arch)));
    for difference in differences.flatten() {
        assert!(
            cases.iter().any(|case| difference.is_of(case)),
            "line {}",
            difference.line
        );
    }
}

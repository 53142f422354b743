// SPDX-License-Identifier: GPL-2.0

//! The kernel's log: any user may be able to read it, so the module writes no addresses to it.

use std::{
    fs,
    path::{
        Path,
        PathBuf, //
    },
};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../rust/");

/// The Rust files of a directory and of its subdirectories.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The arguments of each `pr_info!`, `pr_warn!` and `pr_err!`, without comments.
fn log_lines(source: &str) -> Vec<String> {
    let code: Vec<_> = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let macros = ["pr_info!(", "pr_warn!(", "pr_err!("];
    let starts = macros.iter().flat_map(|name| code.match_indices(name));
    starts
        .map(|(at, _)| code[at..].split(");").next().unwrap().to_string())
        .collect()
}

/// Whether a format string has a hexadecimal number or a pointer.
fn has_address(line: &str) -> bool {
    ["x}", "X}", "p}"].iter().any(|form| {
        line.match_indices(form)
            .any(|(at, _)| line[..at].rfind(':') > line[..at].rfind('{'))
    })
}

#[test]
fn a_log_line_has_an_address_if_it_has_a_hexadecimal_number() {
    for line in ["{a:#x}", "at {:x}: {b:?}", "{a:p}", "{0:#010X}"] {
        assert!(has_address(line), "{line}");
    }
    for line in ["{x}", "{error:?}", "a: {max}", "{}"] {
        assert!(!has_address(line), "{line}");
    }
}

#[test]
fn no_log_line_has_an_address() {
    let mut lines = 0;
    for directory in ["ktrace", "rkprobe"] {
        for file in files(&Path::new(SOURCES).join(directory)) {
            for line in log_lines(&fs::read_to_string(&file).unwrap()) {
                assert!(!has_address(&line), "{}: {line}", file.display());
                lines += 1;
            }
        }
    }
    assert!(lines > 20, "{lines}");
}

// SPDX-License-Identifier: GPL-2.0

//! Writes the cases that are made from the grammar to where they are kept.

use std::fs;
use std::io;

use parity::generate::generate;

fn main() -> io::Result<()> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../parity");
    let cases = generate();
    fs::write(format!("{directory}/grammar.cases"), cases.grammar)?;
    fs::write(format!("{directory}/btf.cases"), cases.btf)
}

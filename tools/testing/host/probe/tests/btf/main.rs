// SPDX-License-Identifier: GPL-2.0

//! Module `btf`: types are read, functions found, and variables followed.

mod builder;
mod functions;
mod lookup;
mod members;
mod open;
mod properties;
mod real;
mod values;
mod variables;

use probe::btf::{
    Btf,
    Malformed,
    Sections, //
};

/// Makes an index, which lives as long as the tests.
fn index<'a>(bytes: &'a [u8], base: Option<&'a Btf<'a>>) -> Result<Btf<'a>, Malformed> {
    let sections = Sections::parse(bytes, base)?;
    sections.index(vec![0; sections.slots()?].leak())
}

/// BTF as good as the kernel's.
fn open(bytes: Vec<u8>) -> Btf<'static> {
    index(bytes.leak(), None).unwrap()
}

// SPDX-License-Identifier: GPL-2.0

//! The kernel's BTF, and that of its modules.

use std::fs;

use probe::btf::{
    field_offset,
    Btf,
    Sections,
    TypeKind, //
};

const DIRECTORY: &str = "/sys/kernel/btf";

/// The bytes of the BTF of a module, or of the kernel, `vmlinux`. They are empty if there is none.
pub fn read(name: &str) -> Vec<u8> {
    fs::read(format!("{DIRECTORY}/{name}")).unwrap_or_default()
}

/// Makes the types accessible. The BTF of a module has that of the kernel as its base.
pub fn parse<'a>(
    bytes: &'a [u8],
    base: Option<&'a Btf<'a>>,
    index: &'a mut Vec<u32>,
) -> Option<Btf<'a>> {
    let sections = Sections::parse(bytes, base).ok()?;
    index.resize(sections.slots().ok()?, 0);
    sections.index(index).ok()
}

/// Calls `f` with the BTF of the kernel, or with that of a module. `None` if there is none.
pub fn with<R>(module: Option<&str>, f: impl FnOnce(&Btf<'_>) -> R) -> Option<R> {
    let bytes = read("vmlinux");
    let mut index = Vec::new();
    let kernel = parse(&bytes, None, &mut index)?;
    let Some(module) = module else {
        return Some(f(&kernel));
    };
    let bytes = read(module);
    let mut index = Vec::new();
    Some(f(&parse(&bytes, Some(&kernel), &mut index)?))
}

/// The offset of a member in bytes.
pub fn offset(btf: &Btf<'_>, structure: &str, member: &str) -> Option<u32> {
    let id = btf.find(structure, TypeKind::Struct)?;
    field_offset(btf, id, member).ok()
}

/// Makes BTF for tests.
#[cfg(test)]
#[path = "../../testing/host/probe/tests/btf/builder.rs"]
#[allow(dead_code)]
pub mod builder;

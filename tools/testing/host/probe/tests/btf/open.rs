// SPDX-License-Identifier: GPL-2.0

//! What is BTF, and what is not.

use probe::btf::{
    Malformed,
    Sections,
    TypeId,
    TypeKind, //
};

use crate::{
    builder::*,
    index, //
};

/// The error that some bytes get when they are changed.
fn refused(change: impl FnOnce(&mut Vec<u8>)) -> Malformed {
    let mut bytes = everything().bytes();
    change(&mut bytes);
    index(bytes.leak(), None).unwrap_err()
}

fn set(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
}

#[test]
fn a_header_of_something_else_is_refused() {
    assert_eq!(refused(Vec::clear), Malformed::Magic);
    assert_eq!(refused(|b| b[0] ^= 1), Malformed::Magic);
    assert_eq!(refused(|b| b.swap(0, 1)), Malformed::ByteOrder);
    assert_eq!(refused(|b| b[2] = 2), Malformed::Version);
    assert_eq!(refused(|b| b[3] = 1), Malformed::Version);
    assert_eq!(refused(|b| b.truncate(3)), Malformed::Sections);
    assert_eq!(refused(|b| b.truncate(7)), Malformed::Sections);
}

#[test]
fn a_section_beyond_the_bytes_is_refused() {
    for at in [4, 8, 12, 16, 20] {
        for word in [0x10_0000, u32::MAX] {
            assert_eq!(refused(|b| set(b, at, word)), Malformed::Sections);
        }
    }
    assert_eq!(refused(|b| set(b, 4, 23)), Malformed::Sections);
    assert_eq!(refused(|b| _ = b.pop()), Malformed::Sections);
}

#[test]
fn strings_start_with_the_empty_one_and_end() {
    assert_eq!(refused(|b| *b.last_mut().unwrap() = 1), Malformed::Strings);
    assert_eq!(refused(|b| set(b, 20, 0)), Malformed::Strings);
    assert_eq!(
        refused(|b| {
            let strings = b.len() - everything().strings.len();
            b[strings] = b'x';
        }),
        Malformed::Strings
    );
    // With a base there may be none, and the empty one is there.
    let base = everything().bytes();
    let base = index(&base, None).unwrap();
    let mut split = Builder::split(&base, everything().strings.len());
    assert!(index(split.bytes().leak(), Some(&base)).is_ok());
    split.strings = b"name".to_vec();
    let result = index(split.bytes().leak(), Some(&base));
    assert_eq!(result.unwrap_err(), Malformed::Strings);
}

#[test]
fn a_type_that_is_cut_off_is_refused_with_its_place() {
    let mut b = Builder::new();
    b.int("int", 4, 0);
    let whole = b.clone();
    b.members(4, "s", &[("a", TypeId::new(1), 0)]);
    b.types.pop();
    assert_eq!(
        index(b.bytes().leak(), None).unwrap_err(),
        Malformed::Type(16)
    );
    // A kind that is none, and one that nobody knows.
    for kind in [0, 20, 127] {
        let mut b = whole.clone();
        b.add("", kind << 24, 0, &[]);
        assert_eq!(
            index(b.bytes().leak(), None).unwrap_err(),
            Malformed::Type(16)
        );
    }
}

#[test]
fn a_kind_that_came_later_is_passed_by_its_layout() {
    let mut b = Builder::new();
    b.header_bytes = 32;
    b.layout = vec![0; 20 * 4];
    b.layout.extend_from_slice(&[4, 8, 0, 0]);
    let int = b.int("int", 4, 0);
    let new = b.add("new", 20 << 24 | 2, 0, &[1, 2, 3, 4, 5]);
    let ptr = b.ptr(int);
    let bytes = b.bytes();
    let btf = index(&bytes, None).unwrap();
    assert_eq!(btf.get(new).unwrap().kind(), TypeKind::Other(20));
    assert_eq!(btf.get(ptr).unwrap().kind(), TypeKind::Ptr);
    // What has no layout, and a layout out of bounds.
    b.layout.truncate(20 * 4);
    assert_eq!(index(&b.bytes(), None).unwrap_err(), Malformed::Type(16));
    let mut bytes = b.bytes();
    set(&mut bytes, 28, 81);
    assert_eq!(index(&bytes, None).unwrap_err(), Malformed::Sections);
}

#[test]
fn an_index_has_a_slot_for_each_type_and_one() {
    let bytes = everything().bytes();
    let sections = Sections::parse(&bytes, None).unwrap();
    let slots = sections.slots().unwrap();
    for wrong in [0, 1, slots - 1, slots + 1] {
        let result = sections.index(vec![0; wrong].leak());
        assert_eq!(result.unwrap_err(), Malformed::Index, "{wrong}");
    }
    let btf = sections.index(vec![7; slots].leak()).unwrap();
    assert_eq!(btf.type_count() as usize, slots);
}

#[test]
fn an_index_is_made_once() {
    let bytes = everything().bytes();
    let sections = Sections::parse(&bytes, None).unwrap();
    let mut index = vec![0; sections.slots().unwrap()];
    let name = |btf: probe::btf::Btf<'_>| btf.find("file", TypeKind::Struct);
    let first = name(sections.index(&mut index).unwrap());
    assert!(first.is_some());
    assert_eq!(name(sections.indexed(&index)), first);
    // One that is not of these bytes finds nothing, at worst.
    assert_eq!(name(sections.indexed(&[])), None);
    assert_eq!(name(sections.indexed(&[3; 9])), None);
    assert_eq!(name(sections.indexed(&[u32::MAX; 9])), None);
}

// SPDX-License-Identifier: GPL-2.0

//! The text of `/proc/kallsyms`.

use std::collections::BTreeSet;

use probe::kallsyms::{contains, hash, insert, Location, Symbol};
use proptest::prelude::*;

fn symbol<'a>(name: &'a str, module: Option<&'a str>) -> Option<Symbol<'a>> {
    Some(Symbol {
        name: name.as_bytes(),
        module: module.map(str::as_bytes),
    })
}

#[test]
fn locations() {
    for (text, expected) in [
        ("vfs_read+0x10/0x3a0", Some(("vfs_read", 0x10, 0x3a0, None))),
        ("a.b+0x0/0x1 [dummy]", Some(("a.b", 0, 1, Some("dummy")))),
        // No name of C's, but of Rust's.
        ("_R+0x1+0x2/0x3 [m]", Some(("_R+0x1", 2, 3, Some("m")))),
        ("0xffffffffc0001000", None),
        ("x+0x10 [m]", None),
        ("x+0x10/0x [m]", None),
        ("x+0x1/0x2[m]", None),
        ("]", None),
        ("", None),
    ] {
        let expected = expected.map(|(name, offset, size, module)| Location {
            name,
            offset,
            size,
            module,
        });
        assert_eq!(Location::parse(text), expected, "{text:?}");
    }
}

#[test]
fn lines() {
    for (line, expected) in [
        ("ffffffff81000000 T _stext", symbol("_stext", None)),
        ("0000000000000000 t a.cold", symbol("a.cold", None)),
        (
            "ffffffffc0000000 d __this_module\t[dummy]",
            symbol("__this_module", Some("dummy")),
        ),
        (
            "ffffffffc0000000 t bpf_prog_1_x\t[bpf]",
            symbol("bpf_prog_1_x", Some("bpf")),
        ),
        ("", None),
        ("ffffffff81000000", None),
        ("ffffffff81000000 T", None),
        ("ffffffff81000000 T ", None),
        ("ffffffff81000000 T \t[dummy]", None),
        ("ffffffff81000000 T x\tdummy", None),
    ] {
        assert_eq!(Symbol::parse(line.as_bytes()), expected, "{line:?}");
    }
}

#[test]
fn a_full_table() {
    let mut table = [1, 2];
    assert!(insert(&mut table, 2));
    assert!(!insert(&mut table, 3));
    assert!(!contains(&table, 3));
    assert_eq!(table, [1, 2]);
    assert!(!insert(&mut [], 1));
    assert!(!contains(&[], 1));
}

#[test]
fn published_values_of_the_hash() {
    assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
}

proptest! {
    #[test]
    fn what_was_put_into_a_table_is_in_it(hashes in prop::collection::vec(1u64..60, 0..100)) {
        // Four to a place: they collide.
        let mut table = [0; 64];
        let mut expected = BTreeSet::new();
        for &hash in &hashes {
            prop_assert_eq!(insert(&mut table, hash << 4), !expected.insert(hash));
        }
        for hash in 1..60 {
            prop_assert_eq!(contains(&table, hash << 4), expected.contains(&hash));
        }
    }

    #[test]
    fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Symbol::parse(&line);
    }
}

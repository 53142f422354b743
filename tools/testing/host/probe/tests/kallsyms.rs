// SPDX-License-Identifier: GPL-2.0

//! The text of `/proc/kallsyms`.

use std::collections::BTreeMap;

use probe::kallsyms::{hash, keep_repeated, Symbol};
use proptest::prelude::*;

fn symbol<'a>(name: &'a str, module: Option<&'a str>) -> Option<Symbol<'a>> {
    Some(Symbol {
        name: name.as_bytes(),
        module: module.map(str::as_bytes),
    })
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
fn published_values_of_the_hash() {
    assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
}

proptest! {
    #[test]
    fn those_that_repeat_are_kept(mut hashes in prop::collection::vec(0u64..40, 0..100)) {
        let mut counts = BTreeMap::new();
        for hash in &hashes {
            *counts.entry(*hash).or_insert(0) += 1;
        }
        let expected: Vec<u64> = counts.into_iter().filter(|(_, n)| *n > 1).map(|(h, _)| h).collect();
        let kept = keep_repeated(&mut hashes);
        prop_assert_eq!(&hashes[..kept], &expected[..]);
    }

    #[test]
    fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Symbol::parse(&line);
    }
}

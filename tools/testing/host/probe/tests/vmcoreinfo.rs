// SPDX-License-Identifier: GPL-2.0

//! The kernel's note for crash tools.

use probe::vmcoreinfo::Vmcoreinfo;
use proptest::prelude::*;

const LINES: &str = "OSRELEASE=7.3.4\nSYMBOL(init_uts_ns)=ffffffff82a1b2c0\nSIZE(page)=64\n\
    SYMBOL(kallsyms_num_syms)=ffffffff82000000\nSYMBOL(kallsyms_names)=10\n\
    NUMBER(kallsyms_names)=11\nSYMBOL(none)=\nSYMBOL(minus)=-1\nSYMBOL(long)=10000000000000000\n\
    SYMBOL(cut)=12";

/// As `append_elf_note()` writes it.
fn note(name: &[u8], lines: &str) -> Vec<u8> {
    let padded = name.len().next_multiple_of(4);
    let mut note = Vec::new();
    note.extend((name.len() as u32).to_ne_bytes());
    note.extend((lines.len() as u32).to_ne_bytes());
    note.extend(0u32.to_ne_bytes());
    note.extend(name);
    note.resize(12 + padded, 0);
    note.extend(lines.bytes());
    note
}

#[test]
fn symbols() {
    let mut note = note(b"VMCOREINFO\0", LINES);
    // The next note.
    note.extend(b"3\nSYMBOL(behind)=1\n");
    let info = Vmcoreinfo::parse(&note).unwrap();
    for (name, address) in [
        ("init_uts_ns", Some(0xffff_ffff_82a1_b2c0)),
        ("kallsyms_num_syms", Some(0xffff_ffff_8200_0000)),
        ("kallsyms_names", Some(0x10)),
        ("cut", Some(0x12)),
        ("kallsyms", None),
        ("names", None),
        ("page", None),
        ("none", None),
        ("minus", None),
        ("long", None),
        ("behind", None),
        ("", None),
    ] {
        assert_eq!(info.symbol(name), address, "{name}");
    }
}

#[test]
fn what_is_another_note() {
    let whole = note(b"VMCOREINFO\0", LINES);
    for len in 0..whole.len() {
        assert_eq!(Vmcoreinfo::parse(&whole[..len]), None, "{len}");
    }
    for name in [
        &b"CORE\0"[..],
        b"VMCOREINFO",
        b"VMCOREINFO\0\0",
        b"VMCOREINFX\0",
    ] {
        assert_eq!(Vmcoreinfo::parse(&note(name, LINES)), None, "{name:?}");
    }
    assert_eq!(Vmcoreinfo::parse(&[0; 4096]), None);
}

proptest! {
    #[test]
    fn no_note_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), name in "[a-z(]{0,3}") {
        let mut whole = note(b"VMCOREINFO\0", "");
        whole[4] = bytes.len() as u8;
        whole.extend(&bytes);
        let info = Vmcoreinfo::parse(&whole).unwrap();
        let _ = info.symbol(&name);
        let _ = Vmcoreinfo::parse(&bytes);
    }
}

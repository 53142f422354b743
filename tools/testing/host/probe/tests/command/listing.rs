// SPDX-License-Identifier: GPL-2.0

//! The canonical form of a command.

use probe::command::{
    parse,
    without_comment,
    Line,
    ProbeKind,
    Target, //
};

use super::create;

#[test]
fn a_listing_is_canonical() {
    for (line, expected) in [
        ("p vfs_read", "p:kprobes/p_vfs_read_0 vfs_read"),
        ("p:ev vfs_read+0", "p:kprobes/ev vfs_read"),
        ("p:ev vfs_read-0", "p:kprobes/ev vfs_read"),
        ("p:g.ev vfs_read+0x20", "p:g/ev vfs_read+32"),
        ("p:ev vfs_read+010", "p:kprobes/ev vfs_read+8"),
        ("p:ev vfs_read%return", "r:kprobes/ev vfs_read"),
        ("r0x10:ev vfs_read", "r16:kprobes/ev vfs_read"),
        ("r4096:ev vfs_read", "r4096:kprobes/ev vfs_read"),
        ("probe:ev vfs_read", "p:kprobes/ev vfs_read"),
        ("p:ev ext4:ext4_sync", "p:kprobes/ev ext4:ext4_sync"),
        ("p show%all", "p:kprobes/p_show_all show%all"),
        ("r8:ev ext4:show%all", "r8:kprobes/ev ext4:show%all"),
        ("p:ev dup%all $arg1", "p:kprobes/ev dup%all arg1=$arg1"),
        ("p:ev 0x00FF", "p:kprobes/ev 0xff"),
        ("p:ev +255", "p:kprobes/ev 0xff"),
        (
            "p:ev 18446744073709551616",
            "p:kprobes/ev 18446744073709551616",
        ),
        (
            "p:ev\tvfs_read  %ax  b=+8(%di):string $comm",
            "p:kprobes/ev vfs_read arg1=%ax b=+8(%di):string arg3=$comm",
        ),
    ] {
        let listing = create(line).expect(line).listing();
        assert_eq!(listing, expected, "{line}");
        assert_eq!(create(&listing).unwrap().listing(), expected, "{line}");
    }
}

#[test]
fn a_comment_is_not_part_of_the_command() {
    for (line, text) in [
        ("p vfs_read", "p vfs_read"),
        ("p vfs_read # %cx # %dx", "p vfs_read "),
        ("#\0", ""),
        ("  # p vfs_read", "  "),
        ("", ""),
    ] {
        assert_eq!(without_comment(line.as_bytes()), Some(text), "{line:?}");
    }
    // Only a comment may be in another encoding.
    assert_eq!(without_comment(b"p vfs_read #\xff"), Some("p vfs_read "));
    assert_eq!(without_comment(b"p vfs\xffread"), None);
}

#[test]
fn white_space_is_nothing() {
    for line in ["", " ", "\t\n\x0b\x0c\r"] {
        assert_eq!(parse(line), Ok(Line::Nothing), "{line:?}");
    }
    // No white space for the kernel.
    assert!(create("p\u{2003}vfs_read").is_err());
    assert!(create("p\u{a0}vfs_read").is_err());
}

#[test]
fn a_command_says_its_kind_and_target() {
    let whole = create("r32 mod:fn").unwrap();
    assert_eq!(whole.command.kind, ProbeKind::Kretprobe);
    assert_eq!(whole.command.maxactive.map(|n| n.get()), Some(32));
    let target = Target::Symbol {
        symbol: "mod:fn",
        offset: 0,
    };
    assert_eq!(whole.command.target, target);

    for line in [
        "p mod:fn%retinsn $retval $exit:symbol",
        "r mod:fn%retinsn a=$retval",
    ] {
        let whole = create(line).unwrap();
        assert_eq!(whole.command.kind, ProbeKind::Kretinsn);
        assert_eq!(whole.command.target, target);
    }
    let whole = create("r:ev fn%retinsn $exit %ip").unwrap();
    assert_eq!(
        whole.listing(),
        "p:kprobes/ev fn%retinsn arg1=$exit arg2=%ip"
    );
    let whole = create("p fn%retinsn").unwrap();
    assert_eq!(whole.listing(), "p:kprobes/r_fn_0 fn%retinsn");

    let whole = create("p 0xffffffffffffffff").unwrap();
    assert_eq!(whole.command.kind, ProbeKind::Kprobe);
    assert_eq!(whole.command.maxactive, None);
    assert_eq!(whole.command.target, Target::Address(u64::MAX));
}

#[test]
fn the_letter_may_be_followed_by_anything_but_a_number() {
    // As in C, which looks for the digit and for the colon only.
    let whole = create("pxyz:ev vfs_read").unwrap();
    assert_eq!(whole.listing(), "p:kprobes/ev vfs_read");
    let whole = create("return vfs_read").unwrap();
    assert_eq!(whole.listing(), "r:kprobes/r_vfs_read_0 vfs_read");
}

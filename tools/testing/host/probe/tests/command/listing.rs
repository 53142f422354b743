// SPDX-License-Identifier: GPL-2.0

//! The canonical form of a command.

use probe::{
    command::{
        parse,
        without_comment,
        EventsFile,
        Line,
        ProbeKind,
        Target, //
    },
    condition::{
        Check,
        Comparison,
        StringCheck, //
    },
};

use super::{
    create,
    create_in, //
};

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
fn a_condition_is_listed_with_one_space_between_words() {
    for (line, expected) in [
        (
            "p:ev vfs_read if %di == 1",
            "p:kprobes/ev vfs_read if %di == 1",
        ),
        (
            "p:ev vfs_read  %di  if\t%di==1&&!( $comm  ~ 'a   b' ) ",
            "p:kprobes/ev vfs_read arg1=%di if %di==1&&!( $comm ~ 'a b' )",
        ),
        (
            "r8:ev vfs_read n=$arg3 if n > 0x10 || $retval & 1",
            "r8:kprobes/ev vfs_read n=$arg3 if n > 0x10 || $retval & 1",
        ),
        (
            "p:ev vfs_read if $comm == \"  a \t b  \"",
            "p:kprobes/ev vfs_read if $comm == \" a b \"",
        ),
        (
            "f:ev vfs_read if $retval == 1",
            "f:fprobes/ev vfs_read%return if $retval == 1",
        ),
        (
            "t kfree if $arg2==1",
            "t:tracepoints/kfree kfree if $arg2==1",
        ),
        (
            "w:ev w@jiffies:8 if  $comm == cat",
            "w:wprobes/ev w@jiffies:8 if $comm == cat",
        ),
        (
            "o:ev (inode)a/b.c vfs_*  until=d/e.f if $obj == 1",
            "o:objects/ev (inode)a/b.c vfs_* until=d/e.f if $obj == 1",
        ),
        (
            "p:ev vfs_read if \\\"if\" == if",
            "p:kprobes/ev vfs_read if \\\"if\" == if",
        ),
    ] {
        let whole = create_in(EventsFile::DynamicEvents, line).expect(line);
        let listing = whole.listing();
        assert_eq!(listing, expected, "{line}");
        let again = create_in(EventsFile::DynamicEvents, &listing).expect(&listing);
        assert_eq!(again.listing(), expected, "{line}");
        assert_eq!(again.spec(), whole.spec(), "{line}");
        assert_eq!(again.command.kind, whole.command.kind);
        assert_same_condition(&again.condition, &whole.condition);
        // The condition is a part of the probe, which is compared and parsed again.
        let probe = whole.spec();
        assert_eq!(
            probe
                .command()
                .condition()
                .map(|condition| condition.is_some()),
            Ok(true)
        );
        let (without, _) = line.split_once("if").unwrap();
        let other = create_in(EventsFile::DynamicEvents, without).expect(without);
        assert!(!probe.is_same_probe(&other.spec()), "{line}");
    }
}

/// Both conditions decide the same.
pub fn assert_same_condition(a: &[Comparison<'_>], b: &[Comparison<'_>]) {
    let shown = |check: &Check<'_>| match check {
        Check::String(StringCheck::Equal(text)) => format!("== {text}"),
        Check::String(StringCheck::Glob(text)) => format!("~ {text}"),
        check => format!("{check:?}"),
    };
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert_eq!(
            (&a.operand.fetch, a.operand.ty, a.branches),
            (&b.operand.fetch, b.operand.ty, b.branches)
        );
        assert_eq!(shown(&a.check), shown(&b.check));
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

    let whole = create("p mod:fn%blocks %ip by func").unwrap();
    assert_eq!(whole.command.kind, ProbeKind::Blocks { is_once: false });
    assert_eq!(whole.command.target, target);
    assert_eq!(
        whole.listing(),
        "p:kprobes/p_mod_fn_blocks mod:fn%blocks arg1=%ip by func"
    );
    let whole = create("p mod:fn%blocks-once if $comm == a").unwrap();
    assert_eq!(whole.command.kind, ProbeKind::Blocks { is_once: true });
    assert_eq!(whole.command.target, target);
    assert_eq!(
        whole.listing(),
        "p:kprobes/p_mod_fn_blocks_once mod:fn%blocks-once if $comm == a"
    );

    let whole = create("p9:way mod:fn%path $retval $elapsed $exit if path ~ *+0x8*").unwrap();
    assert_eq!(whole.command.kind, ProbeKind::Path);
    assert_eq!(whole.command.target, target);
    assert_eq!(
        whole.listing(),
        "p9:kprobes/way mod:fn%path arg1=$retval arg2=$elapsed arg3=$exit if path ~ *+0x8*"
    );
    let whole = create("p fn%path").unwrap();
    assert_eq!(whole.listing(), "p:kprobes/r_fn_path fn%path");

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

// SPDX-License-Identifier: GPL-2.0

//! The group and the event of a command.

use probe::{
    argument::Name,
    command::{
        parse,
        Line, //
    },
};

use super::create;

/// The group and the event, `GROUP/EVENT`.
fn name(line: &str) -> String {
    let Ok(Line::Create(command)) = parse(line) else {
        panic!("creates nothing: {line}");
    };
    let name = command.name(|address| address as u32).unwrap();
    format!("{}/{}", name.group, name.event)
}

#[test]
fn a_name_has_a_group_an_event_or_both() {
    for (line, expected) in [
        ("p:ev vfs_read", "kprobes/ev"),
        ("p:grp/ev vfs_read", "grp/ev"),
        ("p:grp.ev vfs_read", "grp/ev"),
        ("p:grp/ vfs_read", "grp/p_vfs_read_0"),
        ("p:grp. vfs_read", "grp/p_vfs_read_0"),
        ("r16:-g-1/_ev1 vfs_read", "-g-1/_ev1"),
        ("r:a/b vfs_read", "a/b"),
    ] {
        assert_eq!(name(line), expected, "{line}");
    }
}

#[test]
fn an_automatic_name_says_the_target() {
    for (line, expected) in [
        ("p vfs_read", "p_vfs_read_0"),
        ("p vfs_read+0x10", "p_vfs_read_16"),
        ("r vfs_read", "r_vfs_read_0"),
        ("p vfs_read%return", "r_vfs_read_0"),
        ("p vfs_read+0%return", "r_vfs_read_0"),
        ("p ext4:ext4_sync.part.0*", "p_ext4_ext4_sync_part_0__0"),
        ("p 0xFFFFffff81000000", "p_0x0000000081000000"),
        ("r 16", "r_0x0000000000000010"),
        ("p vfs_read+4294967295", "p_vfs_read_4294967295"),
    ] {
        assert_eq!(name(line), format!("kprobes/{expected}"), "{line}");
    }
}

#[test]
fn an_automatic_name_is_cut_at_63_bytes() {
    let cut = |symbol: &str| name(&format!("p {symbol}+16"));
    assert_eq!(
        cut(&"s".repeat(58)),
        format!("kprobes/p_{}_16", "s".repeat(58))
    );
    assert_eq!(
        cut(&"s".repeat(59)),
        format!("kprobes/p_{}_1", "s".repeat(59))
    );
    assert_eq!(
        cut(&"s".repeat(99)),
        format!("kprobes/p_{}", "s".repeat(61))
    );
    // A character is not cut, and nothing follows in its place.
    assert_eq!(
        cut(&format!("{}é", "s".repeat(60))),
        format!("kprobes/p_{}", "s".repeat(60))
    );
}

#[test]
fn an_argument_is_named_or_numbered() {
    let whole = create("p vfs_read %ax b=%bx $comm arg2x=%cx").unwrap();
    let names: Vec<_> = whole.arguments.iter().map(|a| a.name.to_string()).collect();
    assert_eq!(names, ["arg1", "b", "arg3", "arg2x"]);
}

#[test]
fn names_that_look_like_a_number_are_told_apart() {
    assert!(create("p vfs_read arg02=%ax %bx arg3x=%cx arg33=%dx arg=%si").is_ok());
    assert!(create("p vfs_read arg18446744073709551618=%ax %bx").is_ok());
    let second = Name::Numbered(2);
    for (name, expected) in [
        ("arg2", true),
        ("arg02", false),
        ("arg+2", false),
        ("arg", false),
        ("2", false),
    ] {
        assert_eq!(Name::Given(name).is_same(second), expected, "{name}");
        assert_eq!(second.is_same(Name::Given(name)), expected, "{name}");
    }
    // Each of 128 names is compared with all before it.
    let mut line = String::from("p vfs_read");
    for index in 0..127 {
        line += &format!(" n{index}=%ax");
    }
    for index in 0..127 {
        assert!(create(&format!("{line} n{index}=%ax")).is_err(), "{index}");
    }
    assert!(create(&format!("{line} n127=%ax")).is_ok());
}

// SPDX-License-Identifier: GPL-2.0

//! Which events a delete takes.

use probe::{
    command::{
        parse,
        Delete,
        Line, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use super::{
    deletes,
    probe_of, //
};

fn delete(line: &str) -> Delete<'_> {
    match parse(line) {
        Ok(Line::Delete(delete)) => delete,
        other => panic!("{line}: {other:?}"),
    }
}

const LISTING: &str = "r8:grp/ev mod:fn+16 a=%ax arg2=+0(%di):u8[4]";

#[test]
fn a_delete_matches_by_group_event_target_and_arguments() {
    for (line, expected) in [
        ("-:ev", true),
        ("-:grp/ev", true),
        ("-:grp/", true),
        ("  -:ev ", true),
        ("-:e", false),
        ("-:event", false),
        ("-:kprobes/ev", false),
        ("-:/ev", false),
        ("-:grp.ev", false),
        ("-:grp/ev/", false),
        ("-:ev mod:fn+16", true),
        ("-:ev mod:fn+0x10", false),
        ("-:ev fn+16", false),
        ("-:grp/ mod:fn+16 a=%ax", true),
        ("-:ev mod:fn+16  a=%ax\targ2=+0(%di):u8[4]", true),
        ("-:ev mod:fn+16 a=%bx", false),
        ("-:ev mod:fn+16 %ax", false),
        ("-:ev mod:fn+16 arg2=+0(%di):u8[4]", false),
        ("-:ev mod:fn+16 a=%ax arg2=+0(%di):u8[4] b=%cx", false),
        ("-:ev a=%ax", false),
    ] {
        assert_eq!(deletes(line, &probe_of(LISTING)), expected, "{line}");
    }
}

#[test]
fn a_delete_says_its_group_and_event() {
    let both = delete("-:a/b");
    assert_eq!((both.group, both.event), (Some("a"), "b"));
    let group = delete("-:a/");
    assert_eq!((group.group, group.event), (Some("a"), ""));
    let event = delete("-:b");
    assert_eq!((event.group, event.event), (None, "b"));
}

#[test]
fn a_delete_without_a_name_is_refused() {
    for (line, kind, column) in [
        ("-", ErrorKind::BadDelete, 1),
        ("-ev", ErrorKind::BadDelete, 1),
        ("-1:ev", ErrorKind::BadDelete, 1),
        ("-:", ErrorKind::NoDeleteName, 2),
        ("-: vfs_read", ErrorKind::NoDeleteName, 2),
    ] {
        let error = parse(line).unwrap_err();
        assert_eq!((error.kind, error.errno), (kind, Errno::EINVAL), "{line}");
        assert_eq!(error.at.column(line), column, "{line}");
    }
}

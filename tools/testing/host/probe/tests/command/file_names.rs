// SPDX-License-Identifier: GPL-2.0

//! `%pd` and `%pD`, which are written out before a command is read.

use super::create;
use probe::command::Errno;
use probe::command::ErrorKind::*;
use probe::command::FileOffsets;
use probe::command::Position;
use probe::command::WithFileNames;

const OFFSETS: FileOffsets = FileOffsets {
    name: 0x28,
    dentry: 0x48,
};

/// The line with its file names, where it has any.
pub fn written_out(line: &str) -> Option<String> {
    Some(WithFileNames::new(line, OFFSETS)?.to_string())
}

#[test]
fn the_name_of_a_file_is_a_string_behind_pointers() {
    for (argument, expected) in [
        ("$arg1:%pd", "+0x0(+0x28($arg1)):string"),
        ("$arg1:%pD", "+0x0(+0x28(+0x48($arg1))):string"),
        ("name=$arg1:%pd", "name=+0x0(+0x28($arg1)):string"),
        (
            "name=+8(%di):%pD",
            "name=+0x0(+0x28(+0x48(+8(%di)))):string",
        ),
        // Wrong, but told when it is read.
        (":%pd", "+0x0(+0x28()):string"),
        ("=:%pd", "=+0x0(+0x28()):string"),
        ("a=b=%di:u8:%pd", "a=+0x0(+0x28(b=%di:u8)):string"),
    ] {
        let line = format!(" p:g/ev\tvfs_read %ax  {argument} b=%bx # {argument}");
        let expected = format!("p:g/ev vfs_read %ax {expected} b=%bx");
        assert_eq!(written_out(&line), Some(expected), "{argument}");
    }
}

#[test]
fn other_lines_stay_as_they_are() {
    for line in [
        "",
        "p",
        "p vfs_read",
        "p vfs_read $arg1",
        "p vfs_read # $arg1:%pd",
        "p vfs_read $arg1:%pd[2]",
        "p vfs_read $arg1:%px a=%pd",
        "p:a:%pd b:%pd",
        "-:g/ev vfs_read $arg1:%pd",
        "p vfs_read $arg1:%pd \0",
    ] {
        assert_eq!(written_out(line), None, "{line}");
    }
}

#[test]
fn file_names_are_read_and_listed_as_what_they_stand_for() {
    let line = written_out("r:ev vfs_read d=$arg1:%pd $arg2:%pD").unwrap();
    let whole = create(&line).unwrap();
    assert_eq!(
        whole.listing(),
        "r:kprobes/ev vfs_read d=+0x0(+0x28($arg1)):string arg2=+0x0(+0x28(+0x48($arg2))):string"
    );
    let offsets = |index: usize| {
        let derefs = whole.arguments[index].fetch.derefs.as_slice().iter();
        derefs.map(|deref| deref.offset).collect::<Vec<_>>()
    };
    assert_eq!(offsets(0), [0x28, 0]);
    assert_eq!(offsets(1), [0x48, 0x28, 0]);
}

#[test]
fn errors_are_told_of_what_file_names_stand_for() {
    for (line, expected, kind) in [
        (
            "p vfs_read a=%none:%pd",
            "p vfs_read a=+0x0(+0x28(^%none)):string",
            BadRegName,
        ),
        (
            "p vfs_read a=$comm:%pd",
            "p vfs_read a=+0x0(+0x28(^$comm)):string",
            CommCantDeref,
        ),
        (
            "p vfs_read :%pD",
            "p vfs_read +0x0(+0x28(+0x48(^))):string",
            BadFetchArg,
        ),
        (
            "p vfs_read %di:u8:%pd",
            "p vfs_read +0x0(+0x28(%di:^u8)):string",
            BadType,
        ),
        (
            "p vfs_read =%di:%pd",
            "p vfs_read ^=+0x0(+0x28(%di)):string",
            NoArgName,
        ),
        (
            "p vfs_read a=+1000000(+1000000(+1000000(+1000000(%orig_ax)))):%pd",
            "p vfs_read a=^+0x0(+0x28(+1000000(+1000000(+1000000(+1000000(%orig_ax)))))):string",
            ArgTooLong,
        ),
    ] {
        let text = written_out(line).unwrap();
        let error = create(&text).unwrap_err();
        let mut marked = text.clone();
        marked.insert(error.at.column(&text), '^');
        assert_eq!((marked.as_str(), error.kind), (expected, kind), "{line}");
    }
}

#[test]
fn file_names_are_limited_in_bytes_as_in_c() {
    // Each takes 28 bytes with its NUL: 9 of 256 fit.
    let line = |count: usize| {
        let arguments: Vec<String> = (0..count)
            .map(|i| format!("{}=%di:%pd", char::from(b'a' + i as u8)))
            .collect();
        written_out(&format!("p vfs_read {}", arguments.join(" "))).unwrap()
    };
    let nine = line(9);
    assert_eq!(create(&nine).unwrap().arguments.len(), 9);
    assert_eq!(nine.len(), "p vfs_read ".len() + 9 * 26 - 1);

    let ten = line(10);
    assert!(ten.ends_with(" j=%di:%pd"));
    let error = create(&ten).unwrap_err();
    assert_eq!((error.kind, error.errno), (FileNamesTooLong, Errno::ENOMEM));
    assert_eq!(
        error.at,
        Position {
            word: 11,
            offset: 0
        }
    );

    // A shorter one behind one that did not fit does not either.
    let long = format!("p vfs_read a={}:%pd b=%di:%pd", "x".repeat(256));
    assert_eq!(written_out(&long).as_deref(), Some(long.as_str()));
    let edge = |length: usize| written_out(&format!("p vfs_read a={}:%pd", "x".repeat(length)));
    // `a=+0x0(+0x28()):string` and a NUL are 23.
    assert!(edge(233).unwrap().ends_with(")):string"));
    assert!(edge(234).unwrap().ends_with(":%pd"));

    // The number of arguments comes first.
    let many = format!("{ten} {}", vec!["%ax"; 128].join(" "));
    assert_eq!(create(&many).unwrap_err().kind, TooManyArgs);
}

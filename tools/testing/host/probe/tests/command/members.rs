// SPDX-License-Identifier: GPL-2.0

//! `FETCH->*`: all members of a structure.

use probe::{
    argument::Base,
    command::{
        parse,
        Error,
        EventsFile,
        Expansion,
        LeftOut,
        Line,
        ParseContext,
        ProbePoint,
        TypeInfo,
        MAX_ARGUMENTS, //
    },
    error::{
        Errno,
        ErrorKind::{
            self,
            *, //
        },
    },
};

use super::{
    create_at,
    errors::unmark,
    functions::types_of,
    Whole,
    OFFSETS, //
};

fn create(line: &str) -> Result<Whole<'_>, Error> {
    let function = match line.contains("printk") {
        true => "printk",
        false => "vfs_read",
    };
    create_at(EventsFile::DynamicEvents, line, types_of(function))
}

#[test]
fn each_member_that_is_a_scalar_is_an_argument() {
    for (line, expected) in [
        (
            "p:ev vfs_read file->f_path.dentry->*",
            "p:kprobes/ev vfs_read d_flags=file->f_path.dentry->d_flags \
             len=file->f_path.dentry->len hash=file->f_path.dentry->hash",
        ),
        (
            "p:ev vfs_read a=(dentry)buf->* %ax",
            "p:kprobes/ev vfs_read a_d_flags=(dentry)buf->d_flags a_len=(dentry)buf->len \
             a_hash=(dentry)buf->hash arg4=%ax",
        ),
        (
            "r:ev printk b=$retval->* $arg1",
            "r:kprobes/ev printk b_d_flags=$retval->d_flags b_len=$retval->len \
             b_hash=$retval->hash fmt=fmt",
        ),
        (
            "f:ev vfs_read (dentry,len)(buf)->* count",
            "f:fprobes/ev vfs_read d_flags=(dentry,len)(buf)->d_flags \
             len=(dentry,len)(buf)->len hash=(dentry,len)(buf)->hash count=count",
        ),
    ] {
        assert_eq!(create(line).unwrap().listing(), expected);
    }
}

#[test]
fn a_parameter_by_its_number_has_its_name() {
    let whole = create("p:ev printk $arg1").unwrap();
    assert_eq!(whole.arguments[0].fetch.base, Base::Argument(0));
    // Its type is no structure.
    let error = create("p:ev vfs_read $arg2->*").unwrap_err();
    assert_eq!(error.kind, NoPtrStrct);
    // It has members, but no scalars.
    let error = create("p:ev vfs_read $arg1->*").unwrap_err();
    assert_eq!(error.kind, NoBtfField);
}

#[test]
fn what_has_no_members_is_told_where_it_stands() {
    let cases: &[(&str, ErrorKind, Errno)] = &[
        ("p vfs_read ^buf->*", NoPtrStrct, Errno::EINVAL),
        ("p vfs_read a=^count->*", NoPtrStrct, Errno::EINVAL),
        ("p vfs_read ^%ax->*", NoPtrStrct, Errno::EINVAL),
        ("p vfs_read ^@jiffies->*", NoPtrStrct, Errno::EINVAL),
        ("p vfs_read ^$stack->*", NoPtrStrct, Errno::EINVAL),
        ("p vfs_read %ax ^none->*", NoBtfarg, Errno::ENOENT),
        ("p vfs_read a=(^none)buf->*", NoPtrStrct, Errno::EINVAL),
        ("p vfs_read file->^none->*", NoBtfField, Errno::ENOENT),
        ("p vfs_read ^file->*", NoBtfField, Errno::ENOENT),
        ("p vfs_read+4 ^file->*", NosupBtfarg, Errno::EINVAL),
    ];
    for &(marked, kind, errno) in cases {
        let (line, column) = unmark(marked);
        let error = create(&line).unwrap_err();
        let found = (error.kind, error.errno, error.at.column(&line));
        assert_eq!(found, (kind, errno, column), "{marked}");
    }
    // As in C, what follows the brace has no meaning.
    let whole = create("p:ev vfs_read +0(file)->*").unwrap();
    assert_eq!(whole.arguments.len(), 1);
}

#[test]
fn an_error_of_a_member_is_one_of_the_argument() {
    for (marked, kind) in [
        ("p vfs_read len=%ax ^(dentry)buf->*", UsedArgName),
        ("p vfs_read (dentry)buf->* ^(dentry)buf->*", UsedArgName),
        ("p vfs_read (dentry)buf->* $arg1 a=^%none", BadRegName),
    ] {
        let (line, column) = unmark(marked);
        let error = create(&line).unwrap_err();
        assert_eq!((error.kind, error.at.column(&line)), (kind, column));
    }
}

/// What all `->*` of a line leave out.
fn left_out(line: &str) -> Vec<(String, String, LeftOut)> {
    let Ok(Line::Create(command)) = parse(line) else {
        panic!("{line}");
    };
    let context = ParseContext {
        point: ProbePoint::Entry,
        types: types_of("vfs_read"),
        modules: &[],
    };
    let written: Vec<_> = command.arguments().collect();
    let expansion = Expansion::new(&written, context, OFFSETS).unwrap().unwrap();
    let mut left_out = Vec::new();
    expansion.each_left_out(|word, member, reason| {
        left_out.push((word.to_string(), member.to_string(), reason));
    });
    left_out
}

#[test]
fn what_is_left_out_has_a_reason() {
    let word = "file->f_path.dentry->*";
    let is = |member: &str, reason| (word.to_string(), member.to_string(), reason);
    assert_eq!(
        left_out(&format!("p vfs_read {word}")),
        [is("d_iname", LeftOut::NoScalar)]
    );
    // Two more fit beside so many others.
    let others = "%ax ".repeat(MAX_ARGUMENTS - 2);
    let line = format!("p vfs_read {others} {word}");
    assert_eq!(
        left_out(&line),
        [
            is("d_iname", LeftOut::NoScalar),
            is("hash", LeftOut::NoRoom)
        ]
    );
    assert_eq!(create(&line).unwrap().arguments.len(), MAX_ARGUMENTS);
    // The names get too long.
    let name = "a".repeat(25);
    let word = format!("{name}={word}");
    let found = left_out(&format!("p vfs_read {word}"));
    let found: Vec<_> = found
        .iter()
        .map(|(_, member, reason)| (&**member, *reason))
        .collect();
    assert_eq!(
        found,
        [
            ("d_flags", LeftOut::TooLong),
            ("d_iname", LeftOut::NoScalar)
        ]
    );
}

#[test]
fn without_types_there_are_no_members() {
    let line = "p vfs_read a=file->*";
    let error = create_at(EventsFile::DynamicEvents, line, TypeInfo::Unsupported).unwrap_err();
    assert_eq!((error.kind, error.at.offset), (NosupBtfarg, 2));
}

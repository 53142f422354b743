// SPDX-License-Identifier: GPL-2.0

//! Arguments that stand for others.

use probe::{
    command::{
        parse,
        Error,
        EventsFile,
        Expansion,
        Line,
        ParseContext,
        ProbePoint,
        TypeInfo, //
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
    create,
    create_at,
    derefs,
    errors::unmark,
    functions::{
        btf,
        types_of, //
    },
    OFFSETS, //
};

/// BTF does not have the function.
fn unknown() -> TypeInfo<'static> {
    TypeInfo::Unknown(*btf())
}

/// What the arguments of a probe at the entry of a function stand for.
fn written_out(arguments: &str, types: TypeInfo<'_>) -> Result<Option<String>, Error> {
    let line = format!("p:g/ev vfs_read {arguments}");
    let Ok(Line::Create(command)) = parse(&line) else {
        panic!("{line}");
    };
    let context = ParseContext {
        point: ProbePoint::Entry,
        types,
        modules: &[],
    };
    let written: Vec<_> = command.arguments().collect();
    let Some(expansion) = Expansion::new(&written, context, OFFSETS)? else {
        return Ok(None);
    };
    let text = expansion.to_string();
    let mut words = Vec::new();
    expansion.arguments(&text, |argument| words.push(argument.word()));
    Ok(Some(words.join(" ")))
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
        let text = written_out(&format!("%ax\t {argument}  b=%bx"), unknown());
        assert_eq!(
            text,
            Ok(Some(format!("%ax {expected} b=%bx"))),
            "{argument}"
        );
    }
}

#[test]
fn parameters_go_by_their_names() {
    for (arguments, expected) in [
        ("$arg*", "file buf count"),
        ("%ax $arg* %bx", "%ax file buf count %bx"),
        ("$arg1", "file"),
        ("$arg03:u8", "count:u8"),
        ("$arg1 x=$arg2 $arg3", "file x=$arg2 count"),
        ("$arg1:%pD", "+0x0(+0x28(+0x48(file))):string"),
        ("$arg1:u8:%pd", "+0x0(+0x28(file:u8)):string"),
    ] {
        let text = written_out(arguments, types_of("vfs_read"));
        assert_eq!(text, Ok(Some(expected.into())), "{arguments}");
    }
    // One without a name stays a number; there is no name for what follows.
    let text = |arguments| written_out(arguments, types_of("printk"));
    assert_eq!(text("$arg*"), Ok(Some("fmt $arg2".into())));
    assert_eq!(text("$arg2"), Ok(None));
    assert_eq!(
        text("$arg2:%pd"),
        Ok(Some("+0x0(+0x28($arg2)):string".into()))
    );
    assert_eq!(text("$arg3").unwrap_err().kind, NoBtfarg);
}

#[test]
fn others_stay_as_they_are() {
    for arguments in [
        "",
        "%ax",
        "a=$arg1",
        "$arg1:%pd[2]",
        "$arg1:%px a=%pd",
        "$arg1 $arg0 $arg99 $arg1x",
    ] {
        // A function without parameters is as if there were no BTF.
        for types in [unknown(), types_of("nothing")] {
            assert_eq!(written_out(arguments, types), Ok(None), "{arguments}");
        }
    }
}

#[test]
fn what_is_listed_is_what_they_stand_for() {
    let line = "r:ev vfs_read d=$arg1:%pd $arg2:%pD";
    let whole = create(line).unwrap();
    assert_eq!(
        whole.listing(),
        "r:kprobes/ev vfs_read d=+0x0(+0x28($arg1)):string arg2=+0x0(+0x28(+0x48($arg2))):string"
    );
    let offsets = |index: usize| {
        let derefs = derefs(&whole.arguments[index].fetch).into_iter();
        derefs.map(|deref| deref.offset).collect::<Vec<_>>()
    };
    assert_eq!(offsets(0), [0x28, 0]);
    assert_eq!(offsets(1), [0x48, 0x28, 0]);

    let whole = create_at(
        EventsFile::KprobeEvents,
        "p:ev vfs_read $arg* $arg1:x8",
        types_of("vfs_read"),
    );
    assert_eq!(whole.unwrap_err().kind, UsedArgName);
    let whole = create_at(
        EventsFile::KprobeEvents,
        "p:ev vfs_read $arg* x=$arg1",
        types_of("vfs_read"),
    );
    assert_eq!(
        whole.unwrap().listing(),
        "p:kprobes/ev vfs_read file=file buf=buf count=count x=$arg1"
    );
}

/// The lines have a `^` in front of the place.
fn assert_errors(types: TypeInfo<'static>, cases: &[(&str, ErrorKind, Errno)]) {
    for &(marked, kind, errno) in cases {
        let (line, column) = unmark(marked);
        let error = create_at(EventsFile::KprobeEvents, line.clone().leak(), types).unwrap_err();
        assert_eq!(
            (error.at.column(&line), error.kind, error.errno),
            (column, kind, errno),
            "{marked}"
        );
    }
}

#[test]
fn errors_have_positions_in_the_original_command() {
    let (einval, enoent, e2big) = (Errno::EINVAL, Errno::ENOENT, Errno::E2BIG);
    let eopnotsupp = Errno::EOPNOTSUPP;
    assert_errors(
        TypeInfo::Unsupported,
        &[
            ("p vfs_read a=^%none:%pd", BadRegName, einval),
            ("p vfs_read a=^$comm:%pd", CommCantDeref, einval),
            ("p vfs_read ^:%pD", BadFetchArg, einval),
            ("p vfs_read ^%di:u8:%pd", BadType, einval),
            ("p vfs_read ^=%di:%pd", NoArgName, einval),
            (
                "p vfs_read a=+^8(+8(+8(+8(+8(+8(+8(+8(+8(+8(+8(+8(+8(+8(+8(%ax))))))))))))))):%pd",
                TooManyNested,
                e2big,
            ),
        ],
    );
    assert_errors(
        types_of("vfs_read"),
        &[
            ("p vfs_read ^$arg10", NoBtfarg, enoent),
            ("p vfs_read ^$arg99999999999999999999", NoBtfarg, enoent),
            ("p vfs_read $arg1 ^$arg0", BadArgNum, einval),
            ("p vfs_read ^$arg1x", BadVar, enoent),
            ("p vfs_read $arg* ^$arg*", DoubleArgs, einval),
            ("p vfs_read+8 ^$arg*", NofentryArgs, einval),
            ("p vfs_read args=^$arg*", BadVar, einval),
            // After a `:` it is the same byte.
            ("p vfs_read $arg1:^foo", BadType, einval),
            ("p vfs_read $arg3:^b1@64/64", BadBitfield, einval),
            ("p vfs_read ^$arg1:string", BadType4str, einval),
            ("p vfs_read %ax $arg* a=^%none", BadRegName, einval),
            ("p vfs_read $arg* ^$arg1", UsedArgName, einval),
            ("p vfs_read file=%ax ^$arg* %bx", UsedArgName, einval),
            ("p vfs_read %ax count=%ax ^$arg*", UsedArgName, einval),
        ],
    );
    assert_errors(
        types_of("nothing"),
        &[
            ("p vfs_read ^$arg*", NosupBtfarg, eopnotsupp),
            ("p vfs_read %none ^$arg*", NosupBtfarg, eopnotsupp),
            ("p vfs_read ^$arg1x", BadVar, einval),
        ],
    );
}

#[test]
fn there_is_room_for_so_many_bytes_as_in_c() {
    // Each takes 28 bytes with its NUL: 9 of 256 fit.
    let line = |count: usize| {
        let arguments: Vec<String> = (0..count)
            .map(|i| format!("{}=%di:%pd", char::from(b'a' + i as u8)))
            .collect();
        format!("p vfs_read {}", arguments.join(" "))
    };
    assert_eq!(create(&line(9)).unwrap().arguments.len(), 9);
    let ten = line(10);
    let error = create(&ten).unwrap_err();
    assert_eq!((error.kind, error.errno), (FileNamesTooLong, Errno::ENOMEM));
    assert_eq!((error.at.word, error.at.offset), (11, 0));

    // `a=+0x0(+0x28()):string` and a NUL are 23.
    let edge = |length: usize| written_out(&format!("a={}:%pd", "x".repeat(length)), unknown());
    assert!(edge(233).is_ok());
    assert_eq!(edge(234).unwrap_err().kind, FileNamesTooLong);

    // `file` and a NUL are 5: 25 of them fit in 128.
    let parameters = |count: usize| {
        let arguments = vec!["$arg1"; count].join(" ");
        written_out(&arguments, types_of("vfs_read"))
    };
    assert!(parameters(25).is_ok());
    let error = parameters(26).unwrap_err();
    assert_eq!((error.kind, error.errno), (Args2Long, Errno::E2BIG));
    assert_eq!((error.at.word, error.at.offset), (27, 0));
}

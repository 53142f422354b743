// SPDX-License-Identifier: GPL-2.0

//! The target of a call tree.

use probe::{
    argument::Base,
    command::{
        CallItem::{
            self,
            *, //
        },
        CallTreeTarget,
        EventsFile,
        Line,
        ProbeKind,
        Target, //
    },
    error::ErrorKind,
    fetch::Layout, //
};

use crate::{
    create_in,
    spec, //
};

fn target<'a>(target: &Target<'a>) -> CallTreeTarget<'a> {
    match target {
        Target::CallTree(target) => *target,
        other => panic!("{other:?}"),
    }
}

fn parse(line: &str) -> Result<(CallTreeTarget<'_>, String), (ErrorKind, usize)> {
    match EventsFile::DynamicEvents.parse(line) {
        Ok(Line::Create(command)) => {
            assert_eq!(command.kind, ProbeKind::CallTree);
            let name = command.name(|_| 0).unwrap();
            let written: Vec<_> = command.arguments().collect();
            let listed = spec(&command, &written, &name);
            assert_eq!(listed.target(), command.target);
            assert_eq!(listed.command().target, command.target);
            Ok((target(&command.target), listed.to_string()))
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err((error.kind, error.column(line))),
    }
}

#[test]
fn parts() {
    let line = "c:tree/bad do_sys_openat2 ext4_*,!ext4_es_*,*2,* steps=0x10 calls=8 n=$arg2";
    let (target, listed) = parse(line).unwrap();
    assert_eq!(target.root, "do_sys_openat2");
    assert_eq!((target.max_calls(), target.max_steps()), (8, 16));
    assert_eq!(target.words(), 4);
    let items = target.items().map(|(item, at)| (item, at.word, at.offset));
    assert_eq!(
        items.collect::<Vec<_>>(),
        [
            (Pattern("ext4_*"), 2, 0),
            (Except("ext4_es_*"), 2, 7),
            (Callees(2), 2, 18),
            (All, 2, 21),
        ]
    );
    assert_eq!(
        listed,
        "c:tree/bad do_sys_openat2 ext4_*,!ext4_es_*,*2,* calls=8 steps=16 n=$arg2"
    );
    let (target, _) = parse("c vfs_read").unwrap();
    assert_eq!((target.max_calls(), target.max_steps()), (64, 1024));
    let items: Vec<CallItem<'_>> = target.items().map(|(item, _)| item).collect();
    assert_eq!(items, [Callees(4)]);
}

#[test]
fn listings() {
    for (line, expected) in [
        ("c vfs_read", "c:calls/vfs_read__calls vfs_read"),
        ("c:x  vfs_read  $arg1", "c:calls/x vfs_read arg1=$arg1"),
        ("c:x dummy:f", "c:calls/x dummy:f"),
        ("c:x f *", "c:calls/x f *"),
        ("c:x f_[a-c]* *", "c:calls/x f_[a-c]* *"),
        ("c:x f *a", "c:calls/x f *a"),
        ("c:x f g n=$retval", "c:calls/x f g n=$retval"),
        // An argument that reads memory is no list.
        ("c:x f +0($arg1)", "c:calls/x f arg1=+0($arg1)"),
        ("c:x f a->b", "c:calls/x f arg1=a->b"),
        ("c:x f a:u8", "c:calls/x f a=a:u8"),
        ("c:x f if $retval < 0", "c:calls/x f if $retval < 0"),
        ("c:x f steps=4 $retval", "c:calls/x f steps=4 arg1=$retval"),
        (
            "c:x f g,!h calls=2 name=$comm if $comm ~ \"a*\"",
            "c:calls/x f g,!h calls=2 name=$comm if $comm ~ \"a*\"",
        ),
    ] {
        let (_, listed) = parse(line).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        assert_eq!(listed, expected);
        // The listing is a command for the same probe.
        assert_eq!(parse(&listed).unwrap().1, expected);
    }
}

#[test]
fn errors() {
    use ErrorKind::*;
    for (marked, kind) in [
        ("c^4:x f", BadMaxact),
        ("c:x ^m:f*", BadProbeAddr),
        ("c:x ^f,g", BadProbeAddr),
        ("c:x ^f+4", BadProbeAddr),
        ("c:x f^%return", BadAddrSuffix),
        ("c:x f g^%return", BadAddrSuffix),
        ("c:x f *^0", BadCallDepth),
        ("c:x f *^17", BadCallDepth),
        ("c:x f a,*^99999999999999999999", BadCallDepth),
        ("c:x f ^,", BadPattern),
        ("c:x f a,^", BadPattern),
        ("c:x f a,^,b", BadPattern),
        ("c:x f a,!^,b", BadPattern),
        ("c:x f calls=^", BadCallCount),
        ("c:x f calls=^0", BadCallCount),
        ("c:x f g calls=^1025", BadCallCount),
        ("c:x f steps=^0", BadStepCount),
        ("c:x f steps=^x", BadStepCount),
        ("c:x f calls=1 steps=^1048577", BadStepCount),
        ("c:x f calls=1024 steps=^1025", BadStepCount),
        ("c:x f steps=^16385", BadStepCount),
        ("c:x f calls=1 ^calls=1", OptionTwice),
        ("c:x f g steps=1 ^steps=1", OptionTwice),
    ] {
        let line = marked.replace('^', "");
        let at = marked.find('^').unwrap();
        assert_eq!(parse(&line).unwrap_err(), (kind, at), "{marked}");
    }
    assert!(parse("c:x f calls=1 steps=1048576").is_ok());
    let of_kprobes = EventsFile::KprobeEvents.parse("c:x f").unwrap_err();
    assert_eq!(of_kprobes.kind, NoMatchingType);
    for (marked, kind) in [
        ("c:x f g n=$arg1 ^by $comm", ByOfTree),
        ("c:x f g n=^$obj", ObjOnProbe),
        ("c:x f g n=^%ax", BadVar),
        ("c:x f g calls=2 steps=^$arg1", BadStepCount),
    ] {
        let line = marked.replace('^', "");
        let at = marked.find('^').unwrap();
        let error = create_in(EventsFile::DynamicEvents, &line)
            .and_then(|whole| whole.command.by().map(drop))
            .unwrap_err();
        assert_eq!((error.kind, error.column(&line)), (kind, at), "{marked}");
    }
}

#[test]
fn deletion() {
    let line = "c:x a f,g calls=4 n=$retval";
    let Ok(Line::Create(command)) = EventsFile::DynamicEvents.parse(line) else {
        panic!();
    };
    let name = command.name(|_| 0).unwrap();
    let probe = spec(&command, &command.arguments().collect::<Vec<_>>(), &name);
    for (line, is_deleted) in [
        ("-:x", true),
        ("-:calls/x a", true),
        ("-:x a f,g calls=4 n=$retval", true),
        ("-:x b", false),
        ("-:x a g", false),
    ] {
        let Ok(Line::Delete(delete)) = EventsFile::DynamicEvents.parse(line) else {
            panic!("{line}");
        };
        assert_eq!(probe.is_deleted_by(&delete), is_deleted, "{line}");
    }
}

#[test]
fn variables_are_those_of_a_return() {
    for (variable, base) in [
        ("$arg2", Base::EntryArgument(1)),
        ("$retval", Base::ReturnValue),
        ("$elapsed", Base::Elapsed),
        ("$comm", Base::Comm),
    ] {
        let line = format!("c:x f g n={variable}");
        let whole = create_in(EventsFile::DynamicEvents, line.leak()).unwrap();
        assert_eq!(whole.arguments[0].fetch.base, base);
    }
}

/// No condition can use a field before the tree is written.
#[test]
fn own_fields() {
    assert!(create_in(EventsFile::DynamicEvents, "c:x f g if depth == 0").is_err());
    let mut layout = Layout::new();
    let mut listed = vec![];
    for own in target(&Target::CallTree(CallTreeTarget::default())).own_arguments() {
        let field = layout.add(own).unwrap();
        listed.push(format!("{}@{}:{}", own.name, field.offset(), field.bytes()));
    }
    assert_eq!(
        listed.join(" "),
        "call@0:8 depth@8:4 func@16:8 enter@24:8 ns@32:8 ret@40:8 has@48:1 args@56:32 \
         steps@88:4 lost@92:4"
    );
}

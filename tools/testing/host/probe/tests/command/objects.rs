// SPDX-License-Identifier: GPL-2.0

//! The target of an object probe.

use probe::{
    argument::Base,
    command::{
        EventField,
        EventsFile,
        Line,
        ObjectTarget,
        Position,
        Target, //
    },
    error::ErrorKind, //
};

use crate::{
    create_in,
    spec, //
};

fn parse(line: &str) -> Result<(ObjectTarget<'_>, String), (ErrorKind, usize)> {
    match EventsFile::DynamicEvents.parse(line) {
        Ok(Line::Create(command)) => {
            let Target::Object(target) = command.target else {
                panic!("{line}");
            };
            assert!(command.kind.is_object());
            assert_eq!(command.kind.is_return(), target.returns.is_some());
            let name = command.name(|_| 0).unwrap();
            let written: Vec<_> = command.arguments().collect();
            let listed = spec(&command, &written, &name);
            assert_eq!(
                listed.target(),
                Target::Object(listed_target(&listed.to_string()))
            );
            Ok((target, listed.to_string()))
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err((error.kind, error.column(line))),
    }
}

/// The target of a line of the listing.
fn listed_target(line: &str) -> ObjectTarget<'_> {
    let Ok(Line::Create(command)) = EventsFile::DynamicEvents.parse(line) else {
        panic!("{line}");
    };
    match command.target {
        Target::Object(target) => target,
        _ => panic!("{line}"),
    }
}

#[test]
fn parts() {
    let line =
        "o:rkp/life (inode)rkp/made.i vfs_*,iput objects=0x10 until=rkp/freed.at mode=$obj->i_mode";
    let (target, listed) = parse(line).unwrap();
    let field = |event, field, word, offset| EventField {
        group: "rkp",
        event,
        field,
        at: Position { word, offset },
    };
    assert_eq!(target.structure, Some("inode"));
    assert_eq!(target.sources.first(), field("made", "i", 1, 7));
    assert_eq!(target.sources.iter().count(), 1);
    assert_eq!(target.functions, Some("vfs_*,iput"));
    assert_eq!(target.objects.unwrap().get(), 16);
    let until = target.until.unwrap().iter().collect::<Vec<_>>();
    assert_eq!(until, [field("freed", "at", 4, 6)]);
    let at_field = until[0].field_at();
    assert_eq!((at_field.word, at_field.offset), (4, 16));
    assert_eq!(target.words(), 4);
    assert_eq!(
        listed,
        "o:rkp/life (inode)rkp/made.i vfs_*,iput until=rkp/freed.at objects=16 mode=$obj->i_mode"
    );
}

#[test]
fn several_fields() {
    let line = "o:x (inode)rkp/made.i,a/b.c,a/b.d until=d/e.f,g/h.i";
    let (target, listed) = parse(line).unwrap();
    assert_eq!(target.structure, Some("inode"));
    let field = |group, event, field, word, offset| EventField {
        group,
        event,
        field,
        at: Position { word, offset },
    };
    assert_eq!(
        target.sources.iter().collect::<Vec<_>>(),
        [
            field("rkp", "made", "i", 1, 7),
            field("a", "b", "c", 1, 18),
            field("a", "b", "d", 1, 24),
        ]
    );
    assert_eq!(
        target.until.unwrap().iter().collect::<Vec<_>>(),
        [field("d", "e", "f", 2, 6), field("g", "h", "i", 2, 12)]
    );
    assert_eq!(listed, format!("o:objects/{}", &line[2..]));
    // The first one gives the name.
    let (_, listed) = parse("o a/b.c,d/e.f").unwrap();
    assert_eq!(listed, "o:objects/b_c a/b.c,d/e.f");
}

#[test]
fn records() {
    let line = "o:x a/b.c f hits=0x10 changes objects=2 n=$obj";
    let (target, listed) = parse(line).unwrap();
    assert_eq!(target.hits.unwrap().get(), 16);
    assert_eq!(target.changes, Some(4));
    assert_eq!(target.words(), 5);
    assert_eq!(
        listed,
        "o:objects/x a/b.c f objects=2 hits=16 changes n=$obj"
    );
    let (target, _) = parse("o:x a/b.c changes* hits=4294967295").unwrap();
    assert_eq!(target.functions, Some("changes*"));
    assert_eq!(target.hits.unwrap().get(), u32::MAX);
    assert_eq!(target.changes, None);
}

#[test]
fn listings() {
    for (line, expected) in [
        ("o rkp/made.i", "o:objects/made_i rkp/made.i"),
        ("o:x  a/b.c  $obj", "o:objects/x a/b.c arg1=$obj"),
        // An argument that reads memory is no pattern.
        ("o:x a/b.c +0($obj)", "o:objects/x a/b.c arg1=+0($obj)"),
        ("o:x a/b.c f n=$obj", "o:objects/x a/b.c f n=$obj"),
        ("o:x a/b.c *", "o:objects/x a/b.c *"),
        ("o:x a/b.c until=d/e.f", "o:objects/x a/b.c until=d/e.f"),
        ("o:x a/b.c %return", "o:objects/x a/b.c %return"),
        ("o:x a/b.c f,g*%return", "o:objects/x a/b.c f,g*%return"),
        ("o:x a/b.c !f,g*", "o:objects/x a/b.c !f,g*"),
        ("o:x a/b.c f %return", "o:objects/x a/b.c f%return"),
        (
            "o:x a/b.c f changes %return hits=2 $retval",
            "o:objects/x a/b.c f%return hits=2 changes arg1=$retval",
        ),
        // It has a name of its own.
        ("o a/b.c %return", "o:objects/b_c__exit a/b.c %return"),
        // After an argument, it is one.
        (
            "o:x a/b.c n=$obj %return",
            "o:objects/x a/b.c n=$obj arg2=%return",
        ),
        // After an argument, it is one.
        (
            "o:x a/b.c n=$obj until=d",
            "o:objects/x a/b.c n=$obj until=d",
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
        ("o:x ^a", BadEventField),
        ("o:x ^a.b.c", BadEventField),
        ("o:x a/^b", BadEventField),
        ("o:x ^/b.c", BadEventField),
        ("o:x a/^.c", BadEventField),
        ("o:x a/b.^", BadEventField),
        ("o:x a/b.^c.d", BadEventField),
        ("o:x (s)^a", BadEventField),
        ("o:x a/b.c,^", BadEventField),
        ("o:x ^,a/b.c", BadEventField),
        ("o:x (s)a/b.c,d/e.^1,f/g.h", BadEventField),
        ("o:x a/b.c,^(s)d/e.f", BadEventField),
        ("o:x a/b.c until=d/e.f,^g", BadEventField),
        ("o:x (^)a/b.c", NoPtrStrct),
        ("o:x (s^", DerefOpenBrace),
        ("o:x a/b.c until=^", BadEventField),
        ("o:x a/b.c f until=d/^e", BadEventField),
        ("o:x a/b.c objects=^", BadObjectCount),
        ("o:x a/b.c objects=^0", BadObjectCount),
        ("o:x a/b.c objects=^65537", BadObjectCount),
        ("o:x a/b.c objects=^-1", BadObjectCount),
        ("o:x a/b.c objects=^99999999999999999999", BadObjectCount),
        ("o:x a/b.c hits=^", BadHitCount),
        ("o:x a/b.c hits=^0", BadHitCount),
        ("o:x a/b.c hits=^4294967296", BadHitCount),
        ("o:x a/b.c hits=^$obj", BadHitCount),
        ("o:x a/b.c ^changes", NoChangingValue),
        ("o:x a/b.c f ^changes hits=2", NoChangingValue),
        ("o:x a/b.c hits=1 ^hits=2", OptionTwice),
        ("o:x a/b.c changes ^changes n=$obj", OptionTwice),
        ("o:x a/b.c objects=1 ^objects=2", OptionTwice),
        ("o:x a/b.c until=d/e.f ^until=d/e.f", OptionTwice),
        ("o:x a/b.c %return ^%return", OptionTwice),
        ("o:x a/b.c f%return hits=1 ^%return", OptionTwice),
        ("o:x a/b.c ^%retinsn", BadAddrSuffix),
        ("o:x a/b.c f hits=1 ^%returns", BadAddrSuffix),
        ("o:x a/b.c f^%retinsn", BadAddrSuffix),
        ("o:x a/b.c f,g^%all", BadAddrSuffix),
        ("o:x a/b.c f^%return,g", BadAddrSuffix),
        ("o:x a/b.c f^%return%return", BadAddrSuffix),
        ("o:x a/b.c f,^%return", BadPattern),
        ("o:x a/b.^c%return", BadEventField),
        ("o:x a/b.c f%return ^changes", NoChangingValue),
        ("o:x a/b.c ^,", BadPattern),
        ("o:x a/b.c f,^", BadPattern),
        ("o:x a/b.c f,^,g", BadPattern),
        ("o:x a/b.c f,!^,g", BadPattern),
        ("o:x a/b.c f,!g^%returns", BadAddrSuffix),
    ] {
        let line = marked.replace('^', "");
        let at = marked.find('^').unwrap();
        assert_eq!(parse(&line).unwrap_err(), (kind, at), "{marked}");
    }
    let of_kprobes = EventsFile::KprobeEvents.parse("o:x a/b.c").unwrap_err();
    assert_eq!(of_kprobes.kind, NoMatchingType);
}

#[test]
fn deletion() {
    let Ok(Line::Create(command)) =
        EventsFile::DynamicEvents.parse("o:x a/b.c f until=d/e.f n=$obj")
    else {
        panic!();
    };
    let name = command.name(|_| 0).unwrap();
    let probe = spec(&command, &command.arguments().collect::<Vec<_>>(), &name);
    for (line, is_deleted) in [
        ("-:x", true),
        ("-:objects/x a/b.c", true),
        ("-:x a/b.c f until=d/e.f n=$obj", true),
        ("-:x a/b.d", false),
        ("-:x a/b.c g", false),
    ] {
        let Ok(Line::Delete(delete)) = EventsFile::DynamicEvents.parse(line) else {
            panic!("{line}");
        };
        assert_eq!(probe.is_deleted_by(&delete), is_deleted, "{line}");
    }
}

#[test]
fn returns() {
    for (line, (returns, words), listed) in [
        ("o:x a/b.c f", (None, 2), " f"),
        ("o:x a/b.c f%return", (Some(2), 2), " f%return"),
        ("o:x a/b.c f %return", (Some(3), 3), " f%return"),
        ("o:x a/b.c %return", (Some(2), 2), " %return"),
        ("o:x a/b.c hits=1 %return", (Some(3), 3), " %return hits=1"),
    ] {
        let (target, text) = parse(line).unwrap();
        assert_eq!((target.returns, target.words()), (returns, words), "{line}");
        assert_eq!(text, format!("o:objects/x a/b.c{listed}"));
        let functions = target.functions.unwrap_or("f");
        assert_eq!(functions, "f", "{line}");
    }
}

/// The value of the only argument of a probe with this target.
fn base(target: &str, argument: &str) -> Result<Base<'static>, (ErrorKind, usize)> {
    let line = format!("o:x a/b.c {target} n={argument}").leak();
    match create_in(EventsFile::DynamicEvents, line) {
        Ok(whole) => Ok(whole.arguments[0].fetch.base),
        Err(error) => {
            assert_eq!(error.at.word, line.split(' ').count() - 1);
            Err((error.kind, error.at.offset - "n=".len()))
        }
    }
}

#[test]
fn variables() {
    use ErrorKind::*;
    for (variable, at_entry, at_return) in [
        ("$obj", Ok(Base::Object), Ok(Base::Object)),
        ("$parameter", Ok(Base::Parameter), Ok(Base::Parameter)),
        ("$arg2", Ok(Base::Argument(1)), Ok(Base::EntryArgument(1))),
        ("$retval", Err((RetvalOnProbe, 0)), Ok(Base::ReturnValue)),
        ("$elapsed", Err((ElapsedOnProbe, 0)), Ok(Base::Elapsed)),
        (
            "+0($elapsed)",
            Err((ElapsedOnProbe, 3)),
            Err((ElapsedCantDeref, 3)),
        ),
        (
            "+8($retval)",
            Err((RetvalOnProbe, 3)),
            Ok(Base::ReturnValue),
        ),
        ("$caller", Ok(Base::Caller), Ok(Base::EntryCaller)),
        ("$exit", Err((ExitOnProbe, 0)), Err((ExitOnProbe, 0))),
        ("name", Err((NosupBtfarg, 0)), Err((NosupBtfarg, 0))),
        ("%ax", Err((BadVar, 0)), Err((BadVar, 0))),
        ("$addr", Err((BadVar, 0)), Err((BadVar, 0))),
    ] {
        assert_eq!(base("f", variable), at_entry, "{variable}");
        assert_eq!(base("f%return", variable), at_return, "{variable}");
        assert_eq!(base("%return", variable), at_return, "{variable}");
    }
}

#[test]
fn unchanged() {
    let wrong = |at| Err((ErrorKind::UnchangedOnAll, at));
    for target in ["f", "f%return", "hits=1"] {
        let changes = format!("{target} changes");
        assert_eq!(base(&changes, "$unchanged"), Ok(Base::Unchanged));
        assert_eq!(base(target, "$unchanged"), wrong(0), "{target}");
        assert_eq!(base(target, "+0(+8($unchanged))"), wrong(6), "{target}");
    }
    let line = "f:x vfs_read n=$unchanged";
    let other = create_in(EventsFile::DynamicEvents, line).unwrap_err();
    assert_eq!(other.kind, ErrorKind::BadVar);
}

#[test]
fn the_own_arguments_are_those_of_their_text() {
    let own = [
        ("hits=1", "object=$obj parameter=$parameter:u8"),
        (
            "changes",
            "object=$obj parameter=$parameter:u8 unchanged=$unchanged:symbol",
        ),
    ];
    for (option, arguments) in own {
        let line = format!("o a/b.c {option} {arguments}").leak();
        let whole = create_in(EventsFile::DynamicEvents, line).unwrap();
        let Target::Object(target) = whole.command.target else {
            panic!("{line}");
        };
        assert_eq!(whole.arguments, target.own_arguments());
    }
}

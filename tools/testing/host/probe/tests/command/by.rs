// SPDX-License-Identifier: GPL-2.0

//! Keys and fields: `by KEY,... sum FIELD,... min FIELD,... max FIELD,... size=N` after the
//! arguments.

use std::num::NonZeroU64;

use probe::{
    arch::x86_64::register,
    argument::Base,
    command::{
        By,
        Command,
        Error,
        EventsFile,
        Line,
        ParseContext,
        ProbePoint,
        TypeInfo, //
    },
    count_value::{
        Operation,
        Value, //
    },
    counting::{
        Key,
        KeySource,
        Modifier, //
    },
    error::{
        Errno,
        ErrorKind::{
            self,
            *, //
        },
    },
};
use proptest::prelude::*;

use super::{
    errors::unmark,
    functions::types_of,
    probe_of, //
};

/// Malformed lists, with a `^` where the error is.
const ERRORS: &[(&str, ErrorKind)] = &[
    ("f vfs_read by ^,func", NoKey),
    ("f vfs_read by func,^", NoKey),
    ("f vfs_read by func,^,stack", NoKey),
    ("f vfs_read by ^.log2", NoKey),
    ("f vfs_read a=%di by a,^", NoKey),
    ("f vfs_read by $arg1,$arg2,$arg3,$arg4,^$arg5", TooManyKeys),
    ("f vfs_read by func,^func", SameKey),
    ("f vfs_read by func,$arg1,^func.hex", SameKey),
    ("f vfs_read a=$arg1 by a.log2,^a.hex", SameKey),
    ("f vfs_read by func sum $arg1,^$arg1", SameKey),
    ("f vfs_read by sum $arg1 max $arg2,$arg1,^$arg2", SameKey),
    ("f vfs_read by func.^log", BadModifier),
    ("f vfs_read by stack.^log3", BadModifier),
    ("f vfs_read a=$arg1 by a.^", BadModifier),
    ("f vfs_read a=$arg1 by a.^log2x", BadModifier),
    ("f vfs_read a=$arg1 by a.^percent", BadModifier),
    ("f vfs_read by common_pid.^usecs", BadModifier),
    ("f vfs_read by func.^log2", ModifierType),
    ("f vfs_read by func.^execname", ModifierType),
    ("f vfs_read by func.^buckets=8", ModifierType),
    ("f vfs_read by stack.^sym", ModifierType),
    ("f vfs_read by common_pid.^log2", ModifierType),
    ("f vfs_read by $comm.^hex", ModifierType),
    ("f vfs_read by $arg1,$comm.^log2", ModifierType),
    ("f vfs_read by +0($arg1):string.^sym", ModifierType),
    ("f vfs_read by $arg1:symstr.^log2", ModifierType),
    ("f vfs_read by $arg1:u32.^sym", ModifierType),
    ("f vfs_read by $arg1.^execname", ModifierType),
    ("f vfs_read a=$arg1:u8 by a.^sym-offset", ModifierType),
    ("f vfs_read by $arg1.buckets=^", BadBuckets),
    ("f vfs_read by $arg1.buckets=^0", BadBuckets),
    ("f vfs_read by func,$arg1.buckets=^x", BadBuckets),
    ("f vfs_read by $arg1.bucket=^-1", BadBuckets),
    ("f vfs_read by ^+0($arg1):u8[4]", ArrayKey),
    ("f vfs_read by func sum ^+0($arg1):u8[4]", ArrayKey),
    (
        "f vfs_read by min $arg1 max $arg1,^+0($arg1):u8[4]",
        ArrayKey,
    ),
    ("f vfs_read by sum ^", NoField),
    ("f vfs_read by func sum ^", NoField),
    ("f vfs_read by func sum ^size=128", NoField),
    ("f vfs_read by func sum $arg1,^", NoField),
    ("f vfs_read by min ^", NoField),
    ("f vfs_read by func max ^size=128", NoField),
    ("f vfs_read by sum $arg1 min $arg1 max $arg1,^", NoField),
    (
        "f vfs_read by min $arg1 max $arg1,$arg2,$arg3,$arg4,^$arg5",
        TooManyFields,
    ),
    ("f vfs_read by func min $arg1 max ^$comm", ValueOfString),
    ("f vfs_read by func min $arg1 ^sum $arg1", BadBy),
    ("f vfs_read by func max $arg1 ^min $arg1", BadBy),
    ("f vfs_read by func max $arg1 ^max $arg2", BadBy),
    ("f vfs_read by size=128 ^min $arg1", BadBy),
    ("f vfs_read by func sum min ^$arg1", BadBy),
    (
        "f vfs_read by sum $arg1,$arg2,$arg3,$arg4,^$arg5",
        TooManyFields,
    ),
    ("f vfs_read by func sum ^$comm", ValueOfString),
    (
        "f vfs_read by func sum $arg1,^+0($arg1):ustring",
        ValueOfString,
    ),
    ("f vfs_read a=$comm by sum ^a", ValueOfString),
    ("f vfs_read by func ^func", BadBy),
    ("f vfs_read by func sum $arg1 ^$arg2", BadBy),
    ("f vfs_read by func size=128 ^sum $arg1", BadBy),
    ("f vfs_read by size=128 ^size=128", BadBy),
    ("f vfs_read by size=128 ^func", BadBy),
    ("f vfs_read by size=^", BadTableSize),
    ("f vfs_read by func size=^64", BadTableSize),
    ("f vfs_read by func size=^1000", BadTableSize),
    ("f vfs_read by func size=^262144", BadTableSize),
    ("f vfs_read by func size=^x", BadTableSize),
    ("f vfs_read by func size=^-128", BadTableSize),
    (
        "o:a/b (file)a/c.f changes mode=$obj->f_mode ^by func",
        ByOfChanges,
    ),
    // Errors in a value, like those in an argument.
    ("p vfs_read by ^%none", BadRegName),
    ("f vfs_read by func,+8(^$none)", BadVar),
    ("f vfs_read by func,$arg1:^u7.log2", BadType),
    ("f vfs_read by func sum $arg1,^1", BadFetchArg),
    ("f vfs_read by func min $arg1:^u7", BadType),
    ("p vfs_read+4 by ^$arg1", NofentryArgs),
    ("p vfs_read a=%di by func,a sum ^$retval", RetvalOnProbe),
    ("o:x g/e.f fprobes/made.inode by ^$retval", RetvalOnProbe),
];

#[derive(Debug, PartialEq)]
struct Counts {
    keys: Vec<Key<'static>>,
    values: Vec<Value<'static>>,
    size: u32,
}

fn counts(line: &str, types: TypeInfo<'static>) -> Result<Option<Counts>, Error> {
    let line: &'static str = line.to_string().leak();
    let Line::Create(command) = EventsFile::DynamicEvents.parse(line)? else {
        panic!("creates nothing: {line}");
    };
    let command: &'static Command<'static> = Box::leak(Box::new(command));
    let point = match line {
        line if line.contains("+4") => ProbePoint::Inside,
        _ if command.kind.is_return() => ProbePoint::Return,
        _ => ProbePoint::Entry,
    };
    let context = ParseContext {
        point,
        types,
        modules: &[],
    };
    let written = command.arguments().collect::<Vec<_>>().leak();
    let Some(by) = command.by()? else {
        return Ok(None);
    };
    let by: &'static By<'static> = Box::leak(Box::new(by));
    let operands = by.key_operands().collect::<Vec<_>>().leak();
    let keys = command.resolve_keys(by, operands, written, context, register);
    let keys = keys.collect::<Result<_, _>>()?;
    let operands = by.field_operands().collect::<Vec<_>>().leak();
    let values = command.resolve_values(by, operands, written, context, register);
    Ok(Some(Counts {
        keys,
        values: values.collect::<Result<_, _>>()?,
        size: by.size(),
    }))
}

fn good(line: &str) -> Counts {
    let counts = counts(line, TypeInfo::Unsupported);
    counts
        .unwrap_or_else(|error| panic!("{line}: {error:?}"))
        .unwrap()
}

/// The keys as `NAME`, their words and their modifier.
fn keys(line: &str) -> Vec<(&'static str, usize, Modifier)> {
    let keys = good(line).keys;
    keys.iter()
        .map(|key| (key.name, key.form().words(), key.modifier))
        .collect()
}

#[test]
fn each_error_is_found_at_its_place() {
    for (marked, kind) in ERRORS {
        let (line, column) = unmark(marked);
        let error = counts(&line, TypeInfo::Unsupported).expect_err(&line);
        assert_eq!((error.kind, error.errno), (*kind, Errno::EINVAL), "{line}");
        assert_eq!(error.column(&line), column, "{line}");
    }
}

#[test]
fn keys_have_values_and_modifiers() {
    use Modifier::*;

    let buckets = |size| Buckets(NonZeroU64::new(size).unwrap());
    for (line, expected) in [
        ("f vfs_* by", vec![]),
        ("f vfs_* by func", vec![("func", 1, Sym)]),
        ("f vfs_* by func.sym-offset", vec![("func", 1, SymOffset)]),
        (
            "f vfs_* by func.hex,stack",
            vec![("func", 1, Hex), ("stack", 16, None)],
        ),
        ("r vfs_read ns=$elapsed by ns.log2", vec![("ns", 1, Log2)]),
        (
            "r vfs_read ret=$retval by func,ret,$comm if $retval < 0",
            vec![("func", 1, Sym), ("ret", 1, None), ("$comm", 2, None)],
        ),
        (
            "f vfs_* by common_pid.execname",
            vec![("common_pid", 3, Execname)],
        ),
        ("f vfs_* by common_pid", vec![("common_pid", 1, None)]),
        ("f vfs_* by $arg1.sym", vec![("$arg1", 1, Sym)]),
        (
            "f vfs_* by $arg1:u32.syscall",
            vec![("$arg1:u32", 1, Syscall)],
        ),
        (
            "f vfs_* by $arg1.buckets=0x10",
            vec![("$arg1", 1, buckets(16))],
        ),
        ("f vfs_* by $arg1.bucket=3", vec![("$arg1", 1, buckets(3))]),
        ("f vfs_* a=$comm by a", vec![("a", 2, None)]),
        (
            "f vfs_* by +0($arg1):string",
            vec![("+0($arg1):string", 8, None)],
        ),
        ("f vfs_* $arg1 by arg1.hex", vec![("arg1", 1, Hex)]),
        // An argument comes first.
        ("f vfs_* func=$arg1 by func.log2", vec![("func", 1, Log2)]),
        ("f vfs_* stack=$comm by stack", vec![("stack", 2, None)]),
        ("f vfs_* by sum $arg1", vec![]),
        ("f vfs_* by size=128", vec![]),
        ("f vfs_* by min $arg1 max $arg1", vec![]),
        (
            "f vfs_* min=$arg1 by min.hex,func",
            vec![("min", 1, Hex), ("func", 1, Sym)],
        ),
    ] {
        assert_eq!(keys(line), expected, "{line}");
    }
}

#[test]
fn fields_and_the_size_follow_the_keys() {
    let counts = good("p:stat/who __alloc_skb size=$arg1:u32 by stack sum size,$arg2 size=256");
    assert_eq!(counts.keys[0].source, KeySource::Stack);
    let values = |counts: &Counts| -> Vec<_> {
        let values = counts.values.iter();
        values
            .map(|value| (value.operation, value.argument.fetch.base))
            .collect()
    };
    let (first, second) = (Base::Argument(0), Base::Argument(1));
    assert_eq!(
        values(&counts),
        [(Operation::Sum, first), (Operation::Sum, second)]
    );
    assert_eq!(counts.size, 256);
    // A field can have the name of an operation.
    let line = "p vfs_read max=$arg2 by func sum $arg1 min max,$arg1 max max size=128";
    assert_eq!(
        values(&good(line)),
        [
            (Operation::Sum, first),
            (Operation::Min, second),
            (Operation::Min, first),
            (Operation::Max, second)
        ]
    );
    assert_eq!(
        values(&good("p vfs_read by max $arg2")),
        [(Operation::Max, second)]
    );
    assert_eq!(good("p vfs_read by func").size, 2048);
    assert_eq!(good("p vfs_read by size=131072").size, 131_072);
}

/// A fetch can contain a `.` and a `,`.
#[test]
fn only_the_end_of_a_key_is_a_modifier() {
    let types = types_of("vfs_read");
    for (key, modifier) in [
        ("file->f_path.dentry", Modifier::None),
        ("file->f_path.dentry.hex", Modifier::Hex),
        ("file->f_path.dentry:x64.sym", Modifier::Sym),
        ("(file,f_inode)file->i_ino.log2", Modifier::Log2),
    ] {
        let line = format!("f vfs_read by {key},func sum count");
        match counts(&line, types) {
            Ok(counts) => {
                let [first, func] = &counts.unwrap().keys[..] else {
                    panic!("{line}");
                };
                assert_eq!((first.modifier, func.name), (modifier, "func"), "{line}");
            }
            // The BTF of the tests does not have all members.
            Err(error) => assert!(
                matches!(error.kind, NoBtfField | NoBtfarg | NoPtrStrct | BadBtfTid),
                "{line}: {error:?}"
            ),
        }
    }
}

#[test]
fn a_command_without_keys_counts_nothing() {
    assert_eq!(
        counts("f vfs_read a=$arg1", TypeInfo::Unsupported),
        Ok(None)
    );
    // The condition can contain the word.
    assert_eq!(
        counts("f vfs_read if $comm == by", TypeInfo::Unsupported),
        Ok(None)
    );
}

#[test]
fn a_condition_follows_the_keys() {
    let line = "f vfs_read a=$arg1 by func sum a if ^a >";
    let (line, _) = unmark(line);
    let Ok(Line::Create(command)) = EventsFile::DynamicEvents.parse(&line) else {
        panic!();
    };
    let error = command.condition().unwrap_err();
    assert_eq!(error.column(&line), line.len() + 1);
}

#[test]
fn the_return_value_as_a_key_selects_the_exit() {
    assert!(probe_of("f vfs_read by $retval").kind().is_return());
}

#[test]
fn the_listing_has_the_keys() {
    for (line, listing) in [
        ("f:a/b vfs_read  by", "f:a/b vfs_read by"),
        (
            "f:a/b vfs_read x=$arg1   by  func,x.log2   sum x  min  x max x  size=128  if  x  > 1",
            "f:a/b vfs_read x=$arg1 by func,x.log2 sum x min x max x size=128 if x > 1",
        ),
        ("w:a/b w@jiffies:8 by func", "w:a/b w@jiffies:8 by func"),
    ] {
        let probe = probe_of(line);
        assert_eq!(probe.to_string(), listing);
        assert_eq!(probe_of(&probe.to_string()), probe);
        let Ok(Line::Create(command)) = EventsFile::DynamicEvents.parse(listing) else {
            panic!();
        };
        assert_eq!(probe.command().by(), command.by());
    }
    assert!(probe_of("f:a/b c by func") != probe_of("f:a/b c by stack"));
}

proptest! {
    /// Whatever the words are, an error is within the line, and the listing gives the same probe.
    #[test]
    fn any_words_are_safe(words in prop::collection::vec(
        prop::sample::select(vec![
            "by", "func", "func,", ",", "stack", "a.log2", "a", ".", "sum", "min", "max", "a,b", "size=128",
            "size=", "if", "$arg1.buckets=3", "(x,y)a->b.c", "((", "))", "a,,b", "é.é", "a == 1",
        ]), 0..8,
    )) {
        let line = format!("f:a/b c a=$arg1 by {}", words.join(" "));
        if let Err(error) = counts(&line, TypeInfo::Unsupported) {
            prop_assert!(error.column(&line) <= line.len() + 1, "{line}: {error:?}");
        }
        let probe = probe_of(&line);
        prop_assert_eq!(probe_of(&probe.to_string()), probe);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Event probes: `e`.

use probe::{
    argument::*,
    command::{
        Error,
        EventsFile,
        ProbeKind,
        RecordFields,
        Target,
        TypeInfo, //
    },
    error::{
        Errno,
        ErrorKind::*, //
    },
    types::*, //
};

use super::{
    create_at,
    deletes,
    derefs,
    errors::{
        unmark,
        Case, //
    },
    functions::btf,
    probe_of,
    Whole, //
};

const EINVAL: Errno = Errno::EINVAL;
const EOPNOTSUPP: Errno = Errno::EOPNOTSUPP;

/// The fields of the event that these are about.
#[derive(Debug)]
struct Fields;

const PID: RecordField = RecordField {
    offset: 8,
    value: RecordValue::Signed(Width::W4),
};
pub const FILENAME: RecordField = RecordField {
    offset: 16,
    value: RecordValue::Number(Width::W8),
};
const NAME: RecordField = RecordField {
    offset: 24,
    value: RecordValue::DataLoc,
};
const STACK: RecordField = RecordField {
    offset: 28,
    value: RecordValue::Address,
};

impl RecordFields for Fields {
    fn find(&self, name: &str) -> Option<RecordField> {
        match name {
            "pid" | "a_field_with_a_name_of_33_bytes_x" => Some(PID),
            "filename" => Some(FILENAME),
            "name" => Some(NAME),
            "stack" => Some(STACK),
            _ => None,
        }
    }
}

/// What is known of the event.
pub fn types() -> TypeInfo<'static> {
    TypeInfo::Event(&Fields, Some(*btf()))
}

fn create(line: &str) -> Result<Whole<'_>, Error> {
    create_at(EventsFile::DynamicEvents, line, types())
}

fn argument(text: &str) -> Argument<'static> {
    let whole = create(format!("e sched/wake {text}").leak()).expect(text);
    whole.arguments.into_iter().next().unwrap()
}

const LONG: &str = "12345678901234567890123456789012345678901234567890123456789012345";

const CASES: &[Case] = &[
    // Those of `eprobes_syntax_errors.tc`.
    ("e ^a.", NoEventInfo, EINVAL),
    ("e ^.b", NoGroupName, EINVAL),
    ("e ^non_exist.b", BadAttachEvent, Errno::ENODEV),
    ("e a/b ^foo", NoEventField, EINVAL),
    ("e:^/bar a/b", NoGroupName, EINVAL),
    ("e:^foo.1/bar a/b", BadGroupName, EINVAL),
    ("e:^ a/b", NoEventName, EINVAL),
    ("e:foo/^bar.1 a/b", BadEventName, EINVAL),
    ("e:foo/bar a/b arg=^dfd", NoEventField, EINVAL),
    ("e:foo/bar a/b arg=^COMM", NoEventField, EINVAL),
    ("e:foo/bar a/b arg=^current", NoEventField, EINVAL),
    (
        "e:foo/bar a/b arg=^this_cpu_read(file)",
        NosupPercpu,
        EINVAL,
    ),
    ("e:foo/bar a/b arg=^$foo", BadVar, EINVAL),
    ("e:foo/bar a/b if ^", NoEpFilter, EINVAL),
    // The target.
    ("^e", NoMatchingType, EINVAL),
    ("^e:ev", NoMatchingType, EINVAL),
    ("e ^wake", NoEventInfo, EINVAL),
    ("e a/^b/c", BadEventName, EINVAL),
    ("e ^1a/b", BadGroupName, EINVAL),
    ("e a/^b-c", BadEventName, EINVAL),
    ("e ^a/", NoEventInfo, EINVAL),
    // What comes first is told.
    ("e:^/bar a", NoGroupName, EINVAL),
    ("exyz:^/bar a", NoGroupName, EINVAL),
    ("e ^non_exist.b $foo if", BadAttachEvent, Errno::ENODEV),
    ("e a/b $foo if ^", NoEpFilter, EINVAL),
    ("e a/b ^$foo if pid == 1", BadVar, EINVAL),
    ("e a/b $foo if pid ^", NoOperator, EINVAL),
    // The condition.
    ("e a/b if ^none == 1", NoEventField, EINVAL),
    ("e a/b if ^$none == 1", BadVar, EINVAL),
    ("e a/b if ^%di == 1", BadVar, EINVAL),
    ("e a/b if pid == ^x", BadComparedValue, EINVAL),
    ("e a/b if pid == ^0x100000000", ValueRange, EINVAL),
    ("e a/b if pid ~ ^x", GlobOnNumber, EINVAL),
    ("e a/b if name > ^x", BadStringOperator, EINVAL),
    ("e a/b if stack == ^x", BadComparedValue, EINVAL),
    // No registers, no stack, nothing of a call.
    ("e a/b ^%ax", BadVar, EINVAL),
    ("e a/b ^$stack0", BadVar, EINVAL),
    ("e a/b ^$retval", BadVar, EINVAL),
    ("e a/b ^$arg1", BadVar, EINVAL),
    ("e a/b ^$arg*", BadVar, EINVAL),
    ("e a/b ^$elapsed", BadVar, EINVAL),
    ("e a/b ^$caller", BadVar, EINVAL),
    ("e a/b ^$exit", BadVar, EINVAL),
    ("e a/b ^$common_pid", BadVar, EINVAL),
    ("e a/b $pid:^%pd", BadType, EINVAL),
    ("e a/b ^&1", BadFetchArg, EINVAL),
    ("e a/b +0(^$comm)", CommCantDeref, EINVAL),
    ("e a/b $pid:^u8[2]", BadString, EINVAL),
    ("e a/b $pid ^arg1=$pid", UsedArgName, EINVAL),
    ("e a/b +0(^$none):string", BadVar, EINVAL),
    // Typecasts.
    ("e a/b (file^", DerefOpenBrace, EINVAL),
    ("e a/b (^none)filename->f_path", NoPtrStrct, EINVAL),
    ("e a/b (file)^none->count", NoEventField, EINVAL),
    ("e a/b (file)^$none->count", BadVar, EINVAL),
    ("e a/b (file)filename->^none", NoBtfField, Errno::ENOENT),
    ("e a/b (file)filename.f_path^", TypecastReqField, EINVAL),
    ("e a/b (file)filename->f_bits.low->^x", NoPtrStrct, EINVAL),
];

#[test]
fn each_error_is_found_at_its_place() {
    for &(marked, kind, errno) in CASES {
        let (line, column) = unmark(marked);
        let error = create(&line).expect_err(&line);
        assert_eq!((error.kind, error.errno), (kind, errno), "{line}");
        assert_eq!(error.at.column(&line), column, "{line}");
    }
    for (name, kind) in [
        (format!("e:^{LONG}/bar a/b"), GroupTooLong),
        (format!("e:foo/^{LONG} a/b"), EventTooLong),
    ] {
        let (line, column) = unmark(&name);
        let error = create(&line).unwrap_err();
        assert_eq!((error.kind, error.at.column(&line)), (kind, column));
    }
    let many = format!("e non_exist.b {}", "$pid ".repeat(129));
    let error = create(&many).unwrap_err();
    assert_eq!((error.kind, error.errno), (TooManyArgs, Errno::E2BIG));
    assert_eq!((error.at.word, error.at.offset), (2, 0));
    // The words of the condition are none.
    let line = format!("e a/b {} if pid{}== 1", "\\1 ".repeat(128), " ".repeat(200));
    assert_eq!(create(&line).unwrap().arguments.len(), 128);
}

#[test]
fn without_btf_there_are_no_typecasts() {
    let types = TypeInfo::Event(&Fields, None);
    let error = create_at(
        EventsFile::DynamicEvents,
        "e a/b x=(file)filename->f_path",
        types,
    )
    .unwrap_err();
    assert_eq!((error.kind, error.errno), (NosupBtfarg, EOPNOTSUPP));
    assert_eq!((error.at.word, error.at.offset), (2, 2));
    create_at(EventsFile::DynamicEvents, "e a/b $pid", types).unwrap();
}

#[test]
fn a_target_is_an_event() {
    for (line, target, group, event) in [
        ("e sched.wake", ("sched", "wake"), "eprobes", "wake"),
        ("e:ev sched/wake", ("sched", "wake"), "eprobes", "ev"),
        ("e:g/ sched/wake", ("sched", "wake"), "g", "wake"),
        ("exyz:g.ev s-1/_w", ("s-1", "_w"), "g", "ev"),
        ("exyz sched/wake", ("sched", "wake"), "eprobes", "wake"),
    ] {
        let Whole { command, name, .. } = create(line).expect(line);
        let (system, event_name) = target;
        let target = Target::Event {
            system,
            name: event_name,
        };
        assert_eq!(
            (command.kind, command.target),
            (ProbeKind::EventProbe, target)
        );
        assert_eq!((name.group, &*name.event.to_string()), (group, event));
    }
    assert_eq!(
        EventsFile::KprobeEvents.parse("e a/b").unwrap_err().kind,
        NoMatchingType
    );
}

#[test]
fn a_listing_is_canonical() {
    for (line, expected) in [
        ("e sched/wake", "e:eprobes/wake sched.wake"),
        (
            "e:ev sched.wake $pid  file=+0($filename):ustring",
            "e:eprobes/ev sched.wake arg1=$pid file=+0($filename):ustring",
        ),
        (
            "e:g/ev sched.wake $pid:u32 if  pid  > 10 && name == \"if\"",
            "e:g/ev sched.wake arg1=$pid:u32 if pid > 10 && name == \"if\"",
        ),
        (
            "e sched.wake by  pid,name  max pid if  pid>1",
            "e:eprobes/wake sched.wake by pid,name max pid if pid>1",
        ),
        (
            "e sched.wake a_field_with_a_name_of_33_bytes_x:u8",
            "e:eprobes/wake sched.wake a_field_with_a_name_of_33_bytes_x=a_field_with_a_name_of_33_bytes_x:u8",
        ),
    ] {
        let listing = create(line).expect(line).listing();
        assert_eq!(listing, expected, "{line}");
        assert_eq!(create(&listing).unwrap().listing(), expected, "{line}");
    }
}

#[test]
fn the_condition_follows_the_if() {
    for (line, expected) in [
        ("e a/b $pid", None),
        ("e a/b if pid==1", Some("pid==1")),
        ("e a/b $pid if  pid  == 1", Some("pid == 1")),
        ("e a/b iffy=$pid", None),
    ] {
        let text = create(line).expect(line).command.condition_text();
        let text = text.map(|text| text.to_string());
        assert_eq!(text.as_deref(), expected, "{line}");
    }
}

#[test]
fn a_field_in_a_condition_has_the_type_of_its_event() {
    let number = |width, style| FetchType::Number(width, style);
    let string = FetchType::String(Space::Kernel);
    for (condition, base, ty) in [
        (
            "pid == -1",
            Base::Field(PID),
            number(Width::W4, Style::Signed),
        ),
        (
            "$pid == 1",
            Base::Field(PID),
            number(Width::W4, Style::Signed),
        ),
        (
            "pid:u8 == 1",
            Base::Field(PID),
            number(Width::W1, Style::Unsigned),
        ),
        (
            "filename == 1",
            Base::Field(FILENAME),
            number(Width::W8, Style::Unsigned),
        ),
        ("name ~ \"a*\"", Base::Field(NAME), string),
        ("$comm == cat", Base::Comm, string),
        (
            "stack == 0x10",
            Base::Field(STACK),
            number(Width::W8, Style::Hex),
        ),
        (
            "+8(filename) == 1",
            Base::Field(FILENAME),
            number(Width::W8, Style::Hex),
        ),
        (
            "common_pid == 1",
            Base::Pid,
            number(Width::W4, Style::Signed),
        ),
        // A field of the event comes before an argument, and an argument before nothing.
        (
            "pid == 1",
            Base::Field(PID),
            number(Width::W4, Style::Signed),
        ),
        (
            "a == 1",
            Base::Field(NAME),
            number(Width::W1, Style::Unsigned),
        ),
    ] {
        let line = format!("e sched/wake pid=$filename a=+0($name):u8 if {condition}");
        let whole = create(&line).expect(&line);
        let operand = &whole.condition[0].operand;
        assert_eq!((operand.fetch.base, operand.ty), (base, ty), "{line}");
    }
}

#[test]
fn a_field_is_a_value() {
    let number = FetchType::Number(Width::W8, Style::Hex);
    let base = |text| argument(text).fetch.base;
    assert_eq!(base("$pid"), Base::Field(PID));
    assert_eq!(argument("$pid").ty, number);
    assert_eq!(base("+8($filename):u8"), Base::Field(FILENAME));
    // Also one that is named as a variable.
    assert_eq!(base("$stack"), Base::Field(STACK));
    assert_eq!(
        argument("$name:string").ty,
        FetchType::String(Space::Kernel)
    );
    assert_eq!(
        argument("$filename:ustring").ty,
        FetchType::String(Space::User)
    );
    assert_eq!(argument("$filename:symstr").ty, FetchType::Symstr);
    assert_eq!(argument("$filename:string[2]").count.unwrap().get(), 2);
    // As in C, which has a type only for what is a text by itself.
    assert_eq!((base("$comm"), argument("$comm").ty), (Base::Comm, number));
    assert_eq!(
        argument("$COMM:string").ty,
        FetchType::String(Space::Kernel)
    );
    assert_eq!(argument("\\\"x\"").ty, number);
    assert_eq!(base("\\\"x\":string"), Base::Text("x"));
    assert_eq!(base("@jiffies:u64"), Base::Symbol("jiffies"));
    assert_eq!(base("\\-1"), Base::Immediate(u64::MAX));
}

#[test]
fn a_typecast_follows_members() {
    let argument = argument("(file)filename->f_path.dentry->d_flags");
    assert_eq!(argument.fetch.base, Base::Field(FILENAME));
    let offsets = derefs(&argument.fetch).into_iter().map(|d| d.offset);
    assert_eq!(offsets.collect::<Vec<_>>(), [16, 0]);
    assert_eq!(argument.ty, FetchType::Number(Width::W4, Style::Signed));
}

#[test]
fn it_is_deleted_by_either_separator() {
    const LISTING: &str = "e:eprobes/ev sched.wake a=$pid if pid > 1";
    for (line, expected) in [
        ("-:ev", true),
        ("-:eprobes/ev sched.wake", true),
        ("-:ev sched/wake", true),
        ("-:ev sched/wake a=$pid", true),
        ("-:ev sched/wake a=$pid if pid > 1", true),
        ("-:ev sched:wake", false),
        ("-:ev sched/sleep", false),
        ("-:ev wake", false),
        ("-:ev sched/wake b=$pid", false),
    ] {
        assert_eq!(deletes(line, &probe_of(LISTING)), expected, "{line}");
    }
}

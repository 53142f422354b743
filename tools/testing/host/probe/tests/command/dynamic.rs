// SPDX-License-Identifier: GPL-2.0

//! Functions by ftrace and tracepoints: `f` and `t`, and the file that takes every kind.

use probe::{
    argument::Base,
    command::{
        target_functions,
        Error,
        EventsFile,
        ProbeKind,
        Target, //
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
    create_in,
    deletes,
    errors::{
        unmark,
        Case, //
    },
    probe_of,
    Whole, //
};

const EINVAL: Errno = Errno::EINVAL;
const ERANGE: Errno = Errno::ERANGE;
const E2BIG: Errno = Errno::E2BIG;
const EOPNOTSUPP: Errno = Errno::EOPNOTSUPP;

fn create(line: &str) -> Result<Whole<'_>, Error> {
    create_in(EventsFile::DynamicEvents, line)
}

const LONG: &str = "12345678901234567890123456789012345678901234567890123456789012345";

/// The cases of `fprobe_syntax_errors.tc` and of `tprobe_syntax_errors.tc` that need neither BTF
/// nor another probe, with `PROBE` for `f vfs_read` and for `t kfree`.
const SELFTEST: &[Case] = &[
    ("PROBE ^$stack10000", BadStackNum, EINVAL),
    ("PROBE ^$arg10000", BadArgNum, EINVAL),
    ("PROBE ^$none_var", BadVar, EINVAL),
    ("PROBE ^%ax", BadVar, EINVAL),
    ("PROBE ^@12345678abcde", BadMemAddr, EINVAL),
    ("PROBE ^@+10", FileOnKprobe, EINVAL),
    ("PROBE arg1=\\^x", BadImm, EINVAL),
    ("PROBE arg1=\\\"abcd^", ImmstrNoClose, EINVAL),
    ("PROBE ^+0@0)", DerefNeedBrace, EINVAL),
    ("PROBE ^+0ab1(@0)", BadDerefOffs, EINVAL),
    ("PROBE +0(+0(@0^)", DerefOpenBrace, EINVAL),
    ("PROBE +0(^$comm)", CommCantDeref, EINVAL),
    ("PROBE ^&1", BadFetchArg, EINVAL),
    (
        "PROBE +0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(^+0(@0)))))))))))))))))",
        TooManyNested,
        E2BIG,
    ),
    ("PROBE +0(@11):u8[10^", ArrayNoClose, EINVAL),
    ("PROBE +0(@11):u8[10]^a", BadArraySuffix, EINVAL),
    ("PROBE +0(@11):u8[^10a]", BadArrayNum, EINVAL),
    ("PROBE +0(@11):u8[^256]", ArrayTooBig, EINVAL),
    ("PROBE @11:^unknown_type", BadType, EINVAL),
    ("PROBE $stack0:^string", BadString, EINVAL),
    ("PROBE @11:^b10@a/16", BadBitfield, EINVAL),
    (
        "PROBE ^arg123456789012345678901234567890=@11",
        ArgNameTooLong,
        EINVAL,
    ),
    ("PROBE ^=@11", NoArgName, EINVAL),
    ("PROBE ^var.1=@11", BadArgName, EINVAL),
    ("PROBE var1=@11 ^var1=@12", UsedArgName, EINVAL),
    (
        "PROBE ^+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(\
         +1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(\
         +1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(+1234567(@1234\
         ))))))))))))))))))))))))))",
        ArgTooLong,
        E2BIG,
    ),
    ("PROBE arg1=^", NoArgBody, EINVAL),
    ("PROBE ^$arg*", NosupBtfarg, EOPNOTSUPP),
    ("PROBE ^name", NosupBtfarg, EOPNOTSUPP),
    ("PROBE ^$retvals", RetvalOnProbe, EINVAL),
];

const MORE: &[Case] = &[
    // The first word.
    ("f^100 vfs_read", BadMaxact, EINVAL),
    ("f^0 vfs_read", BadMaxact, EINVAL),
    ("f^x:ev vfs_read", BadMaxact, EINVAL),
    ("t^100 kfree", BadMaxact, EINVAL),
    ("t^100:ev k/free", BadMaxact, EINVAL),
    ("^f", NoMatchingType, EINVAL),
    ("^t:ev", NoMatchingType, EINVAL),
    ("^p", NoMatchingType, EINVAL),
    ("^x vfs_read", NoMatchingType, EINVAL),
    // The target.
    ("f vfs_read^%hoge", BadAddrSuffix, EINVAL),
    ("f vfs_read^%", BadAddrSuffix, EINVAL),
    ("f vfs_read^%return%return", BadAddrSuffix, EINVAL),
    ("f vfs_read,vfs_w*^%hoge", BadAddrSuffix, EINVAL),
    ("f:x vfs_read,^,vfs_write", BadPattern, EINVAL),
    ("f:x ^,vfs_read", BadPattern, EINVAL),
    ("f:x vfs_*,!^", BadPattern, EINVAL),
    ("f:x vfs_*,!^%return", BadPattern, EINVAL),
    ("f:x vfs_read,^%return", BadPattern, EINVAL),
    ("f:x ^!vfs_*", NoPattern, EINVAL),
    ("f:x ^!vfs_*,!do_*%return", NoPattern, EINVAL),
    ("t kfree^%return", BadAddrSuffix, EINVAL),
    ("t kmem^/kfree", BadTpName, EINVAL),
    ("t kmem^:kfree", BadTpName, EINVAL),
    ("t ^*", BadTpName, EINVAL),
    ("t:^/x kfree", NoGroupName, EINVAL),
    ("t:/x kfree^-", BadTpName, EINVAL),
    // A tracepoint returns nothing: said before the name is looked at.
    ("t:/x kfree a=^$retval", RetvalOnProbe, EINVAL),
    (
        "t:/x kfree @x +0(^$retval):u8 $retval",
        RetvalOnProbe,
        EINVAL,
    ),
    ("t:^/x kfree $retvalx", NoGroupName, EINVAL),
    // The functions come last.
    ("f ^non_exist_func", BadProbeAddr, EINVAL),
    ("f:^/x non_exist_func", NoGroupName, EINVAL),
    ("f non_exist_func ^%ax", BadVar, EINVAL),
    // Words for all arguments before any one.
    ("f vfs_read ^$arg0", BadArgNum, EINVAL),
    ("f vfs_read ^$arg1x", BadVar, EINVAL),
    ("f vfs_read ^@0x10000000000000000", BadMemAddr, ERANGE),
    // The kprobes are as in their own file.
    ("p ^non_exist_func", BadProbeAddr, EINVAL),
    ("p vfs_read ^%none", BadRegName, EINVAL),
    ("p^1 vfs_read", BadMaxactType, EINVAL),
];

fn check(marked: &str, kind: ErrorKind, errno: Errno) {
    let (line, column) = unmark(marked);
    let error = create(&line).expect_err(&line);
    assert_eq!((error.kind, error.errno), (kind, errno), "{line}");
    assert_eq!(error.at.column(&line), column, "{line}");
}

#[test]
fn each_error_is_found_at_its_place() {
    for probe in ["f vfs_read", "f vfs_read%return", "t kfree"] {
        for &(marked, kind, errno) in SELFTEST {
            // `$retvals` is a variable there, which takes BTF.
            let at_exit = match kind {
                RetvalOnProbe => (NosupBtfarg, EOPNOTSUPP),
                kind => (kind, errno),
            };
            let (kind, errno) = match probe.ends_with("%return") {
                true => at_exit,
                false => (kind, errno),
            };
            check(&marked.replace("PROBE", probe), kind, errno);
        }
    }
    for letter in ["f:NAME vfs_read", "t:NAME kfree"] {
        for (name, kind) in [
            ("^/bar", NoGroupName),
            ("^foo.1/bar", BadGroupName),
            ("^", NoEventName),
            ("foo/^bar.1", BadEventName),
            (&format!("^{LONG}/bar"), GroupTooLong),
            (&format!("foo/^{LONG}"), EventTooLong),
        ] {
            check(&letter.replace("NAME", name), kind, EINVAL);
        }
    }
    for &(marked, kind, errno) in MORE {
        check(marked, kind, errno);
    }
}

#[test]
fn a_listing_is_canonical() {
    for (line, expected) in [
        ("f vfs_read", "f:fprobes/vfs_read__entry vfs_read"),
        (
            "f vfs_read%return",
            "f:fprobes/vfs_read__exit vfs_read%return",
        ),
        ("f:ev vfs_read", "f:fprobes/ev vfs_read"),
        ("f:g.ev vfs_*  $comm", "f:g/ev vfs_* arg1=$comm"),
        ("f:g/ vfs_*", "f:g/vfs____entry vfs_*"),
        (
            "f vfs_read a=$retval",
            "f:fprobes/vfs_read__exit vfs_read%return a=$retval",
        ),
        (
            "f vfs_read @x +0($retval):string",
            "f:fprobes/vfs_read__exit vfs_read%return arg1=@x arg2=+0($retval):string",
        ),
        ("f:ev a:b+10", "f:fprobes/ev a:b+10"),
        ("t kfree", "t:tracepoints/kfree kfree"),
        ("t:ev kfree a=$arg2", "t:tracepoints/ev kfree a=$arg2"),
        ("t 9lives", "t:tracepoints/_9lives 9lives"),
        ("p vfs_read", "p:kprobes/p_vfs_read_0 vfs_read"),
        ("r5:g/ev vfs_read", "r5:g/ev vfs_read"),
    ] {
        let listing = create(line).expect(line).listing();
        assert_eq!(listing, expected, "{line}");
        assert_eq!(create(&listing).unwrap().listing(), expected, "{line}");
    }
}

#[test]
fn an_automatic_name_is_made_as_in_c() {
    for (line, expected) in [
        // The first character stays as it is.
        ("f *_read.x*", "*_read_x___entry"),
        ("f .x%return", ".x__exit"),
        ("f vfs_?", "vfs_?__entry"),
        ("f a:b+10", "a_b+10__entry"),
        ("f %return", "__exit"),
        ("f vfs_read,do_exit%return", "vfs_read_do_exit__exit"),
        ("f !vfs_write,vfs_[!a]*,!x", "vfs_write_vfs_[!a]__x__entry"),
        ("t _x9", "_x9"),
    ] {
        let event = create(line).expect(line).name.event.to_string();
        assert_eq!(event, expected, "{line}");
    }
    let long = format!("f {}", "s".repeat(60));
    assert_eq!(
        create(&long).unwrap().name.event.to_string(),
        format!("{}__e", "s".repeat(60))
    );
    let long = format!("t {}", "s".repeat(70));
    assert_eq!(
        create(&long).unwrap().name.event.to_string(),
        "s".repeat(63)
    );
}

#[test]
fn a_list_has_at_most_64_patterns() {
    let list = ["vfs_read"; 64].join(",");
    assert!(create(&format!("f:x {list}")).is_ok());
    let error = create(&format!("f:x {list},!vfs_write")).unwrap_err();
    assert_eq!((error.kind, error.at.offset), (TooManyPatterns, 64 * 9));
}

#[test]
fn a_list_has_functions_and_those_to_leave_out() {
    let items = target_functions("vfs_*,!vfs_[!a]*,do_exit");
    let items: Vec<(&str, bool, usize)> = items
        .map(|item| (item.pattern, item.is_excepted, item.at.offset))
        .collect();
    assert_eq!(
        items,
        [
            ("vfs_*", false, 0),
            ("vfs_[!a]*", true, 6),
            ("do_exit", false, 17)
        ]
    );
}

#[test]
fn a_command_says_its_kind_and_target() {
    for (line, kind, target, return_kprobe) in [
        (
            "f vfs_*",
            ProbeKind::FprobeEntry,
            Target::Functions("vfs_*"),
            (false, false),
        ),
        (
            "f vfs_*%return",
            ProbeKind::FprobeExit,
            Target::Functions("vfs_*"),
            (true, false),
        ),
        (
            "f vfs_*,!vfs_[!a-d]*,do_exit%return",
            ProbeKind::FprobeExit,
            Target::Functions("vfs_*,!vfs_[!a-d]*,do_exit"),
            (true, false),
        ),
        (
            "t kfree",
            ProbeKind::Tracepoint,
            Target::Tracepoint("kfree"),
            (false, false),
        ),
        (
            "r 1",
            ProbeKind::Kretprobe,
            Target::Address(1),
            (true, true),
        ),
        ("p 1", ProbeKind::Kprobe, Target::Address(1), (false, true)),
    ] {
        let command = create(line).unwrap().command;
        assert_eq!((command.kind, command.target), (kind, target), "{line}");
        assert_eq!(
            (kind.is_return(), kind.is_kprobe()),
            return_kprobe,
            "{line}"
        );
        assert_eq!(command.maxactive, None);
    }
}

#[test]
fn the_first_argument_of_what_a_tracepoint_calls_is_hidden() {
    let base = |line| create(line).unwrap().arguments.pop().unwrap().fetch.base;
    assert_eq!(base("f kfree $arg1"), Base::Argument(0));
    assert_eq!(base("t kfree $arg1"), Base::Argument(1));
    assert_eq!(base("t kfree a=$arg9"), Base::Argument(9));
    assert_eq!(base("t kfree $stack1"), Base::Stack(1));
}

#[test]
fn an_error_says_whose_it_is() {
    for (file, line, expected) in [
        (EventsFile::KprobeEvents, "p x %none", "trace_kprobe"),
        (EventsFile::KprobeEvents, "x", "trace_kprobe"),
        (EventsFile::DynamicEvents, " r0 x", "trace_kprobe"),
        (EventsFile::DynamicEvents, "f1 x", "trace_fprobe"),
        (EventsFile::DynamicEvents, "t k/x", "trace_fprobe"),
        (EventsFile::DynamicEvents, "e sched", "event_probe"),
        (EventsFile::DynamicEvents, "e", "dynevent"),
        (EventsFile::DynamicEvents, "t", "dynevent"),
        (EventsFile::DynamicEvents, "p", "dynevent"),
        (EventsFile::DynamicEvents, "x", "dynevent"),
        (EventsFile::DynamicEvents, "-", "dynevent"),
        (EventsFile::DynamicEvents, "!", "dynevent"),
    ] {
        let error = match file.parse(line) {
            Err(error) => error,
            Ok(_) => create_in(file, line).unwrap_err(),
        };
        assert_eq!(file.subsystem(line, &error), expected, "{line}");
    }
}

#[test]
fn the_registration_of_some_is_refused_with_einval() {
    let error = Error::at_command(EventExist, Errno::EEXIST);
    assert_eq!(
        error.at_registration(ProbeKind::Kprobe).errno,
        Errno::EEXIST
    );
    assert_eq!(
        error.at_registration(ProbeKind::Kretprobe).errno,
        Errno::EEXIST
    );
    assert_eq!(
        error.at_registration(ProbeKind::EventProbe).errno,
        Errno::EEXIST
    );
    for kind in [
        ProbeKind::FprobeEntry,
        ProbeKind::FprobeExit,
        ProbeKind::Tracepoint,
    ] {
        assert_eq!(error.at_registration(kind).errno, EINVAL);
        assert_eq!(error.at_registration(kind).kind, EventExist);
    }
}

#[test]
fn a_command_with_an_exclamation_mark_deletes() {
    const LISTING: &str = "f:grp/ev vfs_read%return a=$comm";
    for (line, expected) in [
        ("!f:ev", true),
        ("!f:grp/ev vfs_read%return a=$comm", true),
        ("!f:grp/ev vfs_read a=$comm", true),
        ("!f:grp/ vfs_read", true),
        ("-:ev vfs_read", true),
        ("-:ev vfs_read%return", true),
        // As in C, which does not look at what is in front of the `:`.
        ("!p:ev", true),
        ("!:ev", true),
        ("!r8:ev", true),
        ("!f:other", false),
        ("!f:fprobes/ev", false),
        ("!f:ev vfs_write", false),
        ("!f:ev vfs_read b=$comm", false),
        ("!f:ev vfs_read $comm", false),
    ] {
        assert_eq!(deletes(line, &probe_of(LISTING)), expected, "{line}");
    }
    for (line, kind, column) in [
        ("!", BadDelete, 1),
        ("!f vfs_read", BadDelete, 1),
        ("!p:", NoDeleteName, 3),
        ("!p: vfs_read", NoDeleteName, 3),
        ("-", BadDelete, 1),
    ] {
        let error = EventsFile::DynamicEvents.parse(line).unwrap_err();
        assert_eq!((error.kind, error.errno), (kind, EINVAL), "{line}");
        assert_eq!(error.at.column(line), column, "{line}");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Watchpoints: `w`.

use probe::{
    argument::Base,
    command::{
        Access,
        Error,
        EventsFile,
        Place,
        ProbeKind,
        Target,
        Watched,
        DEFAULT_LEN, //
    },
    error::{
        Errno,
        ErrorKind::*, //
    },
};
use proptest::prelude::*;

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

fn create(line: &str) -> Result<Whole<'_>, Error> {
    create_in(EventsFile::DynamicEvents, line)
}

const ERRORS: &[Case] = &[
    // The first word.
    ("w^4 w@jiffies", BadMaxactType, EINVAL),
    ("w^x:ev w@jiffies", BadMaxactType, EINVAL),
    ("^w", NoMatchingType, EINVAL),
    ("w:^/ev w@jiffies", NoGroupName, EINVAL),
    ("w:grp/^e-v w@jiffies", BadEventName, EINVAL),
    // The access.
    ("w ^jiffies", BadAccessFmt, EINVAL),
    ("w ^w", BadAccessFmt, EINVAL),
    ("w ^a@jiffies", BadAccessType, EINVAL),
    ("w ^wr@jiffies", BadAccessType, EINVAL),
    ("w ^W@jiffies", BadAccessType, EINVAL),
    // The address.
    ("w w@^", BadAccessAddr, EINVAL),
    ("w @^", BadAccessAddr, EINVAL),
    ("w w@^:4", BadAccessAddr, EINVAL),
    ("w w@^+4", BadAccessAddr, EINVAL),
    ("w w@jiffies^+offset", BadAccessAddr, EINVAL),
    ("w w@jiffies^+0x80000000", BadAccessAddr, EINVAL),
    ("w w@jiffies^-:4", BadAccessAddr, EINVAL),
    ("w w@^12x:4", BadAccessAddr, EINVAL),
    ("w w@^0:4", BadAccessAddr, EINVAL),
    ("w rw@^0x7ffffffffffffff8:8", BadAccessAddr, EINVAL),
    ("w x@^0x1000", BadAccessAddr, EINVAL),
    ("w w@^0x18000000000000000", BadAccessAddr, EINVAL),
    ("w w@^0xffff888012345671", UnalignedAccess, EINVAL),
    ("w w@^0xffff888012345671:2", UnalignedAccess, EINVAL),
    ("w @^0xffff888012345674:8", UnalignedAccess, EINVAL),
    // The length.
    ("w w@jiffies:^", BadAccessLen, EINVAL),
    ("w w@jiffies:^0", BadAccessLen, EINVAL),
    ("w w@jiffies:^3", BadAccessLen, EINVAL),
    ("w w@jiffies:^16", BadAccessLen, EINVAL),
    ("w w@jiffies:^260", BadAccessLen, EINVAL),
    ("w w@jiffies:^-1", BadAccessLen, EINVAL),
    ("w w@jiffies:^4x", BadAccessLen, EINVAL),
    ("w w@jiffies:4:^3", BadAccessLen, EINVAL),
    ("w x@vfs_read:^8", BadAccessLen, EINVAL),
    // The arguments.
    ("w w@jiffies ^$arg1", NofentryArgs, EINVAL),
    ("w w@jiffies ^$arg*", NofentryArgs, EINVAL),
    ("w w@jiffies ^$retval", RetvalOnProbe, EINVAL),
    ("w w@jiffies ^$elapsed", ElapsedOnProbe, EINVAL),
    ("w w@jiffies ^$caller", CallerInside, EINVAL),
    ("w w@jiffies ^$exit", ExitOnProbe, EINVAL),
    ("w w@jiffies ^$addrs", BadVar, EINVAL),
    ("w w@jiffies ^$value", BadVar, EINVAL),
    ("w w@jiffies ^name", NosupBtfarg, EINVAL),
    ("w w@jiffies ^%foo", BadRegName, EINVAL),
    // Nothing else has the address.
    ("p vfs_read ^$addr", BadVar, EINVAL),
    ("r vfs_read ^$addr", BadVar, EINVAL),
    ("f vfs_read ^$addr", BadVar, EINVAL),
    ("t kfree ^$addr", BadVar, EINVAL),
];

#[test]
fn each_error_is_found_at_its_place() {
    for &(marked, kind, errno) in ERRORS {
        let (line, column) = unmark(marked);
        let error = create(&line).expect_err(&line);
        assert_eq!((error.kind, error.errno), (kind, errno), "{line}");
        assert_eq!(error.at.column(&line), column, "{line}");
    }
}

#[test]
fn an_error_of_the_kernel_is_below_the_address() {
    let whole = create("w rw@jiffies+2:4").unwrap();
    let Target::Memory(watched) = whole.command.target else {
        panic!("{:?}", whole.command.target);
    };
    assert_eq!(watched.check(0xffff_8880_0000_0000), Ok(()));
    assert_eq!(watched.check(0xffff_8880_0000_0002), Err(UnalignedAccess));
    assert_eq!(watched.check(8), Err(BadAccessAddr));
    assert_eq!(watched.check_access(false), Ok(()));
    for (line, column) in [
        ("w rw@jiffies+2:4", 5),
        ("w @jiffies", 3),
        ("w:g/ev x@f@", 9),
    ] {
        let error = create(line).unwrap().command.memory_error(BadAccessAddr);
        assert_eq!((error.at.column(line), error.errno), (column, EINVAL));
    }
}

#[test]
fn reads_alone_need_a_processor_that_can_watch_them() {
    let line = "w r@jiffies:8";
    let whole = create(line).unwrap();
    let Target::Memory(watched) = whole.command.target else {
        panic!("{:?}", whole.command.target);
    };
    assert_eq!(watched.check_access(true), Ok(()));
    assert_eq!(watched.check_access(false), Err(ReadAccess));
    assert_eq!(whole.listing(), "w:wprobes/jiffies r@jiffies:8");
}

#[test]
fn the_other_file_has_no_watchpoints() {
    let error = create_in(EventsFile::KprobeEvents, "w w@jiffies").unwrap_err();
    assert_eq!(error.kind, NoMatchingType);
    let error = create("w jiffies").unwrap_err();
    let subsystem = EventsFile::DynamicEvents.subsystem("w jiffies", &error);
    assert_eq!(subsystem, "wprobe");
}

#[test]
fn a_command_says_what_it_watches() {
    let symbol = |symbol, offset| Place::Symbol { symbol, offset };
    for (word, access, place, len) in [
        ("w@jiffies", Access::Write, symbol("jiffies", 0), None),
        (
            "@jiffies:8",
            Access::ReadWrite,
            symbol("jiffies", 0),
            Some(8),
        ),
        ("rw@a+8:0x2", Access::ReadWrite, symbol("a", 8), Some(2)),
        ("w@a-0x8:1", Access::Write, symbol("a", -8), Some(1)),
        ("r@a:4", Access::Read, symbol("a", 0), Some(4)),
        ("w@mod:a", Access::Write, symbol("mod:a", 0), None),
        ("w@mod:a+1:1", Access::Write, symbol("mod:a", 1), Some(1)),
        ("x@vfs_read+4", Access::Execute, symbol("vfs_read", 4), None),
        (
            "w@0xffff888012345678",
            Access::Write,
            Place::Address(0xffff_8880_1234_5678),
            Some(DEFAULT_LEN),
        ),
        (
            "x@0xffffffff81000001",
            Access::Execute,
            Place::Address(0xffff_ffff_8100_0001),
            None,
        ),
    ] {
        let line = format!("w:ev {word} a=$addr s=$stack0");
        let whole = create(&line).unwrap();
        let watched = Watched { access, place, len };
        assert_eq!(whole.command.kind, ProbeKind::Watchpoint);
        assert_eq!(whole.command.target, Target::Memory(watched), "{line}");
        assert_eq!(whole.arguments[0].fetch.base, Base::Watched);
        assert_eq!(whole.command.with_length(2).target, {
            let len = Some(2);
            Target::Memory(Watched { len, ..watched })
        });
    }
}

#[test]
fn a_watchpoint_has_all_registers_and_errors_of_functions_by_ftrace() {
    assert!(ProbeKind::Watchpoint.has_all_registers() && ProbeKind::Kprobe.has_all_registers());
    assert!(!ProbeKind::FprobeEntry.has_all_registers());
    assert!(ProbeKind::Watchpoint.registration_is_einval());
    assert!(!ProbeKind::Watchpoint.is_kprobe() && !ProbeKind::Watchpoint.is_return());
    assert!(create("w w@jiffies %ax").is_ok());
}

#[test]
fn an_event_is_named_after_the_symbol() {
    for (line, name) in [
        ("w w@jiffies_64:8", "w:wprobes/jiffies_64 w@jiffies_64:8"),
        ("w @a.b+1:1", "w:wprobes/a_b rw@a.b+1:1"),
        ("w:g/ w@m:a-2:2 $addr", "w:g/m_a w@m:a-2:2 arg1=$addr"),
        (
            "w w@0xffff888012345678:4",
            "w:wprobes/wprobe w@0xffff888012345678:4",
        ),
        ("w x@vfs_read", "w:wprobes/vfs_read x@vfs_read"),
    ] {
        assert_eq!(create(line).unwrap().listing(), name);
    }
}

#[test]
fn it_is_deleted_with_and_without_its_length() {
    let probe = probe_of("w:g/ev w@jiffies:8 a=$addr");
    for (line, expected) in [
        ("-:g/ev", true),
        ("-:g/ev w@jiffies:8", true),
        ("-:g/ev w@jiffies", true),
        ("!w:g/ev w@jiffies a=$addr", true),
        ("-:g/ev w@jiffies:4", false),
        ("-:g/ev rw@jiffies", false),
        ("-:g/ev jiffies", false),
        ("-:g/ev w@jiffies a=$comm", false),
    ] {
        assert_eq!(deletes(line, &probe), expected, "{line}");
    }
    let probe = probe_of("w:g/ev w@mod:sym:8");
    assert!(deletes("-:g/ev w@mod:sym", &probe));
    assert!(!deletes("-:g/ev w@mod", &probe));
}

proptest! {
    #[test]
    fn a_listing_lists_itself(
        access in "(r|w|rw|x)?",
        symbol in "([a-z_]{1,9}:)?[a-z_][a-z0-9_.]{0,70}",
        offset in proptest::option::of(-100i32..100),
        len in proptest::option::of(prop::sample::select(vec![1, 2, 4, 8])),
    ) {
        let offset = offset.map_or(String::new(), |offset| format!("{offset:+}"));
        let len = len.filter(|_| access != "x").map_or(String::new(), |len| format!(":{len}"));
        let line = format!("w {access}@{symbol}{offset}{len} a=$addr");
        let whole = create(&line).unwrap();
        let listing = whole.listing();
        let again = create(&listing).unwrap();
        prop_assert_eq!(again.command.target, whole.command.target);
        prop_assert_eq!(again.listing(), listing);
        let spec = whole.spec();
        prop_assert_eq!(spec.target(), whole.command.target);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Hints: what to write instead of a command that rkprobe refuses.

use probe::{
    arch::x86_64,
    command::{
        Error,
        EventsFile,
        Hint,
        Position, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use EventsFile::{
    DynamicEvents,
    KprobeEvents, //
};

/// The hint for an error at `word` and `offset` of a line.
fn hint(file: EventsFile, kind: ErrorKind, at: (usize, usize), line: &str) -> Option<String> {
    let at = Position {
        word: at.0,
        offset: at.1,
    };
    let error = Error::at(kind, at, Errno::EINVAL);
    Hint::new(file, line, &error, x86_64::kernel_name).map(|hint| hint.to_string())
}

/// The hint for an error that the parser finds.
fn parsed(file: EventsFile, line: &str) -> Option<String> {
    let error = file.parse(line).unwrap_err();
    Hint::new(file, line, &error, x86_64::kernel_name).map(|hint| hint.to_string())
}

#[test]
fn a_pattern_is_for_f() {
    let of = |file, line| hint(file, ErrorKind::BadProbeAddr, (1, 0), line);
    for (line, list) in [
        ("p:ev vfs_*", "vfs_*"),
        ("r vfs_?ead%return a=$retval", "vfs_?ead"),
        ("p vfs_read,vfs_write", "vfs_read,vfs_write"),
        ("p  [a-c]*", "[a-c]*"),
    ] {
        let expected =
            format!("{list}: p and r have no patterns and lists; use f in rkprobe_dynamic_events");
        assert_eq!(of(KprobeEvents, line), Some(expected), "{line}");
    }
    assert_eq!(of(KprobeEvents, "p vfs_raed a=$arg*"), None);
    assert_eq!(of(DynamicEvents, "f nosuch_*"), None);
}

#[test]
fn commands_of_the_other_file_are_named() {
    for line in [
        "f:x vfs_read",
        "t:x sched_switch",
        "e:a/b c.d",
        "w:x w@a",
        "o (file)a.b.c",
        "!:x",
    ] {
        let word = line.split(' ').next().unwrap();
        let expected = format!("{word}: write this command to rkprobe_dynamic_events");
        assert_eq!(parsed(KprobeEvents, line), Some(expected), "{line}");
    }
    for line in ["x vfs_read", "echo hello", "from", "# f:x", "p"] {
        if KprobeEvents.parse(line).is_err() {
            assert_eq!(parsed(KprobeEvents, line), None, "{line}");
        }
    }
    assert_eq!(parsed(DynamicEvents, "f:x"), None);
}

#[test]
fn a_name_of_several_functions_has_all() {
    let of = |line| hint(DynamicEvents, ErrorKind::NonUniqSymbol, (1, 0), line);
    for line in ["p:ev name_show", "r name_show%return"] {
        let expected =
            "name_show: write name_show%all for all of them, or an address of /proc/kallsyms";
        assert_eq!(of(line).as_deref(), Some(expected), "{line}");
    }
    for line in [
        "p name_show%return",
        "p name_show%retinsn",
        "p name_show%blocks",
        "r name_show%path",
    ] {
        let expected = "name_show: write an address of /proc/kallsyms";
        assert_eq!(of(line).as_deref(), Some(expected), "{line}");
    }
    assert_eq!(of("p name_show+4"), None);
    assert_eq!(of("w:x w@name_show"), None);
}

#[test]
fn a_typecast_has_no_keyword() {
    let of = |word, line| hint(KprobeEvents, ErrorKind::DerefOpenBrace, (word, 0), line);
    assert_eq!(
        of(2, "p:ev vfs_read a=(struct file)$arg1->f_mode").as_deref(),
        Some("(struct file): write (file)")
    );
    assert_eq!(
        of(3, "p:ev vfs_read a=1 +0((union  foo)$arg1->x)").as_deref(),
        Some("(union foo): write (foo)")
    );
    for line in [
        "p vfs_read a=(file b)",
        "p vfs_read a=(struct",
        "p vfs_read a=struct file)",
        "p vfs_read (structs file)",
    ] {
        assert_eq!(of(2, line), None, "{line}");
    }
}

#[test]
fn a_register_has_the_name_of_the_kernel() {
    let of = |offset, word: &str| {
        let line = format!("p vfs_read {word}");
        hint(KprobeEvents, ErrorKind::BadRegName, (2, offset), &line)
    };
    for (offset, word, expected) in [
        (2, "a=%rax", "%rax: write %ax"),
        (2, "a=%edi:u32", "%edi: write %di"),
        (3, "+0(%rsp)", "%rsp: write %sp"),
        (0, "%rip:symbol", "%rip: write %ip"),
        (0, "%r8d", "%r8d: write %r8"),
    ] {
        assert_eq!(of(offset, word).as_deref(), Some(expected), "{word}");
    }
    for word in ["%foo", "%r", "%", "%xax", "%raxx", "$rax", ""] {
        assert_eq!(of(0, word), None, "{word}");
    }
}

#[test]
fn an_error_after_the_last_word_has_no_hint() {
    for kind in ErrorKind::ALL {
        assert_eq!(hint(KprobeEvents, *kind, (9, 9), "p vfs_read"), None);
        assert_eq!(hint(KprobeEvents, *kind, (0, 99), ""), None);
    }
}

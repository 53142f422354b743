// SPDX-License-Identifier: GPL-2.0

//! How much of everything a command may have.

use probe::{
    command::Position,
    error::{
        Errno,
        ErrorKind::*, //
    },
};

use super::{
    argument,
    arguments,
    create, //
};

const EINVAL: Errno = Errno::EINVAL;
const E2BIG: Errno = Errno::E2BIG;

#[test]
fn arguments_are_limited_in_number() {
    let list = |count: usize| vec!["%ax"; count].join(" ");
    assert_eq!(arguments(&list(128)).unwrap().len(), 128);
    let error = arguments(&list(129)).unwrap_err();
    assert_eq!((error.kind, error.errno), (TooManyArgs, E2BIG));
    assert_eq!(error.at, Position { word: 2, offset: 0 });
    // The variables of all come first.
    let error = arguments(&format!("{} $argx", list(200))).unwrap_err();
    assert_eq!((error.kind, error.at.word), (BadVar, 202));
}

#[test]
fn arguments_are_limited_in_bytes() {
    // 6 * 64 * 8 is 3072.
    let six = ["+0(%di):u64[64]"; 6].join(" ");
    assert!(arguments(&six).is_ok());
    for (more, offset) in [("x=%ax:u8", 2), ("x=+0(+0(%ax)):u8", 5), ("$comm", 0)] {
        let error = arguments(&format!("{six} {more}")).unwrap_err();
        assert_eq!((error.kind, error.errno), (EventTooBig, E2BIG));
        assert_eq!(error.at, Position { word: 8, offset }, "{more}");
    }
    // 12 strings of 64 take 4 bytes each.
    let strings = ["+0(%di):string[64]"; 12].join(" ");
    assert!(arguments(&strings).is_ok());
    assert_eq!(
        arguments(&format!("{strings} $comm")).unwrap_err().kind,
        EventTooBig
    );
}

/// An argument with 3 or more steps around `base`, the innermost of which is a dereference. Most of
/// its levels have two steps.
pub fn nested(steps: usize, base: &str, ty: &str) -> String {
    let derefs = 2 - steps % 2;
    let reads = (steps - derefs) / 2;
    let open = "this_cpu_read(".repeat(reads) + &"+0(".repeat(derefs);
    format!("{open}{base}{}{ty}", ")".repeat(reads + derefs))
}

#[test]
fn sixteen_steps_can_follow_each_other() {
    // `@` reads memory, so it is a step of its own.
    for (base, most) in [("%r8", 16), ("@1", 15), ("@a", 15)] {
        for ty in [
            "",
            ":u8",
            ":u8[2]",
            ":b1@0/8",
            ":b1@0/8[2]",
            ":string",
            ":string[2]",
            ":symstr",
        ] {
            let whole = argument(&nested(most, base, ty)).unwrap();
            assert_eq!(whole.fetch.steps.as_slice().len(), 16, "{base}{ty}");

            let error = argument(&nested(most + 1, base, ty)).unwrap_err();
            assert_eq!(
                (error.kind, error.errno),
                (TooManyOps, EINVAL),
                "{base}{ty}"
            );
            assert_eq!(error.at.offset, "this_cpu_read(".len());
        }
    }
}

#[test]
fn bytes_of_names_and_bodies_are_limited_as_in_c() {
    let name = |length: usize| format!("{}=%ax", "n".repeat(length));
    assert!(argument(&name(32)).is_ok());
    assert_eq!(argument(&name(33)).unwrap_err().kind, ArgNameTooLong);

    let body = |length: usize| format!("x=\\\"{}\"", "t".repeat(length - 3));
    assert!(argument(&body(255)).is_ok());
    let error = argument(&body(256)).unwrap_err();
    assert_eq!((error.kind, error.errno), (ArgTooLong, E2BIG));
    assert_eq!(error.at.offset, 2);

    let event = |group: usize, event: usize| {
        let line = format!("p:{}/{} vfs_read", "g".repeat(group), "e".repeat(event));
        create(&line).map(|_| ()).map_err(|error| error.kind)
    };
    assert_eq!(event(63, 63), Ok(()));
    assert_eq!(event(64, 1), Err(GroupTooLong));
    assert_eq!(event(1, 64), Err(EventTooLong));
}

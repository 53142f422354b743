// SPDX-License-Identifier: GPL-2.0

//! Strings for which there is not enough room.

use probe::{
    argument::*,
    fetch,
    types::*, //
};

use crate::machine::*;

fn machine() -> Machine {
    let mut machine = Machine::new();
    machine
        .set("di", 0x4000)
        .set("si", 0x5000)
        .poke(Space::Kernel, 0x4000, b"hello\0")
        .poke(Space::Kernel, 0x5000, &[b'x'; 3 * 4096]);
    machine
}

#[test]
fn a_string_that_does_not_fit_is_cut_short_and_ends_with_a_nul() {
    for (room, text) in [
        (0, "(fault)"),
        (1, "\"\""),
        (2, "\"h\""),
        (5, "\"hell\""),
        (6, "\"hello\""),
        (7, "\"hello\""),
    ] {
        let record = machine().record_in(&[di(&[k(0)], STRING)], room);
        assert_eq!(record.print(), format!(" arg1={text}"));
        assert_eq!(record.used, 4 + room.min(6));
        if room != 0 {
            assert_eq!(record.string(0, 0).unwrap().last(), Some(&0));
        }
    }
}

#[test]
fn a_symbol_that_does_not_fit_is_cut_short_as_well() {
    for (room, text) in [
        (0, "(fault)"),
        (1, "\"\""),
        (2, "\"s\""),
        (17, "\"sym+0x4000/0xfff\""),
        (18, "\"sym+0x4000/0xffff\""),
        (19, "\"sym+0x4000/0xffff\""),
    ] {
        let record = machine().record_in(&[di(&[], SYMSTR), di(&[k(0)], STRING)], room);
        let next = if room > 18 { "\"\"" } else { "(fault)" };
        assert_eq!(record.print(), format!(" arg1={text} arg2={next}"));
        assert_eq!(record.used, 8 + room);
    }
}

#[test]
fn a_string_that_does_not_fit_takes_all_room_from_those_after_it() {
    let arguments = [
        di(&[k(0)], STRING),
        di(&[k(0)], STRING),
        di(&[k(3)], STRING),
    ];
    for (room, text) in [
        (18, " arg1=\"hello\" arg2=\"hello\" arg3=\"lo\""),
        (14, " arg1=\"hello\" arg2=\"hello\" arg3=\"l\""),
        (12, " arg1=\"hello\" arg2=\"hello\" arg3=(fault)"),
        (11, " arg1=\"hello\" arg2=\"hell\" arg3=(fault)"),
        (6, " arg1=\"hello\" arg2=(fault) arg3=(fault)"),
        (4, " arg1=\"hel\" arg2=(fault) arg3=(fault)"),
    ] {
        assert_eq!(machine().record_in(&arguments, room).print(), text);
    }
}

#[test]
fn nothing_is_read_that_there_is_no_room_for() {
    let machine = machine();
    machine.record_in(&[di(&[k(0)], STRING)], 0);
    assert!(machine.reads.borrow().is_empty());
    machine.record_in(&[di(&[k(0)], STRING)], 3);
    assert_eq!(*machine.reads.borrow(), [(Space::Kernel, 0x4000, 3)]);
}

#[test]
fn what_comes_behind_a_record_is_left_alone() {
    for room in 0..10 {
        let machine = machine();
        let program = compile(&di(&[k(0)], STRING));
        let mut out = vec![UNTOUCHED; 100];
        let used = fetch::record(&[program], 4, 0, &machine, &mut out[..4 + room]);
        assert_eq!(used, 4 + room.min(6));
        assert!(out[4 + room..].iter().all(|byte| *byte == UNTOUCHED));
    }
}

#[test]
fn an_offset_that_a_location_cannot_say_is_never_used() {
    // 20 strings of 4096 bytes; a location reaches 65,535 bytes far.
    let si = || source(Base::Register(reg("si")), &[k(0)], STRING);
    let arguments: Vec<_> = (0..20).map(|_| si()).collect();
    let record = machine().record_in(&arguments, 20 * 4096);
    assert_eq!(HEADER + record.used, 65_535);
    let lens: Vec<usize> = (0..20)
        .map(|i| record.string(i, 0).map_or(0, <[u8]>::len))
        .collect();
    assert_eq!(&lens[..15], [4096; 15]);
    assert_eq!(lens[15], 65_535 - HEADER - 80 - 15 * 4096);
    assert_eq!(&lens[16..], [0; 4]);
}

#[test]
fn a_header_beyond_reach_leaves_no_room() {
    for header in [65_531, 65_535, 65_536, 1 << 32, usize::MAX] {
        let program = compile(&di(&[k(0)], STRING));
        let mut out = [UNTOUCHED; 100];
        assert_eq!(
            fetch::record(&[program], 4, header, &machine(), &mut out),
            4
        );
        assert_eq!(out[2..4], [0, 0]);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Numbers and bitfields.

use probe::{
    argument::*,
    fetch::{
        self,
        Layout, //
    },
    types::*, //
};
use proptest::prelude::*;

use crate::machine::*;

const VALUE: u64 = 0xf1e2_d3c4_b5a6_97e8;

/// Each type with the text of [`VALUE`] in it.
const TEXTS: [(FetchType, &str); 14] = [
    (U8, "232"),
    (U16, "38888"),
    (U32, "3047593960"),
    (U64, "17429726349691885544"),
    (S8, "-24"),
    (S16, "-26648"),
    (S32, "-1247373336"),
    (S64, "-1017017724017666072"),
    (X8, "0xe8"),
    (X16, "0x97e8"),
    (X32, "0xb5a697e8"),
    (X64, "0xf1e2d3c4b5a697e8"),
    (CHAR, r"'\xe8'"),
    (SYMBOL, "<f1e2d3c4b5a697e8>"),
];

#[test]
fn an_error_is_printed_with_its_name() {
    let errno = FetchType::Number(Width::W4, Style::Errno);
    for (value, text) in [
        (-2i64 as u64, "-2 (-ENOENT)"),
        // The upper half of a register with an `int` has no meaning.
        (0xffff_fffe, "-2 (-ENOENT)"),
        (-512i64 as u64, "-512 (-ERESTARTSYS)"),
        (-3i64 as u64, "-3"),
        (-200i64 as u64, "-200"),
        (-4095i64 as u64, "-4095"),
        (0, "0"),
        (2, "2"),
        (0x7fff_ffff, "2147483647"),
        (0x8000_0000, "-2147483648"),
    ] {
        let mut machine = Machine::new();
        machine.set("di", value);
        assert_eq!(machine.print(di(&[], errno)), text);
    }
}

#[test]
fn a_register_is_stored_and_printed_in_each_type() {
    let mut machine = Machine::new();
    machine.set("di", VALUE);
    for (ty, text) in TEXTS {
        assert_eq!(machine.print(di(&[], ty)), text, "{ty:?}");
    }
}

#[test]
fn memory_is_stored_and_printed_in_each_type_by_one_read_of_its_size() {
    for space in [Space::Kernel, Space::User] {
        let mut machine = Machine::new();
        machine.set("di", 0x3000).poke_word(space, 0x3005, VALUE);
        for (ty, text) in TEXTS {
            let deref = Deref { space, offset: 5 };
            let argument = di(&[deref], ty);
            let record = machine.record(&[argument.clone()]);
            let bytes = record.layout.bytes();
            assert_eq!(*machine.reads.borrow(), [(space, 0x3005, bytes)]);
            assert_eq!(machine.print(argument), text, "{ty:?}");
        }
    }
}

#[test]
fn a_number_that_cannot_be_read_is_zero() {
    // The last two bytes of the page are there.
    let mut machine = Machine::new();
    machine
        .set("di", 0x3ffe)
        .poke(Space::Kernel, 0x3ffe, &[0x77, 0x66]);
    assert_eq!(machine.print(di(&[k(0)], X16)), "0x6677");
    assert_eq!(machine.print(di(&[k(0)], X32)), "0x0");
    assert_eq!(machine.print(di(&[k(0)], X64)), "0x0");
    assert_eq!(machine.print(di(&[u(0)], X16)), "0x0");
    assert_eq!(machine.print(di(&[k(0)], bits(4, 0, Width::W4))), "0");
}

#[test]
fn fields_are_aligned_and_gaps_are_zeroes() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x30ff)
        .poke(Space::Kernel, 0x30ff, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let arguments = [
        di(&[], U8),
        di(&[k(0)], U32),
        di(&[], U16),
        di(&[], U64),
        di(&[k(4)], U8),
        times(2, di(&[k(0)], U16)),
        di(&[], U8),
    ];
    let record = machine.record_in(&arguments, 0);
    let mut fields = Vec::new();
    fields.extend([0xff, 0, 0, 0, 1, 2, 3, 4]);
    fields.extend([0xff, 0x30, 0, 0, 0, 0, 0, 0]);
    fields.extend([0xff, 0x30, 0, 0, 0, 0, 0, 0]);
    fields.extend([5, 0, 1, 2, 3, 4, 0xff]);
    assert_eq!(record.data(), fields);
    assert_eq!(record.used, 31);
}

#[test]
fn adjacent_words_are_stored_in_order() {
    let mut entry = Machine::new();
    entry.set("di", 1).set("si", 2).set("dx", 3);
    let mut machine = Machine::new();
    machine.set("ax", 4).set("bx", 5).set("cx", 6).set("di", 7);
    machine.entry = Some(Box::new(entry));
    let register = |name| source(Base::Register(reg(name)), &[], U64);
    let argument = |n| source(Base::EntryArgument(n), &[], U64);
    let all = [
        (register("ax"), 4),
        (register("bx"), 5),
        (register("cx"), 6),
        (register("di"), 7),
        (argument(0), 1),
        (argument(1), 2),
        (argument(2), 3),
        (register("ax"), 4),
        (register("bx"), 5),
    ];
    for start in 0..all.len() {
        for end in start..=all.len() {
            let (arguments, numbers): (Vec<_>, Vec<u64>) = all[start..end].iter().cloned().unzip();
            let record = machine.record_in(&arguments, 0);
            let expected: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
            assert_eq!(record.data(), expected);
        }
    }
}

#[test]
fn nothing_but_the_fields_is_written_where_there_are_no_strings() {
    let mut machine = Machine::new();
    machine.set("di", u64::MAX);
    for ty in [U8, U16, U32, U64] {
        let record = machine.record(&[di(&[], ty)]);
        let (data, rest) = record.bytes[HEADER..].split_at(record.used);
        assert!(data.iter().all(|byte| *byte == 0xff));
        assert!(rest.iter().all(|byte| *byte == UNTOUCHED), "{ty:?}");
    }
}

#[test]
fn a_place_too_small_for_the_fields_is_left_alone() {
    let machine = Machine::new();
    let mut out = [UNTOUCHED; 7];
    let programs = [compile(&di(&[], U32)), compile(&di(&[], U32))];
    assert_eq!(fetch::record(&programs, 8, 0, &machine, &mut out), 0);
    assert_eq!(out, [UNTOUCHED; 7]);
    assert_eq!(fetch::record(&[], 0, 0, &machine, &mut out), 0);
}

#[test]
fn programs_that_want_more_than_the_fields_have_stay_within() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x3000)
        .poke(Space::Kernel, 0x3000, &[0; 64]);
    for argument in [
        di(&[], U64),
        di(&[k(0)], U64),
        di(&[], bits(3, 3, Width::W8)),
        times(3, di(&[k(0)], U64)),
        times(3, di(&[k(0)], bits(3, 3, Width::W8))),
        di(&[k(0)], STRING),
        times(3, di(&[k(0)], STRING)),
        times(3, di(&[k(0), u(0)], U64)),
        di(&[k(0), u(0), u(0)], STRING),
    ] {
        let mut layout = Layout::new();
        layout.add(&argument).unwrap();
        for fixed in 0..3 {
            let mut out = [UNTOUCHED; 64];
            let programs = [compile(&argument), compile(&argument)];
            let used = fetch::record(&programs, fixed, 0, &machine, &mut out);
            assert!((fixed..=64).contains(&used), "{argument:?}");
            if !layout.is_dynamic() {
                assert_eq!(used, fixed, "{argument:?}");
                assert!(out[used..].iter().all(|byte| *byte == UNTOUCHED));
            }
        }
    }
}

#[test]
fn bitfields_are_those_of_a_struct_of_c() {
    // struct { unsigned a:3, b:7, c:22; }
    let word = 5 | 0x55 << 3 | 0x2a_5a5a << 10u32;
    let mut machine = Machine::new();
    machine.set("di", word);
    assert_eq!(machine.print(di(&[], bits(3, 0, Width::W4))), "5");
    assert_eq!(machine.print(di(&[], bits(7, 3, Width::W4))), "85");
    assert_eq!(machine.print(di(&[], bits(22, 10, Width::W4))), "2775642");
}

proptest! {
    #[test]
    fn a_bitfield_is_a_shift_and_a_mask(value: u64, width in 1u8..=64, offset in 0u8..64) {
        for number in [Width::W1, Width::W2, Width::W4, Width::W8] {
            let size = number.bytes() as u8 * 8;
            if width + offset > size {
                continue;
            }
            let ones = u64::MAX >> (64 - width);
            let expected = value >> offset & ones;

            let mut machine = Machine::new();
            machine.set("di", value).set("si", 0x3003).poke_word(Space::Kernel, 0x3003, value);
            let ty = bits(width, offset, number);
            let si = source(Base::Register(reg("si")), &[k(0)], ty);
            let record = machine.record(&[di(&[], ty), si]);
            prop_assert_eq!(record.number(0, 0), expected);
            prop_assert_eq!(record.number(1, 0), expected);
        }
    }
}

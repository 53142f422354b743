// SPDX-License-Identifier: GPL-2.0

//! Arrays of numbers, of bitfields and of strings.

use probe::{
    argument::*,
    types::*, //
};

use crate::machine::*;

#[test]
fn an_array_of_numbers_is_read_at_once() {
    let mut machine = Machine::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(512).collect();
    machine
        .set("di", 0x4ff0)
        .poke(Space::Kernel, 0x4fff, &bytes);
    for (ty, width) in [(U8, 1), (U16, 2), (U32, 4), (U64, 8)] {
        for count in [1, 2, 63, 64] {
            let record = machine.record(&[times(count, di(&[k(15)], ty))]);
            let size = width * usize::from(count);
            assert_eq!(record.used, size);
            assert_eq!(record.data(), &bytes[..size]);
            assert_eq!(*machine.reads.borrow(), [(Space::Kernel, 0x4fff, size)]);
        }
    }
}

#[test]
fn an_array_of_numbers_is_printed_in_braces() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x4000)
        .poke(Space::Kernel, 0x4000, b"AB\xff\xff\x03\0");
    for (count, ty, text) in [
        (1, U8, "{65}"),
        (6, X8, "{0x41,0x42,0xff,0xff,0x3,0x0}"),
        (3, S16, "{16961,-1,3}"),
        (2, CHAR, "{'A','B'}"),
    ] {
        assert_eq!(machine.print(times(count, di(&[k(0)], ty))), text);
    }
}

#[test]
fn an_array_in_user_memory_is_read_there() {
    let mut machine = Machine::new();
    machine.set("di", 0x4000).poke(Space::User, 0x4000, &[1, 2]);
    assert_eq!(machine.print(times(2, di(&[u(0)], U8))), "{1,2}");
}

#[test]
fn of_an_array_that_runs_into_a_fault_the_elements_before_it_are_kept() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x4ffa)
        .poke(Space::Kernel, 0x4ffa, &[1, 0, 2, 0, 3, 0]);
    assert_eq!(machine.print(times(5, di(&[k(0)], U16))), "{1,2,3,0,0}");
    assert_eq!(machine.print(times(2, di(&[k(0)], U32))), "{131073,0}");
    // And those after it.
    machine
        .set("di", 0x3ffe)
        .poke(Space::Kernel, 0x4000, &[9, 0]);
    assert_eq!(machine.print(times(3, di(&[k(0)], U16))), "{0,9,65535}");
}

#[test]
fn an_array_of_bitfields_takes_the_bits_of_each_number() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x4ffc)
        .poke(Space::Kernel, 0x4ffc, &[0x12, 0x34, 0x56, 0x78]);
    let nibble = |n, width| times(n, di(&[k(0)], bits(4, 4, width)));
    assert_eq!(machine.print(nibble(4, Width::W1)), "{1,3,5,7}");
    assert_eq!(machine.print(nibble(2, Width::W2)), "{1,5}");
    // The fifth is in the next page.
    assert_eq!(machine.print(nibble(6, Width::W1)), "{1,3,5,7,0,0}");
}

#[test]
fn an_array_of_a_value_is_in_memory_at_the_value() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x4000)
        .poke(Space::Kernel, 0x4000, &[0xa1, 0xb2]);
    assert_eq!(machine.print(times(2, di(&[], X8))), "{0xa1,0xb2}");
    let low = bits(4, 0, Width::W1);
    assert_eq!(machine.print(times(2, di(&[], low))), "{1,2}");
}

/// Pointers at 0x4000 to "one", to nowhere and to "three".
fn pointers() -> Machine {
    let mut machine = Machine::new();
    machine
        .set("di", 0x3ff0)
        .poke_word(Space::Kernel, 0x4000, 0x6000)
        .poke_word(Space::Kernel, 0x4008, 0)
        .poke_word(Space::Kernel, 0x4010, 0x6004)
        .poke(Space::Kernel, 0x6000, b"one\0three\0");
    machine
}

#[test]
fn an_array_of_strings_is_one_of_pointers() {
    let record = pointers().record(&[
        di(&[], U8),
        times(3, di(&[k(0x10)], STRING)),
        di(&[k(0x20)], U8),
    ]);
    assert_eq!(record.layout.bytes(), 4 + 12 + 1);
    assert_eq!(record.string(1, 0), Some(&b"one\0"[..]));
    assert_eq!(record.string(1, 1), None);
    assert_eq!(record.string(1, 2), Some(&b"three\0"[..]));
    assert_eq!(record.used, 17 + 11);
    assert_eq!(
        record.print(),
        " arg1=240 arg2={\"one\",(fault),\"three\"} arg3=4"
    );
}

#[test]
fn in_an_array_of_strings_pointers_and_strings_have_their_own_space() {
    let mut machine = pointers();
    machine
        .poke(Space::User, 0x6000, b"uno\0")
        .poke_word(Space::User, 0x4000, 0x6004);
    let array = |deref, ty| times(1, di(&[deref], ty));
    assert_eq!(machine.print(array(k(16), STRING)), "{\"one\"}");
    assert_eq!(machine.print(array(k(16), USTRING)), "{\"uno\"}");
    assert_eq!(machine.print(array(u(16), STRING)), "{\"three\"}");
}

#[test]
fn a_pointer_that_cannot_be_read_is_a_string_that_cannot_be_read() {
    let mut machine = pointers();
    machine
        .set("di", 0x5000 - 12)
        .poke_word(Space::Kernel, 0x5000 - 12, 0x6000);
    let array = times(3, di(&[k(0)], STRING));
    assert_eq!(machine.print(array), "{\"one\",(fault),(fault)}");
}

#[test]
fn an_array_of_one_string_at_a_value_is_the_string_at_this_value() {
    let machine = pointers();
    let at = |address| source(Base::Immediate(address), &[], STRING);
    assert_eq!(machine.print(times(1, at(0x6004))), "{\"three\"}");
    assert_eq!(
        machine.print(times(3, at(0x4000))),
        "{\"one\",(fault),\"three\"}"
    );
}

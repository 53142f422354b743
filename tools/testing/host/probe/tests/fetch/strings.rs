// SPDX-License-Identifier: GPL-2.0

//! Strings: how much is read, what of it is kept.

use probe::{
    argument::*,
    fetch::MAX_STRING,
    types::*, //
};

use crate::machine::*;

/// A machine with a NUL-terminated text at `address`, where `di` points to.
fn with_text(space: Space, address: u64, text: &[u8]) -> Machine {
    let mut machine = Machine::new();
    machine.set("di", address).poke(space, address, text);
    machine.poke(space, address + text.len() as u64, &[0]);
    machine
}

#[test]
fn a_string_is_kept_with_its_nul_behind_the_fields() {
    let machine = with_text(Space::Kernel, 0x4000, b"hello");
    let record = machine.record(&[di(&[], U8), di(&[k(0)], STRING), di(&[], U8)]);
    assert_eq!(record.layout.bytes(), 9);
    assert!(record.layout.is_dynamic());
    assert_eq!(record.used, 15);
    // 6 bytes, from byte 25 of the record on.
    assert_eq!(record.data(), [0, 0, 0, 0, 25, 0, 6, 0, 0]);
    assert_eq!(&record.bytes[25..31], b"hello\0");
    assert_eq!(record.print(), " arg1=0 arg2=\"hello\" arg3=0");
}

#[test]
fn the_empty_string_is_its_nul() {
    let machine = with_text(Space::Kernel, 0x4000, b"");
    let record = machine.record(&[di(&[k(0)], STRING)]);
    assert_eq!(record.string(0, 0), Some(&b"\0"[..]));
    assert_eq!(record.print(), " arg1=\"\"");
}

#[test]
fn the_space_of_a_string_is_that_of_its_type_or_of_its_dereference() {
    let mut machine = with_text(Space::Kernel, 0x4000, b"kernel");
    machine.poke(Space::User, 0x4000, b"user\0");
    machine.poke_word(Space::Kernel, 0x5000, 0x4000 - 2);
    machine.set("si", 0x5000);
    let si = |list: &[Deref], ty| source(Base::Register(reg("si")), list, ty);
    for (argument, text) in [
        (di(&[k(0)], STRING), "\"kernel\""),
        (di(&[k(0)], USTRING), "\"user\""),
        (di(&[u(0)], STRING), "\"user\""),
        (di(&[u(0)], USTRING), "\"user\""),
        (di(&[u(2)], STRING), "\"er\""),
        (di(&[k(2)], USTRING), "\"er\""),
        (si(&[k(0), k(2)], STRING), "\"kernel\""),
        (si(&[k(0), k(2)], USTRING), "\"user\""),
        (si(&[k(0), u(3)], STRING), "\"ser\""),
        // Nothing to be dereferenced: the value is the address.
        (di(&[], STRING), "\"kernel\""),
        (di(&[], USTRING), "\"user\""),
        (source(Base::Immediate(0x4001), &[], STRING), "\"ernel\""),
    ] {
        assert_eq!(machine.print(argument.clone()), text, "{argument:?}");
    }
}

#[test]
fn the_name_of_the_task_and_texts_and_symbols_are_strings() {
    let mut machine = Machine::new();
    machine.comm = 0x9100;
    machine
        .poke(Space::Kernel, 0x9100, b"cat\0")
        .poke(Space::Kernel, 0x7004, b"text\0")
        .poke(Space::Kernel, 0x5006, b"Linux\0");
    for (base, list, text) in [
        (Base::Comm, &[][..], "\"cat\""),
        (Base::Text("text"), &[], "\"text\""),
        (Base::Symbol("banner"), &[k(0)], "\"Linux\""),
    ] {
        assert_eq!(machine.print(source(base, list, STRING)), text);
    }
}

#[test]
fn the_symbol_of_a_value_is_a_string() {
    let mut machine = with_text(Space::Kernel, 0x4000, b"text");
    machine
        .poke_word(Space::Kernel, 0x5008, 0x6000)
        .poke_word(Space::Kernel, 0x6010, 0x7777)
        .set("si", 0x5000);
    let si = |list: &[Deref]| source(Base::Register(reg("si")), list, SYMSTR);
    let record = machine.record(&[
        si(&[]),
        di(&[k(0)], STRING),
        si(&[k(8)]),
        si(&[k(8), k(16)]),
    ]);
    assert_eq!(
        record.print(),
        " arg1=\"sym+0x5000/0xffff\" arg2=\"text\" arg3=\"sym+0x6000/0xffff\" \
         arg4=\"sym+0x7777/0xffff\""
    );
    assert_eq!(record.string(0, 0), Some(&b"sym+0x5000/0xffff\0"[..]));
    assert_eq!(record.used, 16 + 3 * 18 + 5);
    // Where the way to it cannot be followed there is none.
    assert_eq!(machine.print(si(&[k(8), k(32), k(0)])), "(fault)");
    assert_eq!(machine.print(si(&[u(8)])), "(fault)");
}

#[test]
fn any_length_at_any_distance_from_the_end_of_a_page_is_read_whole() {
    for space in [Space::Kernel, Space::User] {
        for len in (0..150).chain([255, 256, 257, 600, 1023, 4000, MAX_STRING - 1]) {
            for before in [1, 2, 7, 8, 9, 63, 64, 65, 100, 128, 4095, 4096] {
                let text = vec![b'x'; len];
                let machine = with_text(space, 0x4_0000 - before, &text);
                let deref = Deref { space, offset: 0 };
                let record = machine.record(&[di(&[deref], STRING)]);
                let string = record.string(0, 0).unwrap();
                assert_eq!(string.len(), len + 1, "{len} bytes {before} before the end");
                assert_eq!(&string[..len], text);
                assert_eq!(string[len], 0);
            }
        }
    }
}

#[test]
fn no_byte_is_read_twice_and_no_read_crosses_a_page() {
    for before in 0..200 {
        let machine = with_text(Space::Kernel, 0x4_0000 - before, &[b'x'; 3000]);
        machine.record(&[di(&[k(0)], STRING)]);
        let mut next = 0x4_0000 - before;
        for (_, address, len) in machine.reads.borrow().iter() {
            assert_eq!(*address, next);
            next += *len as u64;
            assert_eq!(*address / PAGE, (next - 1) / PAGE);
        }
    }
}

#[test]
fn a_short_string_within_a_page_takes_one_read() {
    for offset in 0..64 {
        let machine = with_text(Space::User, 0x4_0000 + offset, &[b'x'; 40]);
        machine.record(&[di(&[u(0)], STRING)]);
        assert_eq!(machine.reads.borrow().len(), 1);
    }
}

#[test]
fn a_long_string_takes_few_reads() {
    let machine = with_text(Space::Kernel, 0x4_0000, &[b'x'; 4000]);
    machine.record(&[di(&[k(0)], STRING)]);
    assert!(machine.reads.borrow().len() <= 7);
}

#[test]
fn a_nul_that_ends_a_page_keeps_the_next_page_from_being_read() {
    let machine = with_text(Space::Kernel, 0x4_0000 - 6, b"hello");
    assert_eq!(machine.print(di(&[k(0)], STRING)), "\"hello\"");
}

#[test]
fn a_fault_anywhere_makes_a_string_of_no_length_at_a_nul() {
    for before in [1, 8, 63, 64, 65, 200, 4096] {
        let mut machine = Machine::new();
        let address = 0x4_0000 - before;
        machine.set("di", address).set("si", 0x9000);
        machine.poke(Space::Kernel, address, &vec![b'x'; before as usize]);
        machine.poke(Space::Kernel, 0x9000, b"next\0");
        let record = machine.record(&[
            di(&[k(0)], STRING),
            source(Base::Register(reg("si")), &[k(0)], STRING),
        ]);
        if before == 4096 {
            // It is as long as strings can be: what follows is not looked at.
            assert_eq!(record.string(0, 0).map(<[u8]>::len), Some(MAX_STRING));
            continue;
        }
        assert_eq!(record.string(0, 0), None);
        // It takes only a NUL.
        assert_eq!(record.string(1, 0), Some(&b"next\0"[..]));
        assert_eq!(record.used, 8 + 1 + 5);
        assert_eq!(record.print(), " arg1=(fault) arg2=\"next\"");
    }
}

#[test]
fn a_string_without_an_end_is_cut_at_4096_bytes() {
    for len in [4095, 4096, 4097, 8192] {
        let mut machine = Machine::new();
        machine
            .set("di", 0x4_0123)
            .poke(Space::Kernel, 0x4_0123, &vec![b'x'; len])
            .poke(Space::Kernel, 0x4_0123 + len as u64, &[0]);
        let record = machine.record(&[di(&[k(0)], STRING)]);
        let string = record.string(0, 0).unwrap();
        assert_eq!(string.len(), 4096);
        assert_eq!(string.iter().position(|byte| *byte == 0), Some(4095));
        let read: usize = machine.reads.borrow().iter().map(|read| read.2).sum();
        assert_eq!(read, 4096);
    }
}

#[test]
fn bytes_that_are_nearly_nul_do_not_end_a_string() {
    // 0x80 and 0x01 are what the search for a NUL in a word is prone to get wrong.
    for byte in 1..=255 {
        for len in 1..20 {
            let mut text = vec![0x01; len];
            text[len - 1] = byte;
            let machine = with_text(Space::Kernel, 0x4001, &text);
            let record = machine.record(&[di(&[k(0)], STRING)]);
            assert_eq!(record.string(0, 0).unwrap(), [&text[..], &[0]].concat());
        }
    }
}

#[test]
fn several_strings_come_one_after_the_other() {
    let mut machine = Machine::new();
    machine.set("di", 0x4000);
    machine.poke(Space::Kernel, 0x4000, b"one\0two\0three\0");
    let record = machine.record(&[
        di(&[k(8)], STRING),
        di(&[k(0)], STRING),
        di(&[u(0)], STRING),
        di(&[k(4)], STRING),
    ]);
    let start = HEADER + 16;
    assert_eq!(&record.bytes[start..start + 15], b"three\0one\0\0two\0");
    assert_eq!(record.used, 16 + 15);
    assert_eq!(
        record.print(),
        " arg1=\"three\" arg2=\"one\" arg3=(fault) arg4=\"two\""
    );
}

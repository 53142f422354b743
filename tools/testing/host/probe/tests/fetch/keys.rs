// SPDX-License-Identifier: GPL-2.0

//! Keys and fields, from their text to the words of a hit.

use std::convert::Infallible;

use probe::{
    arch::current,
    command::{
        parse,
        Line,
        ParseContext,
        ProbePoint,
        TypeInfo, //
    },
    counting::write_string,
    fetch::{
        compile_key,
        compile_number,
        save_entry_data,
        write_key,
        KeyContext, //
    },
    types::Space, //
};
use proptest::prelude::*;

use crate::machine::*;

impl KeyContext for Machine {
    fn function(&self) -> u64 {
        0xffff_ffff_8110_0000
    }

    fn pid(&self) -> u64 {
        1234
    }

    fn comm(&self) -> [u64; 2] {
        let comm = *b"kworker/0:1\0old\0";
        [0, 8].map(|at| u64::from_le_bytes(comm[at..at + 8].try_into().unwrap()))
    }

    fn callers(&self, to: &mut [u64]) {
        to.fill(0);
        to[..2].copy_from_slice(&[0x10, 0x20]);
    }
}

/// The words of the keys, and the numbers of the fields, of a hit.
fn hit(machine: &Machine, point: ProbePoint, line: &str) -> (Vec<u64>, Vec<u64>) {
    let Ok(Line::Create(command)) = parse(line) else {
        panic!("{line}");
    };
    let context = ParseContext {
        point,
        types: TypeInfo::Unsupported,
        modules: &[],
    };
    let written: Vec<_> = command.arguments().collect();
    let by = command.by().expect(line).expect(line);
    let mut symbols = Symbols::default();

    let operands: Vec<_> = by.key_operands().collect();
    let keys = command.resolve_keys(&by, &operands, &written, context, current::register);
    let keys: Vec<_> = keys.map(|key| key.expect(line)).collect();
    let compiled: Result<Vec<_>, Infallible> = keys
        .iter()
        .map(|key| compile_key(key, &mut symbols))
        .collect();
    let Ok(programs) = compiled;

    let operands: Vec<_> = by.field_operands().collect();
    let values = command.resolve_values(&by, &operands, &written, context, current::register);
    let fields: Result<Vec<_>, Infallible> = values
        .map(|value| compile_number(&value.expect(line).argument, &mut symbols))
        .collect();
    let Ok(fields) = fields;

    if let Some(entry) = &machine.entry {
        let mut words = vec![0; symbols.entry_arguments.len()];
        save_entry_data(&symbols.entry_arguments, &**entry, &mut words);
        machine.entry_data.replace(words);
    }
    let len = keys.iter().map(|key| key.form().words()).sum();
    let mut words = vec![u64::MAX; len];
    write_key(&programs, machine, machine, &mut words);
    let numbers = fields.iter().map(|field| field.number(machine));
    (words, numbers.collect())
}

fn keys(machine: &Machine, keys: &str) -> Vec<u64> {
    hit(machine, ProbePoint::Entry, &format!("p vfs_read by {keys}")).0
}

/// A string as the words of a key.
fn string(text: &str, len: usize) -> Vec<u64> {
    let mut bytes = vec![0; len * 8];
    let text = &text.as_bytes()[..text.len().min(bytes.len())];
    bytes[..text.len()].copy_from_slice(text);
    let words = bytes.chunks(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

fn machine() -> Machine {
    let mut machine = Machine::new();
    machine.comm = 0x5000;
    machine
        .poke(Space::Kernel, 0x5000, b"kworker/0:1\0xyz!")
        .poke(Space::Kernel, 0x6000, b"/etc/passwd\0")
        .poke(Space::Kernel, 0x7000, &[b'a'; 200])
        .set("di", 0x6000)
        .set("si", 0xffff_ffff_ffff_ff00)
        .set("dx", 1000);
    machine
}

#[test]
fn each_key_has_its_words() {
    let machine = machine();
    let stack = [&[0x10, 0x20][..], &[0; 14]].concat();
    let comm = string("kworker/0:1", 2);
    for (text, expected) in [
        ("", vec![]),
        ("func", vec![0xffff_ffff_8110_0000]),
        ("func.hex", vec![0xffff_ffff_8110_0000]),
        ("common_pid", vec![1234]),
        ("$comm", comm.clone()),
        ("common_pid.execname", [&[1234][..], &comm].concat()),
        ("stack", stack),
        ("%dx", vec![1000]),
        ("%dx:u8", vec![0xe8]),
        ("%dx.log2", vec![10]),
        ("%dx.buckets=300", vec![900]),
        ("%si:s8", vec![0]),
        ("%si:s16", vec![0xffff_ffff_ffff_ff00]),
        ("%si:u16.log2", vec![16]),
        ("%dx:b4@4/32", vec![0xe]),
        ("+0(%di):string", string("/etc/passwd", 8)),
        // Memory that is not readable.
        ("+0(%dx):u32", vec![0]),
        ("+0(%dx):string", vec![0; 8]),
        ("%dx:symstr", string("sym+0x3e8/0xffff", 8)),
        (
            "func,%dx,$comm,%dx:u8",
            [&[0xffff_ffff_8110_0000, 1000][..], &comm, &[0xe8]].concat(),
        ),
    ] {
        assert_eq!(keys(&machine, text), expected, "{text}");
    }
}

#[test]
fn a_long_string_is_cut() {
    let mut machine = machine();
    machine.set("di", 0x7000);
    let words = keys(&machine, "+0(%di):string");
    assert_eq!(words, string(&"a".repeat(63), 8));
}

#[test]
fn a_return_has_keys_and_fields_of_the_entry() {
    let mut machine = machine();
    machine.elapsed = 5000;
    machine.set("ax", 0u64.wrapping_sub(22));
    let mut entry = Machine::new();
    entry.set("di", 77).set("si", 88);
    machine.entry = Some(Box::new(entry));
    let line =
        "r vfs_read ns=$elapsed ret=$retval:s32 by ns.log2,ret,$arg1 sum $arg2,ns,ret max ret";
    let (keys, numbers) = hit(&machine, ProbePoint::Return, line);
    let error = 0u64.wrapping_sub(22);
    assert_eq!(keys, [13, error, 77]);
    assert_eq!(numbers, [88, 5000, error, error]);
}

proptest! {
    #[test]
    fn a_string_ends_at_its_nul(
        bytes in prop::collection::vec(prop_oneof![Just(0), Just(1), Just(0x80), any::<u8>()], 0..40),
        len in 0..5usize,
    ) {
        let mut words = vec![u64::MAX; len];
        write_string(&bytes, &mut words);
        let text = bytes.split(|byte| *byte == 0).next().unwrap();
        let mut expected = vec![0; len * 8];
        let text = &text[..text.len().min(len * 8)];
        expected[..text.len()].copy_from_slice(text);
        let written: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        prop_assert_eq!(written, expected);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Where values come from, and the way to them through memory.

use probe::{
    argument::*,
    command::MAX_ARGUMENTS,
    fetch::{
        self,
        EntryArgument,
        Resolver, //
    },
    types::*, //
};

use crate::machine::*;

fn machine() -> Machine {
    let mut machine = Machine::new();
    for (i, name) in ["ax", "di", "si", "dx", "cx", "r8", "r9", "sp"]
        .iter()
        .enumerate()
    {
        machine.set(name, 0x10 + i as u64);
    }
    machine.stack = (0..300).map(|n| 0x1000 + n).collect();
    machine.comm = 0x9000;
    machine.current = 0xa000;
    machine.elapsed = 0x1234;
    machine.caller = 0x1357;
    machine.exit = 0x4321;
    machine.path = 0xb000;
    machine.blocks = 0x77;
    machine.watched = 0x5678;
    machine
}

#[test]
fn every_base_gives_its_value() {
    let cases = [
        (Base::Register(reg("dx")), 0x13),
        (Base::StackPointer, 0x17),
        (Base::Stack(0), 0x1000),
        (Base::Stack(299), 0x1000 + 299),
        (Base::Stack(300), 0),
        (Base::Argument(0), 0x11),
        (Base::Argument(1), 0x12),
        (Base::Argument(2), 0x13),
        (Base::Argument(3), 0x14),
        (Base::Argument(4), 0x15),
        (Base::Argument(5), 0x16),
        // The seventh argument is the word after the return address.
        (Base::Argument(6), 0x1001),
        (Base::Argument(127), 0x1000 + 122),
        (Base::ReturnValue, 0x10),
        (Base::Comm, 0x9000),
        (Base::Current, 0xa000),
        (Base::Elapsed, 0x1234),
        (Base::Caller, 0x1357),
        (Base::Exit, 0x4321),
        (Base::Path, 0xb000),
        (Base::Blocks, 0x77),
        (Base::Watched, 0x5678),
        (Base::Immediate(u64::MAX), u64::MAX),
        (Base::Text("four"), 0x7004),
        (Base::Symbol("jiffies+8"), 0x5009),
    ];
    for (base, value) in cases {
        let machine = machine();
        let record = machine.record(&[source(base, &[], X64)]);
        assert_eq!(record.number(0, 0), value, "{base:?}");
        assert_eq!(record.used, 8);
        assert!(machine.reads.borrow().is_empty(), "{base:?} read memory");
    }
}

#[test]
fn an_object_and_its_parameter_are_entry_data() {
    let machine = machine();
    let mut words = vec![0; 256];
    for (index, word) in [
        (fetch::OBJECT, 0xffff_8880_0123_4500),
        (fetch::PARAMETER, 3),
        (fetch::UNCHANGED, 0x1234),
    ] {
        assert!(usize::from(index) >= MAX_ARGUMENTS);
        words[usize::from(index)] = word;
    }
    // Arguments of the entry have other words.
    words[..2].copy_from_slice(&[0x20, 0x10]);
    machine.entry_data.replace(words);
    let arguments = [
        source(Base::Object, &[], X64),
        source(Base::EntryArgument(1), &[], X64),
        source(Base::Parameter, &[], X64),
        source(Base::EntryArgument(0), &[], X64),
        source(Base::Unchanged, &[], X64),
    ];
    let record = machine.record(&arguments);
    let expected = [0xffff_8880_0123_4500, 0x20, 3, 0x10, 0x1234];
    for (index, word) in expected.into_iter().enumerate() {
        assert_eq!(record.number(index, 0), word);
    }
}

#[test]
fn a_field_of_an_event_gives_its_value() {
    let mut machine = machine();
    machine.event = (0..16).map(|n| 0xf0 + n).collect();
    let at = machine.event.as_ptr().addr() as u64;
    for (offset, value, expected) in [
        (0, RecordValue::Number(Width::W1), 0xf0),
        (1, RecordValue::Signed(Width::W1), -15i64 as u64),
        (2, RecordValue::Number(Width::W2), 0xf3f2),
        (2, RecordValue::Signed(Width::W2), 0xffff_ffff_ffff_f3f2),
        (4, RecordValue::Number(Width::W4), 0xf7f6_f5f4),
        (4, RecordValue::Signed(Width::W4), 0xffff_ffff_f7f6_f5f4),
        (8, RecordValue::Number(Width::W8), 0xfffe_fdfc_fbfa_f9f8),
        (8, RecordValue::Signed(Width::W8), 0xfffe_fdfc_fbfa_f9f8),
        (5, RecordValue::Address, at + 5),
        (5, RecordValue::Text, at + 5),
        (4, RecordValue::DataLoc, at + 0xf5f4),
        (4, RecordValue::RelLoc, at + 4 + 4 + 0xf5f4),
        // As far as the record goes.
        (12, RecordValue::Number(Width::W4), 0xfffe_fdfc),
        (13, RecordValue::Number(Width::W4), 0),
        (u16::MAX, RecordValue::Signed(Width::W8), 0),
    ] {
        let base = Base::Field(RecordField { offset, value });
        let record = machine.record(&[source(base, &[], X64)]);
        assert_eq!(record.number(0, 0), expected, "{base:?}");
    }
    assert!(machine.reads.borrow().is_empty());

    // What a field points to is memory as any other.
    machine.poke(Space::Kernel, 0x5000, b"somewhere\0");
    machine.event = 0x5004u64.to_le_bytes().to_vec();
    let value = RecordValue::Number(Width::W8);
    let base = Base::Field(RecordField { offset: 0, value });
    let record = machine.record(&[source(base, &[], STRING)]);
    assert_eq!(record.string(0, 0), Some(&b"where\0"[..]));
}

#[test]
fn an_error_of_the_resolver_is_the_error_of_the_compiler() {
    struct Nothing;
    impl Resolver for Nothing {
        type Error = String;
        fn symbol(&mut self, name: &str) -> Result<u64, String> {
            Err(format!("no symbol {name}"))
        }
        fn text(&mut self, text: &str) -> Result<u64, String> {
            Err(format!("no room for {text}"))
        }
        fn entry_index(&mut self, _: EntryArgument) -> Result<u8, String> {
            Err("no entry data".into())
        }
    }
    let symbol = source(Base::Symbol("nosuch-4"), &[k(0)], X64);
    let text = source(Base::Text("hello"), &[], STRING);
    let entry = source(Base::EntryArgument(2), &[], X64);
    let register = di(&[], X64);
    assert_eq!(
        fetch::compile(&entry, &mut Nothing),
        Err("no entry data".into())
    );
    assert_eq!(
        fetch::compile(&symbol, &mut Nothing),
        Err("no symbol nosuch-4".into())
    );
    assert_eq!(
        fetch::compile(&text, &mut Nothing),
        Err("no room for hello".into())
    );
    assert!(fetch::compile(&register, &mut Nothing).is_ok());
}

#[test]
fn an_entry_argument_is_the_argument_that_it_was_at_the_entry() {
    let mut machine = machine();
    let mut entry = Machine::new();
    for (i, name) in ["di", "si", "dx", "cx", "r8", "r9"].iter().enumerate() {
        entry.set(name, 0x100 + i as u64);
    }
    entry.stack = vec![0x200, 0x206, 0x207];
    machine.entry = Some(Box::new(entry));
    for (n, value) in [
        (0, 0x100),
        (1, 0x101),
        (5, 0x105),
        (6, 0x206),
        (7, 0x207),
        (8, 0),
    ] {
        assert_eq!(
            machine.print(source(Base::EntryArgument(n), &[], X64)),
            format!("{value:#x}")
        );
    }

    // It is dereferenced at the return.
    machine.poke_word(Space::Kernel, 0x108, 0x7777);
    let argument = source(Base::EntryArgument(0), &[k(8)], U16);
    assert_eq!(machine.print(argument), "30583");
}

#[test]
fn an_entry_argument_is_saved_once() {
    let mut symbols = Symbols::default();
    for n in [3, 0, 3, 130, 0, 3] {
        let argument = source(Base::EntryArgument(n), &[k(n.into())], X64);
        let Ok(_) = fetch::compile(&argument, &mut symbols);
    }
    assert_eq!(symbols.entry_arguments.len(), 3);

    // Where there is less room the rest is left out.
    let mut machine = machine();
    machine.set("cx", 7).set("di", 8);
    let mut words = [1; 2];
    fetch::save_entry_data(&symbols.entry_arguments, &machine, &mut words);
    assert_eq!(words, [7, 8]);
    let mut words = [1; 4];
    fetch::save_entry_data(&symbols.entry_arguments, &machine, &mut words);
    assert_eq!(words, [7, 8, 0x1000 + 125, 1]);
}

#[test]
fn dereferences_are_followed_from_the_innermost_each_in_its_space() {
    // +3(-u0x10(+0x100(%di)))
    let mut machine = Machine::new();
    machine
        .set("di", 0x2000)
        .poke_word(Space::Kernel, 0x2100, 0x8000)
        .poke_word(Space::User, 0x8000 - 0x10, 0xa000)
        .poke(Space::Kernel, 0xa003, &[1, 2, 3, 4]);
    let argument = di(&[k(0x100), u(-0x10), k(3)], X32);
    assert_eq!(machine.print(argument), "0x4030201");
    assert_eq!(
        *machine.reads.borrow(),
        [
            (Space::Kernel, 0x2100, 8),
            (Space::User, 0x8000 - 0x10, 8),
            (Space::Kernel, 0xa003, 4)
        ]
    );
}

#[test]
fn as_many_dereferences_as_an_argument_can_have_are_followed() {
    let mut machine = Machine::new();
    machine.set("di", 0x1_0000);
    let mut list = Vec::new();
    for i in 0..Steps::MAX as u64 {
        let deref = if i % 3 == 1 { u(8) } else { k(8) };
        list.push(deref);
        machine.poke_word(
            deref.space,
            0x1_0008 + i * 0x1000,
            0x1_0000 + (i + 1) * 0x1000,
        );
    }
    assert_eq!(machine.print(di(&list, X64)), "0x20000");
    assert_eq!(machine.reads.borrow().len(), 16);
}

#[test]
fn a_per_cpu_step_gives_the_copy_of_the_current_cpu() {
    const CPU: Step = Step::ThisCpu;
    let read = Step::Deref;
    let mut machine = machine();
    machine.set("di", 0x2000);
    machine.this_cpu = 0x10_0000;
    machine
        .poke_word(Space::Kernel, 0x2008, 0x3000)
        .poke_word(Space::Kernel, 0x10_2000, 0x4000)
        .poke_word(Space::User, 0x10_2010, 0x5000)
        .poke_word(Space::User, 0x4010, 0x6000)
        .poke_word(Space::Kernel, 0x10_3000, 0x7777)
        .poke_word(Space::Kernel, 0x10_6000, 0x8888)
        .poke(Space::Kernel, 0x10_6008, b"here\0");
    let (kernel, user) = (Space::Kernel, Space::User);
    for (steps, ty, text, reads) in [
        // The address itself reads nothing.
        (&[CPU][..], X64, "0x102000", &[][..]),
        (&[CPU], U16, "8192", &[]),
        (&[CPU], bits(4, 12, Width::W2), "2", &[]),
        (&[CPU, CPU], X64, "0x202000", &[]),
        (&[CPU, read(k(0))], X64, "0x4000", &[(kernel, 0x10_2000, 8)]),
        (
            &[CPU, read(u(0x10))],
            X64,
            "0x5000",
            &[(user, 0x10_2010, 8)],
        ),
        // In the middle of a path.
        (
            &[read(k(8)), CPU, read(k(0))],
            X64,
            "0x7777",
            &[(kernel, 0x2008, 8), (kernel, 0x10_3000, 8)],
        ),
        (&[read(k(8)), CPU], X64, "0x103000", &[(kernel, 0x2008, 8)]),
        // Each step has its own space: before and after a step that reads nothing.
        (
            &[CPU, read(k(0)), read(u(0x10)), CPU, read(k(0))],
            X64,
            "0x8888",
            &[
                (kernel, 0x10_2000, 8),
                (user, 0x4010, 8),
                (kernel, 0x10_6000, 8),
            ],
        ),
    ] {
        let argument = with_steps(Base::Register(reg("di")), steps, ty);
        assert_eq!(machine.print(argument), text, "{steps:?}");
        assert_eq!(*machine.reads.borrow(), reads, "{steps:?}");
    }
    let string = [CPU, read(k(0)), read(u(0x10)), CPU, read(k(8))];
    let argument = with_steps(Base::Register(reg("di")), &string, STRING);
    assert_eq!(machine.print(argument), "\"here\"");
    // A fault on the way ends it.
    let fault = [read(k(0x4000)), CPU, read(k(0))];
    let argument = with_steps(Base::Register(reg("di")), &fault, X64);
    assert_eq!(machine.print(argument), "0x0");
    assert_eq!(*machine.reads.borrow(), [(kernel, 0x6000, 8)]);
}

#[test]
fn a_per_cpu_step_can_be_each_of_a_path() {
    let mut machine = machine();
    machine.set("di", 0x2000);
    machine.this_cpu = 0u64.wrapping_sub(0x1000);
    for (at, n) in (0..Steps::MAX).zip(1..) {
        let mut steps = [Step::Deref(u(8)); Steps::MAX];
        steps[at] = Step::ThisCpu;
        let mut value = 0x2000;
        for (i, step) in (0u64..).zip(steps) {
            let next = 0x10_0000 * n + i * 0x3000;
            value = match step {
                Step::Deref(_) => {
                    machine.poke_word(Space::User, value + 8, next);
                    next
                }
                Step::ThisCpu => value - 0x1000,
            };
        }
        let argument = with_steps(Base::Register(reg("di")), &steps, X64);
        assert_eq!(machine.print(argument), format!("{value:#x}"), "{at}");
        assert_eq!(machine.reads.borrow().len(), Steps::MAX - 1);
    }
}

#[test]
fn the_current_task_is_dereferenced_as_any_value() {
    let mut machine = machine();
    machine
        .poke_word(Space::Kernel, 0xa018, 0xb000)
        .poke(Space::Kernel, 0xb008, b"init\0");
    let current = |list: &[Deref], ty| source(Base::Current, list, ty);
    assert_eq!(machine.print(current(&[], X32)), "0xa000");
    assert_eq!(machine.print(current(&[k(0x18)], X64)), "0xb000");
    let argument = current(&[k(0x18), k(8)], STRING);
    assert_eq!(machine.print(argument), "\"init\"");
    let argument = current(&[k(0x18)], SYMSTR);
    assert_eq!(machine.print(argument), "\"sym+0xb000/0xffff\"");
}

#[test]
fn steps_are_taken_off_as_they_were_put_on() {
    let mut steps = Steps::default();
    assert_eq!((steps.pop(), steps.as_slice().len()), (None, 0));
    let step = |n: i32| match n % 3 {
        0 => Step::ThisCpu,
        _ => Step::Deref(k(n)),
    };
    for n in 0..Steps::MAX as i32 {
        assert_eq!(steps.push(step(n)), Ok(()));
    }
    assert_eq!(steps.push(Step::ThisCpu), Err(Step::ThisCpu));
    for n in (0..Steps::MAX as i32).rev() {
        assert_eq!(steps.pop(), Some(step(n)));
    }
    assert_eq!(steps.pop(), None);
    // One that was taken off leaves nothing behind.
    let mut fewer = Steps::new();
    for n in [1, 2, 4] {
        fewer.push(step(n)).unwrap();
    }
    fewer.pop();
    let mut same = Steps::new();
    same.push(step(1)).unwrap();
    same.push(step(2)).unwrap();
    assert_eq!(fewer.as_slice(), same.as_slice());
    assert_eq!(fewer, same);
}

#[test]
fn addresses_wrap_around_as_in_c() {
    let mut machine = Machine::new();
    machine
        .set("di", 4)
        .set("si", u64::MAX)
        .poke_word(Space::Kernel, u64::MAX - 15, 0x1234)
        .poke_word(Space::Kernel, 0, 0x5678);
    assert_eq!(machine.print(di(&[k(-20)], X64)), "0x1234");
    let si = source(Base::Register(reg("si")), &[k(1)], X64);
    assert_eq!(machine.print(si), "0x5678");
}

#[test]
fn offsets_are_taken_whole() {
    for offset in [i32::MIN, i32::MAX] {
        let mut machine = Machine::new();
        let at = 0x1_0000_0000u64.wrapping_add_signed(offset.into());
        machine.set("di", 0x1_0000_0000);
        machine.poke_word(Space::Kernel, at, 77);
        assert_eq!(machine.print(di(&[k(offset)], U64)), "77");
        machine.poke_word(Space::Kernel, 77, 78);
        assert_eq!(machine.print(di(&[k(offset), k(0)], U64)), "78");
    }
}

#[test]
fn a_fault_on_the_way_gives_nothing_and_reads_nothing_more() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x2000)
        .poke_word(Space::Kernel, 0x2000, 0x6000);
    for (argument, text) in [
        (di(&[k(0), k(0), k(0)], X64), "0x0"),
        (di(&[k(0), u(0), k(0)], U8), "0"),
        (di(&[k(0), k(0), k(0)], bits(4, 4, Width::W4)), "0"),
        (di(&[k(0), k(0), k(0)], STRING), "(fault)"),
        (times(3, di(&[k(0), k(0), k(0)], X16)), "{0x0,0x0,0x0}"),
        (
            times(2, di(&[k(0), k(0), k(0)], bits(1, 1, Width::W1))),
            "{0,0}",
        ),
        (
            times(2, di(&[k(0), k(0), k(0)], STRING)),
            "{(fault),(fault)}",
        ),
    ] {
        assert_eq!(machine.print(argument.clone()), text, "{argument:?}");
        assert_eq!(machine.reads.borrow().len(), 2, "{argument:?}");
        // The neighbours are as ever.
        let around = machine.record(&[di(&[], X64), argument.clone(), di(&[], X64)]);
        assert_eq!(around.number(0, 0), 0x2000, "{argument:?}");
        assert_eq!(around.number(2, 0), 0x2000, "{argument:?}");
    }
}

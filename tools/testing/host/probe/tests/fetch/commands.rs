// SPDX-License-Identifier: GPL-2.0

//! From the text of a command to the text of its trace.

use probe::{
    arch::current,
    argument::*,
    command::{
        parse,
        Line,
        ParseContext,
        ProbePoint,
        TypeInfo, //
    },
    fetch::{
        self,
        Field,
        Layout, //
    },
    types::*, //
};

use crate::machine::*;

/// The fields of a trace line for the arguments of a command.
fn trace(machine: &Machine, point: ProbePoint, line: &str) -> String {
    let Ok(Line::Create(command)) = parse(line) else {
        panic!("creates nothing: {line}");
    };
    let context = ParseContext {
        point,
        types: TypeInfo::Unsupported,
        modules: &[],
    };
    let written: Vec<_> = command.arguments().collect();
    let arguments = command.resolve(&written, context, current::register);
    let arguments = arguments.expect(line);
    let arguments: Vec<Argument<'_>> = arguments.map(|argument| argument.expect(line)).collect();
    let record = machine.record(&arguments);

    let mut layout = Layout::new();
    let named: Vec<(String, Field)> = arguments
        .iter()
        .map(|argument| (argument.name.to_string(), layout.add(argument).unwrap()))
        .collect();
    let named = named.iter().map(|(name, field)| (name.as_str(), *field));
    let mut text = Text::default();
    fetch::print(named, &record.bytes, HEADER, &mut text).unwrap();
    text.to_string()
}

fn machine() -> Machine {
    let mut machine = Machine::new();
    machine
        .set("di", 0x4000)
        .set("si", 0x6000)
        .set("dx", 0x1_2345_6789)
        .set("ax", -2i64 as u64)
        .set("sp", 0xf000);
    machine.stack = vec![0x1111, 0x2222, 0x3333];
    machine.comm = 0x9000;
    machine
        .poke_word(Space::Kernel, 0x4000, 0x5000)
        .poke_word(Space::Kernel, 0x4008, 0x5004)
        .poke(Space::Kernel, 0x5000, b"one\0two\0")
        .poke(Space::User, 0x6000, b"/etc/passwd\0")
        .poke(Space::Kernel, 0x9000, b"cat\0")
        // Where `Symbols` has any symbol of eight bytes, and the text `hi`.
        .poke_word(Space::Kernel, 0x5008, 0x4000)
        .poke(Space::Kernel, 0x7002, b"hi\0");
    machine
}

#[test]
fn an_argument_prints_what_it_fetches() {
    let machine = machine();
    for (text, printed) in [
        ("%dx", " arg1=0x123456789"),
        ("len=$arg3:u32", " len=591751049"),
        ("$arg3:s8 b=$arg3:b4@4/8", " arg1=-119 b=8"),
        (
            "sp=$stack top=$stack0 $stack2:x16",
            " sp=0xf000 top=0x1111 arg3=0x3333",
        ),
        ("$arg7 $arg8:x8", " arg1=0x2222 arg2=0x33"),
        ("$comm task=$comm:string", " arg1=\"cat\" task=\"cat\""),
        ("path=+0($arg2):ustring", " path=\"/etc/passwd\""),
        ("path=+u5($arg2):string", " path=\"passwd\""),
        ("path=+0($arg2):string", " path=(fault)"),
        ("+0(+0(%di)):string", " arg1=\"one\""),
        ("+0(%di):string[2]", " arg1={\"one\",\"two\"}"),
        ("+0(+8(%di)):char[3]", " arg1={'t','w','o'}"),
        ("+u0(%si):x8", " arg1=0x2f"),
        ("@0x5004:string @0x5004:char", " arg1=\"two\" arg2='t'"),
        ("\\0x5000:string n=\\-1:s64", " arg1=\"one\" n=-1"),
        ("\\\"hi\"", " arg1=\"hi\""),
        ("%di:symbol", " arg1=<4000>"),
        ("@four:string", " arg1=\"two\""),
        ("@pointers @symbol+4:x16", " arg1=0x4000 arg2=0x4000"),
        ("+1(@pointers):x8[0x2]", " arg1={0x50,0x0}"),
    ] {
        let line = format!("p vfs_read {text}");
        assert_eq!(trace(&machine, ProbePoint::Entry, &line), printed, "{text}");
    }
}

#[test]
fn the_current_task_and_the_current_cpu_are_those_of_the_hit() {
    let mut machine = machine();
    machine.current = 0x4000;
    // The symbols are at 0x5000 and the length of their name.
    machine.this_cpu = 0x20_0000;
    machine
        .poke_word(Space::Kernel, 0x20_5004, 0x4008)
        .poke_word(Space::Kernel, 0x20_5010, 0x6006)
        .poke_word(Space::Kernel, 0x20_4000, 77);
    for (text, printed) in [
        ("$current task=$current:u16", " arg1=0x4000 task=16384"),
        ("+0(+0($current)):string", " arg1=\"one\""),
        ("this_cpu_ptr(@four)", " arg1=0x205004"),
        ("this_cpu_read(@four)", " arg1=0x4008"),
        ("+0(+0(this_cpu_read(@four))):string", " arg1=\"two\""),
        (
            "this_cpu_ptr(%di) this_cpu_read(%di):u8",
            " arg1=0x204000 arg2=77",
        ),
        ("this_cpu_read($current):x16[2]", " arg1={0x4d,0x0}"),
        (
            "+u3(this_cpu_read(@sixteen_letters_)):string",
            " arg1=\"wd\"",
        ),
    ] {
        let line = format!("p vfs_read {text}");
        assert_eq!(trace(&machine, ProbePoint::Entry, &line), printed, "{text}");
    }
}

#[test]
fn a_return_probe_prints_what_it_kept_from_the_entry() {
    let mut machine = machine();
    let mut entry = Machine::new();
    entry.set("di", 0x4008).set("dx", 5);
    entry.stack = vec![0x1110, 0x2220];
    machine.entry = Some(Box::new(entry));
    machine.elapsed = 1_234_567_890_123;
    for (text, printed) in [
        ("$retval ret=$retval:s32", " arg1=0xfffffffffffffffe ret=-2"),
        ("len=$arg3:u32 now=%dx", " len=5 now=0x123456789"),
        ("$arg1 $arg7 $arg1:u8", " arg1=0x4008 arg2=0x2220 arg3=8"),
        ("a=+0(+0($arg1)):string", " a=\"two\""),
        (
            "a=+0($arg1):string[1] b=+u0(%si):string",
            " a={\"two\"} b=\"/etc/passwd\"",
        ),
        (
            "ns=$elapsed $elapsed:x32 len=$arg3",
            " ns=1234567890123 arg2=0x71fb04cb len=0x5",
        ),
        ("$arg1:b4@12/16 $arg1:symbol", " arg1=4 arg2=<4008>"),
    ] {
        let line = format!("r vfs_read {text}");
        assert_eq!(
            trace(&machine, ProbePoint::Return, &line),
            printed,
            "{text}"
        );
    }
}

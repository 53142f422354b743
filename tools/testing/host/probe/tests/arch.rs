// SPDX-License-Identifier: GPL-2.0

//! Module `arch`: registers, their names and their places.

use probe::arch::{
    arm64,
    x86_64,
    Slot, //
};

#[test]
fn the_registers_of_x86_64_are_where_pt_regs_has_them() {
    let order = [
        "r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si",
        "di", "orig_ax", "ip", "cs", "flags", "sp", "ss",
    ];
    for (i, name) in order.iter().enumerate() {
        assert_eq!(x86_64::register(name).map(|r| r.offset()), Some(i * 8));
    }
    let names: Vec<&str> = x86_64::REGISTERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, order);
    assert_eq!(x86_64::PT_REGS_BYTES, order.len() * 8);
}

#[test]
fn what_is_not_the_name_of_a_register_is_none() {
    for name in [
        "", "a", "axx", "AX", "rax", "eax", "r", "r16", "r1", "%ax", "ax ", "fs_base",
    ] {
        assert_eq!(x86_64::register(name), None, "{name:?}");
    }
}

#[test]
fn the_arguments_of_a_function_are_in_registers_then_on_the_stack() {
    let registers = ["di", "si", "dx", "cx", "r8", "r9"];
    for (n, name) in registers.iter().enumerate() {
        let register = x86_64::register(name).unwrap();
        assert_eq!(x86_64::argument(n as u16), Slot::Register(register));
    }
    assert_eq!(x86_64::argument(6), Slot::Stack(1));
    assert_eq!(x86_64::argument(7), Slot::Stack(2));
    assert_eq!(x86_64::argument(u16::MAX), Slot::Stack(u16::MAX - 5));
}

#[test]
fn the_return_value_and_the_stack_pointer_have_their_registers() {
    assert_eq!(Some(x86_64::RETURN_VALUE), x86_64::register("ax"));
    assert_eq!(Some(x86_64::STACK_POINTER), x86_64::register("sp"));
}

#[test]
fn the_registers_of_arm64_are_where_pt_regs_has_them() {
    let order: Vec<String> = (0..=30)
        .map(|n| format!("x{n}"))
        .chain(["sp", "pc", "pstate"].map(String::from))
        .collect();
    for (i, name) in order.iter().enumerate() {
        assert_eq!(arm64::register(name).map(|r| r.offset()), Some(i * 8));
    }
    assert_eq!(arm64::register("lr"), arm64::register("x30"));
    assert_eq!(arm64::REGISTERS.len(), order.len() + 1);
    assert_eq!(arm64::PT_REGS_BYTES, order.len() * 8);
}

#[test]
fn what_is_not_the_name_of_a_register_of_arm64_is_none() {
    for name in [
        "", "x", "x31", "x01", "X0", "w0", "r0", "fp", "xzr", "%x0", "x0 ", "orig_x0", "pmr",
    ] {
        assert_eq!(arm64::register(name), None, "{name:?}");
    }
}

#[test]
fn the_ninth_argument_on_arm64_is_the_first_word_of_the_stack() {
    for n in 0..8 {
        let register = arm64::register(&format!("x{n}")).unwrap();
        assert_eq!(arm64::argument(n), Slot::Register(register));
    }
    assert_eq!(arm64::argument(8), Slot::Stack(0));
    assert_eq!(arm64::argument(9), Slot::Stack(1));
    assert_eq!(arm64::argument(u16::MAX), Slot::Stack(u16::MAX - 8));
}

#[test]
fn what_arm64_calls_by_other_names_is_in_these_registers() {
    assert_eq!(Some(arm64::RETURN_VALUE), arm64::register("x0"));
    assert_eq!(Some(arm64::STACK_POINTER), arm64::register("sp"));
    assert_eq!(Some(arm64::INSTRUCTION_POINTER), arm64::register("pc"));
    assert_eq!(Some(arm64::FRAME_POINTER), arm64::register("x29"));
    assert_eq!(Some(arm64::LINK), arm64::register("x30"));
}

#[test]
fn the_names_of_assemblers_lead_to_those_of_the_kernel() {
    for (name, known) in [
        ("rax", "ax"),
        ("ebp", "bp"),
        ("rip", "ip"),
        ("eflags", "flags"),
        ("r15d", "r15"),
        ("r8b", "r8"),
    ] {
        assert_eq!(x86_64::kernel_name(name), Some(known), "{name}");
    }
    for (name, known) in [("w0", "x0"), ("w30", "x30"), ("fp", "x29")] {
        assert_eq!(arm64::kernel_name(name), Some(known), "{name}");
    }
    for name in ["", "ax", "r", "e", "r8", "r16", "x0", "w31", "w", "wsp"] {
        assert_eq!(x86_64::kernel_name(name), None, "{name}");
        assert_eq!(arm64::kernel_name(name), None, "{name}");
    }
}

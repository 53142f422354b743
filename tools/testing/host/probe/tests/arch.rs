// SPDX-License-Identifier: GPL-2.0

//! Module `arch`: registers, their names and their places.

use probe::arch::{
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

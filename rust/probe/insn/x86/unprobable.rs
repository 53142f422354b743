// SPDX-License-Identifier: GPL-2.0

//! Instructions of x86-64 that a kprobe cannot replace.
//!
//! C: `arch/x86/kernel/kprobes/core.c`.

use super::super::unprobable::Unprobable;

use super::{
    Encoding,
    ModRm,
    Opcode,
    RemainingBytes, //
};

/// Implements [`Decoder::unprobable`](super::super::Decoder::unprobable). Ignores the bytes before
/// the instruction.
///
/// C: `is_exception_insn()`, `insn_masking_exception()`, `prepare_emulation()`.
pub(super) fn unprobable(text: &[u8], offset: usize) -> Option<Unprobable> {
    let mut bytes = RemainingBytes(text.get(offset..)?);
    let opcode = Opcode::parse(&mut bytes)?;
    if opcode.encoding != Encoding::Legacy {
        return None;
    }
    let modrm = match opcode.form.has_modrm() {
        true => ModRm::parse(&mut bytes, &opcode)?,
        false => ModRm(0),
    };
    let (name, reason) = match (opcode.map, opcode.opcode) {
        (0, 0xcc) => ("int3", "exception"),
        (0, 0xcd) => ("int", "exception"),
        (0, 0xf1) => ("int1", "exception"),
        (1, 0x0b) => ("ud2", "exception"),
        (1, 0xb9) => ("ud1", "exception"),
        (1, 0xff) => ("ud0", "exception"),
        (0, 0xcf) => ("iret", "return from an exception"),
        (0, 0x8e) if modrm.reg() == 2 => ("mov", "load of the stack segment"),
        (1, 0x01) if modrm.is_register() && modrm.reg() == 0 => {
            (virtual_name(modrm), "extension for virtual machines")
        }
        (0, 0xff) => match (modrm.reg(), modrm.is_register()) {
            (2, false) => ("call", "target in memory"),
            (4, false) => ("jmp", "target in memory"),
            (2, true) if opcode.prefixes.address_size => ("call", "address of 32 bits"),
            (4, true) if opcode.prefixes.address_size => ("jmp", "address of 32 bits"),
            (3, _) => ("lcall", "call of another segment"),
            (5, _) => ("ljmp", "jump to another segment"),
            _ => return None,
        },
        _ => return None,
    };
    Some(Unprobable::new(name, reason))
}

const fn virtual_name(modrm: ModRm) -> &'static str {
    match modrm.0 & 7 {
        0 => "enclv",
        1 => "vmcall",
        2 => "vmlaunch",
        3 => "vmresume",
        4 => "vmxoff",
        5 => "pconfig",
        6 => "wrmsrns",
        _ => "pbndkb",
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The memory that an instruction of x86-64 names.
//!
//! An instruction names memory by a displacement from the instruction pointer, by an absolute
//! address, or by an address in an immediate operand. `gs:` before such an operand adds the offset
//! of this CPU's area to the address. So a per-CPU variable has the address of the variable.

use super::super::{
    decoder::Insn,
    reference::{
        Reference,
        Use, //
    },
};

use super::{
    opcodes::Immediate,
    Encoding,
    Opcode,
    RemainingBytes, //
};

/// An operand in memory, as ModRM encodes it.
enum Operand {
    /// The operand is in a register.
    Register,
    /// At a displacement from the next instruction.
    Relative(i64),
    /// At an address, or at an address plus registers.
    Displaced { at: i64, is_alone: bool },
}

impl Operand {
    /// Reads SIB and the displacement that follow a ModRM byte.
    fn parse(bytes: &mut RemainingBytes<'_>, opcode: &Opcode, modrm: u8) -> Option<Self> {
        let (mode, rm) = (modrm >> 6, modrm & 7);
        if mode == 3 || opcode.is_mov_control() {
            return Some(Self::Register);
        }
        let sib = match rm {
            4 => Some(bytes.next()?),
            _ => None,
        };
        let base = sib.map_or(rm, |sib| sib & 7);
        // Index 4 is no index. With REX.X, it is r12.
        let has_index = sib.is_some_and(|sib| sib >> 3 & 7 != 4 || opcode.has_index_bit());
        Some(match (mode, base) {
            (0, 5) if sib.is_none() => Self::Relative(bytes.number(4)?),
            (0, 5) => Self::Displaced {
                at: bytes.number(4)?,
                is_alone: !has_index,
            },
            (1, _) => {
                bytes.skip(1)?;
                Self::Register
            }
            (2, _) => Self::Displaced {
                at: bytes.number(4)?,
                is_alone: false,
            },
            _ => Self::Register,
        })
    }
}

impl Opcode {
    /// Whether REX.X is set. For a prefix that replaces REX, this is unknown, and the answer is
    /// true.
    fn has_index_bit(&self) -> bool {
        match self.encoding {
            Encoding::Vector => true,
            _ => matches!(self.prefixes.rex, Some(rex) if rex & 2 != 0),
        }
    }

    /// What the instruction does with its operand in memory. `None` if it does not access it.
    fn memory_use(&self, reg: u8) -> Option<Use> {
        if self.encoding == Encoding::Vector {
            return Some(Use::Any);
        }
        Some(match (self.map, self.opcode) {
            // lea: the address goes to a register. The operand of floating point, and of calls and
            // jumps to another segment, has more than 8 bytes.
            (0, 0x8d | 0xd8..=0xdf) => Use::Any,
            (0, 0xff) if matches!(reg, 3 | 5) => Use::Any,
            // Arithmetic with a destination in a register, cmp, movsxd, imul, test, and mov from
            // memory.
            (0, 0x02 | 0x03 | 0x0a | 0x0b | 0x12 | 0x13 | 0x1a | 0x1b) => Use::Read,
            (0, 0x22 | 0x23 | 0x2a | 0x2b | 0x32 | 0x33) => Use::Read,
            (0, 0x38..=0x3b | 0x63 | 0x69 | 0x6b | 0x84 | 0x85) => Use::Read,
            (0, 0x8a | 0x8b | 0x8e | 0xa0 | 0xa1) => Use::Read,
            // Groups 1, 3 and 5: cmp; test, mul, div; call, jmp, push.
            (0, 0x80 | 0x81 | 0x83) if reg == 7 => Use::Read,
            (0, 0xf6 | 0xf7) if !matches!(reg, 2 | 3) => Use::Read,
            (0, 0xff) if reg >= 2 => Use::Read,
            // nop, and the hints to load a line of the cache.
            (1, 0x0d | 0x18..=0x1f) => return None,
            // Group 6: lldt, ltr, verr, verw.
            (1, 0x00) if reg >= 2 => Use::Read,
            // Group 8, bt. The bit is in the operand.
            (1, 0xba) if reg == 4 => Use::Read,
            // cmov, imul, movzx, movsx, bsf, bsr.
            (1, 0x40..=0x4f | 0xaf | 0xb6..=0xb8 | 0xbc..=0xbf) => Use::Read,
            // sldt, str, setcc, shld, shrd, cmpxchg, bts, btr, btc with a number, xadd, movnti.
            (1, 0x00 | 0x90..=0x9f | 0xa4 | 0xa5 | 0xac | 0xad | 0xb0 | 0xb1) => Use::Write,
            (1, 0xba | 0xc0 | 0xc1 | 0xc3) => Use::Write,
            // Most others have larger operands. The bit of bt, bts, btr and btc may be anywhere
            // after the operand.
            (1.., _) => Use::Any,
            _ => Use::Write,
        })
    }

    /// The maximum size of the operand in memory, in bytes.
    const fn memory_len(&self, reg: u8) -> u8 {
        match (self.map, self.opcode) {
            // call, jmp and push have operands of 8 bytes without REX.W.
            (0, 0x8f) => 8,
            (0, 0xff) if reg >= 2 => 8,
            _ if self.prefixes.is_wide() => 8,
            _ => 4,
        }
    }

    /// Whether the immediate operand can be an address: it is that of `mov`, `push`, or arithmetic.
    fn has_address(&self) -> bool {
        let is_arithmetic = matches!(
            (self.map, self.opcode),
            (0, 0x05 | 0x0d | 0x15 | 0x1d | 0x25 | 0x2d | 0x35 | 0x3d)
                | (0, 0x68 | 0x81 | 0xb8..=0xbf | 0xc7)
        );
        self.encoding != Encoding::Vector && is_arithmetic
    }
}

/// Calls `found` for the memory that the first instruction of `text` names. `text` is at `address`.
///
/// Returns the length of the instruction. Returns `None` if the instruction is undefined, or
/// exceeds the text. An immediate operand that is a number looks like an address. So the caller
/// must ignore addresses that no variable has.
pub fn references(text: &[u8], address: u64, mut found: impl FnMut(Reference)) -> Option<u8> {
    let Insn { len, .. } = super::decode(text, address)?;
    let mut bytes = RemainingBytes(text);
    let opcode = Opcode::parse(&mut bytes)?;
    let mut modrm = None;
    let mut operand = Operand::Register;
    if opcode.form.has_modrm() {
        let byte = bytes.next()?;
        operand = Operand::parse(&mut bytes, &opcode, byte)?;
        modrm = Some(super::ModRm(byte));
    }
    let immediate = bytes.number(opcode.immediate_size(modrm))?;
    let next = address.wrapping_add(u64::from(len));

    let reg = modrm.map_or(0, super::ModRm::reg);
    let place = match operand {
        Operand::Register if opcode.form.immediate() == Immediate::Offset => {
            Some((0_u64.wrapping_add_signed(immediate), true))
        }
        Operand::Register => None,
        Operand::Relative(offset) => Some((next.wrapping_add_signed(offset), true)),
        Operand::Displaced { at, is_alone } => Some((0_u64.wrapping_add_signed(at), is_alone)),
    };
    if let (Some((address, is_alone)), Some(usage)) = (place, opcode.memory_use(reg)) {
        found(Reference {
            address,
            len: opcode.memory_len(reg),
            // Registers select a part of the variable.
            usage: if is_alone { usage } else { Use::Any },
        });
    }
    if opcode.has_address() {
        found(Reference {
            address: 0_u64.wrapping_add_signed(immediate),
            len: 1,
            usage: Use::Any,
        });
    }
    Some(len)
}

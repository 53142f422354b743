// SPDX-License-Identifier: GPL-2.0

//! The operands after an opcode. Four tables, one for each opcode map, contain a byte of flags for
//! each opcode.
//!
//! Rows and columns follow Intel's *Software Developer's Manual*, volume 2, appendix A, for 64-bit
//! mode. Opcodes that only AMD defines follow AMD's *Programmer's Manual*, volume 3. Nearly all
//! instructions of one opcode, which ModRM or a mandatory prefix selects, have the same length. The
//! parent module handles the others.

/// The operands after an opcode.
#[derive(Clone, Copy)]
pub(super) struct Form(u8);

/// The size of an immediate operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Immediate {
    /// No immediate operand.
    None,
    /// 8 bits (the manuals' `Ib` and `Jb`).
    Byte,
    /// 16 bits (`Iw`).
    Word,
    /// The operand's size, at most 32 bits (`Iz`).
    Operand,
    /// The operand's size (`Iv`). Only a `mov` to a register has an immediate operand of 64 bits.
    Full,
    /// 32 bits (`Jz`).
    Relative,
    /// An address (`Ob`, `Ov`).
    Offset,
    /// 16 and 8 bits: `enter`.
    WordByte,
}

impl Form {
    const IMMEDIATE: u8 = 0x07;
    const MODRM: u8 = 0x08;
    const LEGACY: u8 = 0x10;
    const VECTOR: u8 = 0x20;

    const fn new(flags: u8, immediate: Immediate) -> Self {
        Self(flags | immediate as u8)
    }

    /// Whether a ModRM byte follows.
    pub(super) const fn has_modrm(self) -> bool {
        self.0 & Self::MODRM != 0
    }

    /// Whether the opcode is valid without a VEX or EVEX prefix.
    pub(super) const fn is_legacy(self) -> bool {
        self.0 & Self::LEGACY != 0
    }

    /// Whether the opcode is valid with a VEX or EVEX prefix.
    pub(super) const fn is_vector(self) -> bool {
        self.0 & Self::VECTOR != 0
    }

    /// The immediate operand at the end of the instruction.
    pub(super) const fn immediate(self) -> Immediate {
        match self.0 & Self::IMMEDIATE {
            0 => Immediate::None,
            1 => Immediate::Byte,
            2 => Immediate::Word,
            3 => Immediate::Operand,
            4 => Immediate::Full,
            5 => Immediate::Relative,
            6 => Immediate::Offset,
            _ => Immediate::WordByte,
        }
    }
}

/// No operands. The opcode is undefined, is a prefix, or selects another map.
const __: Form = Form(0);

// Forms without a VEX or EVEX prefix and without ModRM. Some have an immediate operand.
const OP: Form = Form::new(Form::LEGACY, Immediate::None);
const IB: Form = Form::new(Form::LEGACY, Immediate::Byte);
const IW: Form = Form::new(Form::LEGACY, Immediate::Word);
const IZ: Form = Form::new(Form::LEGACY, Immediate::Operand);
const IV: Form = Form::new(Form::LEGACY, Immediate::Full);
const JZ: Form = Form::new(Form::LEGACY, Immediate::Relative);
const MO: Form = Form::new(Form::LEGACY, Immediate::Offset);
const WB: Form = Form::new(Form::LEGACY, Immediate::WordByte);

// Forms without a VEX or EVEX prefix and with ModRM. Some have an immediate operand.
const RM: Form = Form::new(Form::LEGACY | Form::MODRM, Immediate::None);
const RB: Form = Form::new(Form::LEGACY | Form::MODRM, Immediate::Byte);
const RZ: Form = Form::new(Form::LEGACY | Form::MODRM, Immediate::Operand);

// Forms only with a VEX or EVEX prefix.
const VM: Form = Form::new(Form::VECTOR | Form::MODRM, Immediate::None);
const VB: Form = Form::new(Form::VECTOR | Form::MODRM, Immediate::Byte);
const VZ: Form = Form::new(Form::VECTOR | Form::MODRM, Immediate::Operand);
const VD: Form = Form::new(Form::VECTOR | Form::MODRM, Immediate::Relative);

// Forms with and without a VEX or EVEX prefix.
const AO: Form = Form::new(Form::LEGACY | Form::VECTOR, Immediate::None);
const AM: Form = Form::new(Form::LEGACY | Form::VECTOR | Form::MODRM, Immediate::None);
const AB: Form = Form::new(Form::LEGACY | Form::VECTOR | Form::MODRM, Immediate::Byte);

/// Opcodes of one byte.
#[rustfmt::skip]
static ONE_BYTE: [Form; 256] = [
//  _0  _1  _2  _3  _4  _5  _6  _7  _8  _9  _a  _b  _c  _d  _e  _f
    RM, RM, RM, RM, IB, IZ, __, __, RM, RM, RM, RM, IB, IZ, __, __, // 0_
    RM, RM, RM, RM, IB, IZ, __, __, RM, RM, RM, RM, IB, IZ, __, __, // 1_
    RM, RM, RM, RM, IB, IZ, __, __, RM, RM, RM, RM, IB, IZ, __, __, // 2_
    RM, RM, RM, RM, IB, IZ, __, __, RM, RM, RM, RM, IB, IZ, __, __, // 3_
    __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, // 4_
    OP, OP, OP, OP, OP, OP, OP, OP, OP, OP, OP, OP, OP, OP, OP, OP, // 5_
    __, __, __, RM, __, __, __, __, IZ, RZ, IB, RB, OP, OP, OP, OP, // 6_
    IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, IB, // 7_
    RB, RZ, __, RB, RM, RM, RM, RM, RM, RM, RM, RM, RM, RM, RM, RM, // 8_
    OP, OP, OP, OP, OP, OP, OP, OP, OP, OP, __, OP, OP, OP, OP, OP, // 9_
    MO, MO, MO, MO, OP, OP, OP, OP, IB, IZ, OP, OP, OP, OP, OP, OP, // a_
    IB, IB, IB, IB, IB, IB, IB, IB, IV, IV, IV, IV, IV, IV, IV, IV, // b_
    RB, RB, IW, OP, __, __, RB, RZ, WB, OP, IW, OP, OP, IB, __, OP, // c_
    RM, RM, RM, RM, __, __, OP, OP, RM, RM, RM, RM, RM, RM, RM, RM, // d_
    IB, IB, IB, IB, IB, IB, IB, IB, JZ, JZ, __, IB, OP, OP, OP, OP, // e_
    __, OP, __, __, OP, OP, RM, RM, OP, OP, OP, OP, OP, OP, RM, RM, // f_
];

/// Opcodes after `0f`, and in map 1 of VEX and EVEX.
#[rustfmt::skip]
static MAP_0F: [Form; 256] = [
//  _0  _1  _2  _3  _4  _5  _6  _7  _8  _9  _a  _b  _c  _d  _e  _f
    RM, RM, RM, RM, __, OP, OP, OP, OP, OP, __, OP, __, RM, OP, RB, // 0_
    AM, AM, AM, AM, AM, AM, AM, AM, RM, RM, RM, RM, RM, RM, RM, RM, // 1_
    RM, RM, RM, RM, __, __, __, __, AM, AM, AM, AM, AM, AM, AM, AM, // 2_
    OP, OP, OP, OP, OP, OP, __, OP, __, __, __, __, __, __, __, __, // 3_
    RM, AM, AM, RM, AM, AM, AM, AM, RM, RM, AM, AM, RM, RM, RM, RM, // 4_
    AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, // 5_
    AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, // 6_
    AB, AB, AB, AB, AM, AM, AM, AO, AM, AM, VM, VM, AM, AM, AM, AM, // 7_
    JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, // 8_
    AM, AM, AM, AM, RM, RM, RM, RM, AM, AM, RM, RM, RM, RM, RM, RM, // 9_
    OP, OP, OP, RM, RB, RM, RM, RM, OP, OP, OP, RM, RB, RM, AM, RM, // a_
    RM, RM, RM, RM, RM, RM, RM, RM, RM, RM, RB, RM, RM, RM, RM, RM, // b_
    RM, RM, AB, RM, AB, AB, AB, RM, OP, OP, OP, OP, OP, OP, OP, OP, // c_
    AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, // d_
    AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, // e_
    AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, RM, // f_
];

/// Opcodes after `0f 38`, and in map 2 of VEX and EVEX.
#[rustfmt::skip]
static MAP_0F38: [Form; 256] = [
//  _0  _1  _2  _3  _4  _5  _6  _7  _8  _9  _a  _b  _c  _d  _e  _f
    AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, AM, VM, VM, VM, VM, // 0_
    AM, VM, VM, VM, AM, AM, VM, AM, VM, VM, VM, VM, AM, AM, AM, VM, // 1_
    AM, AM, AM, AM, AM, AM, VM, VM, AM, AM, AM, AM, VM, VM, VM, VM, // 2_
    AM, AM, AM, AM, AM, AM, VM, AM, AM, AM, AM, AM, AM, AM, AM, AM, // 3_
    AM, AM, VM, VM, VM, VM, VM, VM, __, VM, __, VM, VM, VM, VM, VM, // 4_
    VM, VM, VM, VM, VM, VM, __, __, VM, VM, VM, VM, VM, __, VM, __, // 5_
    __, __, VM, VM, VM, VM, VM, __, VM, __, __, __, VM, __, __, __, // 6_
    VM, VM, VM, VM, __, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, // 7_
    RM, RM, RM, VM, __, __, __, __, VM, VM, VM, VM, VM, VM, VM, VM, // 8_
    VM, VM, VM, VM, __, __, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, // 9_
    VM, VM, VM, VM, __, __, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, // a_
    VM, VM, __, __, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, // b_
    __, __, __, __, VM, __, VM, VM, AM, RM, AM, AM, AM, AM, __, AM, // c_
    __, __, VM, VM, __, __, __, __, RM, __, VM, AM, AM, AM, AM, AM, // d_
    VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, VM, // e_
    RM, RM, VM, VM, __, AM, AM, VM, RM, RM, RM, RM, RM, __, __, __, // f_
];

/// Opcodes after `0f 3a`, and in map 3 of VEX and EVEX.
#[rustfmt::skip]
static MAP_0F3A: [Form; 256] = [
//  _0  _1  _2  _3  _4  _5  _6  _7  _8  _9  _a  _b  _c  _d  _e  _f
    VB, VB, VB, VB, VB, VB, VB, __, AB, AB, AB, AB, AB, AB, AB, AB, // 0_
    __, __, __, __, AB, AB, AB, AB, VB, VB, VB, VB, __, VB, VB, VB, // 1_
    AB, AB, AB, VB, __, VB, VB, VB, __, __, __, __, __, __, __, __, // 2_
    VB, VB, VB, VB, __, __, __, __, VB, VB, VB, VB, __, __, VB, VB, // 3_
    AB, AB, AB, VB, AB, __, VB, __, VB, VB, VB, VB, VB, __, __, __, // 4_
    VB, VB, __, __, VB, VB, VB, VB, __, __, __, __, VB, VB, VB, VB, // 5_
    AB, AB, AB, AB, __, __, VB, VB, VB, VB, VB, VB, VB, VB, VB, VB, // 6_
    VB, VB, VB, VB, __, __, __, __, VB, VB, VB, VB, VB, VB, VB, VB, // 7_
    __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, // 8_
    __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, // 9_
    __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, // a_
    __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, // b_
    __, __, VB, __, __, __, __, __, __, __, __, __, RB, __, AB, AB, // c_
    __, __, __, __, __, __, __, __, __, __, __, __, __, __, VB, AB, // d_
    __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, // e_
    AB, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, // f_
];

/// The operands after an opcode of a map. Maps have the numbers of VEX and EVEX. Map 0 contains the
/// one-byte opcodes.
pub(super) fn form(map: u8, opcode: u8) -> Form {
    let at = usize::from(opcode);
    match (map, opcode) {
        (0, _) => ONE_BYTE[at],
        (1, _) => MAP_0F[at],
        (2, _) => MAP_0F38[at],
        (3, _) => MAP_0F3A[at],
        // Map 4 repeats opcodes of other maps for more registers (APX).
        (4, 0x24 | 0x2c | 0x6b | 0x80 | 0x83 | 0xc0 | 0xc1) => VB,
        (4, 0x69 | 0x81) => VZ,
        (4, _) => VM,
        // Half-precision instructions.
        (5 | 6, _) => VM,
        // Accesses to model-specific registers (MSR) by number.
        (7, 0xf6 | 0xf8) => VD,
        _ => __,
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The instructions of arm64.
//!
//! Each instruction is a word. One group of encodings contains all branches. The decoder decodes
//! this group completely. In the other groups, it decodes only the instructions that the sweep of a
//! function needs. It refuses words outside all groups, but not most undefined words inside a
//! group.
//!
//! Encodings: *Arm Architecture Reference Manual for A-profile*, C4.1.
//!
//! C: `arch/arm64/include/asm/insn.h`.
//!
//! # Examples
//!
//! ```
//! use probe::insn::arm64::Class;
//!
//! assert_eq!(Class::of(0xd65f_03c0), Some(Class::Ret { register: 30 }));
//! assert_eq!(Class::of(0x5400_0041), Some(Class::BCond { offset: 8 }));
//! ```

mod unprobable;

use super::{
    decoder::{
        Decoder,
        Flow,
        Insn, //
    },
    unprobable::Unprobable,
};

/// The class of an instruction. Offsets are in bytes, from the address of the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `ret xN`: returns to the address in a register. Compilers use register 30.
    Ret {
        /// The register.
        register: u8,
    },
    /// `retaa`, `retab` and similar: returns to the signed address in register 30.
    RetSigned,
    /// `b`.
    B {
        /// The offset of the target.
        offset: i64,
    },
    /// `b.COND`, `bc.COND`.
    BCond {
        /// The offset of the target.
        offset: i64,
    },
    /// `cbz`, `cbnz`.
    Cbz {
        /// The offset of the target.
        offset: i64,
    },
    /// `tbz`, `tbnz`.
    Tbz {
        /// The offset of the target.
        offset: i64,
    },
    /// `br`, `braa` and similar.
    Br {
        /// The register.
        register: u8,
    },
    /// `bl`.
    Bl {
        /// The offset of the target.
        offset: i64,
    },
    /// `blr`, `blraa` and similar.
    Blr {
        /// The register.
        register: u8,
    },
    /// `eret`, `eretaa`, `drps`.
    Eret,
    /// `brk`, `hlt`, `udf`.
    Trap,
    /// `brk #4`, the breakpoint of kprobes.
    Breakpoint,
    /// `nop`.
    Nop,
    /// `bti`: a landing pad for indirect branches.
    Bti,
    /// `paciasp` and similar: sign an address in a register. `paciasp` and `pacibsp` are also
    /// landing pads for indirect calls.
    Pac,
    /// `autiasp` and similar: check and remove the signature of an address.
    Aut,
    /// `ldr` from the text.
    Literal {
        /// The offset of the data.
        offset: i64,
    },
    /// Any other instruction.
    Other,
}

impl Class {
    /// The class of a word. `None` if no instruction has this encoding.
    pub const fn of(word: u32) -> Option<Self> {
        // Bits 28 to 25 select the group.
        match word >> 25 & 0xf {
            // udf, and the matrix instructions.
            0b0000 if word >> 16 == 0 => Some(Self::Trap),
            0b0000 if word >> 31 == 0 => None,
            0b0001 | 0b0011 => None,
            // Of the vector instructions with these bits, only logical instructions with an
            // immediate operand are defined. Byte tables in the text look like the undefined ones.
            0b0010 if word & 0xff30_0000 == 0x0500_0000 && word & 0x000c_0000 != 0 => None,
            0b1010 | 0b1011 => Self::of_branch(word),
            // ldr of any size, ldrsw, prfm
            0b1100 | 0b1110 if word & 0x3b00_0000 == 0x1800_0000 => Some(Self::Literal {
                offset: field::<5, 19>(word),
            }),
            _ if word & 0xffff_c000 == 0xdac1_0000 => Some(Self::of_pointer(word)),
            _ => Some(Self::Other),
        }
    }

    /// The class of a branch, an exception generation or a system instruction.
    const fn of_branch(word: u32) -> Option<Self> {
        let class = match word >> 24 {
            0x14..=0x17 => Self::B {
                offset: field::<0, 26>(word),
            },
            0x94..=0x97 => Self::Bl {
                offset: field::<0, 26>(word),
            },
            0x54 => Self::BCond {
                offset: field::<5, 19>(word),
            },
            // retaasppc, retabsppc
            0x55 if word & 0xffc0_001f == 0x5500_001f => Self::RetSigned,
            0x34 | 0x35 | 0xb4 | 0xb5 => Self::Cbz {
                offset: field::<5, 19>(word),
            },
            0x36 | 0x37 | 0xb6 | 0xb7 => Self::Tbz {
                offset: field::<5, 14>(word),
            },
            0xd4 if word == 0xd420_0080 => Self::Breakpoint,
            0xd4 => match word >> 21 & 7 {
                // brk, hlt
                1 | 2 => Self::Trap,
                // svc, hvc, smc; dcps
                0 | 5 => Self::Other,
                _ => return None,
            },
            0xd5 => Self::of_system(word),
            0xd6 | 0xd7 if word >> 16 & 0x1f == 0x1f => return Self::of_branch_to_register(word),
            _ => return None,
        };
        Some(class)
    }

    /// The class of a system instruction. Only hints matter.
    const fn of_system(word: u32) -> Self {
        if word & 0xffff_f01f != 0xd503_201f {
            return Self::Other;
        }
        match word >> 5 & 0x7f {
            0 => Self::Nop,
            // pacia1716, pacib1716; paciaz to pacibsp
            8 | 10 | 24..=27 => Self::Pac,
            // autia1716, autib1716; autiaz to autibsp
            12 | 14 | 28..=31 => Self::Aut,
            // bti, bti c, bti j, bti jc
            32 | 34 | 36 | 38 => Self::Bti,
            _ => Self::Other,
        }
    }

    /// The class of a branch to a register, `1101011 opc 11111 op3 Rn op4`. `op3` selects the key.
    /// `op4` is the register of the modifier.
    const fn of_branch_to_register(word: u32) -> Option<Self> {
        let register = (word >> 5 & 0x1f) as u8;
        let key = word >> 10 & 0x3f;
        let modifier = word & 0x1f;
        let class = match (word >> 21 & 0xf, key, modifier) {
            (0, 0, 0) | (0, 2 | 3, 31) | (8, 2 | 3, _) => Self::Br { register },
            (1, 0, 0) | (1, 2 | 3, 31) | (9, 2 | 3, _) => Self::Blr { register },
            (2, 0, 0) => Self::Ret { register },
            // Includes retaasppc and retabsppc that read the address of the signing instruction
            // from a register.
            (2, 2 | 3, _) if register == 31 => Self::RetSigned,
            (4, 0, 0) | (4, 2 | 3, 31) | (5, 0, 0) if register == 31 => Self::Eret,
            _ => return None,
        };
        Some(class)
    }

    /// The class of an instruction from `pacia` to `autdzb`, `xpaci` or `xpacd`.
    const fn of_pointer(word: u32) -> Self {
        match word >> 10 & 0x3f {
            0..=3 | 8..=11 => Self::Pac,
            4..=7 | 12..=15 => Self::Aut,
            _ => Self::Other,
        }
    }

    /// The flow of the instruction at `address`.
    pub fn flow(self, address: u64) -> Flow {
        let at = |offset: i64| address.wrapping_add_signed(offset);
        match self {
            Self::Ret { .. } | Self::RetSigned => Flow::Return,
            Self::B { offset } => Flow::Jump(at(offset)),
            Self::BCond { offset } | Self::Cbz { offset } | Self::Tbz { offset } => {
                Flow::Branch(at(offset))
            }
            Self::Br { .. } => Flow::IndirectJump,
            Self::Bl { offset } => Flow::Call(at(offset)),
            Self::Blr { .. } => Flow::IndirectCall,
            Self::Eret => Flow::FarReturn,
            Self::Trap => Flow::Trap,
            Self::Breakpoint => Flow::Breakpoint,
            Self::Nop => Flow::Nop,
            Self::Bti => Flow::Landing,
            Self::Literal { offset } => Flow::Literal(at(offset)),
            Self::Pac | Self::Aut | Self::Other => Flow::Next,
        }
    }
}

/// Extracts a signed number of words from a field of an instruction. Returns it in bytes.
const fn field<const FIRST: u32, const BITS: u32>(word: u32) -> i64 {
    (((word << (32 - BITS - FIRST)) as i32 >> (32 - BITS)) as i64) << 2
}

/// The decoder of arm64.
#[derive(Clone, Copy, Debug)]
pub enum Arm64 {}

impl Decoder for Arm64 {
    const UNIT: usize = 4;

    fn decode(text: &[u8], address: u64) -> Option<Insn> {
        let word = u32::from_le_bytes(*text.first_chunk()?);
        let flow = Class::of(word)?.flow(address);
        Some(Insn { len: 4, flow })
    }

    fn unprobable(text: &[u8], offset: usize) -> Option<Unprobable> {
        unprobable::unprobable(text, offset)
    }
}

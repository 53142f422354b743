// SPDX-License-Identifier: GPL-2.0

//! The instructions of x86-64.
//!
//! An instruction consists of prefixes and an opcode of one of the opcode maps. Depending on the
//! opcode, ModRM with SIB and displacement, and an immediate operand follow. `opcodes` describes
//! the operands of an opcode. This file decodes the prefixes, including VEX, EVEX and REX2, which
//! select the map, and the few instructions that change the flow.
//!
//! The decoder refuses undefined opcodes. It does not notice most invalid combinations of a defined
//! opcode with operands or prefixes. It also refuses:
//!
//! - Near branches and returns with the operand-size prefix. Intel's processors ignore the prefix,
//!   and AMD's processors obey it, so the length of the instruction depends on the processor.
//! - XOP. Only some of AMD's processors had it, and no kernel uses it.
//!
//! C: `arch/x86/lib/insn.c`, `arch/x86/lib/x86-opcode-map.txt`.
//!
//! # Examples
//!
//! ```
//! use probe::insn::{
//!     x86,
//!     Flow, //
//! };
//!
//! // jmp +0x10, at 0x1000
//! let insn = x86::decode(&[0xeb, 0x10, 0xcc], 0x1000).unwrap();
//! assert_eq!((insn.len, insn.flow), (2, Flow::Jump(0x1012)));
//! // An incomplete mov.
//! assert_eq!(x86::decode(&[0x48, 0xc7, 0xc0, 0xc3], 0x1000), None);
//! ```

mod opcodes;
mod reference;
mod unprobable;

use super::{
    decoder::{
        Decoder,
        Flow,
        Insn, //
    },
    unprobable::Unprobable,
};

use self::opcodes::{
    Form,
    Immediate, //
};

pub use reference::references;

/// Maximum length of an instruction, in bytes.
pub const MAX_LEN: usize = 15;

/// The decoder of x86-64.
#[derive(Clone, Copy, Debug)]
pub enum X86 {}

impl Decoder for X86 {
    const UNIT: usize = 1;

    fn decode(text: &[u8], address: u64) -> Option<Insn> {
        decode(text, address)
    }

    fn unprobable(text: &[u8], offset: usize) -> Option<Unprobable> {
        unprobable::unprobable(text, offset)
    }
}

/// Decodes the first instruction of `text`, which is at `address`.
///
/// Returns `None` if the instruction is undefined, or exceeds the text.
pub fn decode(text: &[u8], address: u64) -> Option<Insn> {
    let text = text.get(..MAX_LEN).unwrap_or(text);
    let mut bytes = RemainingBytes(text);
    let opcode = Opcode::parse(&mut bytes)?;
    let modrm = match opcode.form.has_modrm() {
        true => Some(ModRm::parse(&mut bytes, &opcode)?),
        false => None,
    };
    let immediate = bytes.number(opcode.immediate_size(modrm))?;
    let len = text.len().checked_sub(bytes.0.len())?;
    let len = u8::try_from(len).ok()?;
    let next = address.wrapping_add(u64::from(len));
    let flow = opcode.flow(modrm, immediate, next)?;
    Some(Insn { len, flow })
}

/// Whether a function with this name is a return thunk. It replaces `ret` if the processor must not
/// predict the return. A jump to a return thunk returns.
///
/// C: `arch/x86/lib/retpoline.S`.
pub fn is_return_thunk(name: &str) -> bool {
    matches!(
        of_startup(name),
        "__x86_return_thunk"
            | "retbleed_return_thunk"
            | "srso_return_thunk"
            | "srso_alias_return_thunk"
            | "call_depth_return_thunk"
            | "its_return_thunk"
    )
}

/// Whether a function with this name is an indirect thunk. It replaces `jmp *REG` if the processor
/// must not predict the jump. A jump to an indirect thunk jumps to the address in the register.
///
/// C: `arch/x86/lib/retpoline.S`.
pub fn is_indirect_thunk(name: &str) -> bool {
    const SORTS: [&str; 5] = [
        "thunk_",
        "call_thunk_",
        "jump_thunk_",
        "its_thunk_",
        "paranoid_thunk_",
    ];
    of_startup(name)
        .strip_prefix("__x86_indirect_")
        .is_some_and(|rest| SORTS.iter().any(|sort| rest.starts_with(sort)))
}

/// Removes the prefix of a thunk's second name. Code that runs before the kernel is at its linked
/// address uses the second name.
///
/// C: `SYM_PI_ALIAS()`.
fn of_startup(name: &str) -> &str {
    name.strip_prefix("__pi_").unwrap_or(name)
}

/// The bytes that the decoder has not read.
struct RemainingBytes<'a>(&'a [u8]);

impl RemainingBytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    /// Reads a signed little-endian number of up to eight bytes.
    fn number(&mut self, size: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        let is_negative = number.last().is_some_and(|byte| byte & 0x80 != 0);
        let sign = if is_negative { -1 } else { 0 };
        let append = |value: i64, byte: &u8| value << 8 | i64::from(*byte);
        Some(number.iter().rev().fold(sign, append))
    }
}

/// ModRM. It encodes an operand in a register or in memory, and a second operand in a register or a
/// part of the opcode.
#[derive(Clone, Copy)]
struct ModRm(u8);

impl ModRm {
    /// Reads ModRM and, for an operand in memory, SIB and the displacement.
    fn parse(bytes: &mut RemainingBytes<'_>, opcode: &Opcode) -> Option<Self> {
        let modrm = Self(bytes.next()?);
        if modrm.is_register() || opcode.is_mov_control() {
            return Some(modrm);
        }
        let base = match modrm.0 & 7 {
            4 => bytes.next()? & 7,
            rm => rm,
        };
        bytes.skip(match (modrm.0 >> 6, base) {
            (0, 5) | (2, _) => 4,
            (1, _) => 1,
            _ => 0,
        })?;
        Some(modrm)
    }

    const fn is_register(self) -> bool {
        self.0 >> 6 == 3
    }

    const fn reg(self) -> u8 {
        self.0 >> 3 & 7
    }
}

/// The prefixes that matter to the decoder.
#[derive(Clone, Copy, Default)]
struct Prefixes {
    /// Prefix 66.
    operand_size: bool,
    /// Prefix 67.
    address_size: bool,
    /// Prefix f0.
    lock: bool,
    /// The last prefix of f2 and f3. 0 if neither is present.
    repeat: u8,
    /// The bits W, R, X and B of REX, or of the prefix that replaces REX.
    rex: Option<u8>,
}

impl Prefixes {
    /// Reads the prefixes and the next byte.
    fn parse(bytes: &mut RemainingBytes<'_>) -> Option<(Self, u8)> {
        let mut prefixes = Self::default();
        loop {
            let byte = bytes.next()?;
            match byte {
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 => {}
                0x66 => prefixes.operand_size = true,
                0x67 => prefixes.address_size = true,
                0xf0 => prefixes.lock = true,
                0xf2 | 0xf3 => prefixes.repeat = byte,
                0x40..=0x4f => {
                    prefixes.rex = Some(byte & 0xf);
                    continue;
                }
                _ => return Some((prefixes, byte)),
            }
            // The processor ignores REX if another prefix follows it.
            prefixes.rex = None;
        }
    }

    /// Whether REX.W is set: operands have 64 bits.
    const fn is_wide(&self) -> bool {
        matches!(self.rex, Some(8..))
    }

    /// Whether the bit B of REX or REX2 is set.
    const fn has_base(&self) -> bool {
        matches!(self.rex, Some(rex) if rex & 1 != 0)
    }

    /// Whether VEX or EVEX may follow. They replace the prefixes that this function checks.
    const fn is_plain(&self) -> bool {
        !self.operand_size && !self.lock && self.repeat == 0 && self.rex.is_none()
    }
}

/// The encoding of an opcode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// The opcode follows `0f`, `0f 38`, `0f 3a` or no map prefix.
    Legacy,
    /// The opcode follows REX2, which replaces REX and `0f`.
    Rex2,
    /// The opcode follows VEX or EVEX, which replace all prefixes and the bytes that select the
    /// map.
    Vector,
}

/// An opcode with its prefixes.
struct Opcode {
    prefixes: Prefixes,
    encoding: Encoding,
    map: u8,
    opcode: u8,
    form: Form,
}

impl Opcode {
    /// Reads the prefixes and the opcode.
    fn parse(bytes: &mut RemainingBytes<'_>) -> Option<Self> {
        let (prefixes, first) = Prefixes::parse(bytes)?;
        match first {
            0x62 | 0xc4 | 0xc5 if !prefixes.is_plain() => None,
            0x62 => Self::evex(prefixes, bytes),
            0xc4 => Self::vex3(prefixes, bytes),
            0xc5 => Self::vex2(prefixes, bytes),
            0xd5 => Self::rex2(prefixes, bytes),
            0x0f => {
                let (map, opcode) = match bytes.next()? {
                    0x38 => (2, bytes.next()?),
                    0x3a => (3, bytes.next()?),
                    opcode => (1, opcode),
                };
                Self::new(prefixes, Encoding::Legacy, map, opcode)
            }
            opcode => Self::new(prefixes, Encoding::Legacy, 0, opcode),
        }
    }

    fn new(prefixes: Prefixes, encoding: Encoding, map: u8, opcode: u8) -> Option<Self> {
        let form = opcodes::form(map, opcode);
        let is_defined = match encoding {
            Encoding::Vector => form.is_vector(),
            _ => form.is_legacy(),
        };
        is_defined.then_some(Self {
            prefixes,
            encoding,
            map,
            opcode,
            form,
        })
    }

    /// Reads VEX of two bytes: `c5`, `R vvvv L pp`.
    fn vex2(prefixes: Prefixes, bytes: &mut RemainingBytes<'_>) -> Option<Self> {
        bytes.skip(1)?;
        Self::new(prefixes, Encoding::Vector, 1, bytes.next()?)
    }

    /// Reads VEX of three bytes: `c4`, `R X B mmmmm`, `W vvvv L pp`. `m` is the map.
    fn vex3(prefixes: Prefixes, bytes: &mut RemainingBytes<'_>) -> Option<Self> {
        let map = bytes.next()? & 0x1f;
        bytes.skip(1)?;
        let opcode = bytes.next()?;
        match map {
            1..=3 | 7 => Self::new(prefixes, Encoding::Vector, map, opcode),
            _ => None,
        }
    }

    /// Reads EVEX: `62`, `R X B R4 B4 mmm`, `W vvvv X4 pp`, and one byte that does not matter here.
    /// `m` is the map. If `p` is 1, it is the operand-size prefix.
    fn evex(mut prefixes: Prefixes, bytes: &mut RemainingBytes<'_>) -> Option<Self> {
        let map = bytes.next()? & 7;
        let second = bytes.next()?;
        bytes.skip(1)?;
        prefixes.operand_size = second & 3 == 1;
        prefixes.rex = Some(second >> 4 & 8);
        let opcode = Self::new(prefixes, Encoding::Vector, map, bytes.next()?)?;
        opcode.form.has_modrm().then_some(opcode)
    }

    /// Reads REX2: `d5`, `M R4 X4 B4 W R X B`. If `M` is set, the opcode is in map 1.
    fn rex2(mut prefixes: Prefixes, bytes: &mut RemainingBytes<'_>) -> Option<Self> {
        if prefixes.rex.is_some() {
            return None;
        }
        let bits = bytes.next()?;
        let map = bits >> 7;
        let opcode = bytes.next()?;
        prefixes.rex = Some(bits & 0xf | bits >> 4 & 7);
        match (map, opcode) {
            (0, 0xa1) => {}
            (0, 0x70..=0x7f | 0xa0..=0xaf | 0xe0..=0xef) | (1, 0x30..=0x3f | 0x80..=0x8f) => {
                return None;
            }
            _ => {}
        }
        Self::new(prefixes, Encoding::Rex2, map, opcode)
    }

    /// Whether the opcode is a `mov` from or to a control or debug register. It has no operand in
    /// memory.
    const fn is_mov_control(&self) -> bool {
        matches!((self.map, self.opcode), (1, 0x20..=0x23))
    }

    /// The size of the immediate operand, in bytes.
    fn immediate_size(&self, modrm: Option<ModRm>) -> usize {
        let reg = modrm.map(ModRm::reg);
        let immediate = match (self.map, self.opcode, reg) {
            // Group 3: only test has an immediate operand. not, neg, mul and div have none.
            (0 | 4, 0xf6, Some(0 | 1)) => Immediate::Byte,
            (0 | 4, 0xf7, Some(0 | 1)) => Immediate::Operand,
            // extrq and insertq have two immediate operands. Without their prefixes, the opcode is
            // vmread.
            (1, 0x78, _) if self.encoding != Encoding::Vector && self.has_sse4a_prefix() => {
                Immediate::Word
            }
            _ => self.form.immediate(),
        };
        let Prefixes {
            operand_size,
            address_size,
            ..
        } = self.prefixes;
        match immediate {
            Immediate::None => 0,
            Immediate::Byte => 1,
            Immediate::Word => 2,
            Immediate::WordByte => 3,
            Immediate::Relative => 4,
            Immediate::Full if self.prefixes.is_wide() => 8,
            Immediate::Operand if self.prefixes.is_wide() => 4,
            Immediate::Operand | Immediate::Full if operand_size => 2,
            Immediate::Operand | Immediate::Full => 4,
            Immediate::Offset if address_size => 4,
            Immediate::Offset => 8,
        }
    }

    const fn has_sse4a_prefix(&self) -> bool {
        self.prefixes.operand_size || self.prefixes.repeat == 0xf2
    }

    /// The flow of the instruction. `next` is the address of the next instruction.
    fn flow(&self, modrm: Option<ModRm>, immediate: i64, next: u64) -> Option<Flow> {
        let target = next.wrapping_add_signed(immediate);
        let prefixes = &self.prefixes;
        let modrm = modrm.unwrap_or(ModRm(0));
        let flow = match (self.map, self.opcode) {
            (0, 0x70..=0x7f) | (1, 0x80..=0x8f) => Flow::Branch(target),
            // loop, jrcxz
            (0, 0xe0..=0xe3) => Flow::Branch(target),
            (0, 0xe8) => Flow::Call(target),
            (0, 0xe9 | 0xeb) => Flow::Jump(target),
            // jmpabs
            (0, 0xa1) if self.encoding == Encoding::Rex2 => {
                Flow::Jump(0_u64.wrapping_add_signed(immediate))
            }
            (0, 0xc2) if immediate != 0 => Flow::ReturnPop,
            (0, 0xc2 | 0xc3) => Flow::Return,
            // retf, iret
            (0, 0xca | 0xcb | 0xcf) => Flow::FarReturn,
            // sysret, sysexit, rsm
            (1, 0x07 | 0x35 | 0xaa) => Flow::FarReturn,
            // eretu, erets
            (1, 0x01) if modrm.0 == 0xca && prefixes.repeat != 0 => Flow::FarReturn,
            // int3
            (0, 0xcc) => Flow::Breakpoint,
            // udb; ud2, ud1, ud0
            (0, 0xd6) | (1, 0x0b | 0xb9 | 0xff) => Flow::Trap,
            // nop. With f3, the instruction is pause. With REX.B, it is xchg with r8.
            (0, 0x90) if prefixes.repeat != 0xf3 && !prefixes.has_base() => Flow::Nop,
            (1, 0x1f) => Flow::Nop,
            // endbr64
            (1, 0x1e) if modrm.0 == 0xfa && prefixes.repeat == 0xf3 => Flow::Landing,
            // Group 5.
            (0, 0xff) => match (modrm.reg(), modrm.is_register()) {
                (0 | 1 | 6, _) => Flow::Next,
                (2, _) | (3, false) => Flow::IndirectCall,
                (4, _) => Flow::IndirectJump,
                (5, false) => Flow::FarReturn,
                _ => return None,
            },
            // Group 4.
            (0, 0xfe) if modrm.reg() > 1 => return None,
            // xabort, xbegin
            (0, 0xc6) if modrm.0 == 0xf8 => Flow::Next,
            (0, 0xc7) if modrm.0 == 0xf8 => Flow::Branch(target),
            // Groups 11 and 1A: mov and pop. With another reg field, 8f is XOP.
            (0, 0xc6 | 0xc7 | 0x8f) if modrm.reg() != 0 => return None,
            _ => Flow::Next,
        };
        let is_cut = prefixes.operand_size && !prefixes.is_wide() && is_near(flow);
        (!is_cut).then_some(flow)
    }
}

/// Whether the flow changes the instruction pointer, but neither the privilege level nor the code
/// segment.
const fn is_near(flow: Flow) -> bool {
    use Flow::*;
    matches!(
        flow,
        Call(_) | IndirectCall | Jump(_) | Branch(_) | IndirectJump | Return | ReturnPop
    )
}

// SPDX-License-Identifier: GPL-2.0

//! What iced-x86, a disassembler that is not ours, says of an instruction.

use iced_x86::{
    Code,
    Decoder,
    DecoderOptions,
    EncodingKind,
    FlowControl,
    Instruction,
    Mnemonic, //
};
use probe::insn::{
    x86,
    Flow,
    Insn, //
};

/// How two decoders differ, where they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// They do not.
    Same,
    /// Neither takes it for an instruction.
    Neither,
    /// We refuse a near branch with the operand-size prefix, which processors do not agree on.
    Cut,
    /// We refuse XOP.
    Xop,
    /// iced-x86 does not know APX, `udb` and the like.
    New,
    /// Operands or prefixes that the opcode does not take: we do not look, and the length is what it
    /// were with others.
    Lax,
}

fn decode(bytes: &[u8], address: u64, options: u32) -> Option<Instruction> {
    let insn = Decoder::with_ip(64, bytes, address, options).decode();
    (!insn.is_invalid()).then_some(insn)
}

/// Where an instruction leads.
fn flow(insn: &Instruction) -> Flow {
    use Mnemonic::*;
    match insn.mnemonic() {
        Ret if insn.op_count() == 1 && insn.immediate16() != 0 => Flow::ReturnPop,
        Ret => Flow::Return,
        Retf | Iret | Iretd | Iretq | Sysret | Sysretq | Sysexit | Sysexitq | Rsm | Eretu
        | Erets => Flow::FarReturn,
        Int3 => Flow::Breakpoint,
        Ud0 | Ud1 | Ud2 => Flow::Trap,
        Nop => Flow::Nop,
        Endbr64 => Flow::Landing,
        Xbegin => Flow::Branch(insn.near_branch_target()),
        _ => match insn.flow_control() {
            FlowControl::ConditionalBranch => Flow::Branch(insn.near_branch_target()),
            FlowControl::UnconditionalBranch => Flow::Jump(insn.near_branch_target()),
            FlowControl::IndirectBranch if insn.is_jmp_far_indirect() => Flow::FarReturn,
            FlowControl::IndirectBranch => Flow::IndirectJump,
            FlowControl::Call if insn.is_call_near() => Flow::Call(insn.near_branch_target()),
            FlowControl::IndirectCall => Flow::IndirectCall,
            _ if is_long_nop(insn.code()) => Flow::Nop,
            _ => Flow::Next,
        },
    }
}

/// `0f 1f` is defined with one extension of the opcode, and does nothing with the others too.
fn is_long_nop(code: Code) -> bool {
    use Code::*;
    matches!(
        code,
        Reservednop_rm16_r16_0F1F | Reservednop_rm32_r32_0F1F | Reservednop_rm64_r64_0F1F
    )
}

/// Compares our decoder with iced-x86.
pub fn compare(bytes: &[u8], address: u64) -> Result<Outcome, String> {
    let ours = x86::decode(bytes, address);
    let theirs = decode(bytes, address, DecoderOptions::NONE);
    let (ours, theirs) = match (ours, theirs) {
        (None, None) => return Ok(Outcome::Neither),
        (Some(ours), None) => {
            let len = usize::from(ours.len);
            let lax = decode(bytes, address, DecoderOptions::NO_INVALID_CHECK);
            return match lax {
                Some(lax) if lax.len() != len => Err(format!("{ours:?}, not {}", lax.len())),
                None if is_new(bytes) => Ok(Outcome::New),
                _ => Ok(Outcome::Lax),
            };
        }
        (ours, Some(theirs)) => (ours, theirs),
    };
    let expected = Insn {
        len: theirs.len() as u8,
        flow: flow(&theirs),
    };
    match ours {
        Some(ours) if ours == expected => Ok(Outcome::Same),
        None if theirs.encoding() == EncodingKind::XOP => Ok(Outcome::Xop),
        None if is_near(expected.flow) && has_operand_size(bytes) => Ok(Outcome::Cut),
        _ => Err(format!("{ours:?}, not {expected:?} ({theirs:?})")),
    }
}

fn is_near(flow: Flow) -> bool {
    use Flow::*;
    matches!(
        flow,
        Call(_) | IndirectCall | Jump(_) | Branch(_) | IndirectJump | Return | ReturnPop
    )
}

fn prefixes(bytes: &[u8]) -> usize {
    let is_prefix = |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    bytes.iter().take_while(|byte| is_prefix(byte)).count()
}

fn has_operand_size(bytes: &[u8]) -> bool {
    bytes[..prefixes(bytes)].contains(&0x66)
}

/// REX2, EVEX map 4 and 7, VEX map 7, `udb`.
fn is_new(bytes: &[u8]) -> bool {
    match bytes[prefixes(bytes)..] {
        [0xd5 | 0xd6, ..] => true,
        [0x62, map, ..] => matches!(map & 7, 4 | 7) || map & 8 != 0,
        [0xc4, map, ..] => map & 0x1f == 7,
        _ => false,
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The last places where the variables of a function can be read before it returns.
//!
//! At a return instruction, the registers have the values of the caller again, and the frame is free. The instructions that
//! restore them come right before it, and change nothing else. Their first one is the place where the function has
//! done its work, has its result in the register of results, and still has its variables.

use std::collections::BTreeSet;

use probe::insn::{
    Decoder,
    Flow, //
};

#[cfg(target_arch = "aarch64")]
use probe::insn::arm64::Arm64 as Native;
#[cfg(target_arch = "x86_64")]
use probe::insn::x86::X86 as Native;

use crate::{
    analysis,
    failure::{
        note,
        Failure,
        Result, //
    },
    functions::{
        Functions,
        Method, //
    },
    kernel_memory::Memory,
    selection::split,
    tracefs::Tracefs, //
};

/// The most bytes of code that a function has.
const MAX_TEXT: usize = 1 << 20;

/// The place before a return.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// The function, or a part of it that the compiler split off.
    pub symbol: String,
    pub offset: u64,
}

impl Return {
    /// Reads `SYMBOL+0xOFFSET`.
    fn parse(place: &str) -> Option<Self> {
        let (symbol, offset) = place.split_once("+0x")?;
        Some(Self {
            symbol: symbol.into(),
            offset: u64::from_str_radix(offset, 16).ok()?,
        })
    }

    /// Goes back to where the code before the return begins to restore, if it always runs up to the return.
    fn go_back(self, code: &Code) -> Self {
        let part = code.parts.iter().find(|part| part.symbol == self.symbol);
        let before = part.and_then(|part| {
            let end = part.address + self.offset;
            let start = code.targets.range(part.address..=end).next_back()?;
            let own = start - part.address..self.offset;
            part.text.get(own.start as usize..own.end as usize)
        });
        Self {
            offset: self.offset - restoring(before.unwrap_or_default()) as u64,
            ..self
        }
    }
}

/// A function, or a part of it that the compiler split off.
struct Part {
    symbol: String,
    address: u64,
    text: Vec<u8>,
}

/// The code of a function.
struct Code {
    parts: Vec<Part>,
    /// The addresses of the parts, and the targets of the jumps in them.
    targets: BTreeSet<u64>,
}

impl Code {
    /// `None` if not all is known.
    fn of(parts: Vec<Part>) -> Option<Self> {
        let mut targets: BTreeSet<u64> = parts.iter().map(|part| part.address).collect();
        for part in &parts {
            let (mut address, mut text) = (part.address, &*part.text);
            while !text.is_empty() {
                let insn = Native::decode(text, address);
                let length = match insn {
                    Some(insn) => insn.len.into(),
                    // On arm64, the pointer of ftrace is in front of the next function.
                    None if Native::UNIT > 1 => Native::UNIT.min(text.len()),
                    None => return None,
                };
                match insn.map(|insn| insn.flow) {
                    Some(Flow::Jump(target) | Flow::Branch(target)) => {
                        targets.insert(target);
                    }
                    Some(Flow::IndirectJump) => return None,
                    _ => {}
                }
                address += length as u64;
                text = &text[length..];
            }
        }
        Some(Self { parts, targets })
    }

    /// Reads a function and its part that rarely runs, as they are in the kernel now.
    fn read(functions: &Functions, function: &str) -> Option<Self> {
        let (module, name) = split(function);
        let memory = Memory::open().ok()?;
        let number = |address: &str| u64::from_str_radix(address, 16).ok();
        let mut parts = Vec::new();
        for symbol in [name.into(), format!("{name}.cold")] {
            let address = match functions.named(&symbol, module)[..] {
                [] if !parts.is_empty() => continue,
                [(address, _)] => number(address)?,
                _ => return None,
            };
            let all = functions.all().filter_map(|(address, _)| number(address));
            let end = all.filter(|other| *other > address).min()?;
            let mut text = vec![0; usize::try_from(end - address).ok()?.min(MAX_TEXT)];
            memory.read(address, &mut text)?;
            parts.push(Part {
                symbol,
                address,
                text,
            });
        }
        Self::of(parts)
    }
}

/// The places before the returns of a function.
pub fn find(tracefs: &Tracefs, functions: &Functions, function: &str) -> Result<Vec<Return>> {
    functions.check(function, Method::Read)?;
    let text = analysis::exits(tracefs, function)?;
    if tracefs.is_dry() {
        return Err(Failure::new(format!(
            "{function}: a dry run cannot know its return instructions"
        )));
    }
    let (returns, others) = parse(&text);
    if returns.is_empty() {
        let verdict = text.lines().find_map(|line| line.strip_prefix("verdict: "));
        return Err(Failure::new(match others[..] {
            [] => format!("{function} {}", verdict.unwrap_or("has no exits")),
            _ => format!(
                "{function} has no return instruction: {}",
                others.join(", ")
            ),
        }));
    }
    if !others.is_empty() {
        note(format!(
            "rkprobe: {function} leaves elsewhere, too, without a probe: {}",
            others.join(", ")
        ));
    }
    Ok(match Code::read(functions, function) {
        Some(code) => {
            let returns = returns.into_iter();
            returns.map(|place| place.go_back(&code)).collect()
        }
        None => returns,
    })
}

/// The return instructions in the kernel's answer about the exits of a function, and the other exits of calls that return.
fn parse(text: &str) -> (Vec<Return>, Vec<&str>) {
    let (mut returns, mut others) = (Vec::new(), Vec::new());
    for line in text.lines() {
        match line.split_once(' ') {
            Some((place, "ret" | "return thunk")) => returns.extend(Return::parse(place)),
            None | Some((_, "no return")) => {}
            Some((place, _)) if !place.contains('+') => {}
            Some(_) => others.push(line),
        }
    }
    (returns, others)
}

/// The length of the instructions at the end of code that only restore registers and the stack pointer.
fn restoring(mut code: &[u8]) -> usize {
    let mut length = 0;
    while let Some(insn) = Native::decode(code, 0) {
        let (own, rest) = code.split_at(insn.len.into());
        length = match restores(own) {
            true => length + own.len(),
            false => 0,
        };
        code = rest;
    }
    match code {
        [] => length,
        _ => 0,
    }
}

/// Whether an instruction restores registers other than that of the result, or the stack pointer. Hardened kernels also
/// clear registers that no caller expects to keep.
#[cfg(target_arch = "x86_64")]
fn restores(insn: &[u8]) -> bool {
    /// Whether a `xor` has one register twice.
    fn is_one_register(operands: u8) -> bool {
        operands >= 0xc0 && operands >> 3 & 7 == operands & 7
    }
    match *insn {
        // pop, leave
        [0x59..=0x5f | 0xc9] | [0x41, 0x58..=0x5f] => true,
        // add and sub of a number and %rsp, mov %rbp,%rsp
        [0x48, 0x83 | 0x81, 0xc4 | 0xec, ..] | [0x48, 0x89, 0xec] => true,
        // lea N(%rbp),%rsp, lea N(%rsp),%rsp
        [0x48, 0x8d, 0x65 | 0xa5, ..] | [0x48, 0x8d, 0x64 | 0xa4, 0x24, ..] => true,
        [0x31, operands] => operands != 0xc0 && is_one_register(operands),
        [0x45, 0x31, operands] => is_one_register(operands),
        _ => false,
    }
}

/// Whether an instruction restores registers that functions keep, or the stack pointer.
#[cfg(target_arch = "aarch64")]
fn restores(insn: &[u8]) -> bool {
    let Some(word) = insn.first_chunk().map(|word| u32::from_le_bytes(*word)) else {
        return false;
    };
    const SP: u32 = 31;
    let register = |shift: u32| word >> shift & 31;
    let is_kept = |shift| (19..=30).contains(&register(shift));
    let has = |mask: u32, value: u32| word & mask == value;
    // ldp X,X,[sp,#N] and ldp X,X,[sp],#N
    let is_pair = has(0xffc0_0000, 0xa940_0000) || has(0xffc0_0000, 0xa8c0_0000);
    // ldr X,[sp,#N] and ldr X,[sp],#N
    let is_one = has(0xffc0_0000, 0xf940_0000) || has(0xffe0_0c00, 0xf840_0400);
    if is_pair || is_one {
        return register(5) == SP && is_kept(0) && (is_one || is_kept(10));
    }
    // add sp,sp,#N, add sp,x29,#N, sub sp,x29,#N, and the check of a signed return address
    has(0xff80_03ff, 0x9100_03ff)
        || has(0xff80_03ff, 0x9100_03bf)
        || has(0xff80_03ff, 0xd100_03bf)
        || [0xd503_239f, 0xd503_23bf].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_returns_and_the_other_exits() {
        let text = "f+0x1f ret\nf+0x30 tail call -> g\nf.cold+0x8 return thunk\nf+0x40 no return\n\
            verdict: leaves by a tail call; use %return\n";
        let at = |symbol: &str, offset| Return {
            symbol: symbol.into(),
            offset,
        };
        let expected = vec![at("f", 0x1f), at("f.cold", 8)];
        assert_eq!(parse(text), (expected, vec!["f+0x30 tail call -> g"]));
        assert_eq!(parse("f+0x8 no return\nverdict: never returns\n").0, []);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn goes_back_in_code_without_other_ways_into_it() {
        // 0: js 6; 2: mov %ebx,%eax; 4: pop %rbp; 5: pop %rbx; 6: pop %r12; 8: ret
        let text = b"\x78\x04\x89\xd8\x5d\x5b\x41\x5c\xc3";
        let find = |text: &[u8], jump: &[u8]| {
            let part = |symbol: &str, address, text: &[u8]| Part {
                symbol: symbol.into(),
                address,
                text: text.into(),
            };
            let code = Code::of(vec![part("f", 0x1000, text), part("f.cold", 0x2000, jump)])?;
            let end = Return {
                symbol: "f".into(),
                offset: 8,
            };
            Some(end.go_back(&code).offset)
        };
        assert_eq!(find(text, b"\x90"), Some(6));
        let straight = [b"\x78\x02", &text[2..]].concat();
        assert_eq!(find(&straight, b"\x90"), Some(4));
        // The other part jumps to the second instruction of these.
        assert_eq!(find(&straight, b"\xe9\x00\xf0\xff\xff"), Some(5));
        // jmp *%rax
        assert_eq!(find(&straight, b"\xff\xe0"), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn restoring_begins_after_the_result() {
        for (code, length) in [
            // add $0x20,%rsp; mov %ebx,%eax; pop %rbx; pop %rbp; pop %r12
            (&b"\x48\x83\xc4\x20\x89\xd8\x5b\x5d\x41\x5c"[..], 4),
            // mov %ebx,%eax; add $0x100,%rsp; pop %rbx
            (b"\x89\xd8\x48\x81\xc4\x00\x01\x00\x00\x5b", 8),
            // mov $0x5b5b5b5b,%eax; leave; xor %edx,%edx; xor %r8d,%r8d
            (b"\xb8\x5b\x5b\x5b\x5b\xc9\x31\xd2\x45\x31\xc0", 6),
            // lea -0x28(%rbp),%rsp; pop %rbx
            (b"\x48\x8d\x65\xd8\x5b", 5),
            // pop %rbx; xor %eax,%eax
            (b"\x5b\x31\xc0", 0),
            // pop %rbx; xor %ecx,%edx
            (b"\x5b\x31\xca", 0),
            // pop %rax
            (b"\x58", 0),
            // pop %rbx, and a part of an instruction
            (b"\x5b\x48", 0),
            (b"", 0),
        ] {
            assert_eq!(restoring(code), length, "{code:x?}");
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn restoring_begins_after_the_result() {
        const MOV: u32 = 0x2a13_03e0; // mov w0, w19
        const PAIR: u32 = 0xa941_53f3; // ldp x19, x20, [sp, #16]
        const LAST: u32 = 0xa8c3_7bfd; // ldp x29, x30, [sp], #48
        const ONE: u32 = 0xf940_13f5; // ldr x21, [sp, #32]
        const CHECK: u32 = 0xd503_23bf; // autiasp
        const RESULT: u32 = 0xf940_13e0; // ldr x0, [sp, #32]
        const MEMBER: u32 = 0xf940_1275; // ldr x21, [x19, #32]
        const ADD: u32 = 0x9100_83ff; // add sp, sp, #32
        for (code, count) in [
            (&[ONE, MOV, PAIR, LAST, CHECK][..], 3),
            (&[MOV, ONE, ADD], 2),
            (&[PAIR, RESULT], 0),
            (&[PAIR, MEMBER, LAST], 1),
            (&[], 0),
        ] {
            let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(restoring(&bytes), count * 4, "{code:x?}");
        }
    }
}

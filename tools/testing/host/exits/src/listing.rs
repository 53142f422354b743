// SPDX-License-Identifier: GPL-2.0

//! The text that llvm-objdump writes: an instruction a line.
//!
//! ```text
//! ffffffff81000040: e9 bb ff ff ff       	jmp	0xffffffff81000000 <_text>
//! ffff800080010004: 54000041     	b.ne	0xffff80008001000c <f+0xc>
//! ```
//!
//! What an instruction does is read off its mnemonic, and its target off its operands.

use std::{
    io::{
        self,
        BufRead,
        BufReader,
        Write, //
    },
    path::Path,
    process::{
        Command,
        Stdio, //
    },
};

use object::Architecture;

use crate::image::Image;

/// The disassembler, of the Debian package llvm.
pub const OBJDUMP: &str = "llvm-objdump";

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It is none.
    Unknown,
    /// It goes on.
    Plain,
    Nop,
    /// It is where indirect branches may arrive.
    Landing,
    /// It stops.
    Trap,
    /// It stops for kprobes and debuggers.
    Breakpoint,
    /// It reads from the text.
    Reads(u64),
    Call(u64),
    CallIndirect,
    Jump(u64),
    JumpIndirect,
    Branch(u64),
    Return,
    /// It takes arguments off the stack, too.
    ReturnPop,
    /// It leaves for another level or segment.
    Leave,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    pub address: u64,
    pub len: u8,
    pub does: Does,
}

/// An instruction that the disassembler does not know.
#[derive(Debug)]
pub struct Fault {
    pub architecture: Architecture,
    pub bytes: &'static str,
    pub does: Does,
    pub reason: &'static str,
}

/// All of them. Each has to occur in the text of the stock kernels.
pub const FAULTS: [Fault; 1] = [Fault {
    architecture: Architecture::X86_64,
    bytes: "d6",
    does: Does::Trap,
    reason:
        "udb: its opcode was undefined when LLVM 19 came out, and is now a trap of one byte. The \
             kernel has it in its indirect thunks",
}];

/// What the disassembler said, in the order of the addresses of each section.
#[derive(Debug, Default)]
pub struct Listing {
    pub insns: Vec<Insn>,
    /// How often each fault occurred.
    pub faults: [u64; FAULTS.len()],
}

/// Reads a listing.
///
/// # Errors
///
/// That of the reader, and what is not understood.
pub fn parse(architecture: Architecture, mut text: impl BufRead) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let insns = &mut listing.insns;
    // A prefix that is written as an instruction: of the next one, if that follows.
    let mut prefix: Option<Insn> = None;
    let mut line = vec![];
    loop {
        line.clear();
        if text.read_until(b'\n', &mut line)? == 0 {
            insns.extend(prefix.map(unknown));
            return Ok(listing);
        }
        let Some((address, bytes, words)) = split(&line) else {
            continue;
        };
        let digits = bytes.bytes().filter(u8::is_ascii_hexdigit).count();
        let len = (digits / 2) as u8;
        let wrong =
            || io::Error::other(format!("what is this: {}", String::from_utf8_lossy(&line)));
        let does = match architecture {
            Architecture::Aarch64 => arm64(words),
            _ => x86(words),
        };
        let is_fault = |fault: &Fault| {
            does == Some(Does::Unknown)
                && fault.architecture == architecture
                && fault.bytes == bytes.trim_end()
        };
        let does = match FAULTS.iter().position(is_fault) {
            Some(index) => {
                listing.faults[index] += 1;
                FAULTS[index].does
            }
            None => does.ok_or_else(wrong)?,
        };
        let insn = Insn { address, len, does };
        let before = prefix.take_if(|prefix| prefix.address + u64::from(prefix.len) == address);
        insns.extend(prefix.take().map(unknown));
        let insn = match before {
            Some(before) => Insn {
                address: before.address,
                len: before.len + len,
                ..insn
            },
            None => insn,
        };
        match architecture == Architecture::X86_64 && is_prefix(words) {
            true => prefix = Some(insn),
            false => insns.push(insn),
        }
    }
}

fn unknown(insn: Insn) -> Insn {
    let does = Does::Unknown;
    Insn { does, ..insn }
}

/// The address, the bytes, and the words of an instruction; `None` for other lines.
fn split(line: &[u8]) -> Option<(u64, &str, &str)> {
    let line = std::str::from_utf8(line).ok()?;
    let (address, rest) = line.trim_start().split_once(": ")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (bytes, words) = rest.split_once('\t')?;
    Some((address, bytes, words.trim_end()))
}

/// Prefixes, in a line of their own or in front of a mnemonic.
const PREFIXES: [&str; 17] = [
    "lock", "rep", "repe", "repne", "repz", "repnz", "data16", "addr32", "notrack", "cs", "ds",
    "es", "fs", "gs", "ss", "rex64", "xacquire",
];

fn is_prefix(words: &str) -> bool {
    words
        .split_whitespace()
        .all(|word| PREFIXES.contains(&word))
}

/// The address that an operand names.
fn target(operand: &str) -> Option<u64> {
    let digits = operand.split_whitespace().next()?.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok()
}

fn x86(words: &str) -> Option<Does> {
    let mut rest = words;
    let (mnemonic, operands) = loop {
        let (first, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        rest = more.trim_start();
        let is_lonely = rest.is_empty() || rest.starts_with('#');
        if is_lonely || !PREFIXES.contains(&first) && !first.starts_with("rex.") {
            break (first, rest);
        }
    };
    let is_indirect = operands.starts_with('*');
    Some(match mnemonic {
        "<unknown>" => Does::Unknown,
        "nop" | "nopw" | "nopl" | "nopq" => Does::Nop,
        "endbr64" => Does::Landing,
        "int3" => Does::Breakpoint,
        "ud2" | "ud1" | "ud1w" | "ud1l" | "ud1q" | "ud0" | "ud0w" | "ud0l" | "ud0q" => Does::Trap,
        "call" | "callq" if is_indirect => Does::CallIndirect,
        "call" | "callq" => Does::Call(target(operands)?),
        "lcall" | "lcallq" | "lcalll" | "lcallw" => Does::CallIndirect,
        "jmp" | "jmpq" if is_indirect => Does::JumpIndirect,
        "jmp" | "jmpq" | "jmpabs" => Does::Jump(target(operands.trim_start_matches('$'))?),
        "jo" | "jno" | "jb" | "jae" | "je" | "jne" | "jbe" | "ja" | "js" | "jns" | "jp" | "jnp"
        | "jl" | "jge" | "jle" | "jg" | "jrcxz" | "jecxz" | "loop" | "loope" | "loopne"
        | "xbegin" => Does::Branch(target(operands)?),
        "ret" | "retq" if operands.starts_with('$') => Does::ReturnPop,
        "ret" | "retq" => Does::Return,
        "ljmp" | "ljmpq" | "ljmpl" | "ljmpw" | "lret" | "lretq" | "lretl" | "lretw" | "iret"
        | "iretq" | "iretl" | "iretw" | "sysret" | "sysretq" | "sysretl" | "sysexit"
        | "sysexitq" | "sysexitl" | "rsm" | "eretu" | "erets" => Does::Leave,
        _ => Does::Plain,
    })
}

fn arm64(words: &str) -> Option<Does> {
    let (mnemonic, operands) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let last = operands.rsplit(", ").next()?;
    Some(match mnemonic {
        "<unknown>" => Does::Unknown,
        "nop" => Does::Nop,
        "bti" => Does::Landing,
        "brk" if operands == "#0x4" => Does::Breakpoint,
        "brk" | "hlt" | "udf" => Does::Trap,
        "ldr" | "ldrsw" | "prfm" if last.starts_with("0x") => Does::Reads(target(last)?),
        "bl" => Does::Call(target(last)?),
        "blr" | "blraa" | "blraaz" | "blrab" | "blrabz" => Does::CallIndirect,
        "b" => Does::Jump(target(last)?),
        "br" | "braa" | "braaz" | "brab" | "brabz" => Does::JumpIndirect,
        "cbz" | "cbnz" | "tbz" | "tbnz" => Does::Branch(target(last)?),
        _ if mnemonic.starts_with("b.") || mnemonic.starts_with("bc.") => {
            Does::Branch(target(last)?)
        }
        "ret" | "retaa" | "retab" | "retaasppc" | "retabsppc" | "retaasppcr" | "retabsppcr" => {
            Does::Return
        }
        "eret" | "eretaa" | "eretab" | "drps" => Does::Leave,
        _ => Does::Plain,
    })
}

/// Disassembles an image, by way of a file in this directory.
///
/// # Errors
///
/// That of running the disassembler, and what is not understood.
pub fn disassemble(image: &Image, directory: &Path) -> io::Result<Listing> {
    let path = directory.join(format!("exits-{}.elf", std::process::id()));
    std::fs::File::create(&path)?.write_all(&image.to_elf())?;
    let mut objdump = Command::new(OBJDUMP)
        .args([
            "--disassemble",
            "--disassemble-zeroes",
            "--no-print-imm-hex",
        ])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()?;
    let text = BufReader::with_capacity(1 << 20, objdump.stdout.take().expect("it is piped"));
    let listing = parse(image.architecture, text);
    let status = objdump.wait()?;
    std::fs::remove_file(&path)?;
    match status.success() {
        true => listing,
        false => Err(io::Error::other(format!("{OBJDUMP}: {status}"))),
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The content of `rkprobe_exits` and `rkprobe_blocks`: the exits and the blocks of a function.

use core::fmt;

use kernel::{
    bindings::EOPNOTSUPP,
    ffi::c_int,
    prelude::*,
    str::CString, //
};

use ktrace::{
    exits::{
        BadText,
        Block,
        Exit,
        ExitKind,
        Exits,
        Reason,
        Verdict, //
    },
    kprobe,
    symbol, //
};

use crate::block_probes::{
    BlockProbes,
    Probing,
    Refusal,
    Wanted, //
};

kernel::sync::global_lock! {
    // For each file, the lines for the function that the user wrote last.
    // SAFETY: `init` initialises it when the module loads.
    unsafe(uninit) static LINES: Mutex<[KVec<CString>; 2]> = [KVec::new(), KVec::new()];
}

/// The subject of a file.
#[derive(Clone, Copy)]
pub(crate) enum Analysis {
    /// The exits of a function.
    Exits,
    /// The basic blocks of a function.
    Blocks,
}

/// # Safety
///
/// The caller must call this once, before any other function of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any use of the lock.
    unsafe { LINES.init() };
}

/// Removes all lines of both files.
pub(crate) fn clear() {
    Analysis::Exits.clear();
    Analysis::Blocks.clear();
}

impl Analysis {
    /// Number of lines.
    pub(crate) fn len(self) -> usize {
        LINES.lock()[self as usize].len()
    }

    /// Calls `f` with the line `index`, if the line exists.
    pub(crate) fn with_line(self, index: usize, f: impl FnOnce(&str)) {
        if let Some(line) = LINES.lock()[self as usize].get(index) {
            f(line.to_str().unwrap_or(""));
        }
    }

    /// Removes all lines.
    pub(crate) fn clear(self) {
        LINES.lock()[self as usize] = KVec::new();
    }

    /// Analyses the function at `address`, and keeps the lines.
    pub(crate) fn find(self, address: usize) -> Result {
        let lines = match self {
            Self::Exits => find_exits(address)?,
            Self::Blocks => find_blocks(address)?,
        };
        LINES.lock()[self as usize] = lines;
        Ok(())
    }
}

fn find_exits(address: usize) -> Result<KVec<CString>> {
    let exits = Exits::find(address)?;
    let mut lines = KVec::with_capacity(exits.all().len() + 1, GFP_KERNEL)?;
    for exit in exits.all() {
        let line = CString::try_from_fmt(format_args!("{}", Shown(exit)))?;
        lines.push(line, GFP_KERNEL)?;
    }
    let verdict = Explained(exits.verdict());
    lines.push(
        CString::try_from_fmt(format_args!("verdict: {verdict}"))?,
        GFP_KERNEL,
    )?;
    Ok(lines)
}

/// The handler of probes that are never armed.
struct Unarmed;

#[vtable]
impl kprobe::Handler for Unarmed {
    fn pre(&self, _: &kprobe::Hit<'_>) {}
}

/// To find out which blocks can be probed, registers probes on all of them.
fn find_blocks(address: usize) -> Result<KVec<CString>> {
    let mut lines = KVec::new();
    let mut add = |text: fmt::Arguments<'_>| -> Result {
        Ok(lines.push(CString::try_from_fmt(text)?, GFP_KERNEL)?)
    };
    let target = kprobe::Target::Address(address);
    let new = || Ok(kprobe::Batch::empty());
    let try_at =
        |probes: &mut kprobe::Batch<_>, _, _, block: &_| probes.add_disabled(block, Unarmed);
    match BlockProbes::register_disabled(target, Wanted::All, new, try_at) {
        Ok(probes) => {
            for (block, probing) in probes.blocks() {
                let is_probed = *probing == Probing::Probed;
                let line = ShownBlock {
                    block,
                    is_probed,
                    why: match is_probed {
                        true => None,
                        false => kprobe::unprobable(block.address as usize)?,
                    },
                };
                add(format_args!("{line}"))?;
            }
            let all = probes.blocks().len();
            let probed = all.wrapping_sub(probes.refused());
            add(format_args!("blocks: {all}, {probed} can be probed"))?;
        }
        Err(Refusal::BadText(bad)) => add(format_args!("not understood: {}", Bad(&bad)))?,
        Err(Refusal::UnknownJump(jump)) => {
            add(format_args!("not understood: {}", UnknownJump(jump)))?;
        }
        Err(Refusal::TooMany) => add(format_args!("too many blocks"))?,
        Err(Refusal::Inside) => return Err(EINVAL),
        Err(Refusal::NotBuilt) => return Err(Error::from_errno(-(EOPNOTSUPP as c_int))),
        Err(Refusal::Failed(error)) if error == ENOMEM || error == EPERM => return Err(error),
        Err(Refusal::Failed(_)) => add(format_args!("the entry cannot be probed"))?,
    }
    Ok(lines)
}

/// Writes an address as `SYMBOL+0xOFFSET`.
pub(crate) struct SymbolOffset(pub(crate) u64);

impl fmt::Display for SymbolOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; symbol::LEN];
        match symbol::location(self.0 as usize, &mut buffer) {
            Some(location) => write!(f, "{}+{:#x}", location.name, location.offset),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

/// Writes the target of a jump: the name of a function, or a [`SymbolOffset`].
struct JumpTarget(u64);

impl fmt::Display for JumpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; symbol::LEN];
        match symbol::location(self.0 as usize, &mut buffer) {
            Some(location) if location.offset == 0 => f.write_str(location.name),
            _ => SymbolOffset(self.0).fmt(f),
        }
    }
}

/// Writes an exit: its address and its kind.
pub(crate) struct Shown<'a>(pub(crate) &'a Exit);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", SymbolOffset(self.0.address))?;
        match self.0.kind {
            ExitKind::Return => f.write_str("ret"),
            ExitKind::ReturnThunk => f.write_str("return thunk"),
            ExitKind::TailCall {
                target,
                is_conditional: false,
            } => write!(f, "tail call -> {}", JumpTarget(target)),
            ExitKind::TailCall {
                target,
                is_conditional: true,
            } => write!(f, "conditional tail call -> {}", JumpTarget(target)),
            ExitKind::IndirectTailCall => f.write_str("indirect tail call"),
            ExitKind::FarReturn => f.write_str("far return"),
            ExitKind::FallThrough => f.write_str("falls through"),
            ExitKind::NoReturn => f.write_str("no return"),
            ExitKind::Part { target } => write!(f, "jump -> {}", JumpTarget(target)),
        }
    }
}

/// Writes a block: its address, those of its successors, and why it cannot be probed.
struct ShownBlock<'a> {
    block: &'a Block,
    is_probed: bool,
    why: Option<kprobe::Unprobable>,
}

impl fmt::Display for ShownBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", SymbolOffset(self.block.address))?;
        let successors = [self.block.next, self.block.target];
        for (index, successor) in successors.into_iter().flatten().enumerate() {
            let arrow = if index == 0 { " ->" } else { "" };
            write!(f, "{arrow} {}", SymbolOffset(successor))?;
        }
        match &self.why {
            _ if self.is_probed => Ok(()),
            Some(why) => write!(f, "; not probed: {why}"),
            None => f.write_str(
                "; not probed: the kernel refuses a kprobe there, for a jump label or WARN()",
            ),
        }
    }
}

/// Writes the reason why the blocks of a function are unknown: the address of a jump.
pub(crate) struct UnknownJump(pub(crate) u64);

impl fmt::Display for UnknownJump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} jumps to an unknown address", SymbolOffset(self.0))
    }
}

/// Writes the reason why text cannot be decoded.
pub(crate) struct Bad<'a>(pub(crate) &'a BadText);

impl fmt::Display for Bad<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", SymbolOffset(self.0.address))?;
        match self.0.reason {
            Reason::Undefined => f.write_str("no known instruction"),
            Reason::Target(target) => {
                write!(f, "leads into an instruction at {}", SymbolOffset(target))
            }
            Reason::InnerCall(target) => {
                write!(
                    f,
                    "calls a place within the function, {}",
                    SymbolOffset(target)
                )
            }
            Reason::Data(target) => {
                write!(f, "reads data within the text, {}", SymbolOffset(target))
            }
            Reason::Breakpoint => f.write_str("a breakpoint hides an instruction"),
            Reason::Unreached => f.write_str("a part with exits, to which no jump leads"),
            Reason::Pops => f.write_str("takes arguments off the stack, which no probe can be on"),
            Reason::Memory => f.write_str("no memory"),
        }
    }
}

/// Writes the conclusion from the exits for a probe on the return instructions.
struct Explained(Result<Verdict, BadText>);

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(Verdict::Returns) => f.write_str("returns"),
            Ok(Verdict::TailCall(_)) => f.write_str("leaves by a tail call; use %return"),
            Ok(Verdict::NoReturn) => f.write_str("never returns"),
            Ok(Verdict::Part(target)) => write!(f, "part not found at {}", SymbolOffset(*target)),
            Err(bad) => write!(f, "not understood: {}", Bad(bad)),
        }
    }
}

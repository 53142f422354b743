// SPDX-License-Identifier: GPL-2.0

//! The content of `rkprobe_exits`: the exits of a function.

use core::fmt;

use kernel::{
    prelude::*,
    str::CString, //
};

use ktrace::{
    exits::{
        BadText,
        Exit,
        ExitKind,
        Exits,
        Reason,
        Verdict, //
    },
    symbol, //
};

kernel::sync::global_lock! {
    // The lines for the function that the user wrote last.
    // SAFETY: `init` initialises it when the module loads.
    unsafe(uninit) static LINES: Mutex<KVec<CString>> = KVec::new();
}

/// # Safety
///
/// The caller must call this once, before any other function of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any use of the lock.
    unsafe { LINES.init() };
}

/// Number of lines.
pub(crate) fn len() -> usize {
    LINES.lock().len()
}

/// Calls `f` with the line `index`, if the line exists.
pub(crate) fn with_line(index: usize, f: impl FnOnce(&str)) {
    if let Some(line) = LINES.lock().get(index) {
        f(line.to_str().unwrap_or(""));
    }
}

/// Removes all lines.
pub(crate) fn clear() {
    *LINES.lock() = KVec::new();
}

/// Finds the exits of the function at `address`, and keeps their lines.
pub(crate) fn find(address: usize) -> Result {
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
    *LINES.lock() = lines;
    Ok(())
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

// SPDX-License-Identifier: GPL-2.0

//! Where a function of the running kernel leaves.
//!
//! What the kernel has made of the text counts: return thunks, static calls and jump labels as they
//! are now; what kprobes hide is put back. Crate `probe` finds the ways out.
//!
//! # Examples
//!
//! ```
//! # use kernel::prelude::*;
//! use ktrace::exits::Exits;
//! use ktrace::symbol;
//!
//! let exits = Exits::find(symbol::address_of(c"vfs_read")?)?;
//! for exit in exits.all() {
//!     pr_info!("{:#x}: {:?}\n", exit.address, exit.kind);
//! }
//! # Ok::<(), Error>(())
//! ```

use kernel::prelude::*;
use kernel::str::CString;

use probe::insn::exits::is_cold_part;
use probe::insn::exits::Destination;
use probe::insn::exits::Function;

use crate::arch;
use crate::security;
use crate::symbol;
use crate::text::Text;

pub use probe::insn::exits::BadText;
pub use probe::insn::exits::Exit;
pub use probe::insn::exits::ExitKind;
pub use probe::insn::exits::Reason;
pub use probe::insn::exits::Verdict;

/// The ways out of a function.
pub struct Exits {
    start: usize,
    exits: KVec<Exit>,
    verdict: Result<Verdict, BadText>,
    text: Text,
}

impl Exits {
    /// Finds those of the function that `address` belongs to.
    ///
    /// Process context; sleeps. `ENOENT` where the address belongs to no symbol, `EFAULT` where there
    /// is nothing to read, `EPERM` under lockdown, `ENOMEM`.
    pub fn find(address: usize) -> Result<Self> {
        security::kprobes_allowed()?;
        let name = Name::of(address)?;
        let start = name.start;
        let mut text = Text::default();
        text.add(start)?;
        let (mut exits, mut verdict) = sweep(&text, &name)?;
        while let Ok(Verdict::Part(target)) = verdict {
            text.add(target as usize)?;
            (exits, verdict) = sweep(&text, &name)?;
            // What is in it already was not understood.
            if verdict == Ok(Verdict::Part(target)) {
                let reason = Reason::Target(target);
                verdict = Err(BadText {
                    address: target,
                    reason,
                });
            }
        }
        if let (Ok(_), Some(cold)) = (&verdict, name.cold_part()?) {
            if !contains(&text, cold)? && leaves(&mut text, &name, cold)? {
                let address = cold as u64;
                let reason = Reason::Unreached;
                verdict = Err(BadText { address, reason });
            }
        }
        Ok(Self {
            start,
            exits,
            verdict,
            text,
        })
    }

    /// Where the function starts.
    pub fn start(&self) -> usize {
        self.start
    }

    /// All ways out, as far as they were found: those of the function, then those of its other parts.
    pub fn all(&self) -> &[Exit] {
        &self.exits
    }

    /// What they mean together.
    pub fn verdict(&self) -> Result<Verdict, BadText> {
        self.verdict
    }

    /// Is the text still what was looked at?
    ///
    /// Process context. `EFAULT` where it is gone, `ENOMEM`.
    pub(crate) fn is_current(&self) -> Result<bool> {
        self.text.is_current()
    }
}

/// The name of a function.
struct Name {
    start: usize,
    /// With its module in front, if it has one.
    full: CString,
    /// How long that with its colon is.
    module_len: usize,
}

impl Name {
    fn of(address: usize) -> Result<Self> {
        let mut buffer = [0; symbol::LEN];
        let location = symbol::location(address, &mut buffer).ok_or(ENOENT)?;
        let start = address.wrapping_sub(location.offset);
        let name = location.name;
        Ok(match location.module {
            None => Self {
                start,
                full: CString::try_from_fmt(format_args!("{name}"))?,
                module_len: 0,
            },
            Some(module) => Self {
                start,
                full: CString::try_from_fmt(format_args!("{module}:{name}"))?,
                module_len: module.len().wrapping_add(1),
            },
        })
    }

    fn without_module(&self) -> &str {
        let text = self.full.to_str().unwrap_or("");
        text.get(self.module_len..).unwrap_or("")
    }

    /// What there is at `target`.
    #[inline(never)]
    fn destination(&self, target: u64) -> Destination {
        let mut buffer = [0; symbol::LEN];
        match symbol::location(target as usize, &mut buffer) {
            Some(location) if location.offset == 0 && arch::is_return_thunk(location.name) => {
                Destination::ReturnThunk
            }
            Some(location) if arch::is_indirect_thunk(location.name) => Destination::IndirectThunk,
            Some(location) if self.has_part(location) => Destination::Part,
            _ => Destination::Function,
        }
    }

    /// Is this a part of the function by its name, or by another name that the function has?
    fn has_part(&self, location: symbol::Location<'_>) -> bool {
        if is_cold_part(location.name, self.without_module()) {
            return true;
        }
        let Some((whole, _)) = location.name.split_once(".cold") else {
            return false;
        };
        let whole = match location.module {
            None => CString::try_from_fmt(format_args!("{whole}")),
            Some(module) => CString::try_from_fmt(format_args!("{module}:{whole}")),
        };
        is_cold_part(
            location.name,
            location.name.split(".cold").next().unwrap_or(""),
        ) && whole.and_then(|whole| symbol::address_of(&whole)) == Ok(self.start)
    }

    /// Where the part is that its name tells.
    fn cold_part(&self) -> Result<Option<usize>> {
        let name = self.full.to_str().unwrap_or("");
        let name = CString::try_from_fmt(format_args!("{name}.cold"))?;
        match symbol::address_of(&name) {
            Ok(address) => Ok(Some(address)),
            Err(error) if error == ENOMEM => Err(error),
            Err(_) => Ok(None),
        }
    }
}

fn contains(text: &Text, address: usize) -> Result<bool> {
    let parts = text.parts()?;
    Ok(parts.iter().any(|part| part.address == address as u64))
}

/// Finds the exits of what was read.
fn sweep(text: &Text, name: &Name) -> Result<(KVec<Exit>, Result<Verdict, BadText>)> {
    let parts = text.parts()?;
    let words = Function::<arch::Decoder>::words(&parts);
    let mut memory = KVVec::from_elem(0, words, GFP_KERNEL)?;
    let mut exits = KVec::new();
    let function = match Function::<arch::Decoder>::sweep(&parts, &mut memory) {
        Ok(function) => function,
        Err(bad) => return Ok((exits, Err(bad))),
    };
    for exit in function.exits(|target| name.destination(target)) {
        exits.push(exit, GFP_KERNEL)?;
    }
    let verdict = Verdict::of(exits.iter().copied());
    Ok((exits, Ok(verdict)))
}

/// Is the function left from its part at `cold`, to which no jump leads? Only what it is called says
/// that it is one: another function can have the name.
fn leaves(text: &mut Text, name: &Name, cold: usize) -> Result<bool> {
    text.add(cold)?;
    let (exits, verdict) = sweep(text, name)?;
    let (start, size) = symbol::extent(cold).ok_or(ENOENT)?;
    text.pop();
    let within = start as u64..start.wrapping_add(size) as u64;
    Ok(verdict.is_err()
        || exits
            .iter()
            .any(|exit| within.contains(&exit.address) && exit.kind != ExitKind::NoReturn))
}

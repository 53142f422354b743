// SPDX-License-Identifier: GPL-2.0

//! The exits of a function of the running kernel.
//!
//! The text is that which the kernel executes: return thunks, static calls and jump labels are as
//! they are now. The instructions that kprobes hide are recovered. Crate `probe` finds the exits.
//!
//! # Examples
//!
//! ```
//! # use kernel::prelude::*;
//! use ktrace::{
//!     exits::Exits,
//!     symbol, //
//! };
//!
//! let exits = Exits::find(symbol::address_of(c"vfs_read")?)?;
//! for exit in exits.all() {
//!     pr_info!("{:#x}: {:?}\n", exit.address, exit.kind);
//! }
//! # Ok::<(), Error>(())
//! ```

use kernel::{
    bindings::EOPNOTSUPP,
    ffi::c_int,
    prelude::*,
    str::CString, //
};

use probe::insn::exits::{
    is_cold_part,
    Destination,
    SweptFunction, //
};

use crate::{
    arch,
    security,
    symbol,
    text::Text, //
};

pub use probe::insn::exits::{
    BadText,
    Exit,
    ExitKind,
    Reason,
    Verdict, //
};

/// Whether exit analysis is compiled in (`CONFIG_RKPROBE_KRETINSN`).
pub const IS_BUILT: bool = cfg!(CONFIG_RKPROBE_KRETINSN);

/// The ways out of a function.
pub struct Exits {
    exits: KVec<Exit>,
    verdict: Result<Verdict, BadText>,
    text: Text,
}

impl Exits {
    /// Finds those of the function that `address` belongs to.
    ///
    /// Process context; sleeps. `ENOENT` if no symbol contains the address, `EFAULT` if the text
    /// cannot be read, `EPERM` under lockdown, `ENOMEM`, `EOPNOTSUPP` without [`IS_BUILT`].
    pub fn find(address: usize) -> Result<Self> {
        if !IS_BUILT {
            return Err(Error::from_errno(-(EOPNOTSUPP as c_int)));
        }
        security::kprobes_allowed()?;
        let name = FunctionName::of(address)?;
        let mut text = Text::default();
        text.add(name.start)?;
        let (mut exits, mut verdict) = sweep(&text, &name)?;
        while let Ok(Verdict::Part(target)) = verdict {
            text.add(target as usize)?;
            (exits, verdict) = sweep(&text, &name)?;
            // The part was added, but it was not understood.
            if verdict == Ok(Verdict::Part(target)) {
                let reason = Reason::Target(target);
                verdict = Err(BadText {
                    address: target,
                    reason,
                });
            }
        }
        if let (Ok(_), Some(cold)) = (&verdict, name.cold_part()?) {
            if !text.contains(cold) && leaves(&mut text, &name, cold)? {
                let address = cold as u64;
                let reason = Reason::Unreached;
                verdict = Err(BadText { address, reason });
            }
        }
        Ok(Self {
            exits,
            verdict,
            text,
        })
    }

    /// All ways out, as far as they were found: those of the function, then those of its other
    /// parts.
    pub fn all(&self) -> &[Exit] {
        &self.exits
    }

    /// The result of all exits.
    pub fn verdict(&self) -> Result<Verdict, BadText> {
        self.verdict
    }

    /// Whether the text is unchanged since the analysis.
    ///
    /// Process context. `EFAULT` where it is gone, `ENOMEM`.
    pub(crate) fn is_current(&self) -> Result<bool> {
        self.text.is_current()
    }
}

/// The name of a function.
struct FunctionName {
    start: usize,
    /// The name, preceded by the name of its module, if it has one.
    full: CString,
}

impl FunctionName {
    fn of(address: usize) -> Result<Self> {
        let mut buffer = [0; symbol::LEN];
        let location = symbol::location(address, &mut buffer).ok_or(ENOENT)?;
        Ok(Self {
            start: address.wrapping_sub(location.offset),
            full: full_name(location.module, location.name)?,
        })
    }

    /// Classifies `target`.
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

    /// Whether this is a part of the function, by the function's name or another name that the
    /// function has.
    fn has_part(&self, location: symbol::Location<'_>) -> bool {
        let Some((whole, _)) = location.name.split_once(".cold") else {
            return false;
        };
        is_cold_part(location.name, whole)
            && full_name(location.module, whole).is_ok_and(|whole| {
                *whole == *self.full || symbol::address_of(&whole) == Ok(self.start)
            })
    }

    /// The address of the part that only its name shows.
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

/// A symbol as the kernel looks it up: with its module in front, if it has one.
fn full_name(module: Option<&str>, name: &str) -> Result<CString> {
    match module {
        None => CString::try_from_fmt(format_args!("{name}")),
        Some(module) => CString::try_from_fmt(format_args!("{module}:{name}")),
    }
}

/// Finds the exits in the text that was read.
fn sweep(text: &Text, name: &FunctionName) -> Result<(KVec<Exit>, Result<Verdict, BadText>)> {
    let parts = text.parts()?;
    let words = SweptFunction::<arch::Decoder>::words(&parts);
    let mut memory = KVVec::from_elem(0, words, GFP_KERNEL)?;
    let mut exits = KVec::new();
    let function = match SweptFunction::<arch::Decoder>::sweep(&parts, &mut memory) {
        Ok(function) => function,
        Err(bad) => return Ok((exits, Err(bad))),
    };
    for exit in function.exits(|target| name.destination(target)) {
        exits.push(exit, GFP_KERNEL)?;
    }
    let verdict = Verdict::of(exits.iter().copied());
    Ok((exits, Ok(verdict)))
}

/// Whether the function has an exit in its part at `cold`, to which no jump leads. Only the name
/// says that this is a part of the function, and another function can have such a name.
fn leaves(text: &mut Text, name: &FunctionName, cold: usize) -> Result<bool> {
    let part = text.add(cold)?;
    let (exits, verdict) = sweep(text, name)?;
    text.pop();
    Ok(verdict.is_err()
        || exits
            .iter()
            .any(|exit| part.contains(&(exit.address as usize)) && exit.kind != ExitKind::NoReturn))
}

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

/// Is there what finds them (`CONFIG_RKPROBE_KRETINSN`)?
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
    /// Process context; sleeps. `ENOENT` where the address belongs to no symbol, `EFAULT` where
    /// there is nothing to read, `EPERM` under lockdown, `ENOMEM`, `EOPNOTSUPP` without
    /// [`IS_BUILT`].
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
struct FunctionName {
    start: usize,
    /// With its module in front, if it has one.
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
        let Some((whole, _)) = location.name.split_once(".cold") else {
            return false;
        };
        is_cold_part(location.name, whole)
            && full_name(location.module, whole).is_ok_and(|whole| {
                *whole == *self.full || symbol::address_of(&whole) == Ok(self.start)
            })
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

/// A symbol as the kernel looks it up: with its module in front, if it has one.
fn full_name(module: Option<&str>, name: &str) -> Result<CString> {
    match module {
        None => CString::try_from_fmt(format_args!("{name}")),
        Some(module) => CString::try_from_fmt(format_args!("{module}:{name}")),
    }
}

/// Finds the exits of what was read.
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

/// Is the function left from its part at `cold`, to which no jump leads? Only what it is called
/// says that it is one: another function can have the name.
fn leaves(text: &mut Text, name: &FunctionName, cold: usize) -> Result<bool> {
    let part = text.add(cold)?;
    let (exits, verdict) = sweep(text, name)?;
    text.pop();
    Ok(verdict.is_err()
        || exits
            .iter()
            .any(|exit| part.contains(&(exit.address as usize)) && exit.kind != ExitKind::NoReturn))
}

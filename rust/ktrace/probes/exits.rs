// SPDX-License-Identifier: GPL-2.0

//! The exits and the basic blocks of a function of the running kernel.
//!
//! The analysis reads the text that the kernel executes: return thunks, static calls and jump
//! labels in their current state. For instructions that kprobes hide, it uses the originals. Crate
//! `probe` finds the exits.
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

use probe::insn::{
    blocks::Blocks,
    exits::{
        is_cold_part,
        Destination,
        SweptFunction, //
    }, //
};

use crate::{
    arch,
    probes::{
        registration::Target,
        text::Text,
        unseen_jumps, //
    },
    security,
    symbols::symbol, //
};

pub use probe::insn::{
    blocks::{
        Block,
        UnknownBlocks, //
    },
    exits::{
        BadText,
        Exit,
        ExitKind,
        Reason,
        Verdict, //
    },
    route::UnseenJump,
};

/// Whether exit analysis is compiled in (`CONFIG_RKPROBE_KRETINSN`).
pub const IS_BUILT: bool = cfg!(CONFIG_RKPROBE_KRETINSN);

/// The bytes that the kernel can replace by a jump where a kprobe is, or 0 if it never does.
pub const KPROBE_JUMP: u64 = arch::KPROBE_JUMP;

impl From<&Block> for Target<'_> {
    /// The first instruction of a block.
    fn from(block: &Block) -> Self {
        Self::Address(block.address as usize)
    }
}

/// The exits of a function.
pub struct Exits {
    name: FunctionName,
    exits: KVec<Exit>,
    verdict: Result<Verdict, BadText>,
    text: Text,
}

impl Exits {
    /// Finds the exits of the function that `address` belongs to.
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
            // The text of the part was added, but the analysis failed to decode it.
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
            name,
            exits,
            verdict,
            text,
        })
    }

    /// The address of a probe on the entry of the function: its start, or the address after its
    /// landing pad. Any context.
    pub fn probe_entry(&self) -> usize {
        arch::probe_entry(self.name.start)
    }

    /// The basic blocks of the function, in the order of its parts and of the addresses. The first
    /// one begins at the start of the function. Process context.
    ///
    /// `ENOMEM`. [`UnknownBlocks`] if the blocks are unknown. Fails with `EINVAL` if the
    /// [verdict](Self::verdict) is an error.
    pub fn blocks(&self) -> Result<Result<KVec<Block>, UnknownBlocks>> {
        let found = with_function(&self.text, |function| {
            let words = SweptFunction::<arch::Decoder>::words(function.parts());
            let mut targets = KVVec::from_elem(0, words, GFP_KERNEL)?;
            let destination = |target| self.name.destination(target);
            let found = match Blocks::find(function, &mut targets, destination) {
                Ok(found) => found,
                Err(unknown) => return Ok(Err(unknown)),
            };
            let mut blocks = KVec::new();
            for block in found {
                blocks.push(block, GFP_KERNEL)?;
            }
            Ok(Ok(blocks))
        });
        found?.map_err(|_| EINVAL)
    }

    /// Whether the kernel must not replace the breakpoint of a kprobe at this address by a
    /// [jump](KPROBE_JUMP), because another jump leads between its bytes, which the kernel does not
    /// see: it looks for such jumps only in the symbol of the kprobe, and not in the other parts of
    /// the function. Also true if the text cannot be decoded.
    ///
    /// A kprobe whose handler has [`post`](crate::probes::kprobe::Handler::post) keeps its
    /// breakpoint. Process context. `ENOMEM`. C: `can_optimize()`.
    pub fn forbid_jump(&self, address: usize) -> Result<bool> {
        let address = address as u64;
        let replaced = address.wrapping_add(1)..address.wrapping_add(KPROBE_JUMP);
        match self.far_targets()? {
            Ok(targets) => Ok(targets.iter().any(|target| replaced.contains(target))),
            Err(_) => Ok(true),
        }
    }

    /// The addresses to which jumps of another part of the function lead. Process context.
    /// `ENOMEM`.
    pub fn far_targets(&self) -> Result<Result<KVec<u64>, BadText>> {
        with_function(&self.text, |function| {
            let parts = function.parts();
            let part_of = |address: u64| parts.iter().position(|part| part.contains(address));
            let mut targets = KVec::new();
            for (address, insn) in function.instructions() {
                let target = insn.flow.target();
                let far = target.filter(|target| part_of(*target) != part_of(address));
                if let Some(target) = far.filter(|target| part_of(*target).is_some()) {
                    targets.push(target, GFP_KERNEL)?;
                }
            }
            Ok(targets)
        })
    }

    /// The jumps from or to the function's text that the text does not show. `None` if the kernel
    /// hides them (without `CONFIG_KALLSYMS_ALL`).
    ///
    /// Process context. `ENOMEM`.
    pub fn unseen_jumps(&self) -> Result<Option<KVec<UnseenJump>>> {
        unseen_jumps::within(&self.text.parts()?)
    }

    /// All exits that were found: first the exits of the function, then the exits of its other
    /// parts.
    pub fn all(&self) -> &[Exit] {
        &self.exits
    }

    /// The combined result for all exits.
    pub fn verdict(&self) -> Result<Verdict, BadText> {
        self.verdict
    }

    /// Whether the text is unchanged since the analysis.
    ///
    /// Process context. `EFAULT` if the text is no longer there, `ENOMEM`.
    pub fn is_current(&self) -> Result<bool> {
        self.text.is_current()
    }
}

/// The name of a function.
struct FunctionName {
    start: usize,
    /// The name of the function. The name of its module precedes it, if the function is in a
    /// module.
    full: CString,
}

impl FunctionName {
    #[inline(never)]
    fn of(address: usize) -> Result<Self> {
        let mut buffer = [0; symbol::LEN];
        let location = symbol::location(address, &mut buffer).ok_or(ENOENT)?;
        Ok(Self {
            start: address.wrapping_sub(location.offset),
            full: full_name(location.module, location.name)?,
        })
    }

    /// Classifies the destination `target` of a jump.
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

    /// Whether `location` is a part of this function. The name of a part starts with the name of
    /// the function or with another name of the same function.
    #[inline(never)]
    fn has_part(&self, location: symbol::Location<'_>) -> bool {
        let Some((whole, _)) = location.name.split_once(".cold") else {
            return false;
        };
        is_cold_part(location.name, whole)
            && full_name(location.module, whole).is_ok_and(|whole| {
                *whole == *self.full || symbol::address_of(&whole) == Ok(self.start)
            })
    }

    /// The address of the function's cold part, found only by the part's name.
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

/// A symbol in the kernel's form for lookups: the name of the module precedes it, if there is one.
fn full_name(module: Option<&str>, name: &str) -> Result<CString> {
    match module {
        None => CString::try_from_fmt(format_args!("{name}")),
        Some(module) => CString::try_from_fmt(format_args!("{module}:{name}")),
    }
}

/// Sweeps `text`, and calls `f` with the function.
fn with_function<T>(
    text: &Text,
    f: impl FnOnce(&SweptFunction<'_, arch::Decoder>) -> Result<T>,
) -> Result<Result<T, BadText>> {
    let parts = text.parts()?;
    let words = SweptFunction::<arch::Decoder>::words(&parts);
    let mut memory = KVVec::from_elem(0, words, GFP_KERNEL)?;
    match SweptFunction::sweep(&parts, &mut memory) {
        Ok(function) => f(&function).map(Ok),
        Err(bad) => Ok(Err(bad)),
    }
}

/// Finds the exits in `text`.
fn sweep(text: &Text, name: &FunctionName) -> Result<(KVec<Exit>, Result<Verdict, BadText>)> {
    let exits = with_function(text, |function| {
        let mut exits = KVec::new();
        for exit in function.exits(|target| name.destination(target)) {
            exits.push(exit, GFP_KERNEL)?;
        }
        Ok(exits)
    })?;
    Ok(match exits {
        Ok(exits) => {
            let verdict = Verdict::of(exits.iter().copied());
            (exits, Ok(verdict))
        }
        Err(bad) => (KVec::new(), Err(bad)),
    })
}

/// Whether the function has an exit in the part at `cold`. No jump leads to this part. Only its
/// name says that it is a part of the function, and another function can have such a name.
fn leaves(text: &mut Text, name: &FunctionName, cold: usize) -> Result<bool> {
    let part = text.add(cold)?;
    let (exits, verdict) = sweep(text, name)?;
    text.pop();
    Ok(verdict.is_err()
        || exits
            .iter()
            .any(|exit| part.contains(&(exit.address as usize)) && exit.kind != ExitKind::NoReturn))
}

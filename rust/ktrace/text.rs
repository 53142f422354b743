// SPDX-License-Identifier: GPL-2.0

//! The running text of a function, with the instructions that kprobes hide.
//!
//! Each change of kernel text holds `text_mutex`, and may use a breakpoint for a moment. Placing a
//! kprobe takes this mutex, too. So if the text is equal before and after placing a kprobe, nobody
//! was changing the text at the first reading.
//!
//! C: `recover_probed_instruction()` in `arch/x86/kernel/kprobes/core.c`.

use core::{
    mem,
    ops::Range, //
};

use kernel::prelude::*;

use probe::insn::{
    exits,
    recover_probed_instructions,
    Decoder as _,
    Flow, //
};

use crate::{
    arch::{
        self,
        Decoder, //
    },
    kprobe::{
        Handler,
        Hit,
        Kprobe,
        Target, //
    },
    nofault,
    symbol, //
};

/// A disabled probe at the address of a possible other probe. The kernel gives it the bytes that
/// the other probe hides. It is never enabled, so it has no effect. But because it has a `post`
/// handler, the kernel turns an optimized probe into a plain breakpoint for this time.
struct Finder;

#[vtable]
impl Handler for Finder {
    fn pre(&self, _: &Hit<'_>) {}

    fn post(&self, _: &Hit<'_>) {}
}

/// A symbol's bytes.
struct SymbolText {
    address: usize,
    bytes: KVVec<u8>,
}

/// The text of a function, in the parts that were added.
#[derive(Default)]
pub(crate) struct Text {
    parts: KVec<SymbolText>,
    finders: KVVec<Kprobe<Finder>>,
    /// The address of ftrace's call, if other bytes were there.
    ftrace_site: Option<usize>,
}

impl Text {
    /// Adds the symbol that `address` belongs to, and says where that is.
    ///
    /// Process context; sleeps. `ENOENT` where it belongs to none, `EFAULT` where that is gone,
    /// `ENOMEM`, and `EPERM` under lockdown.
    pub(crate) fn add(&mut self, address: usize) -> Result<Range<usize>> {
        let (address, size) = symbol::extent(address).ok_or(ENOENT)?;
        let size = size.saturating_sub(arch::bytes_before(address.wrapping_add(size))?);
        let mut bytes = KVVec::from_elem(0, size, GFP_KERNEL)?;
        self.parts.reserve(1, GFP_KERNEL)?;
        read(address, &mut bytes)?;
        let place = address..address.wrapping_add(size);
        let site = arch::ftrace_site(address);
        // The jump leads to the slot of an optimized probe, or to a trampoline of BPF that replaces
        // ftrace's call.
        let may_hide = |at, target| {
            let target = target as usize;
            arch::JUMPS_HIDE
                && (at as usize == site
                    || !place.contains(&target) && symbol::start_of(target).is_none())
        };
        recover_probed_instructions::<Decoder, Error>(
            address as u64,
            &mut bytes,
            may_hide,
            |at, bytes| self.put_back(at as usize, address, bytes),
        )?;
        self.parts.push(SymbolText { address, bytes }, GFP_KERNEL)?;
        Ok(place)
    }

    /// Whether the symbol that starts at `address` was added.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.parts.iter().any(|part| part.address == address)
    }

    /// Looks for a probe `at` an instruction of the symbol at `address`, whose `bytes` are read
    /// again where there may be one.
    fn put_back(&mut self, at: usize, address: usize, bytes: &mut [u8]) -> Result<bool> {
        self.finders.reserve(1, GFP_KERNEL)?;
        match Kprobe::register_disabled(Target::Address(at), Finder) {
            // The probe has no bytes of its own there.
            Ok(finder) if finder.is_on_ftrace() => self.ftrace_site = Some(at),
            Ok(finder) => self.finders.push(finder, GFP_KERNEL)?,
            Err(error) if error == ENOMEM || error == EPERM => return Err(error),
            // No probe is here, and none can be, for example on a breakpoint of the text itself.
            Err(_) => return Ok(false),
        }
        self.read(address, bytes)?;
        Ok(true)
    }

    /// Reads the text at `address`, and recovers the hidden instructions.
    fn read(&self, address: usize, bytes: &mut [u8]) -> Result {
        read(address, bytes)?;
        if let Some(place) = self.ftrace_site.and_then(|at| behind(bytes, address, at)) {
            if let Some(site) = place.first_chunk_mut() {
                *site = arch::FTRACE_SITE;
            }
        }
        for finder in &self.finders {
            let at = finder.address();
            let Some(place) = behind(bytes, address, at) else {
                continue;
            };
            let insn = Decoder::decode(place, at as u64);
            if insn.is_some_and(|insn| insn.flow == Flow::Breakpoint) {
                if let Some(first) = place.first_chunk_mut() {
                    *first = finder.opcode().to_ne_bytes();
                }
            }
        }
        Ok(())
    }

    /// Lets go of the part that was added last.
    pub(crate) fn pop(&mut self) {
        self.parts.pop();
    }

    /// The parts, as they were read.
    pub(crate) fn parts(&self) -> Result<KVec<exits::Part<'_>>> {
        let mut parts = KVec::with_capacity(self.parts.len(), GFP_KERNEL)?;
        for part in &self.parts {
            let part = exits::Part {
                address: part.address as u64,
                text: &part.bytes,
            };
            parts.push(part, GFP_KERNEL)?;
        }
        Ok(parts)
    }

    /// Whether the text is unchanged since it was read.
    ///
    /// Process context. `EFAULT` where it is gone, `ENOMEM`.
    pub(crate) fn is_current(&self) -> Result<bool> {
        for part in &self.parts {
            let mut bytes = KVVec::from_elem(0, part.bytes.len(), GFP_KERNEL)?;
            self.read(part.address, &mut bytes)?;
            if *bytes != *part.bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        if !self.finders.is_empty() {
            Kprobe::unregister_all(mem::take(&mut self.finders));
        }
    }
}

/// The part from `at` on of the bytes at `address`.
fn behind(bytes: &mut [u8], address: usize, at: usize) -> Option<&mut [u8]> {
    bytes.get_mut(at.checked_sub(address)?..)
}

fn read(address: usize, bytes: &mut [u8]) -> Result {
    nofault::read_kernel(address, bytes).map_err(|nofault::Fault| EFAULT)
}

// SPDX-License-Identifier: GPL-2.0

//! The running text of a function, in which the bytes hidden by kprobes are recovered.
//!
//! The kernel changes its text only with `text_mutex` held, and may place a breakpoint during the
//! change. Placing a kprobe also takes this mutex. So if the text is equal before and after placing
//! a kprobe, no change was in progress at the first reading.
//!
//! C: `recover_probed_instruction()` in `arch/x86/kernel/kprobes/core.c`.

use core::{
    mem::{
        self,
        size_of, //
    },
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
    hit::nofault,
    probes::{
        ftrace,
        kprobe::{
            Handler,
            Hit,
            Kprobe,
            Target, //
        },
    },
    symbols::symbol, //
};

/// A disabled probe at the address of a possible other probe. The kernel gives this probe the bytes
/// that the other probe hides. The probe is never enabled, so it has no effect of its own. But it
/// has a `post` handler, so the kernel turns an optimized probe into a plain breakpoint while it
/// exists.
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

/// The text of a function. Its parts are added one after the other.
#[derive(Default)]
pub(crate) struct Text {
    parts: KVec<SymbolText>,
    finders: KVVec<Pin<KBox<Kprobe<Finder>>>>,
    /// The address of ftrace's call site, if its bytes were overwritten.
    ftrace_site: Option<usize>,
}

impl Text {
    /// Adds the symbol that contains `address`, and returns the symbol's address range.
    ///
    /// Process context; sleeps. `ENOENT` if no symbol contains the address, `EFAULT` if the text is
    /// no longer there, `ENOMEM`, and `EPERM` under lockdown.
    pub(crate) fn add(&mut self, address: usize) -> Result<Range<usize>> {
        let (address, size) = symbol::extent(address).ok_or(ENOENT)?;
        let size = size.saturating_sub(bytes_before(address.wrapping_add(size))?);
        let mut bytes = KVVec::from_elem(0, size, GFP_KERNEL)?;
        self.parts.reserve(1, GFP_KERNEL)?;
        read(address, &mut bytes)?;
        let place = address..address.wrapping_add(size);
        let site = arch::ftrace_site(address);
        // The jump may lead to the slot of an optimized probe, or to a BPF trampoline that replaces
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

    /// Searches for a probe on the instruction at `at`. If there may be a probe, reads `bytes` of
    /// the symbol at `address` again. Returns whether it read them.
    fn put_back(&mut self, at: usize, address: usize, bytes: &mut [u8]) -> Result<bool> {
        self.finders.reserve(1, GFP_KERNEL)?;
        let finder = Kprobe::register_disabled(Target::Address(at), Finder);
        match KBox::pin_init(finder, GFP_KERNEL) {
            // The probe stores no bytes here, because it is on ftrace's call site.
            Ok(finder) if finder.is_on_ftrace() => self.ftrace_site = Some(at),
            Ok(finder) => self.finders.push(finder, GFP_KERNEL)?,
            Err(error) if error == ENOMEM || error == EPERM => return Err(error),
            // No probe is here, and none can be here. For example, the text itself has a
            // breakpoint.
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

    /// Removes the part that was added last.
    pub(crate) fn pop(&mut self) {
        self.parts.pop();
    }

    /// The parts with their bytes.
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
    /// Process context. `EFAULT` if the text is no longer there, `ENOMEM`.
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

/// The part of `bytes` from the address `at` on. `bytes` are the bytes at `address`.
fn behind(bytes: &mut [u8], address: usize, at: usize) -> Option<&mut [u8]> {
    bytes.get_mut(at.checked_sub(address)?..)
}

fn read(address: usize, bytes: &mut [u8]) -> Result {
    nofault::read_kernel(address, bytes).map_err(|nofault::Fault| EFAULT)
}

/// The number of bytes before the function at `start` that belong to this function, and not to the
/// function before it. Process context. `ENOMEM`.
fn bytes_before(start: usize) -> Result<usize> {
    let has_ops = arch::may_have_bytes_before(start) && ftrace::is_traceable(start)?;
    Ok(if has_ops { size_of::<usize>() } else { 0 })
}

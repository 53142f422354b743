// SPDX-License-Identifier: GPL-2.0

//! Names and addresses of symbols.
//!
//! The kernel exports no lookup function, but `register_kprobe()` looks a symbol up.

use core::mem::MaybeUninit;

use kernel::{
    error::to_result,
    prelude::*,
    sizes::SZ_64K,
    str::CStr, //
};

use probe::hash::hash;

use crate::{
    bindings::{
        self as tracing,
        KSYM_NAME_LEN, //
    },
    hit::glob, //
};

use kallsyms::Kallsyms;

pub use repeated::Repeated;

mod kallsyms;
mod repeated;
mod symbol_table;

/// The offsets from a symbol at which `address_of` asks the kernel.
///
/// The kernel refuses addresses before `_stext`. On arm64, the image begins with `_text`, 64 KiB
/// before `_stext`.
const OFFSETS: [u32; 2] = [0, SZ_64K as u32];

/// See [`crate::symbol::address_of`].
///
/// `register_kprobe()` looks the symbol up. It leaves the address in the structure, even if it then
/// refuses the probe. This function asks for a probe on the second byte. The kernel refuses that
/// for data and inside an instruction, so this function rarely has to remove a probe. Also, the
/// kernel does not skip a landing pad (ENDBR) at the start of a function then.
pub(crate) fn address_of(name: &CStr) -> Result<usize> {
    let mut found = OFFSETS.iter().map(|offset| address_by(name, *offset));
    found
        .find(|address| *address != Err(ENOENT))
        .unwrap_or(Err(ENOENT))
}

fn address_by(name: &CStr, offset: u32) -> Result<usize> {
    const SECOND_BYTE: u32 = 1;
    let offset = offset + SECOND_BYTE;
    // The probe is on the heap, because the kernel keeps the address of a probe that it accepts.
    let mut probe = KBox::new(MaybeUninit::<tracing::kprobe>::zeroed(), GFP_KERNEL)?;
    let probe = probe.as_mut_ptr();
    // SAFETY: All-zero is a valid `struct kprobe`, and no other code has it yet.
    unsafe {
        (*probe).symbol_name = name.as_char_ptr();
        (*probe).offset = offset;
        (*probe).flags = tracing::KPROBE_FLAG_DISABLED;
    }
    // SAFETY: This is a valid `struct kprobe` that stays in place until it is unregistered.
    let registered = to_result(unsafe { tracing::register_kprobe(probe) });
    // SAFETY: `probe` points to the box above, and the kernel has returned from its call.
    let address = unsafe { (*probe).addr } as usize;
    if registered.is_ok() {
        // SAFETY: The probe was registered above.
        unsafe { tracing::unregister_kprobe(probe) };
    }
    match address.checked_sub(offset as usize) {
        Some(address) => Ok(address),
        None => Err(registered.err().unwrap_or(ENOENT)),
    }
}

/// Finds the symbols of the kernel image for [`crate::symbol::addresses_of`].
pub(crate) fn addresses_in_kernel(name: &CStr) -> Result<KVec<usize>> {
    let mut addresses = KVec::new();
    Kallsyms::open()?.each_of_kernel(|symbol| {
        if symbol.name == name.to_bytes() {
            addresses.push(symbol.address as usize, GFP_KERNEL)?;
        }
        Ok(())
    })?;
    match addresses.contains(&0) {
        // The kernel hides the addresses.
        true => Err(EPERM),
        false => Ok(addresses),
    }
}

/// See [`crate::symbol::each_named`]. This function is not generic, so rkprobe calls only this
/// function of the file for it.
#[export_name = "ktrace_own_each_named"]
pub(crate) fn each_named(
    names: &[&str],
    found: &mut dyn FnMut(usize, usize) -> Result, //
) -> Result {
    let hashes = Hashes::of(names)?;
    let mut symbols = KVVec::<(usize, usize)>::new();
    let is_read = symbol_table::each(|_, symbol| {
        if let Some(index) = hashes.find(symbol.hash) {
            symbols.push((index, symbol.address()?), GFP_KERNEL)?;
        }
        Ok(())
    })?;
    if is_read {
        return symbols
            .iter()
            .try_for_each(|(index, address)| found(*index, *address));
    }
    Kallsyms::open()?.each_of_kernel(|symbol| {
        match hashes.find(hash(symbol.name)) {
            // The kernel hides the address.
            Some(_) if symbol.address == 0 => Err(EPERM),
            Some(index) => found(index, symbol.address as usize),
            None => Ok(()),
        }
    })
}

/// Names by their hash. There can be so many that sorting them would need too much stack.
///
/// # Invariants
///
/// At least half of the slots are empty. Their number is a power of two.
struct Hashes {
    /// The hash of a name, and its index. The hash 0 marks an empty slot.
    slots: KVVec<(u64, usize)>,
}

impl Hashes {
    fn of(names: &[&str]) -> Result<Self> {
        let len = names.len().max(1).saturating_mul(2).next_power_of_two();
        // INVARIANT: There are two slots or more for each name.
        let mut slots = KVVec::from_elem((0, 0), len, GFP_KERNEL)?;
        for (index, name) in names.iter().enumerate() {
            let hash = hash(name.as_bytes());
            let mut places = probe_sequence(hash, len);
            let is_empty = |place: &usize| matches!(slots.get(*place), Some((0, _)));
            if let Some(slot) = places.find(is_empty).and_then(|at| slots.get_mut(at)) {
                *slot = (hash, index);
            }
        }
        Ok(Self { slots })
    }

    /// The index of the name with this hash.
    fn find(&self, hash: u64) -> Option<usize> {
        let places = probe_sequence(hash, self.slots.len());
        let mut slots = places.map_while(|place| self.slots.get(place));
        let (found, index) = slots.find(|(other, _)| *other == hash || *other == 0)?;
        (*found == hash).then_some(*index)
    }
}

/// The places of a hash in a table of `len` slots, in the order of the search.
fn probe_sequence(hash: u64, len: usize) -> impl Iterator<Item = usize> {
    let mask = len.wrapping_sub(1);
    (0..len).map(move |step| (hash as usize).wrapping_add(step) & mask)
}

/// Finds the addresses of the symbols of the kernel image for [`crate::symbol::find_matching`].
/// Each pattern comes with the text before its first wildcard.
pub(crate) fn find_matching_in_kernel(
    patterns: &[(&[u8], &CStr)],
    most: usize,
) -> Result<Option<KVVec<usize>>> {
    const LEN: usize = KSYM_NAME_LEN as usize;

    let mut addresses = KVVec::new();
    let mut buffer = KVVec::from_elem(0u8, LEN, GFP_KERNEL)?;
    let is_read = symbol_table::each(|_, symbol| {
        let mut matches = |(prefix, pattern): &(&[u8], &CStr)| {
            let name = symbol.name(prefix, &mut buffer);
            name.is_some_and(|name| glob::matches(pattern, name))
        };
        if addresses.len() <= most && patterns.iter().any(&mut matches) {
            addresses.push(symbol.address()?, GFP_KERNEL)?;
        }
        Ok(())
    })?;
    Ok((is_read && addresses.len() <= most).then_some(addresses))
}

/// See [`crate::symbol::exists`].
///
/// [`address_of`] makes the kernel search all its jump labels. `register_kretprobe()` is faster: it
/// looks the symbol up first, and then refuses a probe with too large a data size.
pub(crate) fn exists(name: &CStr) -> Result<bool> {
    for offset in OFFSETS {
        if exists_by(name, offset)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn exists_by(name: &CStr, offset: u32) -> Result<bool> {
    let mut probe = KBox::new(MaybeUninit::<tracing::kretprobe>::zeroed(), GFP_KERNEL)?;
    let probe = probe.as_mut_ptr();
    // SAFETY: All-zero is a valid `struct kretprobe`, and no other code has it yet.
    let registered = to_result(unsafe {
        (*probe).kp.symbol_name = name.as_char_ptr();
        (*probe).kp.offset = offset;
        // This is more than `KRETPROBE_MAX_DATA_SIZE`.
        (*probe).data_size = usize::MAX;
        tracing::register_kretprobe(probe)
    });
    if registered.is_ok() {
        // SAFETY: The probe was registered above.
        unsafe { tracing::unregister_kretprobe(probe) };
    }
    Ok(registered != Err(ENOENT))
}

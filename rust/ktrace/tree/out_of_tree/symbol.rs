// SPDX-License-Identifier: GPL-2.0

//! Names and addresses: the kernel exports no lookup.
//!
//! But `register_kprobe()` makes one.

use core::mem::MaybeUninit;

use kernel::{
    error::to_result,
    prelude::*,
    sizes::SZ_64K,
    str::CStr, //
};

use crate::bindings as tracing;

use super::kallsyms::Kallsyms;

/// The places from a symbol on at which the kernel is asked about it.
///
/// It finds none around an address in front of `_stext`. On arm64, the image begins so many bytes
/// before that, with `_text`.
const OFFSETS: [u32; 2] = [0, SZ_64K as u32];

/// See [`crate::symbol::address_of`].
///
/// `register_kprobe()` looks the symbol up, and leaves the address in the
/// structure, also where it then refuses to place a probe there. It is asked for the second byte:
/// data is refused, and so is the middle of an instruction, so that there is rarely a probe to
/// take back; and a landing pad at the start of a function (ENDBR) is not skipped.
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
    // SAFETY: All-zero is a valid `struct kprobe`, and nobody else has it yet.
    unsafe {
        (*probe).symbol_name = name.as_char_ptr();
        (*probe).offset = offset;
        (*probe).flags = tracing::KPROBE_FLAG_DISABLED;
    }
    // SAFETY: A valid `struct kprobe` that stays in place until it is unregistered.
    let registered = to_result(unsafe { tracing::register_kprobe(probe) });
    // SAFETY: `probe` points at the box above, and the kernel has returned.
    let address = unsafe { (*probe).addr } as usize;
    if registered.is_ok() {
        // SAFETY: It was registered just now.
        unsafe { tracing::unregister_kprobe(probe) };
    }
    match address.checked_sub(offset as usize) {
        Some(address) => Ok(address),
        None => Err(registered.err().unwrap_or(ENOENT)),
    }
}

/// See [`crate::symbol::addresses_of`]. Those of the kernel itself.
pub(crate) fn addresses_in_kernel(name: &CStr) -> Result<KVec<usize>> {
    let mut addresses = KVec::new();
    Kallsyms::open()?.each_of_kernel(|symbol| {
        if symbol.name == name.to_bytes() {
            addresses.push(symbol.address as usize, GFP_KERNEL)?;
        }
        Ok(())
    })?;
    match addresses.contains(&0) {
        // The kernel hides them.
        true => Err(EPERM),
        false => Ok(addresses),
    }
}

/// See [`crate::symbol::each_named`].
pub(crate) fn each_named(
    names: &[&str],
    mut found: impl FnMut(usize, usize) -> Result, //
) -> Result {
    Kallsyms::open()?.each_of_kernel(|symbol| {
        match names.binary_search_by(|name| name.as_bytes().cmp(symbol.name)) {
            // The kernel hides it.
            Ok(_) if symbol.address == 0 => Err(EPERM),
            Ok(index) => found(index, symbol.address as usize),
            Err(_) => Ok(()),
        }
    })
}

/// See [`crate::symbol::exists`].
///
/// For [`address_of`] the kernel looks through all its jump labels. `register_kretprobe()` looks
/// the symbol up before all else, and then refuses a probe with more data than there is room for.
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
    // SAFETY: All-zero is a valid `struct kretprobe`, and nobody else has it yet.
    let registered = to_result(unsafe {
        (*probe).kp.symbol_name = name.as_char_ptr();
        (*probe).kp.offset = offset;
        // More than `KRETPROBE_MAX_DATA_SIZE`.
        (*probe).data_size = usize::MAX;
        tracing::register_kretprobe(probe)
    });
    if registered.is_ok() {
        // SAFETY: It was registered just now.
        unsafe { tracing::unregister_kretprobe(probe) };
    }
    Ok(registered != Err(ENOENT))
}

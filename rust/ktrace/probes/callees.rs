// SPDX-License-Identifier: GPL-2.0

//! The functions that a function of the running kernel calls directly or by a tail call.
//!
//! The text says so as the kernel executes it: static calls have their current targets. Calls by a
//! pointer are missing.

use kernel::{
    ffi::c_ulong,
    prelude::*, //
};

use probe::insn::outside_targets;

use crate::{
    arch::Decoder,
    hit::nofault,
    symbols::symbol, //
};

/// The greatest distance of a call site of ftrace from the start of its function, in bytes.
const MAX_SITE_OFFSET: usize = 8;

/// Adds the functions that those with the code at `roots` call, those that these call, and so on to
/// the depth `depth`, as addresses of their call sites. `sites` are all call sites of ftrace,
/// sorted. A function that ftrace cannot trace counts as a part of its callers. The functions at
/// `roots` themselves are not added.
///
/// Only rkprobe uses this function. Other modules cannot use it. Process context; sleeps. `ENOMEM`.
#[export_name = "ktrace_own_callees"]
pub fn add_callees(
    roots: &[usize],
    depth: u32,
    sites: &[c_ulong],
    callees: &mut KVVec<c_ulong>,
) -> Result {
    // Whether the function of each site was found.
    let mut found = KVVec::from_elem(false, sites.len(), GFP_KERNEL)?;
    // The start addresses of functions, or of parts of them: those of this depth, and the next.
    let (mut level, mut next) = (KVVec::new(), KVVec::new());
    let mut parts = KVVec::new();
    let mut bytes = KVVec::new();
    for root in roots {
        let root = symbol::extent(*root).map_or(*root, |(start, _)| start);
        level.push(root, GFP_KERNEL)?;
        if let Some(is_found) = site_at(sites, root).and_then(|index| found.get_mut(index)) {
            *is_found = true;
        }
    }
    for _ in 0..depth {
        while let Some(address) = level.pop() {
            let Some(text) = read(address, &mut bytes) else {
                continue;
            };
            for target in outside_targets::<Decoder>(text, address as u64) {
                let target = target as usize;
                match site_at(sites, target) {
                    Some(index) => {
                        let Some(is_found) = found.get_mut(index) else {
                            continue;
                        };
                        if !core::mem::replace(is_found, true) {
                            callees.push(sites.get(index).copied().unwrap_or(0), GFP_KERNEL)?;
                            next.push(target, GFP_KERNEL)?;
                        }
                    }
                    None if insert(&mut parts, target)? => level.push(target, GFP_KERNEL)?,
                    None => {}
                }
            }
        }
        core::mem::swap(&mut level, &mut next);
    }
    Ok(())
}

/// The index of the call site of the function at `address`.
fn site_at(sites: &[c_ulong], address: usize) -> Option<usize> {
    let index = sites.partition_point(|site| *site < address);
    let site = *sites.get(index)?;
    (site.wrapping_sub(address) <= MAX_SITE_OFFSET).then_some(index)
}

/// Adds to a sorted set. Whether the address is new. `ENOMEM`.
fn insert(set: &mut KVVec<usize>, address: usize) -> Result<bool> {
    match set.binary_search(&address) {
        Ok(_) => Ok(false),
        Err(index) => {
            set.reserve(1, GFP_KERNEL)?;
            Ok(set.insert_within_capacity(index, address).is_ok())
        }
    }
}

/// Reads the text from `address`, the start of a symbol, to the end of the symbol. `None` if no
/// symbol starts here, or if the text is not there.
fn read(address: usize, bytes: &mut KVVec<u8>) -> Option<&[u8]> {
    let (start, size) = symbol::extent(address)?;
    if start != address {
        return None;
    }
    bytes.clear();
    bytes.resize(size, 0, GFP_KERNEL).ok()?;
    nofault::read_kernel(address, bytes).ok()?;
    Some(bytes)
}

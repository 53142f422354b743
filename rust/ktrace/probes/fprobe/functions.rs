// SPDX-License-Identifier: GPL-2.0

//! The functions that a probe is registered on.

use core::{
    mem::size_of,
    ptr, //
};

use kernel::{
    error::to_result,
    ffi::{
        c_char,
        c_int,
        c_ulong, //
    },
    prelude::*,
    str::CStr, //
};

use probe::sort::sort_unique;

use crate::{
    bindings,
    hit::glob,
    modules::{
        ftrace_list::Locked,
        module, //
    },
    probes::ftrace::{
        self,
        Filter,
        HAS_USED_BY_FPROBE,
        USED_BY_FPROBE, //
    },
    symbols::symbol, //
};

/// The functions to probe.
pub enum Functions<'a> {
    /// Functions whose name matches one of the first patterns (`vfs_*`), but none of the second.
    Globs(&'a [&'a CStr], &'a [&'a CStr]),
    /// Functions with these names.
    Names(&'a [&'a CStr]),
    /// Functions that begin at these addresses.
    Addresses(&'a [usize]),
}

/// Checks that a function that can be probed matches one of the first patterns, but none of the
/// second. Traces nothing.
///
/// Process context; sleeps. `ENOENT` if no function matches, `EFAULT` if the kernel's filters look
/// unknown. `ENOMEM`.
pub fn exists(with: &[&CStr], without: &[&CStr]) -> Result {
    match (with, without) {
        ([pattern], []) => exists_one(pattern),
        _ => find_sites(with, without).map(|_| ()),
    }
}

/// Checks that a function that can be probed matches a pattern.
///
/// C: `fprobe_count_ips_from_filter()`, which is not exported. But `register_fprobe()` calls it
/// first, and then refuses a probe with too much data. This function searches all symbols twice. So
/// ktrace searches ftrace's functions first, which have one name each.
fn exists_one(pattern: &CStr) -> Result {
    if ftrace::takes(Filter::Glob(pattern))? {
        return Ok(());
    }
    let mut fprobe = KBox::new(bindings::fprobe::default(), GFP_KERNEL)?;
    fprobe.entry_data_size = 2 * MAX_FPROBE_DATA_SIZE;
    // SAFETY: The fprobe is initialised, and is unregistered before it is freed. Both patterns are
    // strings or NULL.
    let registered = to_result(unsafe {
        bindings::register_fprobe(&mut *fprobe, pattern.as_char_ptr(), ptr::null())
    });
    match registered {
        Err(error) if error == E2BIG => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            // SAFETY: This function has just registered the fprobe.
            to_result(unsafe { bindings::unregister_fprobe(&mut *fprobe) })
                .inspect_err(|_| core::mem::forget(fprobe))
        }
    }
}

/// Whether the name of a function matches a pattern, as in [`Functions::Globs`]. Any context.
pub fn matches(pattern: &CStr, name: &str) -> bool {
    const MAX: usize = bindings::KSYM_NAME_LEN as usize - 1;

    let mut text = [0; MAX + 1];
    let Some(to) = text[..MAX].get_mut(..name.len()) else {
        return false;
    };
    to.copy_from_slice(name.as_bytes());
    // The last byte of the copy stays 0.
    CStr::from_bytes_until_nul(&text).is_ok_and(|name| glob::matches(pattern, name))
}

/// Sorts numbers, and removes duplicates.
pub(super) fn sort(numbers: &mut KVVec<usize>) {
    let count = sort_unique(numbers);
    numbers.truncate(count);
}

/// The maximum number of symbols that match the patterns of a list. ktrace asks ftrace about each
/// symbol, which takes longer than in the kernel's fprobe.
pub(super) const MAX_MATCHING: usize = 1 << 14;

/// Finds the functions that match one of the first patterns, but none of the second, and that
/// ftrace can trace. `None` if ktrace cannot read the symbols, or if more than [`MAX_MATCHING`]
/// match.
///
/// C: `get_ips_from_filter()`.
pub(super) fn find_matching(with: &[&CStr], without: &[&CStr]) -> Result<Option<KVVec<usize>>> {
    let (Some(mut addresses), Some(left_out)) = (find_symbols(with)?, find_symbols(without)?)
    else {
        return Ok(None);
    };
    leave_out(&mut addresses, &left_out);
    let untraceable = ftrace::untraceable(&addresses)?;
    let mut left_out = untraceable.iter().peekable();
    let mut index = 0usize;
    addresses.retain(|_| {
        let is_left_out = left_out.next_if(|next| **next == index).is_some();
        index = index.wrapping_add(1);
        !is_left_out
    });
    Ok(Some(addresses))
}

/// The addresses of the symbols that match one of the patterns, sorted. `None` if ktrace cannot
/// read the symbols, or if more than [`MAX_MATCHING`] match.
fn find_symbols(patterns: &[&CStr]) -> Result<Option<KVVec<usize>>> {
    if patterns.is_empty() {
        return Ok(Some(KVVec::new()));
    }
    let mut addresses = symbol::find_matching(patterns, MAX_MATCHING)?;
    if let Some(addresses) = &mut addresses {
        sort(addresses);
    }
    Ok(addresses)
}

/// Removes the numbers of a sorted list.
fn leave_out(from: &mut KVVec<usize>, left_out: &[usize]) {
    from.retain(|number| left_out.binary_search(number).is_err());
}

/// Finds the ftrace sites of the functions of several patterns, sorted, without those that fprobe
/// uses. There is at least one.
///
/// If ktrace cannot read the symbols, ftrace compares its functions with the patterns. It knows
/// each function by one name only.
fn find_sites(with: &[&CStr], without: &[&CStr]) -> Result<KVVec<usize>> {
    let mut sites = match find_matching(with, without)? {
        Some(addresses) if addresses.is_empty() => return Err(ENOENT),
        Some(addresses) => ftrace::selected(Filter::Addresses(&addresses))?,
        None => {
            let mut sites = find_in_ftrace(with)?;
            leave_out(&mut sites, &find_in_ftrace(without)?);
            sites
        }
    };
    ftrace::leave_out_used(&mut sites)?;
    match sites.is_empty() {
        true => Err(ENOENT),
        false => Ok(sites),
    }
}

/// The sites of the functions that ftrace finds by one of the patterns, sorted.
fn find_in_ftrace(patterns: &[&CStr]) -> Result<KVVec<usize>> {
    let mut sites = KVVec::new();
    for pattern in patterns {
        // A name without wildcards can be one that ftrace does not know.
        match symbol::address_of(pattern).and_then(ftrace::site_of) {
            Ok(site) => sites.push(site, GFP_KERNEL)?,
            Err(error) if error == ENOMEM || error == EFAULT => return Err(error),
            Err(_) => {}
        }
        sites.extend_from_slice(&ftrace::sites(pattern)?, GFP_KERNEL)?;
    }
    sort(&mut sites);
    Ok(sites)
}

/// C: `MAX_FPROBE_DATA_SIZE`.
pub(super) const MAX_FPROBE_DATA_SIZE: usize = 15 * size_of::<c_ulong>();

/// Whether a module that is being unloaded has one of the functions. fprobe removes the functions
/// of such a module once, so fprobe must not get them afterwards.
pub(super) fn are_in_going(functions: &Functions<'_>) -> bool {
    module::any_going(|module| match functions {
        // The kernel ignores the functions of such a module.
        Functions::Globs(..) => false,
        Functions::Names(names) => names.iter().any(|name| {
            name.to_str()
                .is_ok_and(|name| module.count_symbols(name) > 0)
        }),
        Functions::Addresses(addresses) => {
            addresses.iter().any(|address| module.contains(*address))
        }
    })
}

/// Whether fprobe uses one of the functions. `register` leaves them out of patterns. Process
/// context. `ENOMEM`.
fn are_used(functions: &Functions<'_>) -> Result<bool> {
    if !HAS_USED_BY_FPROBE {
        return Ok(false);
    }
    let is_used = |name: &CStr| {
        name.to_str()
            .is_ok_and(|name| matches(USED_BY_FPROBE, name))
    };
    Ok(match functions {
        Functions::Globs(..) => false,
        Functions::Names(names) => names.iter().any(|name| is_used(name)),
        Functions::Addresses(addresses) => {
            let mut sites = match ftrace::selected(Filter::Addresses(addresses)) {
                // The kernel refuses them.
                Err(EINVAL) => return Ok(false),
                sites => sites?,
            };
            let count = sites.len();
            ftrace::leave_out_used(&mut sites)?;
            sites.len() < count
        }
    })
}

/// Registers an fprobe of the kernel on the functions. Context and errors are those of
/// [`Fprobe::new`](super::Fprobe::new).
///
/// # Safety
///
/// `fprobe` must be initialised, and must not move until it has been unregistered.
pub(super) unsafe fn register(
    _list: &Locked,
    fprobe: *mut bindings::fprobe,
    functions: &Functions<'_>,
) -> Result {
    if are_in_going(functions) || are_used(functions)? {
        return Err(ENOENT);
    }
    match functions {
        Functions::Globs([pattern], []) => {
            let used = HAS_USED_BY_FPROBE.then_some(USED_BY_FPROBE);
            let not = used.map_or(ptr::null(), |used| used.as_char_ptr());
            // SAFETY: The caller guarantees that the fprobe is initialised and does not move. Both
            // patterns are strings or NULL.
            to_result(unsafe { bindings::register_fprobe(fprobe, pattern.as_char_ptr(), not) })
        }
        // The kernel takes one pattern, and one to leave out.
        Functions::Globs(with, without) => {
            let sites = find_sites(with, without)?;
            if are_in_going(&Functions::Addresses(&sites)) {
                return Err(ENOENT);
            }
            // SAFETY: The requirements are the same.
            unsafe { register_at(fprobe, &sites) }
        }
        Functions::Names(names) => {
            let mut pointers = KVec::<*const c_char>::with_capacity(names.len(), GFP_KERNEL)?;
            for name in *names {
                pointers.push(name.as_char_ptr(), GFP_KERNEL)?;
            }
            let count = c_int::try_from(pointers.len())?;
            // SAFETY: The caller guarantees that the fprobe is initialised and does not move. The
            // array has `count` strings.
            to_result(unsafe {
                bindings::register_fprobe_syms(fprobe, pointers.as_mut_ptr(), count)
            })
        }
        // SAFETY: The requirements are the same.
        Functions::Addresses(addresses) => unsafe { register_at(fprobe, addresses) },
    }
}

/// Registers an fprobe of the kernel on the functions at these addresses.
///
/// # Safety
///
/// Those of [`register`].
unsafe fn register_at(fprobe: *mut bindings::fprobe, addresses: &[usize]) -> Result {
    let mut copy = KVVec::<c_ulong>::with_capacity(addresses.len(), GFP_KERNEL)?;
    for address in addresses {
        copy.push(*address as c_ulong, GFP_KERNEL)?;
    }
    let count = c_int::try_from(copy.len())?;
    // SAFETY: The caller guarantees that the fprobe is initialised and does not move. The array has
    // `count` addresses.
    to_result(unsafe { bindings::register_fprobe_ips(fprobe, copy.as_mut_ptr(), count) })
}

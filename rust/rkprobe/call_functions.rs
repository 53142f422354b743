// SPDX-License-Identifier: GPL-2.0

//! The functions of a call tree: its root or roots, and those that can be steps.

use kernel::{
    prelude::*,
    str::CString, //
};

use ktrace::{
    callees,
    ftrace, //
};
use probe::{
    command::{
        self,
        CallItem,
        CallTreeTarget,
        Position, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
    sort::sort_unique, //
};

use crate::{
    failure::{
        at_target,
        Failure, //
    },
    symbols, //
};

/// The functions of a call tree, as the addresses of their call sites.
pub(crate) struct CallFunctions {
    /// The roots, sorted.
    pub(crate) roots: KVVec<usize>,
    /// All of them, with the roots, each once.
    pub(crate) sites: KVVec<usize>,
}

impl CallFunctions {
    /// Checks that the functions exist, as far as the command names them.
    pub(crate) fn check(target: &CallTreeTarget<'_>) -> Result<(), Failure> {
        if !target.is_pattern() {
            match symbols::unique_address_of(target.root) {
                Err(error) if error == symbols::not_unique() => {
                    let kind = ErrorKind::NonUniqSymbol;
                    return Err(command::Error::at_target(kind, Errno::EINVAL).into());
                }
                address => address.map_err(at_target)?,
            };
        }
        find_roots(target, &find_excepted(target)?)?;
        for (item, at) in target.items() {
            if let CallItem::Pattern(pattern) = item {
                add_matching(pattern, at, &mut KVVec::new())?;
            }
        }
        Ok(())
    }

    /// Finds the functions. Process context; sleeps, but reads no file.
    pub(crate) fn find(target: &CallTreeTarget<'_>) -> Result<Self, Failure> {
        let excepted = find_excepted(target)?;
        let roots = find_roots(target, &excepted)?;
        let mut sites = KVVec::new();
        sites.extend_from_slice(&roots, GFP_KERNEL)?;
        for (item, at) in target.items() {
            match item {
                CallItem::All => add_matching("*", at, &mut sites)?,
                CallItem::Pattern(pattern) => add_matching(pattern, at, &mut sites)?,
                CallItem::Callees(depth) => {
                    let mut all = ftrace::sites(c"*")?;
                    probe::sort::sort(&mut all);
                    callees::add_callees(&roots, depth, &all, &mut sites)?;
                }
                CallItem::Except(_) => {}
            }
        }
        sort(&mut sites);
        sites.retain(|site| is_in(&roots, site) || !is_in(&excepted, site));
        Ok(Self { roots, sites })
    }
}

/// The call sites of the roots, sorted. If the root is a pattern, the `excepted` ones are left out.
fn find_roots(target: &CallTreeTarget<'_>, excepted: &[usize]) -> Result<KVVec<usize>, Failure> {
    let mut roots = KVVec::new();
    if target.is_pattern() {
        roots = matching(target.root)?;
        sort(&mut roots);
        roots.retain(|root| !is_in(excepted, root));
        return match roots.is_empty() {
            true => Err(at_target(ENOENT)),
            false => Ok(roots),
        };
    }
    match ftrace::site_of(symbols::address_of(target.root).map_err(at_target)?) {
        Ok(site) => roots.push(site, GFP_KERNEL)?,
        // ftrace cannot trace the function.
        Err(EINVAL) => return Err(at_target(ENOENT)),
        Err(error) => return Err(error.into()),
    }
    Ok(roots)
}

/// The call sites of the functions that the command excludes, sorted.
fn find_excepted(target: &CallTreeTarget<'_>) -> Result<KVVec<usize>, Failure> {
    let mut excepted = KVVec::new();
    for (item, _) in target.items() {
        if let CallItem::Except(pattern) = item {
            excepted.extend_from_slice(&matching(pattern)?, GFP_KERNEL)?;
        }
    }
    sort(&mut excepted);
    Ok(excepted)
}

/// Whether a sorted list contains an address.
fn is_in(list: &[usize], address: &usize) -> bool {
    list.binary_search(address).is_ok()
}

/// The call sites of the functions whose names match a pattern.
fn matching(pattern: &str) -> Result<KVVec<usize>> {
    ftrace::sites(&CString::try_from_fmt(format_args!("{pattern}"))?)
}

/// Adds the call sites of the functions whose names match a pattern, which stands at `at`. At least
/// one must match.
fn add_matching(pattern: &str, at: Position, sites: &mut KVVec<usize>) -> Result<(), Failure> {
    let found = matching(pattern)?;
    if found.is_empty() {
        let kind = ErrorKind::NoCallFunction;
        return Err(command::Error::at(kind, at, Errno::ENOENT).into());
    }
    Ok(sites.extend_from_slice(&found, GFP_KERNEL)?)
}

/// Sorts addresses, and removes duplicates.
fn sort(addresses: &mut KVVec<usize>) {
    let count = sort_unique(addresses);
    addresses.truncate(count);
}

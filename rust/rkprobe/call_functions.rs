// SPDX-License-Identifier: GPL-2.0

//! The functions of a call tree: its root, and those that can be steps.

use kernel::{
    prelude::*,
    str::CString, //
};

use ktrace::{
    callees,
    ftrace, //
};
use probe::command::{
    self,
    CallItem,
    CallTreeTarget,
    Position, //
};
use probe::error::{
    Errno,
    ErrorKind, //
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
    pub(crate) root: usize,
    /// All of them, with the root, each once.
    pub(crate) sites: KVVec<usize>,
}

impl CallFunctions {
    /// Checks that the functions exist, as far as the command names them.
    pub(crate) fn check(target: &CallTreeTarget<'_>) -> Result<(), Failure> {
        match symbols::unique_address_of(target.root) {
            Err(error) if error == symbols::not_unique() => {
                let kind = ErrorKind::NonUniqSymbol;
                return Err(command::Error::at_target(kind, Errno::EINVAL).into());
            }
            address => address.map_err(at_target)?,
        };
        find_root(target.root)?;
        for (item, at) in target.items() {
            if let CallItem::Pattern(pattern) = item {
                add_matching(pattern, at, &mut KVVec::new())?;
            }
        }
        Ok(())
    }

    /// Finds the functions. Process context; sleeps, but reads no file.
    pub(crate) fn find(target: &CallTreeTarget<'_>) -> Result<Self, Failure> {
        let (address, root) = find_root(target.root)?;
        let mut sites = KVVec::new();
        let mut excepted = KVVec::new();
        sites.push(root, GFP_KERNEL)?;
        for (item, at) in target.items() {
            match item {
                CallItem::All => add_matching("*", at, &mut sites)?,
                CallItem::Pattern(pattern) => add_matching(pattern, at, &mut sites)?,
                CallItem::Callees(depth) => {
                    let mut all = ftrace::sites(c"*")?;
                    all.sort_unstable();
                    callees::add_callees(address, depth, &all, &mut sites)?;
                }
                CallItem::Except(pattern) => match add_matching(pattern, at, &mut excepted) {
                    Err(Failure::Command(_)) => {}
                    result => result?,
                },
            }
        }
        sort(&mut sites);
        sort(&mut excepted);
        sites.retain(|site| *site == root || excepted.binary_search(site).is_err());
        Ok(Self { root, sites })
    }
}

/// The address of the function `[MOD:]SYM`, and its call site.
fn find_root(name: &str) -> Result<(usize, usize), Failure> {
    let address = symbols::address_of(name).map_err(at_target)?;
    match ftrace::site_of(address) {
        Ok(site) => Ok((address, site)),
        // ftrace cannot trace the function.
        Err(EINVAL) => Err(at_target(ENOENT)),
        Err(error) => Err(error.into()),
    }
}

/// Adds the call sites of the functions whose names match a pattern, which stands at `at`.
fn add_matching(pattern: &str, at: Position, sites: &mut KVVec<usize>) -> Result<(), Failure> {
    let pattern = CString::try_from_fmt(format_args!("{pattern}"))?;
    match ftrace::sites(&pattern) {
        Ok(found) => Ok(sites.extend_from_slice(&found, GFP_KERNEL)?),
        Err(EINVAL) => {
            let kind = ErrorKind::NoCallFunction;
            Err(command::Error::at(kind, at, Errno::ENOENT).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Sorts addresses, and removes duplicates.
fn sort(addresses: &mut KVVec<usize>) {
    addresses.sort_unstable();
    let mut last = 0;
    addresses.retain(|address| core::mem::replace(&mut last, *address) != *address);
}

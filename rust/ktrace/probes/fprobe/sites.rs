// SPDX-License-Identifier: GPL-2.0

//! The functions of probes without an exit handler. `rust/helpers/fprobe.c` calls their handlers,
//! with fewer instructions than the kernel's fprobe.

use kernel::{
    bindings::{
        ftrace_free_filter,
        ftrace_ops,
        hlist_node,
        synchronize_rcu, //
    },
    error::to_result,
    ffi::c_ulong,
    prelude::*, //
};

use crate::{
    bindings,
    modules::{
        ftrace_list::{
            self,
            Locked, //
        },
        leftover, //
    },
    probes::ftrace::{
        self,
        Filter, //
    },
    support, //
};

use super::functions::{
    self,
    Functions, //
};

/// A probe at the ftrace site of a function. C: `struct ktrace_site`.
#[repr(C)]
pub(super) struct Site {
    node: hlist_node,
    address: c_ulong,
    fprobe: *mut bindings::fprobe,
}

// `rust/helpers/fprobe.c` compares the structure in C with the same number.
const _: () = assert!(size_of::<Site>() == 4 * size_of::<usize>());

impl Site {
    /// Whether the table has the site. C: `hlist_unhashed()`.
    fn is_in_table(&self) -> bool {
        !self.node.pprev.is_null()
    }
}

// Rust only passes on pointers to the structure of the kernel.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_has_site(address: c_ulong) -> bool;
    fn ktrace_add_sites(sites: *mut Site, count: usize);
    fn ktrace_remove_sites(sites: *mut Site, count: usize);
    fn ktrace_site_ops() -> *mut ftrace_ops;
    fn ktrace_never_called();
}

/// Registers the `ftrace_ops` of all probes when the module loads. So only probes change the number
/// of functions that ftrace traces, as the kernel's own tests expect. If this fails, [`register`]
/// tries again.
pub(super) fn init() {
    // In the kernel tree, the kernel's fprobe calls all handlers.
    if !support::IN_TREE {
        let _ = register_ops(&mut ftrace_list::lock());
    }
}

/// Registers the `ftrace_ops` of all probes, unless they are registered.
fn register_ops(list: &mut Locked) -> Result<*mut ftrace_ops> {
    // SAFETY: The function has no requirements.
    let ops = unsafe { ktrace_site_ops() };
    let anchor = ktrace_never_called as unsafe extern "C" fn() as usize;
    // SAFETY: The structure is static, and has a handler. `exit` unregisters it, before this module
    // unloads.
    unsafe { list.register_once(ops, (anchor as c_ulong, c"ktrace_never_called")) }?;
    Ok(ops)
}

/// Registers a probe on functions. The sites must be those of [`register`] until [`unregister`]
/// has removed them.
///
/// Context and errors are those of [`Fprobe::new`](super::Fprobe::new). `None` if ktrace does not
/// [find] the functions. Then the probe is not registered.
///
/// # Safety
///
/// `fprobe` must be initialised and have no exit handler. It must stay in place until
/// [`unregister`] has removed its sites.
pub(super) unsafe fn register(
    fprobe: *mut bindings::fprobe,
    functions: &Functions<'_>,
) -> Result<Option<KVVec<Site>>> {
    let mut list = ftrace_list::lock();
    let Some(mut addresses) = find(&list, functions)? else {
        return Ok(None);
    };
    let mut sites = KVVec::with_capacity(addresses.len(), GFP_KERNEL)?;
    for address in &addresses {
        let node = hlist_node::default();
        let address = *address;
        sites.push(
            Site {
                node,
                address,
                fprobe,
            },
            GFP_KERNEL,
        )?;
    }
    let ops = register_ops(&mut list)?;
    // SAFETY: `ops` are registered.
    unsafe { list.add_functions(ops, &mut addresses) }?;
    // SAFETY: The lock excludes other callers. The sites stay in place until `unregister` removes
    // them, because the memory of a vector does not move with the vector.
    unsafe { ktrace_add_sites(sites.as_mut_ptr(), sites.len()) };
    Ok(Some(sites))
}

/// Removes sites, and waits until no handler of them runs. The code of the handlers and `sites` can
/// be freed afterwards.
///
/// Process context; sleeps.
///
/// # Safety
///
/// The sites must be those of a successful call of [`register`].
pub(super) unsafe fn unregister(sites: &mut [Site]) {
    let mut list = ftrace_list::lock();
    let mut addresses = KVVec::new();
    let mut has_all = true;
    // When a module unloads, `ftrace_list` removes the sites in this module.
    for site in sites.iter().filter(|site| site.is_in_table()) {
        has_all &= addresses.push(site.address, GFP_KERNEL).is_ok();
    }
    // SAFETY: The lock excludes other callers. `register` has added the sites, and C skips those
    // that are not in the table any more.
    unsafe { ktrace_remove_sites(sites.as_mut_ptr(), sites.len()) };
    // SAFETY: The lock excludes other callers.
    addresses.retain(|address| !unsafe { ktrace_has_site(*address) });
    // SAFETY: `register` has registered the structure. `ktrace_never_called` stays in the filter.
    let removed = unsafe { list.remove_functions(ktrace_site_ops(), &mut addresses) };
    if removed.is_err() || !has_all {
        // ftrace calls `rust/helpers/fprobe.c`, which finds no handler, until this module goes.
        pr_warn!("functions without a handler still call ftrace\n");
    }
    drop(list);
    // SAFETY: The caller is in process context.
    unsafe { synchronize_rcu() };
}

/// Unregisters the `ftrace_ops` of all probes, and waits for a grace period of RCU tasks. If this
/// fails, the module's code stays: see [`leftover::keep_code_of`].
///
/// A grace period of RCU tasks ends after every task has slept or has been in user mode, so one
/// task that stays in the kernel delays it without limit. To disable an event must not wait for
/// this, because the caller holds `event_mutex`, and everything else in tracing would wait, too.
pub(super) fn exit() {
    // SAFETY: The function has no requirements.
    let ops = unsafe { ktrace_site_ops() };
    if ftrace_list::unregister(ops).is_err() {
        // SAFETY: The structure is static, and its function does not change.
        let func = unsafe { (*ops).func };
        leftover::keep_code_of(func.map_or(0, |func| func as usize));
        return;
    }
    // SAFETY: `ops` are not registered any more.
    unsafe { ftrace_free_filter(ops) };
}

/// Finds the ftrace sites of functions, each once. There is at least one. `None` if ktrace cannot
/// read the kernel's symbols or filters, or for patterns that [too many](functions::MAX_MATCHING)
/// match.
///
/// Process context; sleeps. `ENOENT` and `EINVAL` as for [`Fprobe::new`](super::Fprobe::new).
/// `ENOMEM`.
fn find(list: &Locked, functions: &Functions<'_>) -> Result<Option<KVVec<c_ulong>>> {
    if functions::are_in_going(functions) {
        return Err(ENOENT);
    }
    match functions {
        Functions::Globs(with, without) => match functions::find_matching(with, without)? {
            Some(addresses) => sites_at(&addresses),
            None => Ok(None),
        },
        Functions::Addresses([]) => Err(EINVAL),
        Functions::Addresses(addresses) => sites_at(addresses),
        Functions::Names(_) => {
            let mut sites = find_by_name(list, functions)?;
            functions::sort(&mut sites);
            Ok(Some(sites))
        }
    }
}

/// The ftrace sites of the functions at these addresses. `ENOENT` without addresses, or if ftrace
/// cannot trace one of them.
fn sites_at(addresses: &[usize]) -> Result<Option<KVVec<c_ulong>>> {
    match ftrace::selected(Filter::Addresses(addresses)) {
        // A filter has each site once.
        Ok(sites) => Ok(Some(sites)),
        Err(EFAULT) => Ok(None),
        Err(EINVAL) => Err(ENOENT),
        Err(error) => Err(error),
    }
}

/// Finds functions by their names. The kernel exports no function that does this, except the
/// registration of an fprobe.
fn find_by_name(list: &Locked, functions: &Functions<'_>) -> Result<KVVec<c_ulong>> {
    let mut fprobe = KBox::new(bindings::fprobe::default(), GFP_KERNEL)?;
    fprobe.flags = bindings::FPROBE_FL_DISABLED;
    // SAFETY: The fprobe is initialised. It stays in its box until it is unregistered.
    unsafe { functions::register(list, &mut *fprobe, functions) }?;
    let found = sites_of(&fprobe);
    // SAFETY: This function has registered the fprobe.
    let unregistered = to_result(unsafe { bindings::unregister_fprobe(&mut *fprobe) });
    if unregistered.is_err() {
        // The kernel still has pointers to the structure, which has no handler.
        core::mem::forget(fprobe);
    }
    found
}

/// The ftrace sites of a registered fprobe.
fn sites_of(fprobe: &bindings::fprobe) -> Result<KVVec<c_ulong>> {
    let list = fprobe.hlist_array;
    // SAFETY: The kernel keeps the list and its size until the fprobe is unregistered. The entries
    // follow the structure.
    let nodes = unsafe {
        let size = usize::try_from((*list).size)?;
        core::slice::from_raw_parts((*list).array.as_ptr(), size)
    };
    let mut sites = KVVec::with_capacity(nodes.len(), GFP_KERNEL)?;
    for node in nodes {
        sites.push(node.addr, GFP_KERNEL)?;
    }
    Ok(sites)
}

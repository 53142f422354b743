// SPDX-License-Identifier: GPL-2.0

//! The index of the kernel's fprobe among the users of ftrace's return stack.
//!
//! `function_graph_enter_regs()` sets the bit of index 0 for each call that any user traces. So the
//! user with this index also sees the returns of calls that it did not trace: those that another
//! user traces, and those that were in flight when fprobe had another index. fprobe finds no entry
//! data for such a call, and warns: see Documentation/kernel-reports.rst.
//!
//! fprobe gets an index with its first probe, and gives it back with its last one. The kernel gives
//! the 16 indexes out in turn, so the index 0 follows the last one. When fprobe has the last one,
//! ktrace registers a probe at a function that is never called, and fprobe keeps the index until
//! ktrace unloads.
//!
//! If fprobe has given the last index back before ktrace could do so, or has had none since the
//! boot, ktrace skips the index 0: the same probe is registered and removed. A traced call that
//! returns meanwhile gives the warning nevertheless, which is why ktrace does not do this in each
//! turn.

use kernel::{
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use crate::{
    modules::ftrace_list::Locked,
    symbols::symbol, //
};

/// The name of fprobe's `struct fgraph_ops`.
const OPS: &CStr = c"fprobe_graph_ops";

/// The address of [`OPS`], 0 before the first search, or [`UNKNOWN`].
static ADDRESS: Atomic<usize> = Atomic::new(0);

const UNKNOWN: usize = 1;

/// The greatest index. C: `FGRAPH_ARRAY_SIZE`.
const LAST: i32 = 15;

extern "C" {
    fn ktrace_graph_index(ops: *const c_void) -> i32;
    fn ktrace_keep_graph_index() -> c_int;
    fn ktrace_free_graph_index();
}

/// Whether the probe is registered that keeps the index. The list of `ftrace_ops` protects it.
static KEPT: Atomic<bool> = Atomic::new(false);

/// The index that fprobe has, or had last. `None` if the kernel's symbols do not say so.
fn index() -> Option<i32> {
    let mut address = ADDRESS.load(Relaxed);
    if address == 0 {
        address = symbol::address_of(OPS).unwrap_or(UNKNOWN);
        ADDRESS.store(address, Relaxed);
    }
    if address == UNKNOWN {
        return None;
    }
    // SAFETY: The function does not trust the address.
    Some(unsafe { ktrace_graph_index(address as *const c_void) })
}

/// Registers the probe that keeps the index, unless it is registered. Returns whether it did.
fn keep(_list: &Locked) -> bool {
    // SAFETY: The list excludes other callers. The probe is not registered.
    !KEPT.load(Relaxed) && unsafe { ktrace_keep_graph_index() } == 0
}

/// Removes the probe that [`keep`] has registered.
fn free(_list: &Locked) {
    // SAFETY: The list excludes other callers. The probe is registered.
    unsafe { ktrace_free_graph_index() };
}

/// Prepares the registration of a probe with an exit handler, which gives fprobe the next index.
/// Skips the index 0, which the kernel gives out after the last one, and first of all. Process
/// context; sleeps.
pub(super) fn skip_first(list: &Locked) {
    if !matches!(index(), Some(0 | LAST)) || !keep(list) {
        return;
    }
    // Others may have taken indexes since the boot.
    match index() {
        Some(LAST) => KEPT.store(true, Relaxed),
        _ => free(list),
    }
}

/// Whether fprobe has the index 0 nevertheless, because others have taken indexes, too. A probe
/// with an exit handler must be registered. Process context; sleeps.
pub(super) fn is_first() -> bool {
    index() == Some(0)
}

/// Keeps the index if it is the last one. A probe with an exit handler must be registered. Process
/// context; sleeps.
pub(super) fn keep_last(list: &Locked) {
    if index() == Some(LAST) && keep(list) {
        KEPT.store(true, Relaxed);
    }
}

/// Gives the index back, when ktrace's module unloads. Process context; sleeps.
pub(super) fn exit(list: &Locked) {
    if KEPT.load(Relaxed) {
        free(list);
    }
}

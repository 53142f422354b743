// SPDX-License-Identifier: GPL-2.0

//! The index of the kernel's fprobe among the users of ftrace's return stack.
//!
//! `function_graph_enter_regs()` sets the bit of index 0 for each call that any user traces. So the
//! user with this index also sees the returns of calls that it did not trace: those that another
//! user traces, and those that were in flight when fprobe had another index. fprobe finds no entry
//! data for such a call, and warns: see Documentation/kernel-reports.rst.
//!
//! fprobe gets an index with its first probe, and gives it back with its last one. The kernel gives
//! the 16 indexes out in turn.

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use crate::symbols::symbol;

/// The name of fprobe's `struct fgraph_ops`.
const OPS: &CStr = c"fprobe_graph_ops";

/// The address of [`OPS`], 0 before the first search, or [`UNKNOWN`].
static ADDRESS: Atomic<usize> = Atomic::new(0);

const UNKNOWN: usize = 1;

extern "C" {
    fn ktrace_is_first_graph_user(ops: *const c_void) -> bool;
}

/// Whether fprobe has the index 0. A probe with an exit handler must be registered. False if the
/// kernel's symbols do not say so. Process context; sleeps.
pub(super) fn is_first() -> bool {
    let mut address = ADDRESS.load(Relaxed);
    if address == 0 {
        address = symbol::address_of(OPS).unwrap_or(UNKNOWN);
        ADDRESS.store(address, Relaxed);
    }
    // SAFETY: The function does not trust the address. If nothing is there, it returns false.
    address != UNKNOWN && unsafe { ktrace_is_first_graph_user(address as *const c_void) }
}

// SPDX-License-Identifier: GPL-2.0

//! The functions by which handlers read memory.

use crate::symbols::symbol;

const READERS: [&str; 4] = [
    "copy_from_kernel_nofault",
    "copy_from_user_nofault",
    "rep_movs_alternative",
    "__arch_copy_from_user",
];

/// Whether this address is in a function by which handlers read memory, after its entry. Any
/// context.
///
/// The kernel dies if such a load, under the breakpoint of a nested kprobe, hits a probe whose
/// handler also reads memory, such as one of the page fault: see `BUG()` in `reenter_kprobe()`. At
/// the entry, ftrace calls the handler, and no instruction runs under a breakpoint.
pub(crate) fn contain(address: usize) -> bool {
    is_reader(address) && symbol::is_entry(address) == Some(false)
}

#[inline(never)]
fn is_reader(address: usize) -> bool {
    let mut buffer = [0; symbol::LEN];
    symbol::location(address, &mut buffer).is_some_and(|location| READERS.contains(&location.name))
}

// SPDX-License-Identifier: GPL-2.0

//! Checks of lockdown, and of the permission to see addresses.
//!
//! C header: [`include/linux/security.h`](srctree/include/linux/security.h)

use kernel::{
    bindings,
    error::{
        to_result,
        Result, //
    },
    ffi::c_int,
    seq_file::SeqFile, //
};

// Rust only passes on pointers to this structure.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_locked_down_kprobes() -> c_int;
    fn ktrace_locked_down_tracefs() -> c_int;
    fn ktrace_shows_addresses(m: *const bindings::seq_file) -> bool;
    fn ktrace_hash_address(address: u64) -> u32;
}

/// Checks that probes may be placed. Process context. `EPERM` if lockdown forbids it. C:
/// `LOCKDOWN_KPROBES`.
pub fn kprobes_allowed() -> Result {
    // SAFETY: The function has no requirements.
    to_result(unsafe { ktrace_locked_down_kprobes() })
}

/// Checks that tracefs may be used. Process context. `EPERM` if lockdown forbids it. C:
/// `LOCKDOWN_TRACEFS`.
pub fn tracefs_allowed() -> Result {
    // SAFETY: The function has no requirements.
    to_result(unsafe { ktrace_locked_down_tracefs() })
}

/// Whether the reader of this file may see kernel addresses. Process context.
///
/// Never shows more than `/proc/kallsyms` with the same `kptr_restrict`. With 0, the task that
/// opened the file needs `CAP_SYSLOG`, even if `perf_event_paranoid` lets all users see
/// `/proc/kallsyms`. With 1, the current task, which reads the file, needs it, too. 2 hides
/// addresses from every user. C: `kallsyms_show_value()`.
pub fn shows_addresses(reader: &SeqFile) -> bool {
    // `SeqFile` is a transparent wrapper of `struct seq_file`.
    let m = core::ptr::from_ref(reader).cast();
    // SAFETY: `m` comes from a reference, so it is valid. The kernel sets its file before any read.
    unsafe { ktrace_shows_addresses(m) }
}

/// Returns a number that stands for an address. The number is constant while this module is loaded.
/// It does not reveal the address. Any context.
pub fn hash_address(address: u64) -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { ktrace_hash_address(address) }
}

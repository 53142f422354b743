// SPDX-License-Identifier: GPL-2.0

//! What lockdown allows.
//!
//! C header: [`include/linux/security.h`](srctree/include/linux/security.h)

use kernel::error::{to_result, Result};
use kernel::ffi::c_int;

extern "C" {
    fn ktrace_locked_down_kprobes() -> c_int;
    fn ktrace_locked_down_tracefs() -> c_int;
}

/// May probes be placed? Process context. `EPERM` where lockdown forbids it. C: `LOCKDOWN_KPROBES`.
pub fn kprobes_allowed() -> Result {
    // SAFETY: No requirements.
    to_result(unsafe { ktrace_locked_down_kprobes() })
}

/// May tracefs be used? Process context. `EPERM` where lockdown forbids it. C: `LOCKDOWN_TRACEFS`.
pub fn tracefs_allowed() -> Result {
    // SAFETY: No requirements.
    to_result(unsafe { ktrace_locked_down_tracefs() })
}

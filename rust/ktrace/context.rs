// SPDX-License-Identifier: GPL-2.0

//! The context of a probe handler.
//!
//! A kprobe or kretprobe handler runs wherever the probed function runs: in a process, a soft or
//! hard interrupt, with any lock held, on top of a breakpoint exception or an ftrace call. The
//! kernel disables preemption around it and keeps a probe that is hit from within a handler from
//! running (it counts as missed). So a handler does not sleep, lock, allocate or panic.
//!
//! What may only be done there takes an [`Atomic`], which only a handler is given.

use core::mem::offset_of;

use kernel::{
    bindings::task_struct,
    types::NotThreadSafe, //
};

use crate::arch;

extern "C" {
    fn ktrace_local_clock() -> u64;
}

/// Evidence that preemption is disabled, as it is in every probe handler.
///
/// # Invariants
///
/// Preemption stays disabled for as long as the value lives.
pub struct Atomic(NotThreadSafe);

impl Atomic {
    /// Creates the evidence.
    ///
    /// # Safety
    ///
    /// Preemption must be disabled, and stay so for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn new<'a>() -> &'a Self {
        // INVARIANT: The caller guarantees that preemption stays disabled for `'a`.
        &Self(NotThreadSafe)
    }

    /// The address of the current task, a `struct task_struct`. C: `current`.
    #[inline(always)]
    pub fn current(&self) -> usize {
        arch::current().addr()
    }

    /// The address of the current CPU's copy of the per-CPU variable at `address`. It is to be read
    /// with [`crate::nofault`], because `address` need not be that of a variable. C:
    /// `this_cpu_ptr()`.
    #[inline(always)]
    pub fn this_cpu(&self, address: usize) -> usize {
        arch::this_cpu(address)
    }

    /// The address of the name of the current task, in kernel memory: `TASK_COMM_LEN` (16) bytes
    /// with a NUL among them, to be read with [`crate::nofault`]. C: `current->comm`.
    #[inline(always)]
    pub fn comm(&self) -> usize {
        self.current().wrapping_add(offset_of!(task_struct, comm))
    }
}

/// Returns a time in ns. All CPUs agree on it, so a handler can compare it with a time from another
/// CPU. It may go back by a little while the kernel adjusts it. Any context.
///
/// C: `ktime_get_mono_fast_ns()`.
#[inline]
pub fn monotonic_clock() -> u64 {
    // SAFETY: No requirements.
    unsafe { kernel::bindings::ktime_get_mono_fast_ns() }
}

/// The time of the trace buffers, in ns since boot. Any context. C: `local_clock()`.
pub fn local_clock() -> u64 {
    // SAFETY: No requirements.
    unsafe { ktrace_local_clock() }
}

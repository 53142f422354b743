// SPDX-License-Identifier: GPL-2.0

//! The context of a probe handler.
//!
//! A kprobe or kretprobe handler runs in the context of the probed function: a process, a soft or
//! hard interrupt, with any lock held, on top of a breakpoint exception or an ftrace call. The
//! kernel disables preemption around the handler. A probe that is hit inside a handler does not
//! run, and the kernel counts it as missed. So a handler does not sleep, lock, allocate or panic.
//!
//! An operation that is possible only in this context takes an [`Atomic`]. Only a handler has one.

use core::mem::offset_of;

use kernel::{
    bindings::task_struct,
    cpu::CpuId,
    types::NotThreadSafe, //
};

use crate::arch;

extern "C" {
    fn ktrace_local_clock() -> u64;
    fn ktrace_in_task() -> bool;
}

/// Proof that preemption is disabled, as it is in every probe handler.
///
/// # Invariants
///
/// Preemption stays disabled for as long as the value lives.
pub struct Atomic(NotThreadSafe);

impl Atomic {
    /// Creates the proof.
    ///
    /// # Safety
    ///
    /// Preemption must be disabled for all of `'a`.
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

    /// Whether the current task runs, and not an interrupt, a softirq or an NMI on top of it. C:
    /// `in_task()`.
    #[inline(always)]
    pub fn is_in_task(&self) -> bool {
        // SAFETY: The function has no requirements.
        unsafe { ktrace_in_task() }
    }

    /// The number of calls of the current task that ftrace's return stack had no room for. Code
    /// that traces returns did not see these calls. C: `current->trace_overrun`.
    #[inline(always)]
    pub fn untraced_returns(&self) -> u32 {
        // SAFETY: The current task exists. Only the task itself changes the number while it traces
        // returns.
        unsafe { (&raw const (*arch::current()).trace_overrun.counter).read_volatile() as u32 }
    }

    /// The number of the current task. C: `current->pid`.
    #[inline(always)]
    pub fn pid(&self) -> u32 {
        // SAFETY: The current task exists. Only the task itself changes its number, in `execve()`.
        unsafe { (&raw const (*arch::current()).pid).read_volatile() as u32 }
    }

    /// The name of the current task, as words in the order of memory. The task may change it
    /// meanwhile. C: `current->comm`.
    #[inline(always)]
    pub fn comm_words(&self) -> [u64; 2] {
        const { assert!(offset_of!(task_struct, comm) % size_of::<u64>() == 0) };
        let comm = self.comm() as *const u64;
        // SAFETY: The current task exists, its name has 16 bytes, and the structure is aligned to
        // words. Who reads while the name changes gets parts of both names.
        unsafe { [comm.read_volatile(), comm.add(1).read_volatile()] }
    }

    /// The number of the current CPU. C: `smp_processor_id()`.
    pub fn cpu(&self) -> u32 {
        CpuId::current().as_u32()
    }

    /// The address of the current CPU's copy of the per-CPU variable at `address`. The caller must
    /// read it with [`crate::nofault`], because `address` need not be the address of a variable. C:
    /// `this_cpu_ptr()`.
    #[inline(always)]
    pub fn this_cpu(&self, address: usize) -> usize {
        arch::this_cpu(address)
    }

    /// The address of the name of the current task, in kernel memory. The name has `TASK_COMM_LEN`
    /// (16) bytes and contains a NUL. The caller must read it with [`crate::nofault`]. C:
    /// `current->comm`.
    #[inline(always)]
    pub fn comm(&self) -> usize {
        self.current().wrapping_add(offset_of!(task_struct, comm))
    }
}

/// Returns a monotonic time in ns. All CPUs agree on the time, so a handler can compare it with a
/// time from another CPU. The time may go back slightly while the kernel adjusts the clock. Any
/// context.
///
/// C: `ktime_get_mono_fast_ns()`.
#[inline]
pub fn monotonic_clock() -> u64 {
    // SAFETY: The function has no requirements.
    unsafe { kernel::bindings::ktime_get_mono_fast_ns() }
}

/// The time of the trace buffers, in ns since boot. Any context. C: `local_clock()`.
pub fn local_clock() -> u64 {
    // SAFETY: The function has no requirements.
    unsafe { ktrace_local_clock() }
}

// SPDX-License-Identifier: GPL-2.0

//! The contexts in which no handler of a watchpoint may run.
//!
//! A watchpoint can hit in any context, even in code that no other probe can be in. So a hit is
//! missed
//!
//! - in an NMI and in a debug exception,
//! - while the kernel processes a kprobe on this CPU: the handler could hit a kprobe, and the
//!   kernel supports only one level of such nesting,
//! - while the kernel prints trace events (`kernel.tracepoint_printk`): it would print the record
//!   under a lock that the interrupted code may hold.

use core::{
    marker::PhantomData,
    ptr, //
};

use kernel::{
    ffi::c_void,
    prelude::*, //
};

use crate::{
    arch,
    symbols::symbol, //
};

extern "C" {
    fn ktrace_watch_enter() -> bool;
    fn ktrace_watch_leave();
}

/// The addresses of variables of the kernel.
///
/// # Invariants
///
/// The addresses are those of the variables of these names.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    /// C: `struct kprobe *current_kprobe`, a per-CPU variable.
    current_kprobe: usize,
    /// C: `int tracepoint_printk`.
    tracepoint_printk: usize,
    /// C: `raw_spinlock_t tracepoint_iter_lock`.
    tracepoint_iter_lock: usize,
}

impl Guard {
    /// Finds the variables. Process context; sleeps. `ENOMEM`, and `ENOENT` if the kernel does not
    /// know the names of its variables.
    pub(super) fn find() -> Result<Self> {
        // INVARIANT: The kernel looks up the addresses by these names.
        Ok(Self {
            current_kprobe: symbol::address_of(c"current_kprobe")?,
            tracepoint_printk: symbol::address_of(c"tracepoint_printk")?,
            tracepoint_iter_lock: symbol::address_of(c"tracepoint_iter_lock")?,
        })
    }

    /// Enters the context of a handler. `None` if no handler may run.
    ///
    /// # Safety
    ///
    /// The caller must be called by a debug exception, and must drop the result before it returns.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    pub(super) unsafe fn enter(self) -> Option<Entered> {
        if self.is_in_kprobe() || self.may_print() {
            return None;
        }
        // SAFETY: The caller guarantees that this is a debug exception. The destructor of `Entered`
        // leaves the context.
        unsafe { ktrace_watch_enter() }.then_some(Entered(PhantomData))
    }

    /// Whether the kernel processes a kprobe on this CPU. C: `kprobe_running()`.
    #[inline(always)]
    fn is_in_kprobe(self) -> bool {
        let current = arch::this_cpu(self.current_kprobe) as *const *const c_void;
        // SAFETY: By the type invariant, this is the CPU's copy of a pointer that always exists.
        !unsafe { ptr::read_volatile(current) }.is_null()
    }

    /// Whether the kernel may print a record. When the user ends the printing, the kernel clears
    /// the first variable before it changes its text. If the interrupted code is printing then, it
    /// holds the lock.
    #[inline(always)]
    fn may_print(self) -> bool {
        // SAFETY: By the type invariant, this variable always exists. Another CPU may change it.
        let is_on = unsafe { ptr::read_volatile(self.tracepoint_printk as *const u32) };
        // SAFETY: By the type invariant, this variable always exists. It begins with the number of
        // a `qspinlock` (`arch/{x86,arm64}/Kconfig`: `ARCH_USE_QUEUED_SPINLOCKS`), which is 0 if
        // nobody holds the lock.
        let lock = unsafe { ptr::read_volatile(self.tracepoint_iter_lock as *const u32) };
        is_on != 0 || lock != 0
    }
}

/// The context of a handler, in which `in_nmi()` is true. Dropping this value leaves the context.
pub(super) struct Entered(PhantomData<*mut ()>);

impl Drop for Entered {
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn drop(&mut self) {
        // SAFETY: `Guard::enter` has entered the context on this CPU.
        unsafe { ktrace_watch_leave() };
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The memory that a watchpoint watches.

use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_uint,
        c_ulong, //
    },
    prelude::*, //
};

use crate::{
    arch,
    probes::kprobe::{
        self,
        Kprobe, //
    },
    support::unsupported, //
};

use super::{
    access::Access,
    entry_memory::Unwatchable,
    known::with_known,
    reports, //
};

extern "C" {
    fn ktrace_watch_slots(access: c_uint) -> c_uint;
    fn ktrace_check_watch(
        address: c_ulong,
        is_per_cpu: bool,
        len: c_ulong,
        access: c_uint,
    ) -> c_int;
}

/// The memory to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// An address in the kernel's space, or the address of a per-CPU variable.
    pub address: usize,
    /// Whether `address` is the address of a per-CPU variable. Each CPU then watches its own copy.
    pub is_per_cpu: bool,
    /// The number of bytes: 1, 2, 4 or 8. The address is a multiple of this number.
    pub len: u8,
    /// The accesses that hit.
    pub access: Access,
}

impl Target {
    /// Checks that the kernel accepts such a watchpoint if a breakpoint register is free.
    ///
    /// Process context; sleeps. Fails as [`Watchpoint::new`](super::Watchpoint::new). If no
    /// register is free, the kernel cannot check the watchpoint, and this function succeeds.
    pub fn check(&self) -> Result {
        let len = self.checked_len()?;
        if arch::WATCHES_BY_FTRACE {
            reports::check()?;
        }
        // SAFETY: The function has no requirements, because the kernel checks the address.
        let checked = to_result(unsafe {
            ktrace_check_watch(self.address, self.is_per_cpu, len, self.access.raw())
        });
        match checked {
            Err(ENOSPC) => Ok(()),
            checked => checked,
        }
    }

    /// The reason why this memory cannot be watched. `None` if it can be watched, or if it is not
    /// in the kernel's space.
    ///
    /// Process context; sleeps. `ENOMEM`, and `EOPNOTSUPP` if the kernel does not know the names of
    /// its variables.
    pub fn unwatchable(&self) -> Result<Option<Unwatchable>> {
        if self.access == Access::Execute || !self.is_kernel() {
            return Ok(None);
        }
        with_known(|known| {
            let len = self.len.into();
            known
                .entry
                .check(self.address, self.is_per_cpu, len, self.access)
        })
    }

    const fn is_kernel(&self) -> bool {
        self.is_per_cpu || (self.address as isize) < 0
    }

    /// Returns the length in the kernel's form. Fails if the address cannot be watched.
    pub(super) fn checked_len(&self) -> Result<c_ulong> {
        if slots(self.access) == 0 {
            return Err(unsupported());
        }
        if !self.is_kernel() || !matches!(self.len, 1 | 2 | 4 | 8) {
            return Err(EINVAL);
        }
        if self.access != Access::Execute {
            return match self.unwatchable()? {
                None => Ok(self.len.into()),
                Some(_) => Err(EINVAL),
            };
        }
        if arch::WATCHES_BY_FTRACE {
            self.check_instruction()?;
        }
        Ok(size_of::<c_ulong>())
    }

    /// Checks that a kprobe can be at the instruction. On x86-64, the kernel refuses other
    /// instructions itself. On arm64, the kernel would repeat them without end.
    fn check_instruction(&self) -> Result {
        let target = kprobe::Target::Address(self.address);
        match KBox::pin_init(Kprobe::register_disabled(target, NoHandler), GFP_KERNEL) {
            Ok(_) => Ok(()),
            Err(error) if error == ENOMEM || error == EPERM => Err(error),
            Err(_) => Err(EINVAL),
        }
    }

    /// The watched address of this CPU. Preemption should be disabled.
    #[inline(always)]
    pub(super) fn here(&self) -> usize {
        match self.is_per_cpu {
            true => arch::this_cpu(self.address),
            false => self.address,
        }
    }
}

/// The handler of a kprobe that is never armed.
struct NoHandler;

#[vtable]
impl kprobe::Handler for NoHandler {
    fn pre(&self, _: &kprobe::Hit<'_>) {}
}

/// The number of registers that each CPU has for this access. perf and debuggers use these
/// registers, too. 0 on an arm64 processor without atomic instructions (LSE), where no watchpoint
/// is possible. Any context.
pub fn slots(access: Access) -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { ktrace_watch_slots(access.raw()) }
}

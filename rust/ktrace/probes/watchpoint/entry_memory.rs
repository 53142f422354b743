// SPDX-License-Identifier: GPL-2.0

//! The memory that the entry of exceptions uses.
//!
//! On x86-64, the kernel disables watchpoints only when the entry code of a debug exception or of
//! an NMI has run. If this code hits a watchpoint, a second debug exception uses the stack of the
//! first one, or interrupts an NMI. So memory that such code uses cannot be watched:
//!
//! - Variables that the code of `.entry.text` and `.noinstr.text` names. This file decodes the
//!   running text of these sections, because the kernel changes it for the processor.
//! - Stacks. The code writes to a stack, and copies registers from one stack to another.
//!
//! arm64 masks debug exceptions when it enters an exception. So arm64 has no such memory.

use kernel::{
    ffi::{
        c_uint,
        c_ulong,
        c_void, //
    },
    prelude::*, //
};

use probe::insn::Use;

use crate::{
    arch,
    hit::nofault,
    symbols::symbol, //
};

use super::access::Access;

extern "C" {
    fn ktrace_is_watchable(address: c_ulong) -> bool;
    fn ktrace_per_cpu_ptr(area: *mut c_void, cpu: c_uint) -> *mut c_void;
    fn ktrace_next_possible_cpu(cpu: c_uint) -> c_uint;
    fn ktrace_thread_size() -> usize;
}

/// The reason why memory cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwatchable {
    /// The entry of exceptions uses the memory.
    UsedByEntry,
    /// The memory is neither a variable nor of the allocators of pages and of small objects. It is
    /// or can become a stack, or has a special purpose.
    NoData,
}

/// Memory, as a range of addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Range {
    start: usize,
    end: usize,
    is_written: bool,
}

impl Range {
    const fn overlaps(self, start: usize, end: usize) -> bool {
        start < self.end && self.start < end
    }
}

/// The memory that the entry of exceptions uses by name. A per-CPU variable has the address of the
/// variable, not of a CPU's copy.
pub(super) struct EntryMemory {
    ranges: KVVec<Range>,
    per_cpu: Range,
}

impl EntryMemory {
    /// Decodes the text of the entry. Process context; sleeps. `ENOMEM`, and `ENOENT` if the kernel
    /// does not know the names of its variables.
    pub(super) fn find() -> Result<Self> {
        let range = |start, end| {
            Ok::<_, Error>(Range {
                start: symbol::address_of(start)?,
                end: symbol::address_of(end)?,
                is_written: true,
            })
        };
        let mut memory = Self {
            ranges: KVVec::new(),
            per_cpu: range(c"__per_cpu_start", c"__per_cpu_end")?,
        };
        let mut texts = arch::ENTRY_TEXT.iter().peekable();
        if texts.peek().is_none() {
            return Ok(memory);
        }
        let data = range(c"_etext", c"__bss_stop")?;
        for (start, end) in texts {
            memory.add_text(range(start, end)?, data)?;
        }
        // The stack of the first task is a variable. The kernel has a second name within it.
        let stack = symbol::address_of(c"init_stack")?;
        // SAFETY: The function has no requirements.
        memory.add(stack, unsafe { ktrace_thread_size() }, Use::Write)?;
        // Without VMAP_STACK, the stacks of interrupts are a variable.
        match symbol::address_of(c"irq_stack_backing_store") {
            Ok(address) => memory.add(address, 1, Use::Any)?,
            Err(ENOENT) => {}
            Err(error) => return Err(error),
        }
        Ok(memory)
    }

    /// Adds the memory in `data` that the text names.
    fn add_text(&mut self, text: Range, data: Range) -> Result {
        let mut bytes = KVVec::from_elem(0, text.end.saturating_sub(text.start), GFP_KERNEL)?;
        nofault::read_kernel(text.start, &mut bytes).map_err(|_| EFAULT)?;
        let mut offset = 0_usize;
        while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            let at = text.start.wrapping_add(offset);
            let mut added = Ok(());
            let len = arch::references(rest, at as u64, |reference| {
                let address = reference.address as usize;
                if added.is_ok() && data.overlaps(address, address.wrapping_add(1)) {
                    added = self.add(address, reference.len.into(), reference.usage);
                }
            });
            added?;
            offset = offset.saturating_add(len.map_or(1, usize::from));
        }
        Ok(())
    }

    /// Adds memory that code uses in this way.
    fn add(&mut self, address: usize, len: usize, usage: Use) -> Result {
        let (start, len) = match usage {
            Use::Any => symbol::extent(address).unwrap_or((address, len)),
            _ => (address, len),
        };
        let range = Range {
            start,
            end: start.saturating_add(len),
            is_written: usage != Use::Read,
        };
        if !self.ranges.contains(&range) {
            self.ranges.push(range, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// The reason why these accesses cannot be watched. If `is_per_cpu` is set, `address` is the
    /// address of a per-CPU variable, and the result applies to the copies of all CPUs.
    pub(super) fn check(
        &self,
        address: usize,
        is_per_cpu: bool,
        len: usize,
        access: Access,
    ) -> Option<Unwatchable> {
        if !is_per_cpu {
            return self.check_on_cpus(address, len, access);
        }
        cpus().find_map(|cpu| self.check_on_cpus(of_cpu(address, cpu), len, access))
    }

    fn check_on_cpus(&self, address: usize, len: usize, access: Access) -> Option<Unwatchable> {
        let is_used = |start: usize| {
            let hits = |range: &Range| {
                range.overlaps(start, start.saturating_add(len))
                    && (range.is_written || access != Access::Write)
            };
            self.ranges.iter().any(hits)
        };
        // The per-CPU variables of which the memory is a copy.
        let variable = |cpu| address.wrapping_sub(of_cpu(0, cpu));
        let is_copy = |start: &usize| self.per_cpu.overlaps(*start, start.saturating_add(len));
        let mut variables = cpus().map(variable).filter(is_copy).peekable();
        let is_variable = variables.peek().is_some();
        if is_used(address) || variables.any(is_used) {
            return Some(Unwatchable::UsedByEntry);
        }
        // SAFETY: The function has no requirements, and reads no memory at this address.
        let is_data = is_variable || unsafe { ktrace_is_watchable(address as c_ulong) };
        (!is_data).then_some(Unwatchable::NoData)
    }
}

/// All CPUs that can come online.
fn cpus() -> impl Iterator<Item = c_uint> {
    // SAFETY: The function has no requirements.
    let next = |cpu: c_uint| unsafe { ktrace_next_possible_cpu(cpu) };
    let end = kernel::cpu::nr_cpu_ids();
    let first = next(0);
    core::iter::successors(Some(first), move |cpu| Some(next(cpu.wrapping_add(1))))
        .take_while(move |cpu| *cpu < end)
}

/// The address of a CPU's copy of the per-CPU variable at `address`.
fn of_cpu(address: usize, cpu: c_uint) -> usize {
    // SAFETY: The function computes an address, and reads no memory at this address.
    unsafe { ktrace_per_cpu_ptr(address as *mut c_void, cpu) }.addr()
}

// SPDX-License-Identifier: GPL-2.0

//! The interface between a program and a hit.

use crate::{
    arch::Register,
    types::{
        Space,
        Width, //
    },
};

/// A hit, from which a program reads values.
///
/// A program calls the methods in the context of the probe, which can be an NMI. So the methods
/// must not sleep, lock, allocate or panic. A program calls a method for each value, so all methods
/// should be inline.
pub trait Context {
    /// The value of a register.
    ///
    /// C: `regs_get_register()`.
    fn register(&self, register: Register) -> u64;

    /// The Nth word of the kernel stack, counted from 0 at the stack pointer. Returns 0 if the
    /// stack has no such word.
    ///
    /// C: `regs_get_kernel_stack_nth()`.
    fn stack(&self, n: u16) -> u64;

    /// The address of the current task's name, in kernel memory.
    fn comm(&self) -> u64;

    /// The address of the current task, in kernel memory.
    fn current(&self) -> u64;

    /// The number of the current task, as its records have it.
    fn pid(&self) -> u64;

    /// The address of the current CPU's copy of the per-CPU variable at `address`. `address` can be
    /// any number.
    ///
    /// C: `this_cpu_ptr()`.
    fn this_cpu(&self, address: u64) -> u64;

    /// The word of the entry data with this index. Only the programs of return probes use this
    /// method.
    ///
    /// C: `FETCH_OP_EDATA`.
    #[inline(always)]
    fn entry_data(&self, _index: u8) -> u64 {
        0
    }

    /// The time from the entry of the call to its return, in ns. Only the programs of return probes
    /// with `$elapsed` use this method.
    #[inline(always)]
    fn elapsed(&self) -> u64 {
        0
    }

    /// The address that the function returns to, at its entry or at an instruction that returns.
    fn caller(&self) -> u64;

    /// The address of the return instruction. Only the programs of probes on return instructions
    /// and of paths use this method.
    #[inline(always)]
    fn exit(&self) -> u64 {
        0
    }

    /// The address of the text of a path, in kernel memory. Only the programs of paths use this
    /// method.
    #[inline(always)]
    fn path(&self) -> u64 {
        0
    }

    /// The number of blocks of a path. Only the programs of paths use this method.
    #[inline(always)]
    fn blocks(&self) -> u64 {
        0
    }

    /// The address that the watchpoint watches. Only the programs of watchpoints use this method.
    #[inline(always)]
    fn watched(&self) -> u64 {
        0
    }

    /// The fields of the record that the event wrote. Only the programs of event probes use this
    /// method.
    #[inline(always)]
    fn record(&self) -> &[u8] {
        &[]
    }

    /// Writes the symbol of an address, with offset and size, to `to`, without a NUL. If the text
    /// does not fit, writes its start. Returns the number of written bytes. The content of the
    /// other bytes of `to` is undefined.
    ///
    /// C: `sprint_symbol()`.
    fn symbol(&self, address: u64, to: &mut [u8]) -> usize;

    /// Fills `to` from memory at `address`, without a page fault.
    ///
    /// After a fault, the content of `to` is undefined.
    ///
    /// C: `copy_from_kernel_nofault()`, `copy_from_user_nofault()`.
    fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), Fault>;

    /// Fills `to` as [`read`](Self::read) does. This method can be faster for few bytes, but needs
    /// `N` bytes of stack.
    #[inline(always)]
    fn read_short<const N: usize>(
        &self,
        space: Space,
        address: u64,
        to: &mut [u8; N],
    ) -> Result<(), Fault> {
        self.read(space, address, to)
    }

    /// Reads a number from memory. Returns 0 after a fault. The bytes above the width are 0. The
    /// result equals a [`read`](Self::read) of the bytes, but this method can be faster.
    #[inline]
    fn number(&self, space: Space, address: u64, width: Width) -> u64 {
        let mut word = [0; 8];
        let number = word.get_mut(..width.bytes()).unwrap_or(&mut []);
        match self.read(space, address, number) {
            Ok(()) => u64::from_le_bytes(word),
            Err(Fault) => 0,
        }
    }

    /// Reads a word of memory. The result equals a [`read`](Self::read) of 8 bytes, but this method
    /// can be faster.
    #[inline]
    fn read_word(&self, space: Space, address: u64) -> Result<u64, Fault> {
        let mut word = [0; 8];
        self.read(space, address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }
}

impl<C: Context> Context for &C {
    #[inline(always)]
    fn register(&self, register: Register) -> u64 {
        (**self).register(register)
    }

    #[inline(always)]
    fn stack(&self, n: u16) -> u64 {
        (**self).stack(n)
    }

    #[inline(always)]
    fn comm(&self) -> u64 {
        (**self).comm()
    }

    #[inline(always)]
    fn current(&self) -> u64 {
        (**self).current()
    }

    #[inline(always)]
    fn pid(&self) -> u64 {
        (**self).pid()
    }

    #[inline(always)]
    fn this_cpu(&self, address: u64) -> u64 {
        (**self).this_cpu(address)
    }

    #[inline(always)]
    fn entry_data(&self, index: u8) -> u64 {
        (**self).entry_data(index)
    }

    #[inline(always)]
    fn elapsed(&self) -> u64 {
        (**self).elapsed()
    }

    #[inline(always)]
    fn caller(&self) -> u64 {
        (**self).caller()
    }

    #[inline(always)]
    fn exit(&self) -> u64 {
        (**self).exit()
    }

    #[inline(always)]
    fn path(&self) -> u64 {
        (**self).path()
    }

    #[inline(always)]
    fn blocks(&self) -> u64 {
        (**self).blocks()
    }

    #[inline(always)]
    fn watched(&self) -> u64 {
        (**self).watched()
    }

    #[inline(always)]
    fn record(&self) -> &[u8] {
        (**self).record()
    }

    #[inline(always)]
    fn symbol(&self, address: u64, to: &mut [u8]) -> usize {
        (**self).symbol(address, to)
    }

    #[inline(always)]
    fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        (**self).read(space, address, to)
    }

    #[inline(always)]
    fn read_short<const N: usize>(
        &self,
        space: Space,
        address: u64,
        to: &mut [u8; N],
    ) -> Result<(), Fault> {
        (**self).read_short(space, address, to)
    }

    #[inline(always)]
    fn number(&self, space: Space, address: u64, width: Width) -> u64 {
        (**self).number(space, address, width)
    }

    #[inline(always)]
    fn read_word(&self, space: Space, address: u64) -> Result<u64, Fault> {
        (**self).read_word(space, address)
    }
}

/// An error: the memory is not readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

// SPDX-License-Identifier: GPL-2.0

//! The registers of the probed function, read-only.
//!
//! C header: [`include/linux/ptrace.h`](srctree/include/linux/ptrace.h)

use core::mem::size_of;

use kernel::bindings;

use probe::arch::{
    current as arch,
    Slot, //
};

use crate::{
    bindings::THREAD_SIZE,
    hit::nofault::{
        self,
        KernelPtr,
        UserPtr, //
    },
};

pub use crate::arch::{
    RegisterFile,
    Registers, //
};
pub use probe::arch::{
    current::register,
    Register, //
};

/// The types for this crate alone to implement.
pub trait Sealed {}

/// A type of arguments and return values, which a register holds.
#[diagnostic::on_unimplemented(
    message = "a register does not hold a value of type `{Self}`",
    label = "not a type for an argument or a return value",
    note = "the types are `u8` to `u64`, `usize`, `i8` to `i64`, `isize`, `bool`, and for pointers \
            `KernelPtr` and `UserPtr`"
)]
pub trait Value: Copy + Sealed {
    /// The value in a register. The upper bits of a value narrower than the register mean nothing.
    fn from_register(word: u64) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Sealed for $type {}

        impl Value for $type {
            #[inline(always)]
            fn from_register(word: u64) -> Self {
                word as Self
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }

impl Sealed for bool {}

impl Value for bool {
    #[inline(always)]
    fn from_register(word: u64) -> Self {
        word as u8 != 0
    }
}

impl<T> Sealed for KernelPtr<T> {}

impl<T> Value for KernelPtr<T> {
    #[inline(always)]
    fn from_register(word: u64) -> Self {
        Self::new(word as usize)
    }
}

impl<T> Sealed for UserPtr<T> {}

impl<T> Value for UserPtr<T> {
    #[inline(always)]
    fn from_register(word: u64) -> Self {
        Self::new(word as usize)
    }
}

/// Argument `n` of the function, counted from 0. Valid only at the entry of the function.
#[inline(always)]
pub(crate) fn argument(registers: impl RegisterFile, n: u16) -> u64 {
    match arch::argument(n) {
        Slot::Register(register) => registers.get(register),
        Slot::Stack(n) => stack(registers, n),
    }
}

/// The return value of the function. Valid only at its exit.
#[inline(always)]
pub(crate) fn return_value(registers: impl RegisterFile) -> u64 {
    registers.get(arch::RETURN_VALUE)
}

/// The kernel stack pointer.
#[inline(always)]
pub(crate) fn stack_pointer(registers: impl RegisterFile) -> u64 {
    registers.get(arch::STACK_POINTER)
}

/// The Nth word of the kernel stack, or 0 beyond the end of the stack.
#[inline]
pub(crate) fn stack(registers: impl RegisterFile, n: u16) -> u64 {
    let sp = stack_pointer(registers);
    let address = sp.wrapping_add(u64::from(n) * size_of::<u64>() as u64);
    if (address ^ sp) & !(THREAD_SIZE as u64 - 1) != 0 {
        return 0;
    }
    let mut word = [0; size_of::<u64>()];
    match nofault::read_kernel(address as usize, &mut word) {
        Ok(()) => u64::from_ne_bytes(word),
        Err(nofault::Fault) => 0,
    }
}

impl Registers {
    /// The value of the register `name` (for example `ax` on x86-64, `x0` on arm64). `None` if no
    /// register has this name.
    ///
    /// This function searches a table. For repeated reads, get the register once by [`register`].
    pub fn by_name(&self, name: &str) -> Option<u64> {
        register(name).map(|register| self.get(register))
    }

    /// Argument `n` of the function, counted from 0, as a value of its type. Valid only at the
    /// entry of the function.
    ///
    /// C: `regs_get_kernel_argument()`.
    #[inline(always)]
    pub fn arg<T: Value>(&self, n: u16) -> T {
        T::from_register(argument(self, n))
    }

    /// The return value of a function, as a value of its type. Valid only at the exit of the
    /// function. C: `regs_return_value()`.
    #[inline(always)]
    pub fn ret<T: Value>(&self) -> T {
        T::from_register(return_value(self))
    }

    /// The instruction pointer. C: `instruction_pointer()`.
    #[inline(always)]
    pub fn instruction_pointer(&self) -> u64 {
        self.get(arch::INSTRUCTION_POINTER)
    }

    /// The kernel stack pointer. C: `kernel_stack_pointer()`.
    #[inline(always)]
    pub fn stack_pointer(&self) -> u64 {
        stack_pointer(self)
    }

    /// The Nth word of the kernel stack, or 0 beyond the end of the stack.
    ///
    /// C: `regs_get_kernel_stack_nth()`.
    #[inline]
    pub fn stack(&self, n: u16) -> u64 {
        stack(self, n)
    }
}

/// Sets the instruction pointer, and returns its old value. C: `instruction_pointer_set()`.
///
/// # Safety
///
/// `regs` must be valid, and must not be borrowed as [`Registers`].
pub(crate) unsafe fn replace_instruction_pointer(regs: *mut bindings::pt_regs, value: u64) -> u64 {
    // SAFETY: The offset is the offset of a word in `pt_regs`. The caller guarantees that `regs` is
    // valid.
    unsafe {
        let place = regs.byte_add(arch::INSTRUCTION_POINTER.offset());
        core::ptr::replace(place.cast(), value)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Stack traces of the current context.
//!
//! C header: [`include/linux/stacktrace.h`](srctree/include/linux/stacktrace.h)

use kernel::{
    bindings,
    ffi::c_uint,
    sync::atomic::Atomic, //
};

use super::atomic::{
    read_once,
    write_once, //
};

/// Saves the stack of the caller, starting with the innermost address. Returns the number of
/// addresses. Any context. C: `stack_trace_save()`.
pub(crate) fn save(to: &mut [usize]) -> usize {
    // SAFETY: The slice has space for this number of addresses.
    let len = unsafe { bindings::stack_trace_save(to.as_mut_ptr().cast(), to.len() as c_uint, 1) };
    len as usize
}

/// A stack trace of up to `N` addresses, 1 to 64. One context saves it, and another context reads
/// it.
///
/// If one context reads the stack trace while another context saves, the result mixes both traces.
///
/// # Examples
///
/// ```
/// use ktrace::stack::SavedStack;
///
/// let stack = SavedStack::<8>::new();
/// stack.save();
/// assert!(stack.addresses()[0] != 0);
/// ```
pub struct SavedStack<const N: usize>([Atomic<usize>; N]);

impl<const N: usize> SavedStack<N> {
    /// [`addresses`](Self::addresses) returns an array, and a handler has little stack.
    const FITS: () = assert!(N >= 1 && N <= 64, "a stack trace has 1 to 64 addresses");

    /// Creates a stack trace without addresses.
    pub const fn new() -> Self {
        const { Self::FITS };
        Self([const { Atomic::new(0) }; N])
    }

    /// Saves the stack of the caller, starting with the innermost address. In an interrupt, the
    /// trace includes the interrupted task. Any context except NMI. C: `stack_trace_save()`.
    #[inline(never)]
    pub fn save(&self) {
        let to = self.0.as_ptr().cast_mut().cast();
        // SAFETY: The array has space for `N` addresses, and may change while it is borrowed. The
        // kernel writes whole words, so other contexts read old or new addresses meanwhile.
        let len = unsafe { bindings::stack_trace_save(to, N as c_uint, 1) };
        for rest in self.0.iter().skip(len as usize) {
            write_once(rest, 0);
        }
    }

    /// The addresses of the last [`save`](Self::save), followed by zeros. Any context.
    pub fn addresses(&self) -> [usize; N] {
        core::array::from_fn(|i| self.0.get(i).map_or(0, read_once))
    }
}

impl<const N: usize> Default for SavedStack<N> {
    fn default() -> Self {
        Self::new()
    }
}

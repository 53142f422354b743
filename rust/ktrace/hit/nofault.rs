// SPDX-License-Identifier: GPL-2.0

//! Reads of memory that may be unmapped, from any context.
//!
//! C header: [`include/linux/uaccess.h`](srctree/include/linux/uaccess.h)

use core::{
    fmt,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr,
    slice, //
};

use kernel::{
    bindings,
    transmute::FromBytes, //
};

/// The error of a read of unreadable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Reads kernel memory. C: `copy_from_kernel_nofault()`.
///
/// `address` may have any value: a user address or an unmapped address results in a [`Fault`].
/// After a fault, a part of `to` may be overwritten. Any context, including NMI.
#[inline(always)]
pub fn read_kernel(address: usize, to: &mut [u8]) -> Result<(), Fault> {
    // SAFETY: `to` is writable for its whole length. `address` may have any value.
    let ret = unsafe {
        bindings::copy_from_kernel_nofault(to.as_mut_ptr().cast(), address as *const _, to.len())
    };
    if ret == 0 {
        Ok(())
    } else {
        Err(Fault)
    }
}

/// Reads memory of the current process. C: `copy_from_user_nofault()`.
///
/// A page that is not resident results in a [`Fault`], and so does a kernel address. Any context.
#[inline(always)]
pub fn read_user(address: usize, to: &mut [u8]) -> Result<(), Fault> {
    // SAFETY: `to` is writable for its whole length.
    unsafe { copy_from_user(address, to.as_mut_ptr(), to.len()) }
}

/// Reads memory of the current process to the stack, and copies it to `to`. Any context.
///
/// For few bytes, this function is faster than [`read_user`]. With `CONFIG_HARDENED_USERCOPY`, the
/// kernel checks the destination, and the check of memory on the stack is the shortest one.
/// C: `check_object_size()`.
#[inline(always)]
pub fn read_user_short<const N: usize>(address: usize, to: &mut [u8; N]) -> Result<(), Fault> {
    let mut bytes = MaybeUninit::<[u8; N]>::uninit();
    // SAFETY: The array has `N` writable bytes.
    unsafe { copy_from_user(address, bytes.as_mut_ptr().cast(), N) }?;
    // SAFETY: `copy_from_user` succeeded, so it has written all bytes.
    *to = unsafe { bytes.assume_init() };
    Ok(())
}

/// Writes `len` bytes to `to`, unless it fails. C: `copy_from_user_nofault()`.
///
/// # Safety
///
/// `to` must be writable for `len` bytes.
#[inline(always)]
unsafe fn copy_from_user(address: usize, to: *mut u8, len: usize) -> Result<(), Fault> {
    // SAFETY: The caller guarantees that `to` is writable. `address` may have any value.
    match unsafe { bindings::copy_from_user_nofault(to.cast(), address as *const _, len) } {
        0 => Ok(()),
        _ => Err(Fault),
    }
}

macro_rules! pointers {
    ($($(#[$attribute:meta])* $name:ident: $read:ident,)*) => {$(
        $(#[$attribute])*
        #[repr(transparent)]
        pub struct $name<T>(usize, PhantomData<fn() -> T>);

        impl<T> $name<T> {
            /// Creates a pointer to this address.
            #[inline(always)]
            pub const fn new(address: usize) -> Self {
                Self(address, PhantomData)
            }

            /// The address.
            #[inline(always)]
            pub const fn addr(self) -> usize {
                self.0
            }

            /// Whether the address is 0.
            #[inline(always)]
            pub const fn is_null(self) -> bool {
                self.0 == 0
            }

            /// The pointer to the address plus `bytes`, with another type.
            #[inline(always)]
            pub const fn at<U>(self, bytes: usize) -> $name<U> {
                $name::new(self.0.wrapping_add(bytes))
            }

            /// Reads the value. Fails if the memory is unreadable.
            ///
            #[doc = concat!("Any context. C: see [`", stringify!($read), "`].")]
            #[inline(always)]
            pub fn read(self) -> Result<T, Fault>
            where
                T: FromBytes,
            {
                read_with(|to| $read(self.0, to))
            }
        }

        impl<T> Clone for $name<T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        // SAFETY: The type is a number, and any bytes are a valid number.
        unsafe impl<T> FromBytes for $name<T> {}
    )*};
}

pointers! {
    /// A pointer to a `T` in kernel memory, such as an argument of a function. The pointer may be
    /// invalid, so only [`read`] can dereference it.
    ///
    /// [`read`]: Self::read
    KernelPtr: read_kernel,
    /// A pointer to a `T` in the memory of the current process, such as an argument of a function.
    /// The pointer may be invalid, so only [`read`] can dereference it.
    ///
    /// [`read`]: Self::read
    UserPtr: read_user,
}

/// Returns the value whose bytes `read` reads.
#[inline(always)]
fn read_with<T: FromBytes>(read: impl FnOnce(&mut [u8]) -> Result<(), Fault>) -> Result<T, Fault> {
    let mut value = MaybeUninit::<T>::uninit();
    let place = value.as_mut_ptr();
    // SAFETY: The memory has the size of one `T`. All its bytes are written before they are
    // borrowed.
    let bytes = unsafe {
        ptr::write_bytes(place, 0, 1);
        slice::from_raw_parts_mut(place.cast::<u8>(), size_of::<T>())
    };
    read(bytes)?;
    // SAFETY: All bytes are written. `T` is `FromBytes`, so any bytes are a valid `T`.
    Ok(unsafe { value.assume_init() })
}

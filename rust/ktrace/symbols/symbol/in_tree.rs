// SPDX-License-Identifier: GPL-2.0

//! Names and addresses of symbols.

use kernel::{
    ffi::{
        c_char,
        c_uint,
        c_ulong, //
    },
    prelude::*,
    str::{
        CStr,
        CString, //
    },
};

extern "C" {
    fn kallsyms_lookup_name(name: *const c_char) -> c_ulong;
    fn ktrace_count_symbols(name: *const c_char) -> c_uint;
    fn ktrace_find_symbols(name: *const c_char, addresses: *mut c_ulong, room: c_uint) -> c_uint;
}

/// See [`crate::symbol::address_of`].
pub(crate) fn address_of(name: &CStr) -> Result<usize> {
    // SAFETY: `name` is NUL-terminated, because it is a `CStr`.
    match unsafe { kallsyms_lookup_name(name.as_char_ptr()) } {
        0 => Err(ENOENT),
        address => Ok(address as usize),
    }
}

/// Finds the symbols of the kernel image for [`crate::symbol::addresses_of`].
pub(crate) fn addresses_in_kernel(name: &CStr) -> Result<KVec<usize>> {
    // SAFETY: `name` is NUL-terminated, because it is a `CStr`.
    let count = unsafe { ktrace_count_symbols(name.as_char_ptr()) };
    let mut addresses = KVec::from_elem(0usize, count as usize, GFP_KERNEL)?;
    // SAFETY: `name` is NUL-terminated, and the vector has space for `count` addresses.
    let found =
        unsafe { ktrace_find_symbols(name.as_char_ptr(), addresses.as_mut_ptr().cast(), count) };
    addresses.truncate(found as usize);
    Ok(addresses)
}

/// See [`crate::symbol::each_named`]. This function is not generic, so rkprobe calls only this
/// function of the file for it.
#[export_name = "ktrace_own_each_named"]
pub(crate) fn each_named(
    names: &[&str],
    found: &mut dyn FnMut(usize, usize) -> Result, //
) -> Result {
    for (index, name) in names.iter().enumerate() {
        let name = CString::try_from_fmt(format_args!("{name}"))?;
        for address in &addresses_in_kernel(&name)? {
            found(index, *address)?;
        }
    }
    Ok(())
}

/// See [`crate::symbol::find_matching`].
pub(crate) fn find_matching_in_kernel(
    _patterns: &[(&[u8], &CStr)],
    _most: usize,
) -> Result<Option<KVVec<usize>>> {
    Ok(None)
}

/// See [`crate::symbol::exists`].
pub(crate) fn exists(name: &CStr) -> Result<bool> {
    Ok(address_of(name).is_ok())
}

/// The names that more than one symbol of the kernel image has.
pub struct Repeated(());

impl Repeated {
    /// Creates the value. In the kernel tree, this function reads nothing.
    #[export_name = "ktrace_own_read_repeated"]
    pub fn read() -> Result<Self> {
        Ok(Self(()))
    }

    /// Whether more than one symbol has this name. Returns false if memory is exhausted.
    #[export_name = "ktrace_own_repeated_contains"]
    pub fn contains(&self, name: &str) -> bool {
        let name = CString::try_from_fmt(format_args!("{name}"));
        // SAFETY: `name` is NUL-terminated, because it is a `CString`.
        name.is_ok_and(|name| unsafe { ktrace_count_symbols(name.as_char_ptr()) } > 1)
    }
}

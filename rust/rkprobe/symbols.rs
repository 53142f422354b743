// SPDX-License-Identifier: GPL-2.0

//! Checks that a name has one address.
//!
//! C: `validate_probe_symbol()` in `kernel/trace/trace_kprobe.c`.

use kernel::{
    bindings::EADDRNOTAVAIL,
    ffi::c_int,
    prelude::*,
    str::CString, //
};

use ktrace::symbol::{
    self,
    Repeated, //
};

kernel::sync::global_lock! {
    // Read when a command first needs it.
    // SAFETY: `init` initialises it when the module loads.
    unsafe(uninit) static REPEATED: Mutex<Option<Repeated>> = None;
}

/// # Safety
///
/// The caller must call this once, before any other function of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any use of the lock.
    unsafe { REPEATED.init() };
}

/// Discards the names. The next command that needs them reads them again.
pub(crate) fn clear() {
    *REPEATED.lock() = None;
}

/// The address of `[MODULE:]SYMBOL`, from [`symbol::address_of`].
pub(crate) fn address_of(symbol: &str) -> Result<usize> {
    symbol::address_of(&CString::try_from_fmt(format_args!("{symbol}"))?)
}

/// The address of `[MODULE:]SYMBOL+OFFSET`.
pub(crate) fn address_at(symbol: &str, offset: u32) -> Result<usize> {
    Ok(address_of(symbol)?.wrapping_add(offset as usize))
}

/// Whether this is the address of a per-CPU variable of the kernel.
///
/// C: `is_kernel_percpu_address()`.
pub(crate) fn is_per_cpu(address: usize) -> Result<bool> {
    let (start, end) = (address_of("__per_cpu_start")?, address_of("__per_cpu_end")?);
    Ok((start..end).contains(&address))
}

/// Counts the symbols with the name `[MODULE:]SYMBOL`. Without a module, 2 means two or more.
/// Symbols of modules count as one together, and only if the kernel itself does not have the name:
/// see [`is_unique_at`]. `None` if the module is not loaded.
pub(crate) fn count(symbol: &str) -> Result<Option<usize>> {
    let exists = || -> Result<bool> {
        let name = CString::try_from_fmt(format_args!("{symbol}"))?;
        symbol::exists(&name)
    };
    match symbol.split_once(':') {
        Some((module, name)) => {
            let count = symbol::count_in_modules(Some(module), name);
            // While a module loads, the kernel can already find its symbols by name.
            Ok(if count.is_none() && exists()? {
                Some(1)
            } else {
                count
            })
        }
        None if is_repeated(symbol) => Ok(Some(2)),
        None => Ok(Some(exists()?.into())),
    }
}

/// Checks that a name has one symbol. `ENOENT` for none, `EADDRNOTAVAIL` for several.
///
/// C: `validate_module_probe_symbol()`.
pub(crate) fn check_count(count: usize) -> Result {
    match count {
        0 => Err(ENOENT),
        1 => Ok(()),
        _ => Err(not_unique()),
    }
}

/// The address of `[MODULE:]SYMBOL`, if one symbol has this name. Otherwise an error of
/// [`check_count`].
pub(crate) fn unique_address_of(symbol: &str) -> Result<usize> {
    check_count(count(symbol)?.unwrap_or(0))?;
    let address = address_of(symbol)?;
    if is_unique_at(symbol, address) {
        Ok(address)
    } else {
        Err(not_unique())
    }
}

/// The error for a name that several symbols have: `EADDRNOTAVAIL`.
pub(crate) fn not_unique() -> Error {
    Error::from_errno(-(EADDRNOTAVAIL as c_int))
}

/// Whether the symbol at `address` is the only one with this name.
pub(crate) fn is_unique_at(symbol: &str, address: usize) -> bool {
    symbol.contains(':')
        || !symbol::is_in_module(address)
        || symbol::count_in_modules(None, symbol).is_none_or(|count| count <= 1)
}

/// Whether several symbols of the kernel itself have this name. If the symbols cannot be read, logs
/// a warning and returns false.
fn is_repeated(name: &str) -> bool {
    let mut repeated = REPEATED.lock();
    if repeated.is_none() {
        match Repeated::read() {
            Ok(read) => *repeated = Some(read),
            Err(error) => {
                pr_warn!(
                    "kernel symbols cannot be read ({error:?}): a name may stand for several\n"
                );
            }
        }
    }
    repeated.as_ref().is_some_and(|names| names.contains(name))
}

// SPDX-License-Identifier: GPL-2.0

//! Does a name stand for one place?
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
    // Read when a symbol is first asked for.
    // SAFETY: Initialised by `init` when the module is loaded.
    unsafe(uninit) static REPEATED: Mutex<Option<Repeated>> = None;
}

/// # Safety
///
/// Called once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, and nobody has used the lock yet.
    unsafe { REPEATED.init() };
}

/// Forgets what was read.
pub(crate) fn clear() {
    *REPEATED.lock() = None;
}

/// The address of `[MODULE:]SYMBOL`, as [`symbol::address_of`].
pub(crate) fn address_of(symbol: &str) -> Result<usize> {
    symbol::address_of(&CString::try_from_fmt(format_args!("{symbol}"))?)
}

/// The address of `[MODULE:]SYMBOL+OFFSET`.
pub(crate) fn address_at(symbol: &str, offset: u32) -> Result<usize> {
    Ok(address_of(symbol)?.wrapping_add(offset as usize))
}

/// Is this the address of a per-CPU variable of the kernel?
///
/// C: `is_kernel_percpu_address()`.
pub(crate) fn is_per_cpu(address: usize) -> Result<bool> {
    let (start, end) = (address_of("__per_cpu_start")?, address_of("__per_cpu_end")?);
    Ok((start..end).contains(&address))
}

/// How many places `[MODULE:]SYMBOL` stands for; two are two or more where there is no module.
/// Where the kernel itself has the name, those that modules have do not count; where it has not,
/// they count as one: see [`is_unique_at`]. `None` for a module that is not there.
pub(crate) fn count(symbol: &str) -> Result<Option<usize>> {
    let exists = || -> Result<bool> {
        let name = CString::try_from_fmt(format_args!("{symbol}"))?;
        symbol::exists(&name)
    };
    match symbol.split_once(':') {
        Some((module, name)) => {
            let count = symbol::count_in_modules(Some(module), name);
            // One that is about to come is among the kernel's symbols first.
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

/// Is a name that stands for so many places the name of one? `ENOENT`, and `EADDRNOTAVAIL` where it
/// stands for several.
///
/// C: `validate_module_probe_symbol()`.
pub(crate) fn check_count(count: usize) -> Result {
    match count {
        0 => Err(ENOENT),
        1 => Ok(()),
        _ => Err(not_unique()),
    }
}

/// The address of `[MODULE:]SYMBOL`, where that is the only one of its name; otherwise an error of
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

fn not_unique() -> Error {
    Error::from_errno(-(EADDRNOTAVAIL as c_int))
}

/// Is `[MODULE:]SYMBOL`, which the kernel has found at `address`, the only one of its name?
pub(crate) fn is_unique_at(symbol: &str, address: usize) -> bool {
    symbol.contains(':')
        || !symbol::is_in_module(address)
        || symbol::count_in_modules(None, symbol).is_none_or(|count| count <= 1)
}

/// Does the kernel itself have the name more than once? Where that cannot be found out, it is told
/// in the kernel's log and not.
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

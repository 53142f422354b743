// SPDX-License-Identifier: GPL-2.0

//! Facts about the kernel that no header states, tried when the module is loaded.
//!
//! Documentation/rust/ktrace-assumptions.rst lists all such facts, and how each is checked. The
//! checks here are those that need the running kernel. They are cheap: some symbols are looked up,
//! and nothing is traced.

use core::ptr;

use kernel::{
    error::Result,
    ffi::c_ulong,
    prelude::*,
    ThisModule, //
};

use crate::{
    arch,
    ftrace,
    module,
    symbol, //
};

extern "C" {
    fn ktrace_known_text() -> c_ulong;
    fn ktrace_known_data() -> c_ulong;
}

/// A function and a variable that every kernel exports. A kernel knows the names of variables if it
/// has `CONFIG_KALLSYMS_ALL`.
const TEXT: &CStr = c"seq_read";
const DATA: &CStr = c"init_task";

/// Tries the facts that this crate relies on. To be called when the module is loaded, after
/// [`crate::init`]; `this` is the module.
///
/// Process context; sleeps. `ENODEV`, and a line in the kernel's log that names the fact, if one
/// does not hold; `ENOMEM`.
pub fn check(this: &'static ThisModule) -> Result {
    expect(names_have_addresses()?, "a name has another address")?;
    expect(addresses_have_names(), "an address has another name")?;
    expect(
        symbols_exist()?,
        "register_kretprobe() does not look the symbol up first",
    )?;
    expect(is_listed(this), "/sys/module does not list this module")?;
    expect(functions_are_traceable()?, "ftrace takes other addresses")?;
    arch::check().or_else(|difference| expect(false, difference))
}

fn expect(holds: bool, what: &str) -> Result {
    if holds {
        return Ok(());
    }
    pr_err!("this kernel does not work as rkprobe expects: {what}\n");
    Err(ENODEV)
}

fn text() -> usize {
    // SAFETY: The function has no requirements.
    unsafe { ktrace_known_text() as usize }
}

fn data() -> usize {
    // SAFETY: The function has no requirements.
    unsafe { ktrace_known_data() as usize }
}

/// `register_kprobe()` leaves the address in the structure, also if it refuses the probe. It
/// refuses data early; for text it would look through all jump labels.
fn names_have_addresses() -> Result<bool> {
    Ok(!cfg!(CONFIG_KALLSYMS_ALL) || symbol::address_of(DATA)? == data())
}

/// The form of the text that `sprint_symbol()` writes.
fn addresses_have_names() -> bool {
    let mut buffer = [0; symbol::LEN];
    symbol::location(text().wrapping_add(1), &mut buffer).is_some_and(|location| {
        location.name.as_bytes() == TEXT.to_bytes()
            && location.offset == 1
            && location.module.is_none()
    })
}

/// `register_kretprobe()` looks the symbol up before it refuses too much data.
fn symbols_exist() -> Result<bool> {
    Ok(symbol::exists(TEXT)? && !symbol::exists(c"no such symbol")?)
}

/// All modules are in the set that `/sys/module` shows, from before their initialisation.
fn is_listed(this: &'static ThisModule) -> bool {
    let mut is_listed = !cfg!(MODULE);
    module::for_each(|module| is_listed |= ptr::from_ref(module).cast() == this.as_ptr());
    is_listed
}

/// A filter of ftrace takes the entries of functions, by their own addresses and by those from
/// which ftrace calls, and no other address.
fn functions_are_traceable() -> Result<bool> {
    Ok(ftrace::is_traceable(text())?
        && ftrace::is_traceable(arch::ftrace_site(text()))?
        && !ftrace::is_traceable(data())?)
}

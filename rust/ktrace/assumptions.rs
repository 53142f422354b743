// SPDX-License-Identifier: GPL-2.0

//! Facts about the kernel that no header states. The module checks them when it loads.
//!
//! Documentation/rust/ktrace-assumptions.rst lists all such facts, and how each is checked. This
//! file has the checks that need the running kernel. They are cheap: they look up some symbols, and
//! trace nothing.

use core::ptr;

use kernel::{
    error::Result,
    ffi::c_ulong,
    prelude::*,
    ThisModule, //
};

use crate::{
    arch,
    modules::module,
    probes::ftrace::{
        self,
        Filter, //
    },
    symbols::symbol, //
};

extern "C" {
    fn ktrace_known_text() -> c_ulong;
    fn ktrace_known_data() -> c_ulong;
}

/// A function and a variable that every kernel exports. The kernel knows the names of variables
/// only with `CONFIG_KALLSYMS_ALL`.
const TEXT: &CStr = c"seq_read";
const DATA: &CStr = c"init_task";

/// Checks the facts that this crate relies on. The module calls this function when it loads, after
/// [`crate::init`]. `this` is the module.
///
/// Process context; sleeps. `ENODEV` if a fact does not hold, and the log then names the fact.
/// `ENOMEM`.
pub fn check(this: &'static ThisModule) -> Result {
    expect(names_have_addresses()?, "a name has another address")?;
    expect(addresses_have_names(), "an address has another name")?;
    expect(
        symbols_exist()?,
        "register_kretprobe() does not look the symbol up first",
    )?;
    expect(is_listed(this), "/sys/module does not list this module")?;
    expect(functions_are_traceable()?, "ftrace takes other addresses")?;
    expect(
        filters_are_readable()?,
        "a filter of ftrace looks different",
    )?;
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

/// Whether `register_kprobe()` stores the address in the structure, even if it refuses the probe.
/// The check uses a variable, because the kernel refuses variables early. For text, the kernel
/// would search all jump labels.
fn names_have_addresses() -> Result<bool> {
    Ok(!cfg!(CONFIG_KALLSYMS_ALL) || symbol::address_of(DATA)? == data())
}

/// Whether `sprint_symbol()` writes text in the expected form.
fn addresses_have_names() -> bool {
    let mut buffer = [0; symbol::LEN];
    symbol::location(text().wrapping_add(1), &mut buffer).is_some_and(|location| {
        location.name.as_bytes() == TEXT.to_bytes()
            && location.offset == 1
            && location.module.is_none()
    })
}

/// Whether `register_kretprobe()` looks the symbol up before it refuses too large a data size.
fn symbols_exist() -> Result<bool> {
    Ok(symbol::exists(TEXT)? && !symbol::exists(c"no such symbol")?)
}

/// Whether the kset behind `/sys/module` contains this module before its initialisation ends.
fn is_listed(this: &'static ThisModule) -> bool {
    let mut is_listed = !cfg!(MODULE);
    module::for_each(|module| is_listed |= ptr::from_ref(module).cast() == this.as_ptr());
    is_listed
}

/// Whether a filter of ftrace accepts the entries of functions, both by their own addresses and by
/// their call sites, and no other address.
fn functions_are_traceable() -> Result<bool> {
    Ok(ftrace::is_traceable(text())?
        && ftrace::is_traceable(arch::ftrace_site(text()))?
        && !ftrace::is_traceable(data())?)
}

/// Whether the structure of a filter is the expected one.
fn filters_are_readable() -> Result<bool> {
    match ftrace::selected(Filter::Addresses(&[text()])) {
        Err(ENOMEM) => Err(ENOMEM),
        read => {
            Ok(read.is_ok_and(|addresses| *addresses == [arch::ftrace_site(text()) as c_ulong]))
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Names and addresses of the kernel's symbols.
//!
//! C header: [`include/linux/kallsyms.h`](srctree/include/linux/kallsyms.h)

use kernel::{
    bindings,
    ffi::c_char,
    prelude::*,
    str::{
        CStr,
        CString, //
    }, //
};

use crate::{
    arch,
    bindings::KSYM_SYMBOL_LEN,
    hit::glob,
    modules::module,
    support::tree_variants, //
};

pub use probe::kallsyms::Location;
pub use tree::Repeated;

tree_variants!();

/// Finds the address of a symbol of text or data. `name` is `NAME` or `MODULE:NAME`.
///
/// Only rkprobe uses this function. Other modules cannot use it. Process context; sleeps. `ENOENT`
/// if the symbol does not exist. C: `kallsyms_lookup_name()`.
#[export_name = "ktrace_own_address_of"]
pub fn address_of(name: &CStr) -> Result<usize> {
    tree::address_of(name)
}

/// Finds the addresses of all symbols with the name `NAME` or `MODULE:NAME`. For `NAME`, searches
/// the kernel and all loaded modules. For `MODULE:NAME`, searches only this module.
///
/// Only rkprobe uses this function. Other modules cannot use it. Process context; sleeps. Outside
/// the kernel tree, this reads a file, which takes about 0.1 s. `ENOMEM`, and `EPERM` if the kernel
/// hides addresses (`kernel.kptr_restrict`).
///
/// C: `kallsyms_on_each_match_symbol()`, `module_kallsyms_on_each_symbol()`.
#[export_name = "ktrace_own_addresses_of"]
pub fn addresses_of(name: &str) -> Result<KVec<usize>> {
    let (module, name, mut addresses) = match name.split_once(':') {
        Some((module, name)) => (Some(module), name, KVec::new()),
        None => {
            let text = CString::try_from_fmt(format_args!("{name}"))?;
            (None, name, tree::addresses_in_kernel(&text)?)
        }
    };
    let mut result = Ok(());
    module::for_each(|other| {
        let is_meant = module.is_none_or(|module| module.as_bytes() == &**other.name());
        if is_meant && !other.is_going() && result.is_ok() {
            result = other.add_symbols(name, &mut addresses);
        }
    });
    result?;
    Ok(addresses)
}

/// Calls `found` for each symbol of the kernel image that has one of these names, with the index of
/// its name and with its address. Of equal names, only one is sure to be found.
///
/// Only rkprobe uses this function. Other modules cannot use it. Process context; sleeps. Takes
/// about 0.01 s. Outside the kernel tree, without `CONFIG_VMCORE_INFO`, this reads a file. That
/// takes about 0.1 s, and fails with `EPERM` if the kernel hides addresses
/// (`kernel.kptr_restrict`). `ENOMEM`, and the errors of `found`.
pub fn each_named(
    names: &[&str],
    mut found: impl FnMut(usize, usize) -> Result, //
) -> Result {
    tree::each_named(names, &mut found)
}

/// Finds the addresses of all symbols whose name matches one of the patterns, of the kernel image
/// and of the modules that are not being unloaded. `None` if the symbols cannot be read, or if more
/// than `most` match.
///
/// Process context; sleeps. Takes about 0.01 s for a few patterns. Returns `None` without
/// `CONFIG_VMCORE_INFO`, and in the kernel tree. `ENOMEM`, `EFAULT`.
pub(crate) fn find_matching(patterns: &[&CStr], most: usize) -> Result<Option<KVVec<usize>>> {
    let wildcard = |byte: &u8| b"*?[\\".contains(byte);
    let mut with_prefixes = KVVec::with_capacity(patterns.len(), GFP_KERNEL)?;
    for pattern in patterns {
        let prefix = pattern.to_bytes().split(wildcard).next().unwrap_or(&[]);
        with_prefixes.push((prefix, *pattern), GFP_KERNEL)?;
    }
    let Some(mut addresses) = tree::find_matching_in_kernel(&with_prefixes, most)? else {
        return Ok(None);
    };
    // The list of modules is locked below, so nothing can be allocated there. There is a search for
    // each pattern, so that each holds this spinlock for a short time.
    let mut in_modules = KVVec::with_capacity(most, GFP_KERNEL)?;
    let mut have_room = true;
    for (prefix, pattern) in &with_prefixes {
        let matches =
            |name: &CStr| name.to_bytes().starts_with(prefix) && glob::matches(pattern, name);
        module::for_each(|module| {
            if !module.is_going() && have_room {
                module.each_symbol(matches, |address| {
                    have_room &= in_modules.push_within_capacity(address).is_ok();
                });
            }
        });
    }
    addresses.extend_from_slice(&in_modules, GFP_KERNEL)?;
    Ok((have_room && addresses.len() <= most).then_some(addresses))
}

/// Whether a symbol of text or data has the name `NAME` or `MODULE:NAME`.
///
/// Only rkprobe uses this function. Other modules cannot use it. Process context; sleeps. Outside
/// the kernel tree, this takes much less time than [`address_of`]. `ENOMEM`.
#[export_name = "ktrace_own_exists"]
pub fn exists(name: &CStr) -> Result<bool> {
    tree::exists(name)
}

/// The maximum size of the text that [`format`] writes, with a NUL, in bytes.
pub const LEN: usize = KSYM_SYMBOL_LEN;

/// Writes `address` as `NAME+OFFSET/SIZE [MODULE]`, or without the offset as `NAME [MODULE]`.
/// Writes a number if no symbol contains the address. Any context.
///
/// C: `sprint_symbol()`, `sprint_symbol_no_offset()`.
pub fn format(address: usize, with_offset: bool, buffer: &mut [u8; LEN]) -> &[u8] {
    let to = buffer.as_mut_ptr().cast::<c_char>();
    // SAFETY: The buffer has space for the longest symbol (`KSYM_SYMBOL_LEN`).
    let len = unsafe {
        if with_offset {
            bindings::sprint_symbol(to, address)
        } else {
            bindings::sprint_symbol_no_offset(to, address)
        }
    };
    buffer.get(..len.unsigned_abs() as usize).unwrap_or(&[])
}

/// The symbol that contains `address`, if there is one. Any context.
pub fn location(address: usize, buffer: &mut [u8; LEN]) -> Option<Location<'_>> {
    Location::parse(core::str::from_utf8(format(address, true, buffer)).ok()?)
}

/// The start and the size in bytes of the symbol that contains `address`, if there is one. Any
/// context.
// The buffer must not be in the caller's frame, because the caller can call deeper.
#[inline(never)]
pub fn extent(address: usize) -> Option<(usize, usize)> {
    let mut buffer = [0; LEN];
    let location = location(address, &mut buffer)?;
    Some((address.checked_sub(location.offset)?, location.size))
}

/// The start of the symbol that contains `address`, if there is one. Any context.
pub fn start_of(address: usize) -> Option<usize> {
    extent(address).map(|(start, _)| start)
}

/// The name of the module that contains `address`, if there is one. Any context.
pub fn module_of(address: usize, buffer: &mut [u8; LEN]) -> Option<&str> {
    location(address, buffer)?.module
}

/// Whether the address is the start of a function, or follows the landing pad (ENDBR) at its start.
/// `None` if no symbol contains the address. Any context.
///
/// C: `kprobe_on_func_entry()`.
pub fn is_entry(address: usize) -> Option<bool> {
    let start = start_of(address)?;
    Some(address == start || address == arch::probe_entry(start))
}

/// Whether `address` is in a module. Any context.
#[inline(never)]
pub fn is_in_module(address: usize) -> bool {
    module_of(address, &mut [0; LEN]).is_some()
}

/// The number of symbols with this name in all modules, or in one module. `None` if this module is
/// not loaded.
///
/// Process context. C: `module_kallsyms_on_each_symbol()`.
pub fn count_in_modules(module: Option<&str>, name: &str) -> Option<usize> {
    let mut count = module.is_none().then_some(0usize);
    module::for_each(|other| {
        let is_meant = match module {
            Some(module) => module.as_bytes() == &**other.name() && !other.is_going(),
            None => true,
        };
        if is_meant {
            let before = count.unwrap_or(0);
            count = Some(before.saturating_add(other.count_symbols(name)));
        }
    });
    count
}

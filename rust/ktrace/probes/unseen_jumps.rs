// SPDX-License-Identifier: GPL-2.0

//! Jumps that the text of a function does not show: where the kernel continues after a fault, and
//! the other sides of jump labels. The kernel and each module have tables of them.
//!
//! C headers: [`include/linux/extable.h`](srctree/include/linux/extable.h),
//! [`include/linux/jump_label.h`](srctree/include/linux/jump_label.h).

use core::{
    ptr,
    slice, //
};

#[cfg(CONFIG_JUMP_LABEL)]
use kernel::bindings::jump_entry;
use kernel::{
    bindings::exception_table_entry,
    prelude::*,
    str::CStr, //
};

use probe::insn::{
    exits::Part,
    route::UnseenJump, //
};

use crate::{
    modules::module::{
        self,
        Module, //
    },
    symbols::symbol, //
};

/// An entry of a table. Its addresses are relative to the place of the number.
trait Entry {
    fn jump(&self) -> UnseenJump;
}

impl Entry for exception_table_entry {
    fn jump(&self) -> UnseenJump {
        UnseenJump {
            from: relative(&self.insn),
            to: relative(&self.fixup),
        }
    }
}

#[cfg(CONFIG_JUMP_LABEL)]
impl Entry for jump_entry {
    fn jump(&self) -> UnseenJump {
        UnseenJump {
            from: relative(&self.code),
            to: relative(&self.target),
        }
    }
}

fn relative(offset: &i32) -> u64 {
    let place = ptr::from_ref(offset).addr() as u64;
    place.wrapping_add_signed((*offset).into())
}

/// The unseen jumps that begin or end in these parts of a function. `None` if the kernel hides a
/// table.
///
/// Process context. `ENOMEM`.
pub(super) fn within(parts: &[Part<'_>]) -> Result<Option<KVec<UnseenJump>>> {
    let mut found = Found {
        parts,
        jumps: KVec::new(),
        result: Ok(()),
    };
    let Some(faults) = of_kernel(c"__start___ex_table", c"__stop___ex_table") else {
        return Ok(None);
    };
    found.add::<exception_table_entry>(faults);
    #[cfg(CONFIG_JUMP_LABEL)]
    match of_kernel(c"__start___jump_table", c"__stop___jump_table") {
        Some(labels) => found.add::<jump_entry>(labels),
        None => return Ok(None),
    }
    module::for_each(|module| {
        let is_in = |part: &Part<'_>| module.contains(part.address as usize);
        if parts.iter().any(is_in) {
            found.add_module(module);
        }
    });
    found.result?;
    Ok(Some(found.jumps))
}

/// A table of the kernel image, between two symbols.
fn of_kernel<E: Entry>(start: &CStr, end: &CStr) -> Option<&'static [E]> {
    let start = symbol::address_of(start).ok()?;
    let end = symbol::address_of(end).ok()?;
    let len = end.checked_sub(start)? / size_of::<E>();
    // SAFETY: The linker script puts these symbols around an array of such entries, which the
    // kernel does not change after its boot, and never frees.
    Some(unsafe { slice::from_raw_parts(start as *const E, len) })
}

struct Found<'a> {
    parts: &'a [Part<'a>],
    jumps: KVec<UnseenJump>,
    result: Result,
}

impl Found<'_> {
    /// Adds the jumps of a table. Any context.
    fn add<E: Entry>(&mut self, table: &[E]) {
        for jump in table.iter().map(Entry::jump) {
            let is_within = |part: &Part<'_>| part.contains(jump.from) || part.contains(jump.to);
            if self.result.is_ok() && self.parts.iter().any(is_within) {
                self.result = self.jumps.push(jump, GFP_ATOMIC).map_err(Error::from);
            }
        }
    }

    /// Adds the jumps of a module. Any context.
    fn add_module(&mut self, module: &Module) {
        let module = module.as_ptr();
        // SAFETY: The module exists. The arrays have this length and are as old as the module, and
        // the kernel does not change them after it has added the module to its list.
        unsafe {
            self.add(entries((*module).extable, (*module).num_exentries));
            #[cfg(CONFIG_JUMP_LABEL)]
            self.add(entries((*module).jump_entries, (*module).num_jump_entries));
        }
    }
}

/// # Safety
///
/// `first` must point to `len` entries that nobody changes during `'a`, unless `len` is 0.
unsafe fn entries<'a, E: Entry>(first: *mut E, len: u32) -> &'a [E] {
    match len {
        0 => &[],
        // SAFETY: The caller guarantees that there are so many entries, and that they stay.
        _ => unsafe { slice::from_raw_parts(first, len as usize) },
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The kernel's loaded modules.
//!
//! C header: [`include/linux/module.h`](srctree/include/linux/module.h)

use core::ptr;

use kernel::{
    bindings,
    prelude::*,
    str::{
        BStr,
        CStr, //
    },
    sync::rcu,
    types::Opaque, //
};

use crate::{
    hit::atomic::dereference,
    modules::owner, //
};

/// A loaded module.
#[repr(transparent)]
pub struct Module(Opaque<bindings::module>);

impl Module {
    /// # Safety
    ///
    /// The module must have been added to the kernel's list. It must not be freed during `'a`.
    pub(crate) unsafe fn from_raw<'a>(module: *mut bindings::module) -> &'a Self {
        // SAFETY: The caller guarantees that the module exists for `'a`. The type is transparent,
        // and `Opaque` allows the kernel to change the structure.
        unsafe { &*module.cast() }
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::module {
        self.0.get()
    }

    /// The name of the module. Any context.
    pub fn name(&self) -> &BStr {
        // SAFETY: The name is a string. It does not change while the module exists.
        unsafe { CStr::from_char_ptr((*self.0.get()).name.as_ptr()) }.as_ref()
    }

    /// Whether the module is being unloaded. Any context.
    pub fn is_going(&self) -> bool {
        // SAFETY: The module exists. Another task may change the state at any time.
        let state = unsafe { ptr::read_volatile(&raw const (*self.0.get()).state) };
        state == bindings::module_state_MODULE_STATE_GOING
    }

    /// Takes a reference, so that the module cannot be unloaded. Any context.
    ///
    /// Returns false if the module is loading or unloading, because a reference has no effect then.
    pub(crate) fn get(&self) -> bool {
        let module = self.0.get();
        // SAFETY: The module exists. Another task may change the state at any time.
        let state = unsafe { ptr::read_volatile(&raw const (*module).state) };
        if state != bindings::module_state_MODULE_STATE_LIVE {
            return false;
        }
        // SAFETY: The module exists.
        unsafe { owner::try_get(module) }
    }

    /// Whether `address` is in the module's memory. Any context.
    pub fn contains(&self, address: usize) -> bool {
        let module = self.0.get();
        (0..bindings::mod_mem_type_MOD_MEM_NUM_TYPES as usize).any(|kind| {
            // SAFETY: The module exists, and `kind` is an index of the array. The kernel clears the
            // entries of the initialisation when the initialisation is over. Either value is
            // correct here.
            let (base, size) = unsafe {
                let memory = &raw const (*module).mem[kind];
                (
                    ptr::read_volatile(&raw const (*memory).base) as usize,
                    ptr::read_volatile(&raw const (*memory).size) as usize,
                )
            };
            address.wrapping_sub(base) < size
        })
    }

    /// The number of the module's symbols with this name, without symbols that the module only
    /// imports. Any context.
    pub fn count_symbols(&self, name: &str) -> usize {
        let mut count = 0usize;
        self.each_named(name, |_| count += 1);
        count
    }

    /// Adds the addresses of the module's symbols with this name to `addresses`. Any context.
    /// `ENOMEM`.
    pub(crate) fn add_symbols(&self, name: &str, addresses: &mut KVec<usize>) -> Result {
        let mut result = Ok(());
        self.each_named(name, |address| {
            if result.is_ok() {
                result = addresses.push(address, GFP_ATOMIC);
            }
        });
        Ok(result?)
    }

    /// Calls `f` with the address of each symbol of the module with this name. `f` must not sleep.
    /// Any context.
    fn each_named(&self, name: &str, f: impl FnMut(usize)) {
        self.each_symbol(|other| other.to_bytes() == name.as_bytes(), f);
    }

    /// Calls `f` with the address of each symbol of the module whose name matches. Neither function
    /// may sleep. Any context.
    pub(crate) fn each_symbol(&self, matches: impl Fn(&CStr) -> bool, mut f: impl FnMut(usize)) {
        let guard = rcu::read_lock();
        // SAFETY: The kernel replaces the table after the initialisation of the module, and frees
        // the old table after an RCU grace period. The table has the number of symbols that it
        // states, and their names are in `strtab`.
        unsafe {
            let table = dereference(&raw const (*self.0.get()).kallsyms, &guard);
            if !table.is_null() {
                for index in 0..(*table).num_symtab as usize {
                    let symbol = (*table).symtab.add(index);
                    let name = (*table).strtab.add((*symbol).st_name as usize);
                    if (*symbol).st_shndx != 0 && matches(CStr::from_char_ptr(name)) {
                        f((*symbol).st_value as usize);
                    }
                }
            }
        }
    }
}

// `kernel::bindings` defines the type of the set.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_modules() -> *mut bindings::kset;
    fn ktrace_this_module() -> *mut bindings::module;
}

/// The module that contains ktrace. `None` if ktrace is built into the kernel.
fn own() -> Option<&'static Module> {
    // SAFETY: The function has no requirements.
    let own = unsafe { ktrace_this_module() };
    // SAFETY: The module of this code exists while this code runs.
    (!own.is_null()).then(|| unsafe { Module::from_raw(own) })
}

/// Whether `address` is in the module that contains ktrace. Any context.
pub(crate) fn is_own(address: usize) -> bool {
    own().is_some_and(|own| own.contains(address))
}

/// Whether `address` is in a module that is being unloaded. Any context.
pub(crate) fn is_in_going(address: usize) -> bool {
    any_going(|module| module.contains(address))
}

/// Whether `f` returns true for a module that is being unloaded. `f` must not sleep. Any context.
pub(crate) fn any_going(mut f: impl FnMut(&Module) -> bool) -> bool {
    let mut any = false;
    for_each(|module| any |= module.is_going() && f(module));
    any
}

/// The names of all modules, each on its own line. Any context. `ENOMEM`.
pub(crate) fn names() -> Result<KVec<u8>> {
    let mut names = KVec::new();
    let mut result = Ok(());
    for_each(|module| {
        if result.is_ok() {
            result = names
                .extend_from_slice(module.name(), GFP_ATOMIC)
                .and_then(|()| names.push(b'\n', GFP_ATOMIC));
        }
    });
    result?;
    Ok(names)
}

/// Calls `f` with each module, in atomic context. The module stays loaded during the call.
///
/// Modules cannot access the kernel's list of modules. But the kset behind `/sys/module` contains
/// each module from before its initialisation until before its memory is freed. Notifiers see a new
/// module before this kset contains the module.
pub(crate) fn for_each(mut f: impl FnMut(&Module)) {
    // SAFETY: One kset contains all modules, and is never freed. The lock keeps its entries.
    // `mod_sysfs_teardown()` removes a module from the kset before the module is freed. An entry
    // for built-in code has no module.
    unsafe {
        let set = ktrace_modules();
        let lock = &raw mut (*set).list_lock;
        bindings::spin_lock(lock);
        let head = &raw mut (*set).list;
        let mut link = (*head).next;
        while link != head {
            let object = kernel::container_of!(link, bindings::kobject, entry);
            let entry = kernel::container_of!(object, bindings::module_kobject, kobj);
            let module = (*entry).mod_;
            if !module.is_null() {
                f(Module::from_raw(module));
            }
            link = (*link).next;
        }
        bindings::spin_unlock(lock);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The kernel's modules: which there are, and when one comes or goes.
//!
//! C header: [`include/linux/module.h`](srctree/include/linux/module.h)

use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::ptr;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::str::BStr;
use kernel::str::CStr;
use kernel::types::Opaque;

/// A module that is there.
#[repr(transparent)]
pub struct Module(Opaque<bindings::module>);

impl Module {
    /// # Safety
    ///
    /// It must have been added to the kernel's list, and not be freed during `'a`.
    unsafe fn from_raw<'a>(module: *mut bindings::module) -> &'a Self {
        // SAFETY: By the safety requirement; the type is transparent.
        unsafe { &*module.cast() }
    }

    /// Its name. Any context.
    pub fn name(&self) -> &BStr {
        // SAFETY: A string that stays as it is for as long as the module is there.
        unsafe { CStr::from_char_ptr((*self.0.get()).name.as_ptr()) }.as_ref()
    }

    /// Is it on its way out? Any context.
    pub fn is_going(&self) -> bool {
        // SAFETY: It is there. Another task may be changing the state.
        let state = unsafe { ptr::read_volatile(&raw const (*self.0.get()).state) };
        state == bindings::module_state_MODULE_STATE_GOING
    }

    /// How many symbols of this name it has. Those that it only uses do not count. Any context.
    pub fn count_symbols(&self, name: &str) -> usize {
        // SAFETY: The table is replaced when the module was initialised, and the old one is freed
        // after an RCU grace period. It has as many symbols as it says, with their names in
        // `strtab`.
        unsafe {
            bindings::rcu_read_lock();
            let table = ptr::read_volatile(&raw const (*self.0.get()).kallsyms);
            let mut count = 0;
            if !table.is_null() {
                for index in 0..(*table).num_symtab as usize {
                    let symbol = (*table).symtab.add(index);
                    let other = (*table).strtab.add((*symbol).st_name as usize);
                    if (*symbol).st_shndx != 0
                        && CStr::from_char_ptr(other).to_bytes() == name.as_bytes()
                    {
                        count += 1;
                    }
                }
            }
            bindings::rcu_read_unlock();
            count
        }
    }
}

// The set is used as `kernel::bindings` has it.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_modules() -> *mut bindings::kset;
}

/// Calls `f` with each module: it stays there for the time of the call, which is atomic.
///
/// The kernel's own list is not for others. But modules are in `/sys/module` from before their
/// initialisation is run until before their memory is freed. Those who are told of one that comes
/// see it before it is there.
pub(crate) fn for_each(mut f: impl FnMut(&Module)) {
    // SAFETY: All modules are in one set, which is never freed. The lock keeps its entries, and
    // `mod_sysfs_teardown()` takes a module out before it is freed. What is built in has none.
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

/// What happens when a module comes or goes.
pub trait Handler: Send + Sync + 'static {
    /// Called before the module's functions run: they can be probed from now on, those of its
    /// initialisation until that is over. The kernel is through with the module itself: where it
    /// does not allow probes is known.
    ///
    /// Process context; may sleep. The module's loading waits for this: it must not wait for a task
    /// that loads modules.
    fn coming(&self, module: &Module);

    /// Called when the module's exit function has run, or its initialisation has failed. Its
    /// symbols are still found, its BTF is not.
    ///
    /// Process context; may sleep. The module's unloading waits for this.
    fn going(&self, _module: &Module) {}
}

/// The part that the kernel knows: it must not move.
#[repr(C)]
struct Inner<H> {
    block: Opaque<bindings::notifier_block>,
    handler: H,
}

/// A handler that is called for the modules that come and go, until it is dropped.
///
/// Dropping waits until the handler does not run any more: process context, and not in a handler.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::module::{Handler, Module, Notifier};
///
/// struct Tell;
///
/// impl Handler for Tell {
///     fn coming(&self, module: &Module) {
///         pr_info!("{} comes\n", module.name());
///     }
/// }
///
/// let notifier = Notifier::register(Tell)?;
/// # Ok::<(), Error>(())
/// ```
///
/// # Invariants
///
/// `inner` is registered.
pub struct Notifier<H: Handler> {
    inner: ManuallyDrop<Pin<KBox<Inner<H>>>>,
}

// SAFETY: The kernel's functions on the chain of notifiers lock by themselves; `H` is `Send`.
unsafe impl<H: Handler> Send for Notifier<H> {}
// SAFETY: As above; `H` is `Sync`.
unsafe impl<H: Handler> Sync for Notifier<H> {}

impl<H: Handler> Notifier<H> {
    /// Tells the handler of modules, from now on. C: `register_module_notifier()`.
    ///
    /// Process context; sleeps. `ENOMEM`.
    pub fn register(handler: H) -> Result<Self> {
        /// After those of kprobes, which learns where the module does not allow them, and of BTF,
        /// which makes the module's file: both are 0.
        const PRIORITY: c_int = -1;

        let inner = KBox::pin(
            Inner {
                block: Opaque::new(bindings::notifier_block {
                    notifier_call: Some(changed::<H>),
                    priority: PRIORITY,
                    ..Default::default()
                }),
                handler,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: It is initialised, pinned, and unregistered before it is freed.
        to_result(unsafe { bindings::register_module_notifier(inner.block.get()) })?;
        // INVARIANT: Registered just now.
        Ok(Self {
            inner: ManuallyDrop::new(inner),
        })
    }
}

impl<H: Handler> Drop for Notifier<H> {
    fn drop(&mut self) {
        // SAFETY: Registered, by the type invariant. This waits for handlers that run.
        let unregistered =
            to_result(unsafe { bindings::unregister_module_notifier(self.inner.block.get()) });
        if let Err(error) = unregistered {
            pr_err!("a module notifier could not be removed ({error:?}); its memory is kept\n");
            return;
        }
        // SAFETY: `self` is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

/// Called by the kernel when the state of a module changes.
///
/// # Safety
///
/// `block` must be that of a registered [`Inner`] for `H`, and `module` a module that is there.
unsafe extern "C" fn changed<H: Handler>(
    block: *mut bindings::notifier_block,
    state: c_ulong,
    module: *mut c_void,
) -> c_int {
    const COMING: c_ulong = bindings::module_state_MODULE_STATE_COMING as c_ulong;

    const GOING: c_ulong = bindings::module_state_MODULE_STATE_GOING as c_ulong;

    if state == COMING || state == GOING {
        // SAFETY: The caller passes the block of a registered `Inner<H>`, and dropping it waits
        // until this function has returned.
        let inner = unsafe { &*kernel::container_of!(Opaque::cast_from(block), Inner<H>, block) };
        // SAFETY: The caller passes a module of the kernel's list, which it frees later.
        let module = unsafe { Module::from_raw(module.cast()) };
        if state == COMING {
            inner.handler.coming(module);
        } else {
            inner.handler.going(module);
        }
    }
    // NOTIFY_DONE
    0
}

// SPDX-License-Identifier: GPL-2.0

//! Handlers that the kernel calls when a module comes or goes.
//!
//! C header: [`include/linux/module.h`](srctree/include/linux/module.h)

use core::{
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::Arc,
    task::Task,
    types::Opaque, //
};

use crate::{
    leftover,
    module::Module,
    owner, //
};

/// The handler of modules that are loaded and unloaded.
pub trait Handler: Send + Sync + 'static {
    /// Called before the module's functions run: they can be probed from now on, those of its
    /// initialisation until that is over. The kernel is through with the module itself: where it
    /// does not allow probes is known.
    ///
    /// Process context; may sleep. The loading of this module and of others waits for this: it must
    /// not wait for a task that loads modules.
    fn coming(&self, module: &Module);

    /// Called when the module's exit function has run, or its initialisation has failed. Its
    /// functions may still be called, for instance by a write to a parameter of the module. So
    /// probes in it are to be disabled now. After this, the kernel forgets about breakpoints in the
    /// module, and leaves them there: a task that then hits one dies.
    ///
    /// Process context; may sleep. The module's unloading waits for this.
    fn leaving(&self, _module: &Module) {}

    /// Called after that, when the kernel has taken its own probes and the module's BTF out. Its
    /// symbols are still found.
    ///
    /// Process context; may sleep. The module's unloading waits for this.
    fn going(&self, _module: &Module) {}
}

/// A handler in the list.
struct Listener {
    number: u64,
    handler: Arc<dyn Handler>,
}

/// The handlers, in the order of their numbers.
struct Listeners {
    list: KVVec<Listener>,
    /// The number of the next handler.
    next: u64,
}

kernel::sync::global_lock! {
    // SAFETY: `crate::init` calls `init` before anything else here is used.
    unsafe(uninit) static LISTENERS: Mutex<Listeners> = Listeners {
        list: KVVec::new(),
        next: 1,
    };
}

kernel::sync::global_lock! {
    // SAFETY: `crate::init` calls `init` before anything else here is used.
    unsafe(uninit) static CALLING: Mutex<()> = ();
}

/// The task that holds `CALLING` and calls handlers.
static CALLER: AtomicPtr<bindings::task_struct> = AtomicPtr::new(ptr::null_mut());

/// A handler that is called for the modules that come and go, until it is dropped.
///
/// Dropping waits until the handler does not run any more: process context. A handler may drop its
/// own notifier, or another one: the handler that runs is then dropped when it is over.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ktrace::{
///     module::Module,
///     module_notifier::{
///         Handler,
///         Notifier, //
///     },
/// };
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
pub struct Notifier<H: Handler>(Arc<H>);

impl<H: Handler> Notifier<H> {
    /// Calls the handler for modules, from now on. C: `register_module_notifier()`.
    ///
    /// Process context; sleeps. `ENOMEM`.
    pub fn register(handler: H) -> Result<Self> {
        let handler = Arc::new(handler, GFP_KERNEL)?;
        let object = address_of(&*handler);
        // SAFETY: `leave` waits until the handler does not run, and takes locks of this file only.
        // It may find no such handler.
        unsafe { leftover::track(H::coming as *const () as usize, object, leave) }?;
        // If there is no memory, dropping undoes it.
        let this = Self(handler);
        let mut listeners = LISTENERS.lock();
        let number = listeners.next;
        let listener = Listener {
            number,
            handler: this.0.clone(),
        };
        let pushed = listeners.list.push(listener, GFP_KERNEL);
        listeners.next += 1;
        drop(listeners);
        pushed?;
        Ok(this)
    }
}

impl<H: Handler> Drop for Notifier<H> {
    fn drop(&mut self) {
        let object = address_of(&*self.0);
        leave(object);
        leftover::untrack(object);
    }
}

fn address_of<H: ?Sized>(handler: &H) -> *mut c_void {
    ptr::from_ref(handler).cast_mut().cast()
}

/// Removes a handler from the list, and waits until it does not run.
fn leave(object: *mut c_void) {
    let mut listeners = LISTENERS.lock();
    let listener = listeners
        .list
        .iter()
        .position(|listener| address_of(&*listener.handler) == object)
        .and_then(|index| listeners.list.remove(index).ok());
    drop(listeners);
    // The handler's own `drop` may register or drop notifiers.
    drop(listener);
    wait_for_handlers();
}

/// Removes the handlers of a module from the list, and waits until they do not run.
fn leave_all_of(module: &Module) {
    loop {
        let mut listeners = LISTENERS.lock();
        let listener = listeners
            .list
            .iter()
            .position(|listener| module.contains(owner::vtable_of(&*listener.handler)))
            .and_then(|index| listeners.list.remove(index).ok());
        drop(listeners);
        if listener.is_none() {
            break;
        }
    }
    wait_for_handlers();
}

/// Waits until no handler runs, but for one that calls this.
fn wait_for_handlers() {
    // No other task calls handlers while this one does.
    if CALLER.load(Ordering::Relaxed) != Task::current_raw() {
        drop(CALLING.lock());
    }
}

/// Calls the handlers, one after the other, without the list's lock: a handler may change the list.
fn call_all(mut f: impl FnMut(&dyn Handler)) {
    let _calling = CALLING.lock();
    CALLER.store(Task::current_raw(), Ordering::Relaxed);
    let end = LISTENERS.lock().next;
    let mut last = 0;
    while let Some((number, handler)) = next_after(last, end) {
        f(&*handler);
        last = number;
    }
    CALLER.store(ptr::null_mut(), Ordering::Relaxed);
}

fn next_after(last: u64, end: u64) -> Option<(u64, Arc<dyn Handler>)> {
    let listeners = LISTENERS.lock();
    let mut list = listeners.list.iter();
    let listener = list.find(|listener| (last + 1..end).contains(&listener.number))?;
    Some((listener.number, listener.handler.clone()))
}

/// A notifier.
struct Block(Opaque<bindings::notifier_block>);

// SAFETY: The kernel's functions on the chain of notifiers lock by themselves, and nobody else uses
// the structure.
unsafe impl Sync for Block {}

/// The notifier that runs before that of kprobes.
static FIRST: Block = Block(Opaque::new(bindings::notifier_block {
    notifier_call: Some(changes),
    next: ptr::null_mut(),
    priority: 1,
}));

/// The notifier for everything else.
static LAST: Block = Block(Opaque::new(bindings::notifier_block {
    notifier_call: Some(changed),
    next: ptr::null_mut(),
    // Called after the notifiers of kprobes, which learns where the module does not allow probes,
    // and of BTF, which makes the module's file. Both have priority 0.
    priority: -1,
}));

/// # Safety
///
/// Must be called once, before anything else here, and after [`leftover::init`].
pub(crate) unsafe fn init() {
    // SAFETY: This is the only call, before the first use: the caller guarantees both.
    unsafe {
        LISTENERS.init();
        CALLING.init();
    }
    for block in [&FIRST, &LAST] {
        // SAFETY: The block is static, and `exit` unregisters it before the code goes. This fails
        // only for a block that is registered already.
        unsafe { bindings::register_module_notifier(block.0.get()) };
    }
}

/// Waits until the notifier does not run, and frees the list.
///
/// # Safety
///
/// Must be called once, after [`init`].
pub(crate) unsafe fn exit() {
    for block in [&FIRST, &LAST] {
        // SAFETY: `init` registered it: the caller guarantees that this is the only call since.
        unsafe { bindings::unregister_module_notifier(block.0.get()) };
    }
    drop(core::mem::take(&mut LISTENERS.lock().list));
}

const COMING: c_ulong = bindings::module_state_MODULE_STATE_COMING as c_ulong;
const GOING: c_ulong = bindings::module_state_MODULE_STATE_GOING as c_ulong;

/// The kernel calls this when the state of a module changes, before it calls kprobes.
///
/// # Safety
///
/// `module` must be a loaded module.
unsafe extern "C" fn changes(
    _block: *mut bindings::notifier_block,
    state: c_ulong,
    module: *mut c_void,
) -> c_int {
    if state == GOING {
        // SAFETY: The kernel passes a module that stays there for the time of this call.
        let module = unsafe { Module::from_raw(module.cast()) };
        call_all(|handler| handler.leaving(module));
    }
    // NOTIFY_DONE
    0
}

/// The kernel calls this in the same way, but after it has called kprobes and BTF.
///
/// # Safety
///
/// `module` must be a loaded module.
unsafe extern "C" fn changed(
    _block: *mut bindings::notifier_block,
    state: c_ulong,
    module: *mut c_void,
) -> c_int {
    // SAFETY: The kernel passes a module that stays there for the time of this call.
    let module = unsafe { Module::from_raw(module.cast()) };
    match state {
        COMING => call_all(|handler| handler.coming(module)),
        GOING => {
            // First remove its handlers: one may be running in another task, and drop the remaining
            // registrations.
            leave_all_of(module);
            leftover::remove_all_of(module);
            call_all(|handler| handler.going(module));
        }
        _ => {}
    }
    // NOTIFY_DONE
    0
}

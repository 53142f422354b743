// SPDX-License-Identifier: GPL-2.0

//! Handlers that the kernel calls when a module loads or unloads.
//!
//! C header: [`include/linux/module.h`](srctree/include/linux/module.h)

use core::ptr;

use kernel::{
    bindings,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    task::Task,
    types::Opaque, //
};

use crate::modules::{
    ftrace_list,
    kprobe_list,
    leftover::{
        self,
        Entry,
        Kind, //
    },
    module::Module, //
};

/// A handler for modules that load and unload.
pub trait Handler: Send + Sync + 'static {
    /// Called before the module's functions run. Probes in the module are possible from now on.
    /// Probes in its initialisation code are possible until the initialisation ends. The kernel has
    /// finished its own setup of the module, so it knows the areas of the module that do not allow
    /// probes.
    ///
    /// Process context; may sleep. The loading of this module and of other modules waits for this
    /// function. So it must not wait for a task that loads modules.
    fn coming(&self, module: &Module);

    /// Called after the module's exit function has run, or after its initialisation has failed.
    /// Other code may still call the module's functions, for example by a write to a parameter of
    /// the module. Afterwards, the kernel forgets the breakpoints in the module without removing
    /// them. A task that then hits a breakpoint dies. ktrace has already disarmed the probes of
    /// other modules. rkprobe must now disarm its own probes in the module.
    ///
    /// Process context; may sleep. The module's unloading waits for this function.
    fn leaving(&self, _module: &Module) {}

    /// Called after `leaving`, when the kernel has removed its own probes in the module and the
    /// module's BTF. The module's symbols are still found.
    ///
    /// Process context; may sleep. The module's unloading waits for this function.
    fn going(&self, _module: &Module) {}
}

/// A handler in the list.
struct Listener {
    number: u64,
    handler: Arc<dyn Handler>,
}

/// The handlers, in ascending order of their numbers.
struct Listeners {
    list: KVVec<Listener>,
    /// The number for the next handler.
    next: u64,
}

kernel::sync::global_lock! {
    // SAFETY: `crate::init` calls `init` before any other use of this file.
    unsafe(uninit) static LISTENERS: Mutex<Listeners> = Listeners {
        list: KVVec::new(),
        next: 1,
    };
}

kernel::sync::global_lock! {
    // SAFETY: `crate::init` calls `init` before any other use of this file.
    unsafe(uninit) static CALLING: Mutex<()> = ();
}

/// The task that holds `CALLING` and calls handlers.
static CALLER: Atomic<*mut bindings::task_struct> = Atomic::new(ptr::null_mut());

/// A registered handler. The kernel calls it for modules that load and unload, until it is dropped.
///
/// Process context to drop: dropping waits until the handler does not run any more. A handler may
/// drop its own notifier or another notifier. The running handler is then dropped after it returns.
///
/// Do not drop it with a lock that a handler may take. For handlers of other modules, `event_mutex`
/// is such a lock: the kernel holds it while an event is enabled or disabled, and rkprobe's handler
/// waits for commands, which take it.
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
#[must_use = "dropping the notifier unregisters it"]
pub struct Notifier<H: Handler> {
    /// Kept until the notifier is dropped, so that the list never has the last reference.
    _handler: Arc<H>,
    /// The number in the list.
    number: u64,
    entry: Entry,
}

impl<H: Handler> Notifier<H> {
    /// Registers a handler, which the kernel calls from now on. C: `register_module_notifier()`.
    ///
    /// Process context; sleeps. `ENODEV` if the handler's module is being unloaded. `ENOMEM`.
    pub fn register(handler: H) -> Result<Self> {
        let code = H::coming as *const () as usize;
        let handler = Arc::new(handler, GFP_KERNEL)?;
        // Lock order: `LISTENERS`, then the list of `leftover`.
        let mut listeners = LISTENERS.lock();
        let number = listeners.next;
        let object = ptr::without_provenance_mut(number as usize);
        // SAFETY: `take_back` waits until the handler does not run. It takes only locks of this
        // file. The handler has a reference count.
        let claim = unsafe { leftover::track(Kind::Notifier, &[code], object, take_back) }?;
        let listener = Listener {
            number,
            handler: handler.clone(),
        };
        listeners.list.push(listener, GFP_KERNEL)?;
        listeners.next += 1;
        Ok(Self {
            _handler: handler,
            number,
            entry: claim.keep(),
        })
    }
}

impl<H: Handler> Drop for Notifier<H> {
    fn drop(&mut self) {
        // Does not wait for the claim: if a handler drops this notifier, another task that removes
        // it waits for this handler. Both may call `leave`.
        let _claim = self.entry.try_claim();
        leave(self.number);
    }
}

/// Removes a handler from the list, if the list has it, and waits until no handler runs any more.
fn leave(number: u64) {
    let mut listeners = LISTENERS.lock();
    let listener = listeners
        .list
        .binary_search_by_key(&number, |listener| listener.number)
        .ok()
        .and_then(|index| listeners.list.remove(index).ok());
    drop(listeners);
    // Dropped without a lock, because the handler's own `drop` may register or drop notifiers.
    drop(listener);
    wait_for_handlers();
}

/// Removes a handler that its module left in the list.
///
/// # Safety
///
/// The caller has no requirements to meet.
unsafe fn take_back(number: *mut c_void) {
    leave(number.addr() as u64);
}

/// Waits until no handler runs, except a handler that calls this function.
fn wait_for_handlers() {
    // If this task is the caller of handlers, no other task calls handlers.
    if CALLER.load(Relaxed) != Task::current_raw() {
        drop(CALLING.lock());
    }
}

/// Calls the handlers one after the other. Does not hold the list's lock during a call, because a
/// handler may change the list.
fn call_all(mut f: impl FnMut(&dyn Handler)) {
    let _calling = CALLING.lock();
    CALLER.store(Task::current_raw(), Relaxed);
    let end = LISTENERS.lock().next;
    let mut last = 0;
    while let Some((number, handler)) = next_after(last, end) {
        f(&*handler);
        last = number;
    }
    CALLER.store(ptr::null_mut(), Relaxed);
}

fn next_after(last: u64, end: u64) -> Option<(u64, Arc<dyn Handler>)> {
    let listeners = LISTENERS.lock();
    let mut list = listeners.list.iter();
    let listener = list.find(|listener| (last + 1..end).contains(&listener.number))?;
    Some((listener.number, listener.handler.clone()))
}

/// A notifier block of the kernel.
struct Block(Opaque<bindings::notifier_block>);

// SAFETY: The kernel's functions for the notifier chain take their own locks. No other code uses
// the structure.
unsafe impl Sync for Block {}

/// The notifier that runs before the notifier of kprobes.
static FIRST: Block = Block(Opaque::new(bindings::notifier_block {
    notifier_call: Some(changes),
    next: ptr::null_mut(),
    priority: 1,
}));

/// The notifier for all other calls.
static LAST: Block = Block(Opaque::new(bindings::notifier_block {
    notifier_call: Some(changed),
    next: ptr::null_mut(),
    // Runs after the notifiers of kprobes and of BTF, which both have priority 0. The notifier of
    // kprobes registers the areas of the module that do not allow probes. The notifier of BTF
    // creates the file with the module's BTF.
    priority: -1,
}));

/// # Safety
///
/// The caller calls this function once, before any other use of this file, and after
/// [`leftover::init`].
pub(crate) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe {
        LISTENERS.init();
        CALLING.init();
    }
    for block in [&FIRST, &LAST] {
        // SAFETY: The block is static, and `exit` unregisters it before the code is freed. The call
        // fails only for a block that is registered already.
        unsafe { bindings::register_module_notifier(block.0.get()) };
    }
}

/// Waits until the notifiers do not run any more, and frees the list.
///
/// # Safety
///
/// The caller calls this function once, after [`init`].
pub(crate) unsafe fn exit() {
    for block in [&FIRST, &LAST] {
        // SAFETY: `init` registered the block. The caller guarantees that this is the only call of
        // `exit`.
        unsafe { bindings::unregister_module_notifier(block.0.get()) };
    }
    drop(core::mem::take(&mut LISTENERS.lock().list));
}

const COMING: c_ulong = bindings::module_state_MODULE_STATE_COMING as c_ulong;
const GOING: c_ulong = bindings::module_state_MODULE_STATE_GOING as c_ulong;

/// The kernel calls this function when the state of a module changes, before it calls kprobes.
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
        // SAFETY: The kernel passes a module that exists during this call.
        let module = unsafe { Module::from_raw(module.cast()) };
        kprobe_list::disarm_in(module);
        ftrace_list::remove_functions_of(module);
        call_all(|handler| handler.leaving(module));
    }
    // The value of NOTIFY_DONE.
    0
}

/// The kernel calls this function when the state of a module changes, after it has called kprobes
/// and BTF.
///
/// # Safety
///
/// `module` must be a loaded module.
unsafe extern "C" fn changed(
    _block: *mut bindings::notifier_block,
    state: c_ulong,
    module: *mut c_void,
) -> c_int {
    // SAFETY: The kernel passes a module that exists during this call.
    let module = unsafe { Module::from_raw(module.cast()) };
    match state {
        COMING => call_all(|handler| handler.coming(module)),
        GOING => {
            leftover::remove_all_of(module);
            call_all(|handler| handler.going(module));
        }
        _ => {}
    }
    // The value of NOTIFY_DONE.
    0
}

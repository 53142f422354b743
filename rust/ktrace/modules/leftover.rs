// SPDX-License-Identifier: GPL-2.0

//! Registrations that a module leaves behind.
//!
//! Safe code can forget a registration, put it into a static, or fail its module's initialisation
//! after it forgot a registration. The kernel then still calls the handler, although the handler's
//! code is freed with the module. So ktrace lists each registration with the module that has the
//! handler's code. When a module unloads, ktrace's notifier removes the registrations of this
//! module that are still in the list. The kernel calls the notifier after the module's exit
//! function or after a failed initialisation, and before it frees the module's memory: see
//! `delete_module()` and `do_init_module()` in `kernel/module/main.c`.
//!
//! Memory that nobody drops is never freed, because it has no owner any more.
//!
//! # Who unregisters
//!
//! Code of the module can run during this removal: a thread until it is stopped, and the callbacks
//! of an event until the event is removed. Such code may take a registration out of a static and
//! drop it. So two tasks, or one task twice, may want to end a registration. Only the task that
//! claims the entry does: the drop, or [`remove_all_of`]. A drop that does not get the claim leaves
//! the registration alone. It also leaves the memory alone, or [waits](Entry::claim_unless_ended)
//! until the registration has ended.
//!
//! A claimed entry stays in the list until the registration has ended. So `remove_all_of` waits for
//! a drop in another task, and does not return before. A drop waits for `remove_all_of`, because no
//! handler runs after a drop.
//!
//! The entry has a number, which no other entry gets. An address would not identify an entry,
//! because several objects without a size can have one address, and because the kernel uses freed
//! memory again.

use core::ptr;

use kernel::{
    bindings,
    ffi::{
        c_long,
        c_void, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    task::Task,
    time::{
        delay::fsleep,
        Delta, //
    },
};

use crate::modules::module::{
    self,
    Module, //
};

/// The kinds of registrations, in the order in which [`remove_all_of`] removes them.
///
/// First come the registrations by which other tasks run code of the module that may sleep, and so
/// may use and drop other registrations. A module that goes runs no other such code: its files
/// cannot be opened, because it was not initialised or has no reference. Handlers of probes and
/// printers run until the end, but do not sleep.
///
/// The order makes most drops by such code find a registration that still exists. [`Claim`] makes
/// every other order safe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A handler for modules.
    Notifier,
    /// Threads. They stop before the events, because their work may use and drop events.
    Threads,
    /// An event with its callbacks.
    Event,
    /// All other registrations.
    Other,
}

impl Kind {
    const IN_ORDER: [Self; 4] = [Self::Notifier, Self::Threads, Self::Event, Self::Other];
}

/// A registration of a module.
struct TrackedRegistration {
    number: u32,
    kind: Kind,
    /// The modules that have the handler's code. Only compared, never dereferenced. The second may
    /// be NULL.
    modules: [*const bindings::module; 2],
    /// The task that registers or unregisters the object, or NULL. Only compared.
    claimed_by: *const bindings::task_struct,
    object: *mut c_void,
    remove: unsafe fn(*mut c_void),
}

// SAFETY: `track` requires that any task may call `remove` on `object`. The other fields are only
// compared.
unsafe impl Send for TrackedRegistration {}

/// The registrations, in ascending order of their numbers.
struct Entries {
    list: KVVec<TrackedRegistration>,
    /// The number of the last entry.
    last: u32,
}

impl Entries {
    fn index_of(&self, number: u32) -> Option<usize> {
        self.list
            .binary_search_by_key(&number, |entry| entry.number)
            .ok()
    }

    fn find(&mut self, number: u32) -> Option<&mut TrackedRegistration> {
        let index = self.index_of(number)?;
        self.list.get_mut(index)
    }
}

kernel::sync::global_lock! {
    // SAFETY: `crate::init` calls `init` before any other use of this file.
    unsafe(uninit) static ENTRIES: Mutex<Entries> = Entries {
        list: KVVec::new(),
        last: 0,
    };
}

/// # Safety
///
/// The caller calls this function once, before any other use of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller guarantees that this is the only call, before the first use.
    unsafe { ENTRIES.init() };
}

/// Frees the list. No module may have an entry any more.
pub(crate) fn exit() {
    drop(core::mem::take(&mut ENTRIES.lock().list));
}

/// The entry of a registration in the list.
///
/// The number is 0 if the registration needs no entry, and [`ENDED`] if the registration has ended.
pub(crate) struct Entry(Atomic<u32>);

/// Not the number of an entry.
const ENDED: u32 = u32::MAX;

/// The result of an attempt to claim an entry.
enum Attempt {
    Claimed,
    /// Another task has claimed the entry.
    Busy,
    /// This task has claimed the entry.
    Own,
    /// The registration has ended.
    Ended,
}

impl Entry {
    /// An entry that is [set](Self::set) later.
    pub(crate) const fn none() -> Self {
        Self(Atomic::new(0))
    }

    /// The entry of a registration that has ended, or has not begun.
    pub(crate) const fn ended() -> Self {
        Self(Atomic::new(ENDED))
    }

    /// Marks the registration as ended, after the claim was dropped. No task gets a claim any more.
    pub(crate) fn end(&self) {
        self.0.store(ENDED, Relaxed);
    }

    /// Sets the entry of an object, before the object can be dropped.
    pub(crate) fn set(&self, entry: Self) {
        self.0.store(entry.number(), Relaxed);
    }

    /// Another handle of the same entry, for an object that may be freed before the claim.
    pub(crate) fn copy(&self) -> Self {
        Self(Atomic::new(self.number()))
    }

    fn number(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Claims the entry, so that the caller ends the registration.
    ///
    /// `None` if another task has ended the registration. The caller must then not free the object:
    /// it must leave the memory allocated. If the other task has not finished, this function waits.
    /// Process context; sleeps.
    pub(crate) fn claim(&self) -> Option<Claim> {
        loop {
            match self.attempt() {
                Attempt::Claimed => return Some(Claim(self.number())),
                Attempt::Own | Attempt::Ended => return None,
                Attempt::Busy => wait(),
            }
        }
    }

    /// Claims the entry as [`claim`](Self::claim) does, but `None` means that the registration has
    /// ended, so the caller may free the object.
    ///
    /// A caller that ends the registration itself waits without end. Process context; sleeps.
    pub(crate) fn claim_unless_ended(&self) -> Option<Claim> {
        loop {
            match self.attempt() {
                Attempt::Claimed => return Some(Claim(self.number())),
                Attempt::Ended => return None,
                Attempt::Own | Attempt::Busy => wait(),
            }
        }
    }

    /// Claims the entry as [`claim`](Self::claim) does, but does not wait for another task.
    pub(crate) fn try_claim(&self) -> Option<Claim> {
        match self.attempt() {
            Attempt::Claimed => Some(Claim(self.number())),
            Attempt::Busy | Attempt::Own | Attempt::Ended => None,
        }
    }

    fn attempt(&self) -> Attempt {
        let number = self.number();
        match number {
            0 => return Attempt::Claimed,
            ENDED => return Attempt::Ended,
            _ => (),
        }
        let mut entries = ENTRIES.lock();
        match entries.find(number) {
            None => Attempt::Ended,
            Some(entry) if entry.claimed_by.is_null() => {
                entry.claimed_by = Task::current_raw();
                Attempt::Claimed
            }
            Some(entry) if ptr::eq(entry.claimed_by, Task::current_raw()) => Attempt::Own,
            Some(_) => Attempt::Busy,
        }
    }

    /// Takes up a claim that this task has [put aside](Claim::put_aside).
    pub(crate) fn take_up(&self) -> Claim {
        Claim(self.number())
    }
}

/// The right to register or unregister an object. Dropping the claim removes the entry from the
/// list, so the registration must have ended or failed.
#[must_use = "dropping the claim removes the entry"]
pub(crate) struct Claim(u32);

impl Claim {
    /// Ends the claim. The object is registered.
    pub(crate) fn keep(self) -> Entry {
        let number = self.put_aside();
        if number != 0 {
            if let Some(entry) = ENTRIES.lock().find(number) {
                entry.claimed_by = ptr::null();
            }
        }
        Entry(Atomic::new(number))
    }

    /// Keeps the claim for this task, which later [takes it up](Entry::take_up) again.
    pub(crate) fn put_aside(self) -> u32 {
        core::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.0 == 0 {
            return;
        }
        let mut entries = ENTRIES.lock();
        if let Some(index) = entries.index_of(self.0) {
            // The index is in range, so this cannot fail.
            let _ = entries.list.remove(index);
        }
    }
}

/// Waits before the next look at the list.
fn wait() {
    fsleep(Delta::from_millis(1));
}

/// Lists a registration of `object`, which the caller makes afterwards, for the modules with the
/// handler's code. When one of them unloads, the registration ends.
///
/// `codes` are addresses of functions or of vtables, in at most two modules. Code in the kernel
/// image and code in ktrace's own module need no entry: the kernel image stays, and ktrace's module
/// removes its registrations when it unloads.
///
/// A caller calls this function before it registers, because this function can fail. After the
/// registration, the caller [keeps](Claim::keep) the claim. If the registration fails, the caller
/// drops the claim.
///
/// Process context. `ENODEV` if such a module is being unloaded, or its initialisation has failed.
/// `ENOMEM`. `ENOSPC` after 4 billion registrations.
///
/// # Safety
///
/// While the entry is not claimed, any task may claim it and call `remove(object)` once. `remove`
/// must end the registration and wait until no handler runs. It must not register or unregister a
/// module notifier. It is called when the module with the code unloads. A caller that does not get
/// a claim must not free the object, unless the registration has
/// [ended](Entry::claim_unless_ended).
pub(crate) unsafe fn track(
    kind: Kind,
    codes: &[usize],
    object: *mut c_void,
    remove: unsafe fn(*mut c_void),
) -> Result<Claim> {
    let mut modules = [ptr::null(); 2];
    // The state of a module changes before `remove_all_of` takes the lock. So this function sees
    // the state, or `remove_all_of` sees the entry.
    let mut entries = ENTRIES.lock();
    let mut is_going = false;
    for (code, place) in codes.iter().zip(&mut modules) {
        if module::is_own(*code) {
            continue;
        }
        module::for_each(|module| {
            if module.contains(*code) {
                *place = module.as_ptr().cast_const();
                is_going |= module.is_going();
            }
        });
    }
    if is_going {
        return Err(ENODEV);
    }
    if modules.iter().all(|module| module.is_null()) {
        return Ok(Claim(0));
    }
    let number = entries.last.wrapping_add(1);
    if number == ENDED {
        return Err(ENOSPC);
    }
    let entry = TrackedRegistration {
        number,
        kind,
        modules,
        claimed_by: Task::current_raw(),
        object,
        remove,
    };
    entries.list.push(entry, GFP_KERNEL)?;
    entries.last = number;
    Ok(Claim(number))
}

/// Removes all registrations that a module left: one [`Kind`] after the other, each starting with
/// the last one.
///
/// ktrace's notifier calls this function when the module unloads, after the module's functions have
/// returned. The module cannot register anything any more.
pub(crate) fn remove_all_of(module: &Module) {
    let mut count = 0;
    for kind in Kind::IN_ORDER {
        while let Some(next) = claim_last_of(module, kind) {
            match next {
                Some((claim, object, remove)) => {
                    // SAFETY: `track` allows one call when the module unloads. Only the task with
                    // the claim ends the registration, so this is the only call.
                    unsafe { remove(object) };
                    drop(claim);
                    count += 1;
                }
                None => wait(),
            }
        }
    }
    if count > 0 {
        pr_warn!(
            "module {} left {} registrations behind: they are removed, but their memory is kept\n",
            module.name(),
            count
        );
    }
}

/// A claimed registration and the function that removes it.
type Claimed = (Claim, *mut c_void, unsafe fn(*mut c_void));

/// Claims the last registration of a module. `Some(None)` if other tasks have claimed all that are
/// left, and `None` if none is left.
///
/// Releases the lock before the caller unregisters, because unregistering takes locks of the
/// kernel.
fn claim_last_of(module: &Module, kind: Kind) -> Option<Option<Claimed>> {
    let module = module.as_ptr().cast_const();
    let mut entries = ENTRIES.lock();
    let mut is_any_left = false;
    for entry in entries.list.iter_mut().rev() {
        if entry.kind != kind || !entry.modules.contains(&module) {
            continue;
        }
        if entry.claimed_by.is_null() {
            entry.claimed_by = Task::current_raw();
            return Some(Some((Claim(entry.number), entry.object, entry.remove)));
        }
        is_any_left = true;
    }
    is_any_left.then_some(None)
}

/// Keeps the module with a handler's `code` loaded permanently, because the handler could not be
/// unregistered and the kernel may still call it. All types of ktrace then call this function, and
/// keep the handler's memory.
///
/// A live module gets a reference that is never dropped, so the module cannot be unloaded. A
/// reference has no effect on a module that is loading or unloading. For such a module, this
/// function does not return, and `insmod` or `rmmod` sleeps permanently. If it returned, the kernel
/// would free code that it still calls.
///
/// Process context.
pub(crate) fn keep_code_of(code: usize) {
    let mut is_safe = true;
    module::for_each(|module| {
        if module.contains(code) {
            is_safe = module.get();
        }
    });
    if is_safe {
        pr_err!("a handler could not be removed: its module cannot be unloaded any more\n");
        return;
    }
    pr_err!("a handler could not be removed from a module that goes: this task sleeps for good\n");
    sleep_for_good();
}

/// Keeps the memory of a handler that could not be unregistered, by not returning to the owner of
/// this memory. The caller has called [`keep_code_of`] before. Process context.
///
/// The type is not `!`, because objtool assumes that the call returns.
pub(crate) fn keep_memory() {
    pr_err!("a handler could not be removed from its owner's memory: this task sleeps for good\n");
    sleep_for_good();
}

fn sleep_for_good() -> ! {
    loop {
        // SAFETY: The function has no requirements in process context.
        unsafe { bindings::schedule_timeout_idle(c_long::MAX) };
    }
}

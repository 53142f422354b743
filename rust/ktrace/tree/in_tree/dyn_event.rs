// SPDX-License-Identifier: GPL-2.0

//! The kernel's `dynamic_events`: see [`crate::dyn_event`].

use core::ptr::NonNull;

use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    ffi::{
        c_char,
        c_int,
        c_ulong, //
    },
    prelude::*,
    seq_file::SeqFile,
    str::CStr, //
};

use crate::{
    dyn_event::handler::{
        Commands,
        Entries, //
    },
    trace_event::EventMutex, //
};

use super::arguments::Arguments;

#[repr(C)]
struct RawDynEvent([u8; 0]);

/// `struct ktrace_dyn_event_callbacks`.
#[repr(C)]
struct Callbacks {
    show: unsafe extern "C" fn(*mut bindings::seq_file, c_ulong),
    is_busy: unsafe extern "C" fn(c_ulong) -> bool,
    remove: unsafe extern "C" fn(c_ulong) -> c_int,
    matches: unsafe extern "C" fn(
        c_ulong,
        *const c_char,
        *const c_char,
        c_int,
        *mut *const c_char,
    ) -> bool,
}

impl Callbacks {
    const fn of<E: Entries>() -> Self {
        Self {
            show: show::<E>,
            is_busy: is_busy::<E>,
            remove: remove::<E>,
            matches: matches::<E>,
        }
    }
}

/// # Safety
///
/// `command` must be a string.
unsafe extern "C" fn create<C: Commands>(command: *const c_char) -> c_int {
    // SAFETY: The caller passes a string, which `create_dyn_event()` keeps for the call.
    let command = unsafe { CStr::from_char_ptr(command) };
    from_result(|| C::create(command.to_bytes()).map(|()| 0))
}

/// # Safety
///
/// `event_mutex` is held; `m` must be valid and not used by anyone else.
unsafe extern "C" fn show<E: Entries>(m: *mut bindings::seq_file, number: c_ulong) {
    // SAFETY: The caller holds `event_mutex` for the call, and so does `dyn_event_seq_start()`.
    let token = unsafe { EventMutex::assume_held() };
    // SAFETY: The caller passes a `seq_file` that it alone uses, during the call.
    let to = unsafe { SeqFile::from_raw(m) };
    E::show(&token, number, to);
}

/// # Safety
///
/// `event_mutex` is held.
unsafe extern "C" fn is_busy<E: Entries>(number: c_ulong) -> bool {
    // SAFETY: The caller holds `event_mutex` for the call: `dyn_events_release_all()` took it.
    E::is_busy(&unsafe { EventMutex::assume_held() }, number)
}

/// # Safety
///
/// `event_mutex` is held.
unsafe extern "C" fn remove<E: Entries>(number: c_ulong) -> c_int {
    // SAFETY: The caller holds `event_mutex` for the call: `dyn_event_release()` took it, or
    // `dyn_events_release_all()`.
    let token = unsafe { EventMutex::assume_held() };
    from_result(|| E::remove(&token, number).map(|()| 0))
}

/// # Safety
///
/// The caller holds `event_mutex`. `group` is a string or NULL, `event` is a string, and `words`
/// has `len` strings.
unsafe extern "C" fn matches<E: Entries>(
    number: c_ulong,
    group: *const c_char,
    event: *const c_char,
    len: c_int,
    words: *mut *const c_char,
) -> bool {
    // SAFETY: The caller passes strings, from `argv_split()`, which stay for the call; a NULL group
    // does not come here.
    let text = |string| unsafe { CStr::from_char_ptr(string) }.to_str();
    let group = if group.is_null() {
        Ok(None)
    } else {
        text(group).map(Some)
    };
    let (Ok(group), Ok(event), Ok(len)) = (group, text(event), usize::try_from(len)) else {
        return false;
    };
    // SAFETY: The caller holds `event_mutex` for the call: `dyn_event_release()` took it.
    let token = unsafe { EventMutex::assume_held() };
    // SAFETY: The caller passes `len` strings, from `argv_split()`, which stay for the call.
    let words = unsafe { Arguments::new(words, len) };
    E::matches(&token, number, group, event, words)
}

// Rust only passes these pointers on, and does not dereference them.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_register_dyn_events(create: unsafe extern "C" fn(*const c_char) -> c_int) -> c_int;
    fn ktrace_unregister_dyn_events();
    fn ktrace_new_dyn_event() -> *mut RawDynEvent;
    fn ktrace_add_dyn_event(event: *mut RawDynEvent, callbacks: *const Callbacks, number: c_ulong);
    fn ktrace_remove_dyn_event(event: *mut RawDynEvent);
    fn ktrace_free_needs_event_mutex(event: *const RawDynEvent) -> bool;
    fn ktrace_free_dyn_event(event: *mut RawDynEvent);
    fn ktrace_exit_dyn_events();
}

/// See [`crate::exit`].
pub(crate) fn exit() {
    // SAFETY: No requirements. The module is unloaded in process context, without any lock.
    unsafe { ktrace_exit_dyn_events() };
}

/// See [`crate::dyn_event::DynEvent`].
///
/// # Invariants
///
/// Made by `ktrace_new_dyn_event`, and freed by nobody else.
pub(crate) struct DynEvent(NonNull<RawDynEvent>);

// SAFETY: C changes an entry with `event_mutex` held only, whichever the task is.
unsafe impl Send for DynEvent {}
// SAFETY: Methods that take `&self` want the token of `event_mutex`, which one task at a time has.
unsafe impl Sync for DynEvent {}

impl DynEvent {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: No requirements.
        let event = unsafe { ktrace_new_dyn_event() };
        // INVARIANT: Made just now.
        Ok(Self(NonNull::new(event).ok_or(ENOMEM)?))
    }

    pub(crate) fn add<E: Entries>(&self, token: &EventMutex, number: usize) {
        self.add_with(token, const { &Callbacks::of::<E>() }, number);
    }

    /// The function is not generic, so modules with a handler call this function, and no C code.
    fn add_with(&self, _: &EventMutex, callbacks: &'static Callbacks, number: usize) {
        // SAFETY: By the type invariant the entry is allocated; `event_mutex` is held, as the token
        // proves. The callbacks, and the functions that they are, are of a module that owns this
        // value, and they stay until it is dropped.
        unsafe { ktrace_add_dyn_event(self.0.as_ptr(), callbacks, number) };
    }

    pub(crate) fn remove(&self, _: &EventMutex) {
        // SAFETY: By the type invariant the entry is allocated; `event_mutex` is held, as the token
        // proves.
        unsafe { ktrace_remove_dyn_event(self.0.as_ptr()) };
    }
}

impl Drop for DynEvent {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the entry is allocated. Nobody adds it meanwhile, since
        // `self` is exclusive. Another task may still be removing it: C then asks for the mutex.
        let needs_mutex = unsafe { ktrace_free_needs_event_mutex(self.0.as_ptr()) };
        let free = || {
            // SAFETY: By the type invariant nobody else frees the entry, and it is not used after
            // this. `event_mutex` is held if that is needed: see below.
            unsafe { ktrace_free_dyn_event(self.0.as_ptr()) };
        };
        // If the mutex cannot be taken, the current task holds it.
        if !needs_mutex || EventMutex::with(|_| free()).is_err() {
            free();
        }
    }
}

/// See [`crate::dyn_event::register`].
pub(crate) fn register_dyn_events<C: Commands>() -> Result {
    // SAFETY: The function is code of the module of `C`: it stays until the `Registration` is
    // dropped, which is owned by that module's data.
    to_result(unsafe { ktrace_register_dyn_events(create::<C>) })
}

/// See [`crate::dyn_event::Registration`].
pub(crate) fn unregister_dyn_events() {
    // SAFETY: Only the drop of a `Registration` calls this, and there is one only after
    // `ktrace_register_dyn_events` succeeded.
    unsafe { ktrace_unregister_dyn_events() };
}

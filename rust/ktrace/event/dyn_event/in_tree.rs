// SPDX-License-Identifier: GPL-2.0

//! The kernel's `dynamic_events`.

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

use crate::event::{
    dyn_event::handler::{
        Commands,
        Entries, //
    },
    mutex::EventMutex, //
};

use super::arguments::Arguments;

#[repr(C)]
struct RawDynEvent([u8; 0]);

/// C: `struct ktrace_dyn_event_callbacks`.
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
    // SAFETY: The caller passes a string. `create_dyn_event()` keeps it valid during the call.
    let command = unsafe { CStr::from_char_ptr(command) };
    from_result(|| C::create(command.to_bytes()).map(|()| 0))
}

/// # Safety
///
/// The caller must hold `event_mutex`. `m` must be valid, and no other code may use it.
unsafe extern "C" fn show<E: Entries>(m: *mut bindings::seq_file, number: c_ulong) {
    // SAFETY: The caller, `dyn_event_seq_start()`, holds `event_mutex` during the call.
    let token = unsafe { EventMutex::assume_held() };
    // SAFETY: The caller passes a valid `seq_file`. No other code uses it during the call.
    let to = unsafe { SeqFile::from_raw(m) };
    E::show(&token, number, to);
}

/// # Safety
///
/// The caller must hold `event_mutex`.
unsafe extern "C" fn is_busy<E: Entries>(number: c_ulong) -> bool {
    // SAFETY: The caller, `dyn_events_release_all()`, holds `event_mutex` during the call.
    E::is_busy(&unsafe { EventMutex::assume_held() }, number)
}

/// # Safety
///
/// The caller must hold `event_mutex`.
unsafe extern "C" fn remove<E: Entries>(number: c_ulong) -> c_int {
    // SAFETY: The caller, `dyn_event_release()` or `dyn_events_release_all()`, holds `event_mutex`
    // during the call.
    let token = unsafe { EventMutex::assume_held() };
    from_result(|| E::remove(&token, number).map(|()| 0))
}

/// # Safety
///
/// The caller must hold `event_mutex`. `group` must be a string or NULL, `event` must be a string,
/// and `words` must point to `len` strings.
unsafe extern "C" fn matches<E: Entries>(
    number: c_ulong,
    group: *const c_char,
    event: *const c_char,
    len: c_int,
    words: *mut *const c_char,
) -> bool {
    // SAFETY: The caller passes strings from `argv_split()`, which live during the call. The code
    // below does not call this closure for a NULL group.
    let text = |string| unsafe { CStr::from_char_ptr(string) }.to_str();
    let group = if group.is_null() {
        Ok(None)
    } else {
        text(group).map(Some)
    };
    let (Ok(group), Ok(event), Ok(len)) = (group, text(event), usize::try_from(len)) else {
        return false;
    };
    // SAFETY: The caller, `dyn_event_release()`, holds `event_mutex` during the call.
    let token = unsafe { EventMutex::assume_held() };
    // SAFETY: The caller passes `len` strings from `argv_split()`, which live during the call.
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

/// See [`super::exit`].
pub(crate) fn exit() {
    // SAFETY: The function has no requirements. The module unloads in process context, without any
    // lock.
    unsafe { ktrace_exit_dyn_events() };
}

/// See [`crate::dyn_event::DynEvent`].
///
/// # Invariants
///
/// `ktrace_new_dyn_event` created the entry. Only this value frees it.
pub(crate) struct DynEvent(NonNull<RawDynEvent>);

// SAFETY: C changes an entry only with `event_mutex` held, in any task.
unsafe impl Send for DynEvent {}
// SAFETY: Methods that take `&self` require a token for `event_mutex`. Only one task at a time has
// one.
unsafe impl Sync for DynEvent {}

impl DynEvent {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The function has no requirements.
        let event = unsafe { ktrace_new_dyn_event() };
        // INVARIANT: `ktrace_new_dyn_event` has just created the entry.
        Ok(Self(NonNull::new(event).ok_or(ENOMEM)?))
    }

    pub(crate) fn add<E: Entries>(&self, token: &EventMutex, number: usize) {
        self.add_with(token, const { &Callbacks::of::<E>() }, number);
    }

    /// Adds the entry. This function is not generic, so a module with a handler calls this
    /// function, and does not call C code.
    #[export_name = "ktrace_own_add_dyn_event"]
    fn add_with(&self, _: &EventMutex, callbacks: &'static Callbacks, number: usize) {
        // SAFETY: By the type invariant, the entry is allocated. The token proves that
        // `event_mutex` is held. The callbacks and their functions belong to the module that owns
        // this value. They stay in place until the value is dropped.
        unsafe { ktrace_add_dyn_event(self.0.as_ptr(), callbacks, number) };
    }

    pub(crate) fn remove(&self, _: &EventMutex) {
        // SAFETY: By the type invariant, the entry is allocated. The token proves that
        // `event_mutex` is held.
        unsafe { ktrace_remove_dyn_event(self.0.as_ptr()) };
    }
}

impl Drop for DynEvent {
    #[export_name = "ktrace_own_drop_dyn_event"]
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the entry is allocated. `self` is exclusive, so no other
        // code adds the entry meanwhile. Another task may still be removing the entry. The function
        // then returns true.
        let needs_mutex = unsafe { ktrace_free_needs_event_mutex(self.0.as_ptr()) };
        let free = || {
            // SAFETY: By the type invariant, no other code frees the entry, and it is not used
            // after this. If C requires `event_mutex`, the current task holds it: see below.
            unsafe { ktrace_free_dyn_event(self.0.as_ptr()) };
        };
        // If `with` fails, the current task holds the mutex already.
        if !needs_mutex || EventMutex::with(|_| free()).is_err() {
            free();
        }
    }
}

/// See [`crate::dyn_event::register`].
pub(crate) fn register_dyn_events<C: Commands>() -> Result {
    // SAFETY: The function is code of the module of `C`. The data of that module owns the
    // `Registration`, so the code stays loaded until the `Registration` is dropped.
    to_result(unsafe { ktrace_register_dyn_events(create::<C>) })
}

/// See [`crate::dyn_event::Registration`].
pub(crate) fn unregister_dyn_events() {
    // SAFETY: Only the drop of a `Registration` calls this. A `Registration` exists only after
    // `ktrace_register_dyn_events` succeeded.
    unsafe { ktrace_unregister_dyn_events() };
}

// SPDX-License-Identifier: GPL-2.0

//! An event that is held, with its fields and its handler.

use core::ptr::NonNull;

use kernel::{
    bindings::trace_event_call,
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_char,
        c_int,
        c_uint,
        c_ulong,
        c_void, //
    },
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::atomic::{
        AtomicFlag,
        Relaxed, //
    },
};

use probe::{
    argument::{
        RecordField,
        RecordValue, //
    },
    command::{
        is_valid_event_directory,
        RecordFields, //
    },
    event_format,
    types::Width, //
};

use crate::{
    event::mutex::EventMutexHeld,
    files::file::File,
    support::IN_TREE, //
};

/// A held event. While this value lives, the event's module cannot be unloaded, and the event
/// cannot be removed.
///
/// If a task drops the value with `event_mutex` held, this lasts until it has released the mutex.
///
/// # Invariants
///
/// C created the event, and only the drop puts it.
#[derive(Debug)]
pub struct Event(NonNull<Raw>);

// SAFETY: The event belongs to no task: any task may use it, and put it.
unsafe impl Send for Event {}
// SAFETY: Methods that take `&self` read what does not change. Those that change the handler are
// unsafe, or take the token for `event_mutex`.
unsafe impl Sync for Event {}

/// C: `struct ktrace_event` in `rust/helpers/event_trigger.c` and `event_counter.c`.
#[repr(C)]
#[derive(Debug)]
struct Raw {
    _opaque: [u8; 0],
}

/// A field of an event. C: `struct ktrace_event_field` in `rust/helpers/event_probe.c`.
#[repr(C)]
#[derive(Default)]
struct EventField {
    offset: c_int,
    size: c_int,
    is_signed: bool,
    is_text: bool,
    is_located: bool,
    is_located_from_here: bool,
}

/// The function that C calls for a record, with the data of the handler.
pub(super) type Callback = unsafe extern "C" fn(*mut c_void, *const c_void);

// Rust only passes on pointers to these kernel structures.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_get_event(system: *const c_char, name: *const c_char, number: c_uint) -> *mut Raw;
    fn ktrace_put_event(event: *mut Raw);
    fn ktrace_call_of(event: *const Raw) -> *mut trace_event_call;
    fn ktrace_find_event_field(
        call: *mut trace_event_call,
        name: *const u8,
        len: usize,
        found: *mut EventField,
    ) -> bool;
    fn ktrace_event_len(call: *mut trace_event_call) -> usize;
    fn ktrace_set_event_handler(event: *mut Raw, hit: Callback, data: *mut c_void) -> c_int;
    fn ktrace_attach_event_handler(event: *mut Raw) -> c_int;
    fn ktrace_detach_event_handler(event: *mut Raw);
    fn ktrace_end_event_handler(event: *mut Raw);
    fn ktrace_event_handler_missed(event: *const Raw) -> c_ulong;
    fn ktrace_init_event_probes() -> c_int;
    fn ktrace_exit_event_probes();
    fn ktrace_finish_event_puts();
}

/// Whether events were put with `event_mutex` held, which a worker releases.
static ARE_PUT: AtomicFlag = AtomicFlag::new(false);

/// `ENOMEM`, `ENOSPC` if the kernel has no state for the CPUs that come online.
///
/// # Safety
///
/// The caller calls this function once, before any other use of this file.
pub(crate) unsafe fn init() -> Result {
    // SAFETY: The caller calls this once, before any other use.
    to_result(unsafe { ktrace_init_event_probes() })
}

/// Releases what [`init`] has set up. No event may be held any more.
pub(crate) fn exit() {
    // SAFETY: `init` succeeded, and no event is held.
    unsafe { ktrace_exit_event_probes() };
}

/// Waits until the events that were dropped with `event_mutex` held are released. Process context.
/// The caller must not hold `event_mutex`.
pub(in crate::event) fn finish_puts() {
    if ARE_PUT.xchg(false, Relaxed) {
        wait_for_puts();
    }
}

fn wait_for_puts() {
    // SAFETY: The functions of this file are called between `init` and `exit`.
    unsafe { ktrace_finish_event_puts() };
}

impl Event {
    /// Finds an event by its group and its name, and holds the event.
    ///
    /// Process context; takes `event_mutex`. `ENOENT` if the event does not exist, or if the event
    /// is a probe itself: a kprobe, uprobe or event probe of the kernel, or any event of this
    /// crate. `ENOENT` also for events of user space (`user_events`), because these can disappear
    /// while they are held, and for events that users cannot enable. `EBUSY` if the event's module
    /// is being unloaded. Outside the kernel tree, also the errors of perf, and `ENOENT` instead of
    /// `EBUSY`.
    ///
    /// C: `find_and_get_event()`.
    pub fn get(system: &CStr, name: &CStr) -> Result<Self> {
        EventMutexHeld::check_not_current()?;
        let number = match IN_TREE {
            true => 0,
            false => number_of(system, name)?,
        };
        // SAFETY: Both arguments are NUL-terminated, because each is a `CStr`.
        let event = unsafe { ktrace_get_event(system.as_char_ptr(), name.as_char_ptr(), number) };
        // INVARIANT: `ktrace_get_event` has created the event for this value.
        Ok(Self(NonNull::new(from_err_ptr(event)?).ok_or(ENOENT)?))
    }

    fn call(&self) -> *mut trace_event_call {
        // SAFETY: By the type invariant, the event exists.
        unsafe { ktrace_call_of(self.0.as_ptr()) }
    }

    /// The minimum length of a record, in bytes.
    pub(super) fn len(&self) -> usize {
        // SAFETY: The call is that of a held event, so it and its fields exist.
        unsafe { ktrace_event_len(self.call()) }
    }

    /// Sets the handler, which is not attached yet. `ENOMEM`, and outside the kernel tree the
    /// errors of perf.
    ///
    /// # Safety
    ///
    /// The caller calls this once. `hit` may be called with `data`, and with a record of at least
    /// [`len`](Self::len) bytes, from [`attach`](Self::attach) until [`detach`](Self::detach) or
    /// [`end`](Self::end) returns.
    pub(super) unsafe fn set_handler(&self, hit: Callback, data: *mut c_void) -> Result {
        // SAFETY: By the type invariant, the event exists. The caller guarantees the rest.
        to_result(unsafe { ktrace_set_event_handler(self.0.as_ptr(), hit, data) })
    }

    /// Attaches the handler. `EBUSY` if it is attached already, and the errors of the kernel.
    ///
    /// # Safety
    ///
    /// The handler is set, and has not ended.
    pub(super) unsafe fn attach(&self, _: &EventMutexHeld) -> Result {
        // SAFETY: By the type invariant, the event exists. The token proves that `event_mutex` is
        // held. The caller guarantees the rest.
        to_result(unsafe { ktrace_attach_event_handler(self.0.as_ptr()) })
    }

    /// Detaches the handler, if it is attached, and waits until it does not run any more.
    ///
    /// # Safety
    ///
    /// The handler is set. The current task holds `event_mutex`.
    pub(super) unsafe fn detach(&self) {
        // SAFETY: By the type invariant, the event exists. The caller guarantees the rest.
        unsafe { ktrace_detach_event_handler(self.0.as_ptr()) };
    }

    /// The argument for [`end`](Self::end).
    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }

    /// Detaches the handler for good if it is attached, and waits until it does not run any more.
    ///
    /// # Safety
    ///
    /// `event` is the pointer of a live event whose handler is set, and the caller is the only one
    /// that ends it. The current task does not hold `event_mutex`.
    pub(super) unsafe fn end(event: *mut c_void) {
        // SAFETY: The caller guarantees that this is a live event with a handler.
        unsafe { ktrace_end_event_handler(event.cast()) };
    }

    /// The number of records for which the handler did not run. Any context.
    pub(super) fn missed(&self) -> u64 {
        // SAFETY: By the type invariant, the event exists.
        unsafe { ktrace_event_handler_missed(self.0.as_ptr()) as u64 }
    }
}

/// The number of an event, from its file `format`. `ENOENT` if there is no such event.
///
/// The kernel exports a function that finds an event by its name, but a caller of this function
/// cannot hold every event.
fn number_of(system: &CStr, name: &CStr) -> Result<c_uint> {
    /// The number is in the second line.
    const LEN: usize = 256;
    if ![system, name]
        .iter()
        .all(|name| is_valid_event_directory(name.to_bytes()))
    {
        return Err(ENOENT);
    }
    let (system, name) = (system.to_str()?, name.to_str()?);
    let path = CString::try_from_fmt(format_args!("events/{system}/{name}/format"))?;
    let file = File::open_in(c"tracefs", &path)?;
    let mut text = [0; LEN];
    // SAFETY: Such a file is a `seq_file`.
    let len = unsafe { file.read_seq(&mut text, &mut 0) }?;
    event_format::number(text.get(..len).unwrap_or(&[])).ok_or(ENOENT)
}

impl RecordFields for Event {
    fn find(&self, name: &str) -> Option<RecordField> {
        let mut field = EventField::default();
        // SAFETY: The call is that of a held event, so its fields exist, and they do not change.
        // The name has the length that is passed.
        let found =
            unsafe { ktrace_find_event_field(self.call(), name.as_ptr(), name.len(), &mut field) };
        if !found {
            return None;
        }
        let number = if field.is_signed {
            RecordValue::Signed
        } else {
            RecordValue::Number
        };
        Some(RecordField {
            offset: field.offset.try_into().ok()?,
            value: match field.size {
                _ if field.is_located => RecordValue::DataLoc,
                _ if field.is_located_from_here => RecordValue::RelLoc,
                _ if field.is_text => RecordValue::Text,
                1 => number(Width::W1),
                2 => number(Width::W2),
                4 => number(Width::W4),
                8 => number(Width::W8),
                _ => RecordValue::Address,
            },
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, only this drop puts the event. It is not used after this.
        unsafe { ktrace_put_event(self.0.as_ptr()) };
        // A task that holds the mutex cannot wait for the worker, which takes it.
        match EventMutexHeld::is_current() {
            true => ARE_PUT.store(true, Relaxed),
            false => wait_for_puts(),
        }
    }
}

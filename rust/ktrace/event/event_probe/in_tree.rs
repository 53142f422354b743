// SPDX-License-Identifier: GPL-2.0

//! A handler for the records of a trace event: see [`crate::event_probe`].

use core::{
    pin::Pin,
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_char,
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use probe::{
    argument::{
        RecordField,
        RecordValue, //
    },
    command::RecordFields,
    types::Width, //
};

use crate::{
    bindings,
    event::{
        event_probe::handler::Handler,
        mutex::{
            EventMutex,
            EventMutexHeld, //
        },
    },
    modules::leftover::{
        self,
        Entry,
        Kind, //
    },
};

use super::record::Record;

/// A held event. While this value lives, the event's module cannot be unloaded, and the event
/// cannot be removed.
///
/// # Invariants
///
/// `file` is the event's file in the top trace instance. This value owns a reference to the event.
#[derive(Debug)]
pub struct Event {
    file: NonNull<bindings::trace_event_file>,
}

// SAFETY: The file and its event belong to no task. Any task may read their fields, which do not
// change, and drop the reference.
unsafe impl Send for Event {}
// SAFETY: Methods that take `&self` read fields that do not change. Only `EventProbe` writes to the
// file, with `event_mutex` held.
unsafe impl Sync for Event {}

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

/// C: `struct ktrace_event_probe` in `rust/helpers/event_probe.c`.
#[repr(C)]
struct Trigger {
    _opaque: [u8; 0],
}

// Rust only passes on pointers to these kernel structures.
#[allow(improper_ctypes)]
extern "C" {
    fn ktrace_get_event(
        system: *const c_char,
        name: *const c_char,
    ) -> *mut bindings::trace_event_file;
    fn ktrace_put_event(file: *mut bindings::trace_event_file);
    fn ktrace_find_event_field(
        file: *const bindings::trace_event_file,
        name: *const u8,
        len: usize,
        found: *mut EventField,
    ) -> bool;
    fn ktrace_event_len(file: *const bindings::trace_event_file) -> usize;
    fn ktrace_new_event_probe(
        file: *mut bindings::trace_event_file,
        filter: *mut c_char,
        hit: unsafe extern "C" fn(*mut c_void, *const c_void),
        data: *mut c_void,
    ) -> *mut Trigger;
    fn ktrace_attach_event_probe(
        file: *mut bindings::trace_event_file,
        trigger: *mut Trigger,
    ) -> c_int;
    fn ktrace_take_back_event_probe(trigger: *mut Trigger);
    fn ktrace_event_probe_missed(trigger: *const Trigger) -> c_ulong;
    fn ktrace_free_event_probe(trigger: *mut Trigger);
}

impl Event {
    /// Finds an event by its group and its name, and holds the event.
    ///
    /// Process context; takes `event_mutex`. Fails if the event does not exist, or if the event is
    /// a probe itself: a kprobe, uprobe or event probe of the kernel, or any event of this crate.
    /// Also fails for events of user space (`user_events`), because these can disappear while they
    /// are held.
    ///
    /// C: `find_and_get_event()`.
    pub fn get(system: &CStr, name: &CStr) -> Result<Self> {
        EventMutexHeld::check_not_current()?;
        // SAFETY: Both arguments are NUL-terminated, because each is a `CStr`.
        let file = unsafe { ktrace_get_event(system.as_char_ptr(), name.as_char_ptr()) };
        // INVARIANT: `ktrace_get_event` took the reference.
        Ok(Self {
            file: NonNull::new(from_err_ptr(file)?).ok_or(ENOENT)?,
        })
    }
}

impl RecordFields for Event {
    fn find(&self, name: &str) -> Option<RecordField> {
        let mut field = EventField::default();
        // SAFETY: By the type invariant, the event exists. So its fields exist, and they do not
        // change. The name has the length that is passed.
        let found = unsafe {
            ktrace_find_event_field(self.file.as_ptr(), name.as_ptr(), name.len(), &mut field)
        };
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
                _ if field.is_text => RecordValue::Address,
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
        // SAFETY: By the type invariant, this value owns the reference. It is not used after this.
        unsafe { ktrace_put_event(self.file.as_ptr()) };
    }
}

/// The handler and the other data of the callback. C has a pointer to it, so it must not move.
#[pin_data]
struct CallbackData<H> {
    /// The minimum length of a record, in bytes.
    len: usize,
    #[pin]
    handler: H,
}

/// A handler that can be attached to an event. Dropping the value detaches the handler.
///
/// If the handler is attached, the drop takes `event_mutex` and waits for RCU. Process context.
///
/// # Invariants
///
/// C created `trigger` for the file of `event`, to call [`hit`] with `inner`. The trigger is on
/// that file if and only if `is_attached` is set. `is_attached` changes only with `event_mutex`
/// held. Only the task that claims `entry` ends the use of the trigger. If `leftover` has done
/// so, the trigger is off the file and is never freed.
pub struct EventProbe<H: Handler> {
    trigger: NonNull<Trigger>,
    is_attached: Atomic<bool>,
    inner: Pin<KBox<CallbackData<H>>>,
    /// The event, which is held while the trigger exists.
    event: Event,
    entry: Entry,
}

// SAFETY: C changes the trigger only with `event_mutex` held, and `H` is `Send`.
unsafe impl<H: Handler> Send for EventProbe<H> {}
// SAFETY: Methods that take `&self` change the trigger only with `event_mutex` held, and `H` is
// `Sync`.
unsafe impl<H: Handler> Sync for EventProbe<H> {}

impl<H: Handler> EventProbe<H> {
    /// Creates an event probe that is not attached. Process context.
    ///
    /// The kernel calls the handler for the records that pass the filter. The filter has the syntax
    /// of the event's `filter` file. `EINVAL` if the filter is wrong, with an entry in the kernel's
    /// `error_log`. `ENOMEM`.
    pub fn new<E>(
        event: Event,
        filter: Option<CString>,
        handler: impl PinInit<H, E>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        // SAFETY: By its type invariant, the event exists. Its fields do not change.
        let len = unsafe { ktrace_event_len(event.file.as_ptr()) };
        let inner = KBox::try_pin_init(
            try_pin_init!(CallbackData {
                len,
                handler <- handler,
            }? Error),
            GFP_KERNEL,
        )?;
        let filter = filter
            .as_ref()
            .map_or(ptr::null(), |filter| filter.as_char_ptr());
        // SAFETY: The event exists. C does not write to the filter, and keeps a copy. `hit` gets
        // this `inner`, which lives until the trigger is freed.
        let trigger = from_err_ptr(unsafe {
            ktrace_new_event_probe(
                event.file.as_ptr(),
                filter.cast_mut(),
                hit::<H>,
                ptr::from_ref(&*inner).cast_mut().cast(),
            )
        })?;
        // INVARIANT: `ktrace_new_event_probe` has just created the trigger.
        let this = Self {
            trigger: NonNull::new(trigger).ok_or(ENOMEM)?,
            is_attached: Atomic::new(false),
            inner,
            event,
            entry: Entry::none(),
        };
        let code = hit::<H> as *const () as usize;
        // SAFETY: `take_back` detaches the trigger and waits for handlers. The trigger is freed
        // only by a task with the claim.
        let claim = unsafe { leftover::track(Kind::Other, &[code], trigger.cast(), take_back) }?;
        this.entry.set(claim.keep());
        Ok(this)
    }

    /// Detaches the handler, if it is attached.
    ///
    /// # Safety
    ///
    /// The current task must hold `event_mutex`.
    unsafe fn detach_locked(&self) {
        if !self.is_attached.load(Relaxed) {
            return;
        }
        // SAFETY: By the type invariant, the trigger is on the event's file, or `take_back` has
        // detached it, which C notes in the trigger. The caller holds `event_mutex`.
        unsafe { ktrace_take_back_event_probe(self.trigger.as_ptr()) };
        // INVARIANT: The trigger was removed from the file. The caller holds `event_mutex`.
        self.is_attached.store(false, Relaxed);
    }

    /// Attaches the handler to the event. Process context. `EBUSY` if it is attached already, and
    /// the kernel's error if the kernel cannot create the event's records.
    pub fn attach(&self, _: &EventMutexHeld) -> Result {
        if self.is_attached.load(Relaxed) {
            return Err(EBUSY);
        }
        // SAFETY: By the type invariant, the event exists and the trigger is not on its file. The
        // token proves that `event_mutex` is held.
        to_result(unsafe {
            ktrace_attach_event_probe(self.event.file.as_ptr(), self.trigger.as_ptr())
        })?;
        // INVARIANT: C put the trigger on the file. The token proves that `event_mutex` is held.
        self.is_attached.store(true, Relaxed);
        Ok(())
    }

    /// Detaches the handler, if it is attached. The handler does not run any more when this
    /// function returns. Process context; waits for RCU.
    pub fn detach(&self, _: &EventMutexHeld) {
        // SAFETY: The token proves that `event_mutex` is held.
        unsafe { self.detach_locked() };
    }

    /// The number of records for which the handler did not run, because a handler was already
    /// running on that CPU. Any context.
    pub fn missed(&self) -> u64 {
        // SAFETY: By the type invariant, C created the trigger. Only the drop of `self` frees it.
        unsafe { ktrace_event_probe_missed(self.trigger.as_ptr()) as u64 }
    }

    /// The handler. Other CPUs may be running it. Any context.
    pub fn handler(&self) -> &H {
        &self.inner.handler
    }
}

impl<H: Handler> Drop for EventProbe<H> {
    fn drop(&mut self) {
        // Without the claim, `take_back` has detached the trigger and waited for handlers. It does
        // not use the other fields.
        let Some(_claim) = self.entry.claim() else {
            return;
        };
        if *self.is_attached.get_mut() && EventMutex::with(|token| self.detach(token)).is_err() {
            // SAFETY: In the kernel tree, `with` fails only if the current task holds the mutex. So
            // it is held here.
            unsafe { self.detach_locked() };
        }
        // SAFETY: The trigger is detached, and `detach_locked` has waited for handlers, so no code
        // uses it. The fields are dropped later.
        unsafe { ktrace_free_event_probe(self.trigger.as_ptr()) };
    }
}

/// Detaches a probe that its module left attached.
///
/// # Safety
///
/// `trigger` must be the trigger of an [`EventProbe`]. Only the caller may detach or free it.
unsafe fn take_back(trigger: *mut c_void) {
    // SAFETY: The caller guarantees that this is the trigger of a probe. The token proves that
    // `event_mutex` is held.
    let detach = |_: &EventMutex| unsafe { ktrace_take_back_event_probe(trigger.cast()) };
    // In the kernel tree, `with` fails only if the current task holds the mutex. The notifier for
    // unloaded modules does not hold it.
    let _ = EventMutex::with(detach);
}

/// C calls this function with a record.
///
/// # Safety
///
/// `data` must be the [`CallbackData`] of an [`EventProbe`] for `H`. `record` must be a record of
/// its event, with all fields written. Preemption must be disabled.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn hit<H: Handler>(data: *mut c_void, record: *const c_void) {
    // SAFETY: The caller passes the `CallbackData` of an attached `EventProbe`. The `EventProbe`
    // frees it only after it has detached the handler and waited for handlers.
    let inner = unsafe { &*data.cast::<CallbackData<H>>() };
    // SAFETY: The caller passes a record with all fields of the event, so the record has at least
    // `len` bytes. No code changes the record before this function returns.
    let bytes = unsafe { core::slice::from_raw_parts(record.cast(), inner.len) };
    // SAFETY: The caller guarantees that preemption is disabled until this function returns.
    inner.handler.hit(&unsafe { Record::new(bytes) });
}

// SPDX-License-Identifier: GPL-2.0

//! The part of an event that the kernel has pointers to, and the kernel's calls for the event.

use core::{
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    bindings::{
        atomic_t,
        list_head, //
    },
    error::{
        from_result,
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
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque, //
};

use crate::{
    bindings,
    event::{
        mutex::{
            EventMutex,
            EventMutexHeld, //
        },
        record::sink::Sink, //
    },
    modules::{
        leftover::Entry,
        owner, //
    },
    support::unsupported, //
};

use super::{
    enabling,
    field::Field,
    field_list::{
        self,
        FieldList, //
    },
    operations::Operations,
    output::{
        EventMemory,
        Output, //
    },
};

/// The part of an event that the kernel has pointers to. So it must not move.
///
/// # Invariants
///
/// The event is in the memory of its output, and an [`EventBox`] owns both. `sink` was borrowed
/// from `operations`. While the event is registered, its group gave it `fields`, a list for fields
/// that were borrowed from `operations`.
pub(super) struct PinnedEvent {
    pub(super) call: Opaque<bindings::trace_event_call>,
    pub(super) operations: Arc<dyn Operations>,
    pub(super) sink: NonNull<Sink>,
    /// NULL until the event is registered.
    pub(super) fields: Atomic<*mut FieldList>,
    pub(super) has_fields: Atomic<bool>,
    /// Whether the kernel sees an empty list of fields. Otherwise, it would free fields that other
    /// events share.
    pub(super) hides_fields: Atomic<bool>,
    /// Whether a callback of an event dropped the event, which stays until its module unloads.
    pub(super) is_dropped: Atomic<bool>,
    /// Only the task that claims the entry removes the event from the kernel.
    pub(super) entry: Entry,
}

const _: () = assert!(size_of::<PinnedEvent>() <= size_of::<EventMemory>());
const _: () = assert!(align_of::<PinnedEvent>() <= align_of::<EventMemory>());

/// Owns an event, and holds a reference to its output. The output's memory stays in place, so the
/// event does not move.
///
/// # Invariants
///
/// The memory of the output has an event. This value alone owns the event.
pub(super) struct EventBox(ARef<Output>);

impl EventBox {
    /// Puts an event into the memory of its output.
    ///
    /// # Safety
    ///
    /// The memory must not have an event, neither now nor later.
    pub(super) unsafe fn new(output: ARef<Output>, event: PinnedEvent) -> Self {
        // INVARIANT: The memory gets the event, and the caller guarantees that it is the only one.
        let this = Self(output);
        // SAFETY: The memory has the size and the alignment of an event, and no other code uses it.
        unsafe { this.event().write(event) };
        this
    }

    fn event(&self) -> *mut PinnedEvent {
        self.0.memory.as_ptr().cast()
    }

    /// Converts the box to a pointer to the output.
    pub(super) fn into_raw(self) -> NonNull<Output> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after this.
        ARef::into_raw(unsafe { ptr::read(&this.0) })
    }

    /// Converts a pointer to a box.
    ///
    /// # Safety
    ///
    /// The pointer must be from [`into_raw`](Self::into_raw). The caller must not use it again.
    pub(super) unsafe fn from_raw(output: NonNull<Output>) -> Self {
        // INVARIANT: The caller guarantees that the output was taken out of a box.
        // SAFETY: That box had a reference to the output.
        Self(unsafe { ARef::from_raw(output) })
    }
}

impl Deref for EventBox {
    type Target = PinnedEvent;

    fn deref(&self) -> &PinnedEvent {
        // SAFETY: By the type invariant, the memory has an event.
        unsafe { &*self.event() }
    }
}

impl Drop for EventBox {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the memory has an event, and this value owns it. The event
        // is not used after this.
        unsafe { ptr::drop_in_place(self.event()) };
    }
}

impl PinnedEvent {
    /// # Safety
    ///
    /// `call` must be the call of a live [`PinnedEvent`].
    pub(super) unsafe fn from_call<'a>(call: *mut bindings::trace_event_call) -> &'a Self {
        // SAFETY: The caller guarantees that the call is embedded in a live `PinnedEvent`.
        unsafe { &*kernel::container_of!(Opaque::cast_from(call), PinnedEvent, call) }
    }

    /// The event of an output, if the event is registered.
    ///
    /// The event stays registered until the caller releases `event_mutex`. A caller that uses the
    /// event after that takes a [reference](Self::references) before.
    pub(super) fn registered_of<'a>(output: &'a Output, _: &EventMutex) -> Option<&'a Self> {
        if !output.is_registered() {
            return None;
        }
        // SAFETY: The memory has an event while the event is registered. The flag changes only with
        // `event_mutex` held, and the token proves that it is held.
        Some(unsafe { &*output.memory.as_ptr().cast::<Self>() })
    }

    /// The output of the event. It has the group and the name, and prints records.
    pub(super) fn output(&self) -> &Output {
        let memory = ptr::from_ref(self).cast::<EventMemory>();
        // SAFETY: By the type invariant, the event is in the memory of its output, which lives as
        // long as the event.
        unsafe { &*kernel::container_of!(memory, Output, memory) }
    }

    /// The group and the name.
    pub(super) fn names(&self) -> (&CStr, &CStr) {
        (self.output().group().name(), self.output().name())
    }

    pub(super) fn sink(&self) -> &Sink {
        // SAFETY: By the type invariant, the sink is borrowed from the operations. They live as
        // long as `self`, and no code changes them.
        unsafe { self.sink.as_ref() }
    }

    /// The list of the fields. Present while the event is registered.
    fn field_list(&self) -> Option<&FieldList> {
        // SAFETY: By the type invariant, the list belongs to this event, so the list is live.
        unsafe { self.fields.load(Relaxed).as_ref() }
    }

    fn fields(&self) -> &[Field] {
        self.field_list().map_or(&[], FieldList::fields)
    }

    /// The head of the list of fields that the kernel sees.
    fn kernel_fields(&self) -> *mut list_head {
        let Some(list) = self.field_list() else {
            return field_list::no_fields();
        };
        if self.hides_fields.load(Relaxed) {
            return field_list::no_fields();
        }
        if list.is_defined() {
            // The kernel does not ask an event to define fields that another event has defined
            // already.
            self.has_fields.store(true, Relaxed);
        }
        list.head()
    }

    /// Gets a list of fields from the group. `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `fields` must be borrowed from `operations`.
    pub(super) unsafe fn take_fields(
        &self,
        token: &EventMutex,
        fields: NonNull<[Field]>,
    ) -> Result {
        let lists = self.output().group().field_lists();
        // SAFETY: The caller guarantees that the fields are borrowed from the operations. The
        // operations live as long as `self`, which returns the list before it is freed.
        let list = unsafe { lists.get(token, fields) }?;
        // INVARIANT: The group has just given the list to this event.
        self.fields.store(list.as_ptr(), Relaxed);
        self.output().set_fields(self.field_list());
        Ok(())
    }

    /// Returns the list of fields to the group. The kernel must have removed the event.
    pub(super) fn put_fields(&self, token: &EventMutex) {
        self.output().set_fields(None);
        // INVARIANT: The event is not registered.
        let list = self.fields.xchg(ptr::null_mut(), Relaxed);
        if let Some(list) = NonNull::new(list) {
            // SAFETY: `take_fields` got the list from this group. The kernel does not use the list
            // after it has removed the last event of the list. Until then, printing readers may use
            // the list.
            unsafe { self.output().group().field_lists().put(token, list) };
        }
    }

    pub(super) fn is_busy(&self, _: &EventMutexHeld) -> bool {
        // Only a task that holds `event_mutex` takes references, and the token proves that this
        // task holds it.
        self.references().load(Acquire) != 0 || self.sink().is_used()
    }

    /// The reference count of the event. C: `refcnt` in `struct trace_event_call`.
    pub(super) fn references(&self) -> &Atomic<i32> {
        // SAFETY: The projection stays within the allocation.
        let union = unsafe { &raw mut (*self.call.get()).__bindgen_anon_2 };
        // SAFETY: The event is dynamic, so the counter is the live field of the union. The kernel
        // changes the counter by atomic instructions.
        unsafe { Atomic::from_ptr(&raw mut (*union.cast::<atomic_t>()).counter) }
    }

    /// Removes the call from the kernel's events. `EBUSY` if the event is used. The caller must
    /// have the claim of `entry`, and must not call this function again after it has succeeded.
    pub(super) fn unregister(&self, token: &EventMutex) -> Result {
        if self.is_busy(token) {
            return Err(EBUSY);
        }
        self.sink().wait_for_handlers();
        let call = self.call.get();
        // The output owns the event number. The kernel does not free the number of an event without
        // functions. No handler records the event any more, so no code reads the functions.
        // SAFETY: The call is registered, and `event_mutex` is held.
        unsafe { (*call).event.funcs = ptr::null_mut() };
        // The kernel frees the fields that it sees, so shared fields are hidden first.
        let is_shared = self.field_list().is_some_and(FieldList::is_shared);
        self.hides_fields.store(is_shared, Relaxed);
        // Printing readers no longer get the fields. The kernel waits for current readers before it
        // frees the fields.
        self.output().set_fields(None);
        // SAFETY: The call is registered, and `event_mutex` is held.
        to_result(unsafe { bindings::trace_remove_event_call(call) }).inspect_err(|_| {
            self.output().set_fields(self.field_list());
            self.hides_fields.store(false, Relaxed);
            // SAFETY: The call is still registered, and `event_mutex` is held.
            unsafe { (*call).event.funcs = (&raw const ktrace_call_funcs).cast_mut() };
        })?;
        self.output().set_registered(false);
        self.put_fields(token);
        Ok(())
    }

    /// Takes a reference to the event's module, for a user of the event.
    fn get_owner(&self) -> Result {
        if enabling::is_current_task() {
            // The module itself enables the event. If its initialisation fails, it disables the
            // event, too.
            owner::get(self.output().group().owner())
        } else {
            owner::get_for_user(self.output().group().owner())
        }
    }

    fn first_use(&self, token: &EventMutexHeld) -> Result {
        if self.sink().is_singly_used() {
            self.operations.enable(token)
        } else {
            Ok(())
        }
    }

    fn last_use(&self, token: &EventMutexHeld) {
        if !self.sink().is_used() {
            self.operations.disable(token);
        }
    }

    /// Adds a user: a trace instance, which has a `file`, or perf, which has none.
    fn add(&self, token: &EventMutexHeld, file: *mut bindings::trace_event_file) -> Result {
        if file.is_null() && !self.operations.allows_perf() {
            return Err(unsupported());
        }
        self.get_owner()?;
        let added = if file.is_null() {
            self.sink().add_perf(self.call.get())
        } else {
            self.output().set_recorded();
            self.sink().add_file(file)
        };
        let enabled = added.and_then(|()| {
            self.first_use(token).inspect_err(|_| {
                self.sink().remove(file);
            })
        });
        if enabled.is_err() {
            // SAFETY: `get_owner` got the reference. The caller holds `event_mutex`. The module's
            // exit takes this mutex to remove this event, so this code stays loaded.
            unsafe { owner::put(self.output().group().owner()) };
        }
        enabled
    }

    /// Removes a user.
    fn remove(&self, token: &EventMutexHeld, file: *mut bindings::trace_event_file) {
        if self.sink().remove(file) {
            self.last_use(token);
            if !file.is_null() {
                // SAFETY: The kernel disables the event in this file, so the file is live. The
                // token proves that `event_mutex` is held.
                unsafe { ktrace_keep_trace(file) };
            }
            // SAFETY: `add` got the reference. The caller holds `event_mutex`. The module's exit
            // takes this mutex to remove this event, so this code stays loaded.
            unsafe { owner::put(self.output().group().owner()) };
        }
    }
}

// Rust only passes on pointers to these kernel structures.
#[allow(improper_ctypes)]
extern "C" {
    pub(super) static ktrace_call_funcs: bindings::trace_event_functions;
    fn ktrace_keep_trace(file: *mut bindings::trace_event_file);
    fn ktrace_set_array_len(fields: *mut list_head, name: *const c_char, size: c_int, len: c_int);
}

/// `class->reg`: a user starts or stops using an event.
///
/// # Safety
///
/// The kernel calls this function for a registered call. It holds `event_mutex` for the types
/// REGISTER and UNREGISTER. For the types without PERF in their names, `data` is a `struct
/// trace_event_file`.
#[no_mangle]
unsafe extern "C" fn ktrace_call_reg(
    call: *mut bindings::trace_event_call,
    ty: c_uint,
    data: *mut c_void,
) -> c_int {
    // SAFETY: The kernel calls this for a registered call, which is in a live `PinnedEvent`.
    let inner = unsafe { PinnedEvent::from_call(call) };
    let (is_added, file) = match ty {
        bindings::trace_reg_TRACE_REG_REGISTER => (true, data.cast()),
        bindings::trace_reg_TRACE_REG_PERF_REGISTER => (true, ptr::null_mut()),
        bindings::trace_reg_TRACE_REG_UNREGISTER => (false, data.cast()),
        bindings::trace_reg_TRACE_REG_PERF_UNREGISTER => (false, ptr::null_mut()),
        // The scheduler sends PERF_ADD and PERF_DEL. The result 0 selects perf's default action.
        _ => return 0,
    };
    // SAFETY: The kernel holds `event_mutex` for these two types of calls.
    let token = unsafe { EventMutexHeld::assume_held() };
    if is_added {
        let added = inner.add(&token, file);
        if added.is_err() && !file.is_null() {
            // SAFETY: The kernel enables the event in this file, so the file is live.
            unsafe { forget_recording(file, &token) };
        }
        from_result(|| added.map(|()| 0))
    } else {
        inner.remove(&token, file);
        0
    }
}

/// Clears the bits of a file that say that the kernel records names and thread groups of tasks for
/// this file. The event could not be enabled.
///
/// C's `__ftrace_event_enable_disable()` sets the bits before it calls `class->reg`. On an error,
/// it stops the recording, but does not clear the bits. When the event is disabled later, it would
/// stop a recording that it has not started. It does not read the bits when it handles the error.
///
/// # Safety
///
/// `file` must be live.
unsafe fn forget_recording(file: *mut bindings::trace_event_file, _: &EventMutexHeld) {
    for bit in [
        bindings::EVENT_FILE_FL_RECORDED_CMD_BIT,
        bindings::EVENT_FILE_FL_RECORDED_TGID_BIT,
    ] {
        // SAFETY: The caller guarantees a live file. The change is atomic. All code that changes
        // the flags other than by atomic instructions holds `event_mutex`, and the token proves
        // that this task holds it.
        unsafe { kernel::bindings::clear_bit(bit as c_ulong, &raw mut (*file).flags) };
    }
}

/// `class->get_fields`: the head of the list of the fields of an event.
///
/// # Safety
///
/// The kernel calls this function for a call that is registered, or is being registered or removed.
#[no_mangle]
unsafe extern "C" fn ktrace_call_get_fields(
    call: *mut bindings::trace_event_call,
) -> *mut list_head {
    // SAFETY: The kernel calls this for a call of this crate's classes, which is the call of a live
    // `PinnedEvent`.
    unsafe { PinnedEvent::from_call(call) }.kernel_fields()
}

/// `define_fields`: reports the fields of an event to the kernel.
///
/// # Safety
///
/// The kernel calls this function for a call that is being registered, with `event_mutex` held.
#[no_mangle]
unsafe extern "C" fn ktrace_call_define_fields(call: *mut bindings::trace_event_call) -> c_int {
    // SAFETY: The kernel calls this for a call that is being registered, which is the call of a
    // live `PinnedEvent`.
    let inner = unsafe { PinnedEvent::from_call(call) };
    from_result(|| {
        let list = inner.field_list().ok_or(EINVAL)?;
        for field in list.fields() {
            let (name, size) = (field.name().as_char_ptr(), field.size().try_into()?);
            // SAFETY: The kernel keeps pointers to the two strings. Each event that uses the list
            // has borrowed the strings.
            to_result(unsafe {
                bindings::trace_define_field(
                    call,
                    field.ty().as_char_ptr(),
                    name,
                    field.offset().try_into()?,
                    size,
                    field.is_signed().into(),
                    bindings::FILTER_OTHER as c_int,
                )
            })?;
            if let Some(len) = field.array_len() {
                // SAFETY: The kernel has just added the field to this list. It holds `event_mutex`.
                unsafe { ktrace_set_array_len(list.head(), name, size, len) };
            }
        }
        list.set_defined();
        inner.has_fields.store(true, Relaxed);
        Ok(0)
    })
}

/// Prints a record for `tp_printk`.
///
/// # Safety
///
/// `event` must belong to a registered call of this file. `record` must be a record of this event,
/// of any length. `seq` must be valid and unshared.
#[no_mangle]
unsafe extern "C" fn ktrace_call_print(
    event: *mut bindings::trace_event,
    seq: *mut bindings::trace_seq,
    record: *const u8,
    _len: c_int,
    addresses: bool,
) {
    // SAFETY: The caller guarantees that `event` is embedded in a call.
    let call = unsafe { kernel::container_of!(event, bindings::trace_event_call, event) };
    // SAFETY: The kernel calls this for a registered call, which is in a live `PinnedEvent`.
    let inner = unsafe { PinnedEvent::from_call(call) };
    // SAFETY: `Sink::record` guarantees that a record is at least as long as its fields.
    let fixed = unsafe { core::slice::from_raw_parts(record, inner.sink().fixed_len()) };
    let fields = inner.fields().iter();
    let len = fields
        .filter_map(|field| field.end_of_located(fixed))
        .fold(fixed.len(), usize::max);
    // SAFETY: The creator of the field has promised that the data that the field locates is within
    // the record.
    let record = unsafe { core::slice::from_raw_parts(record, len) };
    // SAFETY: The kernel guarantees that the sequence is valid and unshared. The event has a
    // reference to the output.
    unsafe { inner.output().print(seq, record, addresses) };
}

// SPDX-License-Identifier: GPL-2.0

//! Trace events that a module adds and removes at run time.
//!
//! A [`TraceEvent`] is a directory under `events/` in tracefs, with its `enable`, `filter`,
//! `trigger`, `format` and `hist`. A handler passes its records to the event's [`Sink`], which
//! delivers them to each user that enabled the event. An [`Output`] prints the records, even after
//! the event is removed.
//!
//! Most modules need only the macro [`trace_event!`](crate::trace_event!).
//!
//! C header: [`include/linux/trace_events.h`](srctree/include/linux/trace_events.h)

use core::{
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    pin::Pin,
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicBool,
        AtomicI32,
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings::{
        atomic_t,
        list_head,
        task_struct, //
    },
    error::{
        from_err_ptr,
        from_result,
        to_result, //
    },
    ffi::{
        c_char,
        c_int,
        c_uint,
        c_void, //
    },
    prelude::*,
    str::{
        CStr,
        CString, //
    },
    sync::{
        aref::ARef,
        Arc, //
    },
    types::Opaque, //
};

use crate::{
    bindings,
    file,
    leftover,
    owner, //
};

mod definition;
mod event_mutex;
mod field;
mod field_list;
mod group;
mod here;
pub(crate) mod origin;
mod output;
mod record_type;
mod removal;
mod sink;

use field_list::FieldList;

pub use definition::Switch;
pub use event_mutex::{
    EventMutex,
    EventMutexHeld, //
};
pub use field::{
    CowCStr,
    Field, //
};
pub use group::Group;
pub use origin::{
    Origin,
    State, //
};
pub use output::{
    Output,
    Print,
    TraceSeq, //
};
pub use record_type::{
    Comm,
    RecordType, //
};
pub use removal::empty_traces;
pub use sink::{
    Fill,
    Sink,
    HEADER_LEN,
    MAX_LEN, //
};

/// Implementation details of [`trace_event!`](crate::trace_event!).
#[doc(hidden)]
pub mod private {
    pub use super::{
        definition::{
            check,
            event_name,
            field_name,
            place,
            record,
            record_at,
            register,
            Event,
            Key,
            Names,
            StaticEvent, //
        },
        record_type::{
            Column,
            Fields,
            Hex,
            Kind,
            Plain,
            Strings,
            Symbol,
            Value, //
        },
    };
}

/// The parts of an event, and the callbacks for its first and its last user.
///
/// `TraceEvent::register` calls each of the first three functions once.
pub trait Operations: Send + Sync + 'static {
    /// The sink that takes the event's records. No other event uses this sink.
    fn sink(&self) -> &Sink;

    /// The fields that follow the header of a record.
    fn fields(&self) -> &[Field];

    /// The format by which user space prints a record: the last line of `format`.
    fn print_fmt(&self) -> &CStr;

    /// Called for the first user. If the function fails, it leaves nothing enabled. Process
    /// context, with `event_mutex` held.
    fn enable(&self, token: &EventMutexHeld) -> Result;

    /// Called after the last user. Handlers may still be running. Process context, with
    /// `event_mutex` held.
    fn disable(&self, token: &EventMutexHeld);
}

/// Initializes trace events, when the module that holds this crate loads.
///
/// # Errors
///
/// `ENOMEM`, and the kernel's error if it cannot add the control event.
///
/// # Safety
///
/// The caller calls this function once, before anything else of this module is used, and after
/// [`crate::tree::init`].
pub(crate) unsafe fn init() -> Result {
    // SAFETY: The caller calls this once, before any other use.
    unsafe {
        ENABLING.init();
        output::init();
    }
    removal::init()
}

/// Ends trace events: when the module unloads, and when its initialisation fails after [`init`]. No
/// event and no output of the module may exist.
pub(crate) fn exit() {
    removal::exit();
}

/// The parts of an event.
pub struct Definition {
    /// The directory below `events/`.
    pub group: Arc<Group>,
    /// The directory of the event in the group's directory.
    pub name: CString,
    /// The fields, the sink and the callbacks.
    pub operations: Arc<dyn Operations>,
    /// The printer of its records.
    pub print: Arc<dyn Print>,
}

/// The `struct tracepoint` of an event, which BPF programs can attach to. The kernel reads only the
/// name, so this type omits the other fields, which take 64 bytes. C: `alloc_synth_tracepoint()`.
struct Tracepoint {
    _name: *const c_char,
}

/// The part of an event that the kernel has pointers to, so it must not move. It takes at most
/// 192 bytes, which is a size class of the allocator.
///
/// # Invariants
///
/// `sink` was borrowed from `operations`. While the event is registered, its group gave it
/// `fields`, a list for fields that were borrowed from `operations`.
#[repr(C)]
struct PinnedEvent {
    tracepoint: Tracepoint,
    call: Opaque<bindings::trace_event_call>,
    operations: Arc<dyn Operations>,
    sink: NonNull<Sink>,
    /// NULL until the event is registered.
    fields: AtomicPtr<FieldList>,
    /// Holds the group and the name, and prints records.
    output: ARef<Output>,
    /// The next event in the list of events to remove.
    next: *mut PinnedEvent,
    has_fields: AtomicBool,
    /// Whether the kernel sees an empty list of fields. Otherwise, it would free fields that other
    /// events share.
    hides_fields: AtomicBool,
    /// Whether the event was dropped, but could not be removed immediately.
    is_dropped: AtomicBool,
}

/// A registered event. Dropping the event removes it.
///
/// Dropping disables the event in the top trace instance, and then waits until the event has no
/// user: other instances may have enabled the event, it may have triggers, and perf may have opened
/// it. The drop logs the wait. Process context; sleeps. A task that holds `event_mutex` cannot
/// wait. If the closure of [`EventMutex::with`] drops an event, the event is removed when `with`
/// releases the mutex. If a callback of an event drops an event, the event stays until its module
/// unloads.
///
/// Dropping disables the event by its name. This also disables another event of this name.
///
/// # Examples
///
/// An event with a field, and a handler that records it:
///
/// ```
/// # use kernel::prelude::*;
/// use kernel::{
///     str::CString,
///     sync::Arc, //
/// };
/// use ktrace::{
///     kprobe::{
///         Handler,
///         Hit, //
///     },
///     trace_event::{
///         Definition,
///         EventMutex,
///         EventMutexHeld,
///         Field,
///         Group,
///         Operations,
///         Print,
///         Sink,
///         TraceEvent,
///         HEADER_LEN, //
///     },
/// };
///
/// static FIELDS: [Field; 1] = [Field::code(c"first", 0)];
///
/// struct Event {
///     sink: Sink,
/// }
///
/// impl Operations for Event {
///     fn sink(&self) -> &Sink {
///         &self.sink
///     }
///
///     fn fields(&self) -> &[Field] {
///         &FIELDS
///     }
///
///     fn print_fmt(&self) -> &CStr {
///         c"\"first=%lx\", REC->first"
///     }
///
///     fn enable(&self, _: &EventMutexHeld) -> Result {
///         Ok(())
///     }
///
///     fn disable(&self, _: &EventMutexHeld) {}
/// }
///
/// struct Record(Arc<Event>);
///
/// #[vtable]
/// impl Handler for Record {
///     fn pre(&self, hit: &Hit<'_>) {
///         let first = hit.registers().arg::<u64>(0);
///         self.0.sink.record(hit, HEADER_LEN + size_of::<u64>(), |record| {
///             if let Some(to) = record.first_chunk_mut() {
///                 *to = first.to_ne_bytes();
///             }
///         });
///     }
/// }
///
/// fn register(
///     module: &'static ThisModule,
///     operations: Arc<Event>,
///     print: Arc<dyn Print>,
/// ) -> Result<TraceEvent> {
///     let definition = Definition {
///         group: Group::new(c"mine", module)?,
///         name: CString::try_from(c"call")?,
///         operations,
///         print,
///     };
///     EventMutex::with(|token| TraceEvent::register(token, definition))?
/// }
/// ```
///
/// # Invariants
///
/// The call in `inner` was added to the kernel's events, and `PinnedEvent::unregister` has not
/// succeeded since then.
pub struct TraceEvent {
    inner: ManuallyDrop<Pin<KBox<PinnedEvent>>>,
}

// SAFETY: The kernel changes the call under its own locks. All other fields are `Send` and `Sync`.
unsafe impl Send for TraceEvent {}
// SAFETY: The kernel changes the call under its own locks. All other fields are `Send` and `Sync`.
unsafe impl Sync for TraceEvent {}

/// Whether an event of this name exists, of any owner. Looks for the event's directory in tracefs.
///
/// Returns true for every name in the group `ftrace`, and for the control event of this crate,
/// because the kernel does not report a conflict with these events.
///
/// This function does not use `trace_get_event_file()`, because the kernel removes its event probes
/// even while a caller holds their file.
///
/// Process context; sleeps. `EDEADLK` with `event_mutex` held, `ENOMEM`. The function may miss an
/// event that is added concurrently. Two events of one name are distinct, but the files of one
/// event hide those of the other.
pub fn exists(group: &CStr, name: &CStr) -> Result<bool> {
    EventMutexHeld::check_not_current()?;
    // SAFETY: The C variable is a string, which lives as long as this crate.
    let control = unsafe { CStr::from_char_ptr(&raw const ktrace_control_system) };
    if group == c"ftrace" || (group == control && name == c"control") {
        return Ok(true);
    }
    is_in_events(group, name)
}

/// Whether tracefs has a directory for this event.
fn is_in_events(group: &CStr, name: &CStr) -> Result<bool> {
    let (group, name) = (group.to_str()?, name.to_str()?);
    file::is_in_tracefs(&CString::try_from_fmt(format_args!(
        "events/{group}/{name}"
    ))?)
}

/// Keeps an event registered for as long as this value lives. The event counts as used.
///
/// # Invariants
///
/// This value owns one reference to the event.
pub struct HeldEvent(NonNull<PinnedEvent>);

impl HeldEvent {
    /// Whether the event has a directory in tracefs. While the kernel boots, no event has a
    /// directory yet, and the function returns true.
    ///
    /// If memory is short, the kernel can add an event without a directory.
    /// [`TraceEvent::register`] does not detect this, because since Linux 7.3 the kernel creates
    /// the directory last. A caller that needs the directory calls this function after the
    /// registration.
    ///
    /// Process context; sleeps. `EDEADLK` with `event_mutex` held, `ENOMEM` while the kernel boots.
    /// C: `event_create_dir()`.
    pub fn has_directory(&self) -> Result<bool> {
        EventMutexHeld::check_not_current()?;
        // SAFETY: The event is registered by the type invariant, so it is live.
        let (group, name) = unsafe { self.0.as_ref() }.names();
        // In these groups, user space can create an event of the same name. The kernel can remove
        // such an event while its file is held, so `trace_get_event_file()` proves nothing.
        if group.to_bytes().starts_with(b"user_events") {
            return is_in_events(group, name);
        }
        // The kernel finds the newest event of a name. It refuses a probe event whose name is in
        // use, and this event is registered. So the kernel finds the file of this event, and the
        // file stays valid.
        // SAFETY: Both arguments are strings. NULL is the top trace instance.
        let file = from_err_ptr(unsafe {
            bindings::trace_get_event_file(ptr::null(), group.as_char_ptr(), name.as_char_ptr())
        })?;
        // SAFETY: The file is valid until it is put.
        let has_directory = unsafe { !(*file).ei.is_null() };
        // SAFETY: This releases the reference that `trace_get_event_file()` returned.
        unsafe { bindings::trace_put_event_file(file) };
        Ok(has_directory || !file::is_in_tracefs(c"events/enable")?)
    }
}

impl Drop for HeldEvent {
    fn drop(&mut self) {
        // SAFETY: The event is live by the type invariant. This value does not use the event
        // afterwards.
        let references = unsafe { self.0.as_ref() }.references();
        references.fetch_sub(1, Ordering::Release);
    }
}

kernel::sync::global_lock! {
    // Held while this crate enables or disables an event. Lock order: `ENABLING`, then
    // `event_mutex`.
    // SAFETY: `init` initialises the mutex before any event is registered.
    unsafe(uninit) static ENABLING: Mutex<()> = ();
}

/// The task that holds `ENABLING`, or NULL.
static ENABLER: AtomicPtr<task_struct> = AtomicPtr::new(ptr::null_mut());

/// Enables an event in the top trace instance, as `echo 1 >events/GROUP/NAME/enable` does.
///
/// While the module of the event is being initialised, no other way enables the event.
///
/// Process context; takes `event_mutex`. `EDEADLK` with `event_mutex` held, `EINVAL` if no event
/// has this name, and the error of [`Operations::enable`]. C: `trace_set_clr_event()`.
pub fn enable(group: &CStr, name: &CStr) -> Result {
    set_enabled(group, name, 1)
}

/// Disables an event in the top trace instance. Context and errors are those of [`enable`].
pub fn disable(group: &CStr, name: &CStr) -> Result {
    set_enabled(group, name, 0)
}

fn set_enabled(group: &CStr, name: &CStr, set: c_int) -> Result {
    EventMutexHeld::check_not_current()?;
    let _enabling = ENABLING.lock();
    ENABLER.store(event_mutex::current(), Ordering::Relaxed);
    // SAFETY: Both arguments are strings.
    let result = to_result(unsafe {
        bindings::trace_set_clr_event(group.as_char_ptr(), name.as_char_ptr(), set)
    });
    ENABLER.store(ptr::null_mut(), Ordering::Relaxed);
    result
}

impl TraceEvent {
    /// Adds an event, which then appears in every trace instance, disabled. C:
    /// `trace_add_event_call()`.
    ///
    /// The kernel accepts two events of one name. The caller uses [`exists`] to avoid this. While a
    /// user has the event enabled, the event holds a reference to the group's module. Until that
    /// module is initialised, only [`enable`] can enable the event. `EBUSY` if another event uses
    /// the sink, `ENODEV` if the kernel has no free event number, `ENOMEM`. Process context.
    pub fn register(token: &EventMutex, definition: Definition) -> Result<Self> {
        let Definition {
            group,
            name,
            operations,
            print,
        } = definition;
        let class = group.class();
        let output = Output::new(group, &name, print)?;
        let (sink, fields) = (operations.sink(), operations.fields());
        let fixed_len = fields.iter().map(Field::end).fold(HEADER_LEN, usize::max);
        sink.set_event(output.number(), fixed_len.try_into()?)?;
        let print_fmt = operations.print_fmt().as_char_ptr();
        let (sink, fields) = (NonNull::from(sink), NonNull::from(fields));
        // INVARIANT: The sink was borrowed from `operations` above.
        let inner = KBox::pin(
            PinnedEvent {
                tracepoint: Tracepoint {
                    _name: output.name().as_char_ptr(),
                },
                // SAFETY: All-zero is a valid `struct trace_event_call`.
                call: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                operations,
                sink,
                fields: AtomicPtr::new(ptr::null_mut()),
                output,
                next: ptr::null_mut(),
                has_fields: AtomicBool::new(false),
                hides_fields: AtomicBool::new(false),
                is_dropped: AtomicBool::new(false),
            },
            GFP_KERNEL,
        )?;
        let call = inner.call.get();
        // DYNAMIC: the kernel counts references to the event. EPROBE: no event probe may attach to
        // the event, just as none may attach to the kernel's own kprobe events. TRACEPOINT: BPF
        // programs may attach to the event.
        const FLAGS: c_uint = bindings::TRACE_EVENT_FL_DYNAMIC
            | bindings::TRACE_EVENT_FL_EPROBE
            | bindings::TRACE_EVENT_FL_TRACEPOINT;
        // SAFETY: No other code has the call yet. Its pointers point into the operations or into
        // the output, which live as long as `inner`, or to data that lives as long as the module.
        unsafe {
            (*call).class = class;
            (*call).__bindgen_anon_1.tp = (&raw const inner.tracepoint).cast_mut().cast();
            (*call).print_fmt = print_fmt.cast_mut();
            (*call).event.type_ = inner.output.number().into();
            (*call).event.funcs = (&raw const ktrace_call_funcs).cast_mut();
            (*call).flags = FLAGS as c_int;
        }
        let vtable = owner::vtable_of(&*inner.operations);
        // SAFETY: `take_back` removes the event, and waits for its callbacks and for handlers. The
        // event is freed only after `untrack`.
        unsafe { leftover::track(vtable, call.cast(), removal::take_back) }?;
        // SAFETY: The fields were borrowed from the operations, which live as long as `inner`.
        unsafe { inner.take_fields(token, fields) }
            .inspect_err(|_| leftover::untrack(call.cast()))?;
        // SAFETY: The token proves that `event_mutex` is held. The call stays in place until it is
        // removed.
        to_result(unsafe { bindings::trace_add_event_call(call) }).inspect_err(|_| {
            inner.put_fields(token);
            leftover::untrack(call.cast());
        })?;
        let has_fields = inner.has_fields.load(Ordering::Relaxed);
        // INVARIANT: `trace_add_event_call` has just added the call.
        let event = Self {
            inner: ManuallyDrop::new(inner),
        };
        if !has_fields {
            // The kernel does not report that it failed to create the directory or the fields.
            return match event.try_remove(token) {
                Ok(()) => Err(ENOMEM),
                Err((_, error)) => Err(error),
            };
        }
        Ok(event)
    }

    /// The group and the name.
    pub fn names(&self) -> (&CStr, &CStr) {
        self.inner.names()
    }

    /// The group. Other events can share it.
    pub fn group(&self) -> &Arc<Group> {
        self.inner.output.group()
    }

    /// The output of the event's records. While a reference to the output exists, the kernel can
    /// print the records of the removed event.
    pub fn output(&self) -> ARef<Output> {
        self.inner.output.clone()
    }

    /// Whether a trace instance has enabled the event, perf has opened it, or other kernel code
    /// holds it.
    pub fn is_busy(&self, token: &EventMutexHeld) -> bool {
        self.inner.is_busy(token)
    }

    /// Keeps the event registered.
    pub fn hold(&self, _: &EventMutexHeld) -> HeldEvent {
        let references = self.inner.references();
        references.fetch_add(1, Ordering::Relaxed);
        // INVARIANT: This function has just taken the reference. An event that has references is
        // never removed: `unregister` checks for references with `event_mutex` held, and it is held
        // here.
        HeldEvent(NonNull::from(&**self.inner))
    }

    /// Removes the event, unless the event has a user. C: `trace_remove_event_call()`.
    ///
    /// Waits for an RCU grace period, for the handlers that still pass records to the sink, if none
    /// has passed since the last user left. Returns the event with `EBUSY` if
    /// [`is_busy`](Self::is_busy) holds.
    pub fn try_remove(self, token: &EventMutex) -> Result<(), (Self, Error)> {
        match self.inner.unregister(token) {
            Ok(()) => {
                drop(self.into_inner());
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }

    fn into_inner(self) -> Pin<KBox<PinnedEvent>> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after this.
        unsafe { ManuallyDrop::take(&mut this.inner) }
    }
}

impl Drop for TraceEvent {
    fn drop(&mut self) {
        // SAFETY: `self` is not used after this.
        removal::remove(unsafe { ManuallyDrop::take(&mut self.inner) });
    }
}

impl PinnedEvent {
    /// # Safety
    ///
    /// `call` must be the call of a live [`PinnedEvent`].
    unsafe fn from_call<'a>(call: *mut bindings::trace_event_call) -> &'a Self {
        // SAFETY: The caller guarantees that the call is embedded in a live `PinnedEvent`.
        unsafe { &*kernel::container_of!(Opaque::cast_from(call), PinnedEvent, call) }
    }

    /// The group and the name.
    fn names(&self) -> (&CStr, &CStr) {
        (self.output.group().name(), self.output.name())
    }

    fn sink(&self) -> &Sink {
        // SAFETY: By the type invariant, the sink is borrowed from the operations. They live as
        // long as `self`, and no code changes them.
        unsafe { self.sink.as_ref() }
    }

    /// The list of the fields. Present while the event is registered.
    fn field_list(&self) -> Option<&FieldList> {
        // SAFETY: By the type invariant, the list belongs to this event, so the list is live.
        unsafe { self.fields.load(Ordering::Relaxed).as_ref() }
    }

    fn fields(&self) -> &[Field] {
        self.field_list().map_or(&[], FieldList::fields)
    }

    /// The head of the list of fields that the kernel sees.
    fn kernel_fields(&self) -> *mut list_head {
        let Some(list) = self.field_list() else {
            return field_list::no_fields();
        };
        if self.hides_fields.load(Ordering::Relaxed) {
            return field_list::no_fields();
        }
        if list.is_defined() {
            // The kernel does not ask an event to define fields that another event has defined
            // already.
            self.has_fields.store(true, Ordering::Relaxed);
        }
        list.head()
    }

    /// Gets a list of fields from the group. `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `fields` must be borrowed from `operations`.
    unsafe fn take_fields(&self, token: &EventMutex, fields: NonNull<[Field]>) -> Result {
        let lists = self.output.group().field_lists();
        // SAFETY: The caller guarantees that the fields are borrowed from the operations. The
        // operations live as long as `self`, which returns the list before it is freed.
        let list = unsafe { lists.get(token, fields) }?;
        // INVARIANT: The group has just given the list to this event.
        self.fields.store(list.as_ptr(), Ordering::Relaxed);
        self.output.set_fields(self.field_list());
        Ok(())
    }

    /// Returns the list of fields to the group. The kernel must have removed the event.
    fn put_fields(&self, token: &EventMutex) {
        self.output.set_fields(None);
        // INVARIANT: The event is not registered.
        let list = self.fields.swap(ptr::null_mut(), Ordering::Relaxed);
        if let Some(list) = NonNull::new(list) {
            // SAFETY: `take_fields` got the list from this group. The kernel does not use the list
            // after it has removed the last event of the list. Until then, printing readers may use
            // the list.
            unsafe { self.output.group().field_lists().put(token, list) };
        }
    }

    fn is_busy(&self, _: &EventMutexHeld) -> bool {
        // Only a task that holds `event_mutex` takes references, and the token proves that this
        // task holds it.
        self.references().load(Ordering::Acquire) != 0 || self.sink().is_used()
    }

    /// The reference count of the event. C: `refcnt` in `struct trace_event_call`.
    fn references(&self) -> &AtomicI32 {
        // SAFETY: The projection stays within the allocation.
        let union = unsafe { &raw mut (*self.call.get()).__bindgen_anon_2 };
        // SAFETY: The event is dynamic, so the counter is the live field of the union. The kernel
        // changes the counter by atomic instructions.
        unsafe { AtomicI32::from_ptr(&raw mut (*union.cast::<atomic_t>()).counter) }
    }

    /// Removes the call from the kernel's events. `EBUSY` if the event is used. The caller must not
    /// call this function again after it has succeeded.
    fn unregister(&self, token: &EventMutex) -> Result {
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
        self.hides_fields.store(is_shared, Ordering::Relaxed);
        // Printing readers no longer get the fields. The kernel waits for current readers before it
        // frees the fields.
        self.output.set_fields(None);
        // SAFETY: The call is registered, and `event_mutex` is held.
        to_result(unsafe { bindings::trace_remove_event_call(call) }).inspect_err(|_| {
            self.output.set_fields(self.field_list());
            self.hides_fields.store(false, Ordering::Relaxed);
            // SAFETY: The call is still registered, and `event_mutex` is held.
            unsafe { (*call).event.funcs = (&raw const ktrace_call_funcs).cast_mut() };
        })?;
        self.put_fields(token);
        leftover::untrack(call.cast());
        Ok(())
    }

    /// Takes a reference to the event's module, for a user of the event.
    fn get_owner(&self) -> Result {
        if ENABLER.load(Ordering::Relaxed) == event_mutex::current() {
            // The module itself enables the event. If its initialisation fails, it disables the
            // event, too.
            owner::get(self.output.group().owner())
        } else {
            owner::get_for_user(self.output.group().owner())
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
        self.get_owner()?;
        let added = if file.is_null() {
            self.sink().add_perf(self.call.get())
        } else {
            self.output.set_recorded();
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
            unsafe { owner::put(self.output.group().owner()) };
        }
        enabled
    }

    /// Removes a user.
    fn remove(&self, token: &EventMutexHeld, file: *mut bindings::trace_event_file) {
        if self.sink().remove(file) {
            self.last_use(token);
            if !file.is_null() {
                // SAFETY: The kernel disables the event in this file, so the file is live.
                unsafe { removal::keep_trace(token, file) };
            }
            // SAFETY: `add` got the reference. The caller holds `event_mutex`. The module's exit
            // takes this mutex to remove this event, so this code stays loaded.
            unsafe { owner::put(self.output.group().owner()) };
        }
    }
}

extern "C" {
    static ktrace_control_system: c_char;
    static ktrace_call_funcs: bindings::trace_event_functions;
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
        from_result(|| inner.add(&token, file).map(|()| 0))
    } else {
        inner.remove(&token, file);
        0
    }
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
        inner.has_fields.store(true, Ordering::Relaxed);
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
    unsafe { inner.output.print(seq, record, addresses) };
}

// SPDX-License-Identifier: GPL-2.0

//! Trace events that come and go at run time.
//!
//! A [`TraceEvent`] is a directory under `events/` in tracefs, with its `enable`, `filter`,
//! `trigger`, `format` and `hist`. What is switched on there ends in its [`Sink`], which a handler
//! gives its records to. An [`Output`] prints them, also when the event is gone.
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

/// For [`trace_event!`](crate::trace_event!) alone.
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

/// The parts of an event, and what its first user switches on.
///
/// `TraceEvent::register` calls each of the first three functions once.
pub trait Operations: Send + Sync + 'static {
    /// The sink that takes the event's records. No other event has it.
    fn sink(&self) -> &Sink;

    /// The fields that follow the header of a record.
    fn fields(&self) -> &[Field];

    /// How user space prints a record: the last line of `format`.
    fn print_fmt(&self) -> &CStr;

    /// The first user came. Process context, with `event_mutex` held. Where it fails nothing may be
    /// left on.
    fn enable(&self, token: &EventMutexHeld) -> Result;

    /// The last user went. Handlers that run already may still be running. Process context, with
    /// `event_mutex` held.
    fn disable(&self, token: &EventMutexHeld);
}

/// To be called when the module that holds this crate is loaded.
///
/// # Errors
///
/// `ENOMEM`, and what the kernel says if it cannot add the control event.
///
/// # Safety
///
/// Once, before anything else here is used, and after [`crate::tree::init`].
pub(crate) unsafe fn init() -> Result {
    // SAFETY: The caller calls this once, before any other use.
    unsafe {
        ENABLING.init();
        output::init();
    }
    removal::init()
}

/// To be called when that module is unloaded, and when its initialisation fails after
/// [`init`]. No event and no output of it may be left.
pub(crate) fn exit() {
    removal::exit();
}

/// The parts of an event.
pub struct Definition {
    /// The directory below `events/`.
    pub group: Arc<Group>,
    /// The directory of the event in it.
    pub name: CString,
    /// Its parts, and what it switches on.
    pub operations: Arc<dyn Operations>,
    /// The printer of its records.
    pub print: Arc<dyn Print>,
}

/// The `struct tracepoint` of an event, for which BPF programs can ask. The kernel reads the name
/// alone, so the other fields are left out: they take 64 bytes. C: `alloc_synth_tracepoint()`.
struct Tracepoint {
    _name: *const c_char,
}

/// The part of an event that the kernel knows: it must not move. It takes at most 192 bytes, which
/// is one of the allocator's sizes.
///
/// # Invariants
///
/// `sink` was borrowed from `operations`. While the event is registered, `fields` is a list that
/// its group gave it, for fields that were borrowed from `operations`.
#[repr(C)]
struct PinnedEvent {
    tracepoint: Tracepoint,
    call: Opaque<bindings::trace_event_call>,
    operations: Arc<dyn Operations>,
    sink: NonNull<Sink>,
    /// NULL until the event is registered.
    fields: AtomicPtr<FieldList>,
    /// Has the group and the name, and prints.
    output: ARef<Output>,
    /// The next in the list of events that are to be removed.
    next: *mut PinnedEvent,
    has_fields: AtomicBool,
    /// Whether the kernel sees no fields, because it would free those of other events.
    hides_fields: AtomicBool,
    /// Whether the event was dropped and could not be removed at once.
    is_dropped: AtomicBool,
}

/// A registered event: removed when dropped.
///
/// Dropping disables the event in the top trace instance, and then waits until nobody uses it: it
/// may be enabled in other instances, have triggers, or be open by perf. The kernel's log says so.
/// Process context; sleeps. A task that holds `event_mutex` cannot wait for that: an event that is
/// dropped in the closure of [`EventMutex::with`] is removed when this releases the mutex, and one
/// that is dropped in a callback of an event stays until its module goes.
///
/// Two events of one name are disabled together, by the name.
///
/// # Examples
///
/// An event with a field, and what records it:
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
///         let first = hit.registers().argument(0);
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
/// The call in `inner` was added to the kernel's events, and `PinnedEvent::unregister` did not
/// succeed since.
pub struct TraceEvent {
    inner: ManuallyDrop<Pin<KBox<PinnedEvent>>>,
}

// SAFETY: The kernel changes the call under its own locks; all else is `Send` and `Sync`.
unsafe impl Send for TraceEvent {}
// SAFETY: The kernel changes the call under its own locks; all else is `Send` and `Sync`.
unsafe impl Sync for TraceEvent {}

/// Whether anybody's event has this name. Such an event has a directory in tracefs.
///
/// Every name of the group `ftrace` is taken, and the control event of this crate: the kernel does
/// not say so.
///
/// `trace_get_event_file()` would not do: the kernel removes its event probes although somebody
/// holds them.
///
/// Process context; sleeps. `EDEADLK` with `event_mutex` held, `ENOMEM`. What is added at this very
/// moment may not be seen. Two events of one name are kept apart, but the files of one hide those
/// of the other.
pub fn exists(group: &CStr, name: &CStr) -> Result<bool> {
    EventMutexHeld::check_not_current()?;
    // SAFETY: C has a string there, which lives as long as this crate.
    let control = unsafe { CStr::from_char_ptr(&raw const ktrace_control_system) };
    if group == c"ftrace" || (group == control && name == c"control") {
        return Ok(true);
    }
    is_in_events(group, name)
}

/// Does tracefs have a directory of this event?
fn is_in_events(group: &CStr, name: &CStr) -> Result<bool> {
    let (group, name) = (group.to_str()?, name.to_str()?);
    file::is_in_tracefs(&CString::try_from_fmt(format_args!(
        "events/{group}/{name}"
    ))?)
}

/// An event that stays registered for as long as this is held. It counts as used.
///
/// # Invariants
///
/// One of the references to the event is this one's.
pub struct HeldEvent(NonNull<PinnedEvent>);

impl HeldEvent {
    /// Does the event have its directory in tracefs? While the kernel boots, no event has one yet,
    /// and this says yes.
    ///
    /// Without memory the kernel can add an event without a directory. [`TraceEvent::register`]
    /// does not notice it, because since 7.3 the kernel makes the directory last. A caller that
    /// must know asks here after the registration.
    ///
    /// Process context; sleeps. `EDEADLK` with `event_mutex` held, `ENOMEM` while the kernel boots.
    /// C: `event_create_dir()`.
    pub fn has_directory(&self) -> Result<bool> {
        EventMutexHeld::check_not_current()?;
        // SAFETY: The event is registered, and so is there, by the type invariant.
        let (group, name) = unsafe { self.0.as_ref() }.names();
        // In these groups an event of user space can have the same name. It does not mind that its
        // file is held.
        if group.to_bytes().starts_with(b"user_events") {
            return is_in_events(group, name);
        }
        // The kernel finds the newest event of a name. It refuses a probe event whose name is
        // taken, and this event is there. So the file found is this event's, and stays.
        // SAFETY: Both are strings. NULL is the top trace instance.
        let file = from_err_ptr(unsafe {
            bindings::trace_get_event_file(ptr::null(), group.as_char_ptr(), name.as_char_ptr())
        })?;
        // SAFETY: The file is valid until it is put.
        let has_directory = unsafe { !(*file).ei.is_null() };
        // SAFETY: This is the reference from above.
        unsafe { bindings::trace_put_event_file(file) };
        Ok(has_directory || !file::is_in_tracefs(c"events/enable")?)
    }
}

impl Drop for HeldEvent {
    fn drop(&mut self) {
        // SAFETY: The event is there, by the type invariant, and is not used after this.
        let references = unsafe { self.0.as_ref() }.references();
        references.fetch_sub(1, Ordering::Release);
    }
}

kernel::sync::global_lock! {
    // Held while this crate enables or disables an event. Outside of `event_mutex`.
    // SAFETY: Initialised by `init` before any event is registered.
    unsafe(uninit) static ENABLING: Mutex<()> = ();
}

/// The task that holds `ENABLING`, or NULL.
static ENABLER: AtomicPtr<task_struct> = AtomicPtr::new(ptr::null_mut());

/// Enables an event in the top trace instance, as `echo 1 >events/GROUP/NAME/enable` does.
///
/// While the module of the event is being initialised, this is the only way to enable the event.
///
/// Process context; takes `event_mutex`. `EDEADLK` with `event_mutex` held, `EINVAL` if no event
/// has this name, and the error of [`Operations::enable`]. C: `trace_set_clr_event()`.
pub fn enable(group: &CStr, name: &CStr) -> Result {
    set_enabled(group, name, 1)
}

/// Disables it again.
pub fn disable(group: &CStr, name: &CStr) -> Result {
    set_enabled(group, name, 0)
}

fn set_enabled(group: &CStr, name: &CStr, set: c_int) -> Result {
    EventMutexHeld::check_not_current()?;
    let _enabling = ENABLING.lock();
    ENABLER.store(event_mutex::current(), Ordering::Relaxed);
    // SAFETY: Both are strings.
    let result = to_result(unsafe {
        bindings::trace_set_clr_event(group.as_char_ptr(), name.as_char_ptr(), set)
    });
    ENABLER.store(ptr::null_mut(), Ordering::Relaxed);
    result
}

impl TraceEvent {
    /// Adds an event: it appears in every trace instance, disabled. C: `trace_add_event_call()`.
    ///
    /// The kernel does not mind another event of this name: [`exists`] tells of it. While it is
    /// enabled anywhere it holds a reference to the group's module. Before the initialisation of
    /// that module is over, nobody can use the event but by [`enable`]. `EBUSY` where the sink is
    /// another event's, `ENODEV` where the kernel has no number left, `ENOMEM`. Process context.
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
        // INVARIANT: The sink was borrowed just now.
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
        // DYNAMIC: counts references. EPROBE: no event probe may hold on to it; the kernel's own
        // kprobe events are not to be had for that either.
        // TRACEPOINT: BPF programs can be attached.
        const FLAGS: c_uint = bindings::TRACE_EVENT_FL_DYNAMIC
            | bindings::TRACE_EVENT_FL_EPROBE
            | bindings::TRACE_EVENT_FL_TRACEPOINT;
        // SAFETY: Nobody else has the call yet. What it points at belongs to the operations or to
        // the output, which live as long as `inner`, or lives as long as the module.
        unsafe {
            (*call).class = class;
            (*call).__bindgen_anon_1.tp = (&raw const inner.tracepoint).cast_mut().cast();
            (*call).print_fmt = print_fmt.cast_mut();
            (*call).event.type_ = inner.output.number().into();
            (*call).event.funcs = (&raw const ktrace_call_funcs).cast_mut();
            (*call).flags = FLAGS as c_int;
        }
        let vtable = owner::vtable_of(&*inner.operations);
        // SAFETY: `take_back` removes the event, which waits for its callbacks and for handlers.
        // The event is freed after `untrack` only.
        unsafe { leftover::track(vtable, call.cast(), removal::take_back) }?;
        // SAFETY: The fields were borrowed from the operations, which live as long as `inner`.
        unsafe { inner.take_fields(token, fields) }
            .inspect_err(|_| leftover::untrack(call.cast()))?;
        // SAFETY: `event_mutex` is held, as the token says, and the call stays in place until it
        // is removed.
        to_result(unsafe { bindings::trace_add_event_call(call) }).inspect_err(|_| {
            inner.put_fields(token);
            leftover::untrack(call.cast());
        })?;
        let has_fields = inner.has_fields.load(Ordering::Relaxed);
        // INVARIANT: Added just now.
        let event = Self {
            inner: ManuallyDrop::new(inner),
        };
        if !has_fields {
            // The kernel does not say that it could not make the directory or the fields.
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

    /// The group, for other events of the same one.
    pub fn group(&self) -> &Arc<Group> {
        self.inner.output.group()
    }

    /// The printer of its records. Whoever keeps it can read the records of a removed event.
    pub fn output(&self) -> ARef<Output> {
        self.inner.output.clone()
    }

    /// Is it enabled, opened by perf, or held by someone else in the kernel?
    pub fn is_busy(&self, token: &EventMutexHeld) -> bool {
        self.inner.is_busy(token)
    }

    /// Keeps the event registered.
    pub fn hold(&self, _: &EventMutexHeld) -> HeldEvent {
        let references = self.inner.references();
        references.fetch_add(1, Ordering::Relaxed);
        // INVARIANT: Taken just now. No event is removed that has references: `unregister` looks
        // for them with `event_mutex` held, and here it is held.
        HeldEvent(NonNull::from(&**self.inner))
    }

    /// Removes the event, unless somebody uses it. C: `trace_remove_event_call()`.
    ///
    /// Where an RCU grace period did not pass since the last user went it waits for one, for the
    /// handlers that still give records to the sink. The event comes back with `EBUSY` where
    /// [`is_busy`](Self::is_busy).
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
    /// `call` must be that of a live [`PinnedEvent`].
    unsafe fn from_call<'a>(call: *mut bindings::trace_event_call) -> &'a Self {
        // SAFETY: The caller guarantees that the call is embedded in a live `PinnedEvent`.
        unsafe { &*kernel::container_of!(Opaque::cast_from(call), PinnedEvent, call) }
    }

    /// The group and the name.
    fn names(&self) -> (&CStr, &CStr) {
        (self.output.group().name(), self.output.name())
    }

    fn sink(&self) -> &Sink {
        // SAFETY: By the type invariant, it is borrowed from the operations, which live as long as
        // `self` and which nobody changes meanwhile.
        unsafe { self.sink.as_ref() }
    }

    /// The list of the fields, while the event is registered.
    fn field_list(&self) -> Option<&FieldList> {
        // SAFETY: By the type invariant, the list is that of this event, and so is live.
        unsafe { self.fields.load(Ordering::Relaxed).as_ref() }
    }

    fn fields(&self) -> &[Field] {
        self.field_list().map_or(&[], FieldList::fields)
    }

    /// The head of the list of fields, for the kernel.
    fn kernel_fields(&self) -> *mut list_head {
        let Some(list) = self.field_list() else {
            return field_list::no_fields();
        };
        if self.hides_fields.load(Ordering::Relaxed) {
            return field_list::no_fields();
        }
        if list.is_defined() {
            // The kernel does not ask an event to define fields that another event has defined.
            self.has_fields.store(true, Ordering::Relaxed);
        }
        list.head()
    }

    /// Gets a list of fields. `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `fields` must be borrowed from `operations`.
    unsafe fn take_fields(&self, token: &EventMutex, fields: NonNull<[Field]>) -> Result {
        let lists = self.output.group().field_lists();
        // SAFETY: The caller guarantees that the fields are borrowed from the operations. These
        // live as long as `self`, which gives the list back before.
        let list = unsafe { lists.get(token, fields) }?;
        // INVARIANT: The group gave the list just now.
        self.fields.store(list.as_ptr(), Ordering::Relaxed);
        self.output.set_fields(self.field_list());
        Ok(())
    }

    /// Gives the list of fields back. The kernel must not know the event any more.
    fn put_fields(&self, token: &EventMutex) {
        self.output.set_fields(None);
        // INVARIANT: The event is not registered.
        let list = self.fields.swap(ptr::null_mut(), Ordering::Relaxed);
        if let Some(list) = NonNull::new(list) {
            // SAFETY: `take_fields` got it from this group. The kernel does not use the list of the
            // last event: those who print may use it until the kernel has removed the event.
            unsafe { self.output.group().field_lists().put(token, list) };
        }
    }

    fn is_busy(&self, _: &EventMutexHeld) -> bool {
        // References are only taken with `event_mutex` held, which the token says.
        self.references().load(Ordering::Acquire) != 0 || self.sink().is_used()
    }

    /// How many references there are. C: `refcnt` in `struct trace_event_call`.
    fn references(&self) -> &AtomicI32 {
        // SAFETY: The projection stays within the allocation.
        let union = unsafe { &raw mut (*self.call.get()).__bindgen_anon_2 };
        // SAFETY: The event is dynamic, so that the live field of the union is the counter. The
        // kernel changes it by atomic instructions.
        unsafe { AtomicI32::from_ptr(&raw mut (*union.cast::<atomic_t>()).counter) }
    }

    /// Removes the call from the kernel's events, or fails with `EBUSY`. The caller must not do it
    /// again once it has succeeded.
    fn unregister(&self, token: &EventMutex) -> Result {
        if self.is_busy(token) {
            return Err(EBUSY);
        }
        self.sink().wait_for_handlers();
        let call = self.call.get();
        // The number is the output's: without functions the kernel leaves it alone. Nothing is
        // recorded any more, so nobody looks at them.
        // SAFETY: The call is registered, and `event_mutex` is held.
        unsafe { (*call).event.funcs = ptr::null_mut() };
        // The kernel frees the fields that it sees.
        let is_shared = self.field_list().is_some_and(FieldList::is_shared);
        self.hides_fields.store(is_shared, Ordering::Relaxed);
        // The kernel waits for those who print, before it frees the fields.
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

    /// The module that the user of an event needs, for as long as he uses it.
    fn get_owner(&self) -> Result {
        if ENABLER.load(Ordering::Relaxed) == event_mutex::current() {
            // The module itself enables the event. If its initialisation fails it also disables it.
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

    /// One more user: a trace instance (with its file) or perf (without).
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
            // SAFETY: `get_owner` got the reference. The caller holds `event_mutex`, which the
            // module's exit passes through to remove this event, so that this code stays.
            unsafe { owner::put(self.output.group().owner()) };
        }
        enabled
    }

    /// One user less.
    fn remove(&self, token: &EventMutexHeld, file: *mut bindings::trace_event_file) {
        if self.sink().remove(file) {
            self.last_use(token);
            if !file.is_null() {
                // SAFETY: The kernel disables the event in this file, which it has.
                unsafe { removal::keep_trace(token, file) };
            }
            // SAFETY: `add` got the reference. The caller holds `event_mutex`, which the module's
            // exit passes through to remove this event, so that this code stays.
            unsafe { owner::put(self.output.group().owner()) };
        }
    }
}

extern "C" {
    static ktrace_control_system: c_char;
    static ktrace_call_funcs: bindings::trace_event_functions;
    fn ktrace_set_array_len(fields: *mut list_head, name: *const c_char, size: c_int, len: c_int);
}

/// `class->reg`: someone begins or ends to use an event.
///
/// # Safety
///
/// Called by the kernel for a registered call, with `event_mutex` held where it says REGISTER or
/// UNREGISTER; `data` is a `struct trace_event_file` for those without PERF in their name.
#[no_mangle]
unsafe extern "C" fn ktrace_call_reg(
    call: *mut bindings::trace_event_call,
    ty: c_uint,
    data: *mut c_void,
) -> c_int {
    // SAFETY: The kernel calls this for a registered call, which is that of a live `PinnedEvent`.
    let inner = unsafe { PinnedEvent::from_call(call) };
    let (is_added, file) = match ty {
        bindings::trace_reg_TRACE_REG_REGISTER => (true, data.cast()),
        bindings::trace_reg_TRACE_REG_PERF_REGISTER => (true, ptr::null_mut()),
        bindings::trace_reg_TRACE_REG_UNREGISTER => (false, data.cast()),
        bindings::trace_reg_TRACE_REG_PERF_UNREGISTER => (false, ptr::null_mut()),
        // PERF_ADD and PERF_DEL come from the scheduler: 0 lets perf do what it always does.
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

/// `define_fields`: tells the kernel the fields of an event.
///
/// # Safety
///
/// Called by the kernel for a call that is being registered, with `event_mutex` held.
#[no_mangle]
unsafe extern "C" fn ktrace_call_define_fields(call: *mut bindings::trace_event_call) -> c_int {
    // SAFETY: The kernel calls this for a call that is being registered: that of a live
    // `PinnedEvent`.
    let inner = unsafe { PinnedEvent::from_call(call) };
    from_result(|| {
        let list = inner.field_list().ok_or(EINVAL)?;
        for field in list.fields() {
            let (name, size) = (field.name().as_char_ptr(), field.size().try_into()?);
            // SAFETY: The kernel keeps the two strings: each event that uses the list has borrowed
            // them.
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
/// `event` must be that of a registered call of this file, `record` one of its records, of unknown
/// length, and `seq` valid and unshared.
#[no_mangle]
unsafe extern "C" fn ktrace_call_print(
    event: *mut bindings::trace_event,
    seq: *mut bindings::trace_seq,
    record: *const u8,
    _len: c_int,
    addresses: bool,
) {
    // SAFETY: `event` is embedded in a call.
    let call = unsafe { kernel::container_of!(event, bindings::trace_event_call, event) };
    // SAFETY: The kernel calls this for a registered call, which is that of a live `PinnedEvent`.
    let inner = unsafe { PinnedEvent::from_call(call) };
    // SAFETY: A record has at least its fields, as `Sink::record` makes sure.
    let fixed = unsafe { core::slice::from_raw_parts(record, inner.sink().fixed_len()) };
    let fields = inner.fields().iter();
    let len = fields
        .filter_map(|field| field.end_of_located(fixed))
        .fold(fixed.len(), usize::max);
    // SAFETY: What a field locates is within the record, as who made the field has promised.
    let record = unsafe { core::slice::from_raw_parts(record, len) };
    // SAFETY: The kernel says that the sequence is valid and unshared. The event has a reference.
    unsafe { inner.output.print(seq, record, addresses) };
}

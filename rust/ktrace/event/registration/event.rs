// SPDX-License-Identifier: GPL-2.0

//! A registered event.

use core::{
    marker::PhantomData,
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
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
        c_int,
        c_uint, //
    },
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed,
            Release, //
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
        record::{
            print::Print,
            sink::HEADER_LEN, //
        },
    },
    files::file,
    modules::{
        leftover::{
            self,
            Entry,
            Kind, //
        },
        owner, //
    },
};

use super::{
    field::Field,
    group::Group,
    name::{
        is_in_events,
        NewName, //
    },
    operations::{
        Definition,
        Operations, //
    },
    output::Output,
    pinned_event::{
        ktrace_call_funcs,
        EventBox,
        PinnedEvent, //
    },
    removal,
    users::EventUsers, //
};

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
///         NewName,
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
///         name: NewName::new(Group::new(c"mine", module)?, CString::try_from(c"call")?)?,
///         operations,
///         print,
///     };
///     EventMutex::with(|token| TraceEvent::register(token, definition))?
/// }
/// ```
///
/// # Invariants
///
/// The call in `inner` was added to the kernel's events. Only the task that claims the entry in
/// `inner` unregisters it, and then frees it, unless `leftover` is that task. If `O` is not `dyn
/// Operations`, the operations are an `O`.
#[must_use = "dropping the event removes it"]
pub struct TraceEvent<O: Operations + ?Sized = dyn Operations> {
    inner: ManuallyDrop<EventBox>,
    _operations: PhantomData<Arc<O>>,
}

// SAFETY: The kernel changes the call under its own locks. All other fields are `Send` and `Sync`.
unsafe impl<O: Operations + ?Sized> Send for TraceEvent<O> {}
// SAFETY: The kernel changes the call under its own locks. All other fields are `Send` and `Sync`.
unsafe impl<O: Operations + ?Sized> Sync for TraceEvent<O> {}

impl TraceEvent {
    /// Adds an event, which then appears in every trace instance, disabled. C:
    /// `trace_add_event_call()`.
    ///
    /// While a user has the event enabled, the event holds a reference to the group's module. Until
    /// that module is initialised, only [`enable`](crate::trace_event::enable) can enable the
    /// event. `EINVAL` if the name of a field is not a C identifier, `EBUSY` if another event uses
    /// the sink, `ENODEV` if the kernel has no free event number, `ENOMEM`. Process context.
    pub fn register(token: &EventMutex, definition: Definition) -> Result<Self> {
        let Definition {
            name: NewName { group, name },
            operations,
            print,
        } = definition;
        let class = group.class();
        // The event prints records for `tp_printk`, so it also ends with the printer's module.
        let codes = [owner::vtable_of(&*operations), owner::vtable_of(&*print)];
        let output = Output::new(group, &name, print)?;
        let (sink, fields) = (operations.sink(), operations.fields());
        if !fields.iter().all(Field::has_valid_name) {
            return Err(EINVAL);
        }
        let fixed_len = fields.iter().map(Field::end).fold(HEADER_LEN, usize::max);
        sink.set_event(output.number(), fixed_len.try_into()?)?;
        let print_fmt = operations.print_fmt().as_char_ptr();
        let (sink, fields) = (NonNull::from(sink), NonNull::from(fields));
        let event = PinnedEvent {
            // SAFETY: All-zero is a valid `struct trace_event_call`.
            call: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
            operations,
            sink,
            fields: Atomic::new(ptr::null_mut()),
            has_fields: Atomic::new(false),
            hides_fields: Atomic::new(false),
            is_dropped: Atomic::new(false),
            entry: Entry::none(),
        };
        // INVARIANT: The sink was borrowed from `operations` above.
        // SAFETY: The output is new, so its memory does not have an event.
        let inner = unsafe { EventBox::new(output, event) };
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
            (*call).__bindgen_anon_1.tp = inner.output().tracepoint();
            (*call).print_fmt = print_fmt.cast_mut();
            (*call).event.type_ = inner.output().number().into();
            (*call).event.funcs = (&raw const ktrace_call_funcs).cast_mut();
            (*call).flags = FLAGS as c_int;
        }
        let remove = removal::take_back;
        // SAFETY: `take_back` removes the event, and waits for its callbacks and for handlers. The
        // event is freed only by a task with the claim.
        let claim = unsafe { leftover::track(Kind::Event, &codes, call.cast(), remove) }?;
        // SAFETY: The fields were borrowed from the operations, which live as long as `inner`.
        unsafe { inner.take_fields(token, fields) }?;
        // SAFETY: The token proves that `event_mutex` is held. The call stays in place until it is
        // removed.
        to_result(unsafe { bindings::trace_add_event_call(call) })
            .inspect_err(|_| inner.put_fields(token))?;
        inner.output().set_registered(true);
        inner.entry.set(claim.keep());
        let has_fields = inner.has_fields.load(Relaxed);
        // INVARIANT: `trace_add_event_call` has just added the call.
        let event = Self {
            inner: ManuallyDrop::new(inner),
            _operations: PhantomData,
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
}

impl<O: Operations> TraceEvent<O> {
    /// Adds an event, as [`register`](TraceEvent::register) does, and keeps the type of its
    /// operations, which also print its records.
    pub fn register_typed(token: &EventMutex, name: NewName, operations: Arc<O>) -> Result<Self>
    where
        O: Print,
    {
        let definition = Definition {
            name,
            operations: operations.clone(),
            print: operations,
        };
        let inner = TraceEvent::register(token, definition)?.into_inner();
        // INVARIANT: The call was added above, and the operations of the definition are an `O`.
        Ok(Self {
            inner: ManuallyDrop::new(inner),
            _operations: PhantomData,
        })
    }

    /// The operations.
    pub fn operations(&self) -> &O {
        let operations = Arc::as_ptr(&self.inner.operations).cast::<O>();
        // SAFETY: By the type invariant, the operations are an `O`. The event has a reference to
        // them.
        unsafe { &*operations }
    }
}

impl<O: Operations + ?Sized> TraceEvent<O> {
    /// The group and the name.
    pub fn names(&self) -> (&CStr, &CStr) {
        self.inner.names()
    }

    /// The group. Other events can share it.
    pub fn group(&self) -> &Arc<Group> {
        self.inner.output().group()
    }

    /// The output of the event's records. While a reference to the output exists, the kernel can
    /// print the records of the removed event.
    pub fn output(&self) -> ARef<Output> {
        self.inner.output().into()
    }

    /// Whether a trace instance has enabled the event, perf has opened it, or other kernel code
    /// holds it.
    pub fn is_busy(&self, token: &EventMutexHeld) -> bool {
        self.inner.is_busy(token)
    }

    /// The users of the event, for a message: see [`is_busy`](Self::is_busy).
    pub fn users<'a>(&'a self, token: &'a EventMutexHeld) -> EventUsers<'a> {
        EventUsers::new(&self.inner, token)
    }

    /// Removes the event, unless the event has a user. C: `trace_remove_event_call()`.
    ///
    /// Waits for an RCU grace period, for the handlers that still pass records to the sink, if none
    /// has passed since the last user left. Returns the event with `EBUSY` if
    /// [`is_busy`](Self::is_busy) holds.
    ///
    /// If the module goes, ktrace may be removing the event. Then this returns success immediately.
    pub fn try_remove(self, token: &EventMutex) -> Result<(), (Self, Error)> {
        // Does not wait for another task, which may be waiting for `event_mutex`.
        let Some(claim) = self.inner.entry.try_claim() else {
            let _ = self.into_inner().into_raw();
            return Ok(());
        };
        match self.inner.unregister(token) {
            Ok(()) => {
                drop(self.into_inner());
                drop(claim);
                Ok(())
            }
            Err(error) => {
                self.inner.entry.set(claim.keep());
                Err((self, error))
            }
        }
    }

    fn into_inner(self) -> EventBox {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after this.
        unsafe { ManuallyDrop::take(&mut this.inner) }
    }
}

impl<O: Operations + ?Sized> Drop for TraceEvent<O> {
    fn drop(&mut self) {
        // SAFETY: `self` is not used after this.
        removal::remove(unsafe { ManuallyDrop::take(&mut self.inner) });
    }
}

impl Output {
    /// Whether the event has a directory in tracefs. While the kernel boots, no event has a
    /// directory yet, and the function returns true.
    ///
    /// If memory is short, the kernel can add an event without a directory.
    /// [`TraceEvent::register`] does not detect this, because since Linux 7.3 the kernel creates
    /// the directory last. A caller that needs the directory calls this function after the
    /// registration.
    ///
    /// The event counts as used during this function. Process context; sleeps. `ENOENT` if the
    /// event is not registered any more, `EDEADLK` with `event_mutex` held, `ENOMEM`. C:
    /// `event_create_dir()`.
    pub fn has_directory(&self) -> Result<bool> {
        EventMutexHeld::check_not_current()?;
        let Some(_held) = EventMutex::lock(|token| HeldEvent::new(self, token))? else {
            return Err(ENOENT);
        };
        let (group, name) = (self.group().name(), self.name());
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

/// Keeps an event registered. The event counts as used. This type is private, because an event that
/// is always held could not end with its module.
///
/// # Invariants
///
/// This value owns one reference to the event, which is registered.
struct HeldEvent<'a>(&'a PinnedEvent);

impl<'a> HeldEvent<'a> {
    /// Holds the event of an output, unless the event is not registered any more.
    fn new(output: &'a Output, token: &EventMutex) -> Option<Self> {
        let event = PinnedEvent::registered_of(output, token)?;
        // INVARIANT: `unregister` checks for references with `event_mutex` held. The token proves
        // that it is held here, so the event stays registered while this reference exists.
        event.references().add(1, Relaxed);
        Some(Self(event))
    }
}

impl Drop for HeldEvent<'_> {
    fn drop(&mut self) {
        self.0.references().fetch_sub(1, Release);
    }
}

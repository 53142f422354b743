// SPDX-License-Identifier: GPL-2.0

//! Printers of records.

use core::{
    cell::UnsafeCell,
    mem::{
        offset_of,
        ManuallyDrop,
        MaybeUninit, //
    },
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    ffi::{
        c_char,
        c_int,
        c_void, //
    },
    prelude::*,
    sync::{
        aref::{
            ARef,
            AlwaysRefCounted, //
        },
        atomic::{
            Acquire,
            Atomic,
            Relaxed, //
        },
        Arc,
        Refcount, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

use crate::{
    bindings,
    event::record::{
        print::{
            Print,
            TraceSeq, //
        },
        sink::HEADER_LEN, //
    },
    hit::atomic::{
        assign,
        Published, //
    },
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
    field_list::{
        class_without_fields,
        leak_class_without_fields,
        FieldList, //
    },
    group::Group, //
};

/// The number of an event in the records, and the printer of the records.
///
/// An output outlives its event. While the output lives, the kernel can print the records. No other
/// event gets the number while the trace buffers may have records of it: see
/// [`empty_traces`](crate::trace_event::empty_traces).
///
/// An output registers a `struct trace_event`. If the option `fields` is set, the kernel treats it
/// as a part of a `struct trace_event_call`. This call is never added to the events, so an output
/// has only those fields of the call that the kernel then reads.
///
/// Each event has an output, and is in the `memory` of its output: together, they take 256 bytes,
/// which is a size class of the allocator.
///
/// C: the fields up to `_flags` have the same offsets as in a `struct trace_event_call`, counted
/// from its `class`. The kernel does not read the call's fields from `print_fmt` to `data`. An
/// output stores `print` and `group` in their place.
///
/// # Invariants
///
/// The event is registered. `class` points to a class that has fields and no function to get them.
/// Only the task that claims `entry` ends the printing and adds the output to `RESERVED`. If
/// `references` is not zero then, the output is never freed.
#[repr(C)]
pub struct Output {
    class: Published<bindings::trace_event_class>,
    name: Name,
    event: Opaque<bindings::trace_event>,
    /// Valid while `references` is not zero.
    print: UnsafeCell<ManuallyDrop<Arc<dyn Print>>>,
    group: Arc<Group>,
    _flags: c_int,
    references: Refcount,
    /// Whether the trace buffers may have records with this number.
    is_recorded: Atomic<bool>,
    /// Whether `memory` has an event that is registered. Changes only with `event_mutex` held.
    is_registered: Atomic<bool>,
    entry: Entry,
    /// The next output in the list of events to remove, and later in [`Reserved`].
    pub(super) next: Atomic<*mut Output>,
    pub(super) memory: EventMemory,
}

/// Memory for an event: see [`EventBox`](super::pinned_event::EventBox). The event has the kernel's
/// structure and at most five words more.
pub(super) struct EventMemory(UnsafeCell<MaybeUninit<(bindings::trace_event_call, [usize; 5])>>);

impl EventMemory {
    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.0.get().cast()
    }
}

// Checks the offsets of the call's fields, from `class` on.
const _: () = {
    use bindings::trace_event_call as Call;

    let class = offset_of!(Call, class);
    assert!(offset_of!(Output, class) == 0);
    assert!(offset_of!(Output, name) == offset_of!(Call, __bindgen_anon_1) - class);
    assert!(offset_of!(Output, event) == offset_of!(Call, event) - class);
    assert!(offset_of!(Output, print) == offset_of!(Call, print_fmt) - class);
    assert!(offset_of!(Output, _flags) == offset_of!(Call, flags) - class);
};

/// A string that the kernel reads through one pointer.
///
/// # Invariants
///
/// The pointer is a string from `kstrdup()`.
#[repr(transparent)]
struct Name(NonNull<c_char>);

impl Name {
    /// Copies a string. `ENOMEM`.
    fn new(name: &CStr) -> Result<Self> {
        // SAFETY: `name` is a NUL-terminated string.
        let copy =
            unsafe { kernel::bindings::kstrdup(name.as_char_ptr(), kernel::bindings::GFP_KERNEL) };
        // INVARIANT: `kstrdup()` has just returned the copy.
        Ok(Self(NonNull::new(copy).ok_or(ENOMEM)?))
    }

    fn as_cstr(&self) -> &CStr {
        // SAFETY: By the type invariant, this is a string. No code changes it.
        unsafe { CStr::from_char_ptr(self.0.as_ptr()) }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the string is from `kstrdup()`. It is not used after this.
        unsafe { kernel::bindings::kfree(self.0.as_ptr().cast()) };
    }
}

/// The numbers of the records of removed events: a list of outputs without a printer, linked by
/// [`Output::next`].
pub(super) struct Reserved(*mut Output);

// SAFETY: The list alone owns its outputs.
unsafe impl Send for Reserved {}

kernel::sync::global_lock! {
    // SAFETY: `init` initialises the mutex before any output is created.
    unsafe(uninit) static RESERVED: Mutex<Reserved> = Reserved(ptr::null_mut());
}

/// # Safety
///
/// The caller calls this function once, before any output is created.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any other use.
    unsafe { RESERVED.init() };
}

/// Takes the list of reserved numbers.
pub(super) fn take_reserved() -> Reserved {
    core::mem::replace(&mut *RESERVED.lock(), Reserved(ptr::null_mut()))
}

/// Returns numbers to the kernel. The trace buffers must have no records with these numbers.
pub(super) fn release(mut list: Reserved) {
    while let Some(output) = list.pop() {
        unregister(&output);
        if output.references.as_atomic().load(Acquire) != 0 {
            // `take_back` ended the output of a module that left references to it.
            let _ = KBox::into_raw(output);
        }
    }
}

/// Reserves numbers permanently, even after this module unloads. The kernel then prints their
/// records itself.
pub(super) fn abandon(mut list: Reserved) {
    if list.is_empty() {
        return;
    }
    let funcs = repeat_until_allocated(|| {
        // SAFETY: The control event was registered, so the kernel has set its functions.
        NonNull::new(unsafe { ktrace_nop_funcs() }).ok_or(ENOMEM)
    });
    let class = repeat_until_allocated(leak_class_without_fields);
    while let Some(output) = list.pop() {
        output.set_funcs(funcs.as_ptr());
        // INVARIANT: The class has an empty list of fields and no function to get them.
        output.class.assign(class.cast_mut());
        // The kernel keeps the registered event, so the output is never freed.
        let _ = KBox::into_raw(output);
    }
    pr_info!("a CPU is or was offline: the numbers of removed events stay taken\n");
    wait_for_readers();
}

/// Calls `allocate` until the allocation succeeds.
fn repeat_until_allocated<T>(allocate: impl Fn() -> Result<T>) -> T {
    loop {
        if let Ok(allocated) = allocate() {
            return allocated;
        }
        fsleep(Delta::from_millis(20));
    }
}

/// Returns numbers to the list of reserved numbers.
pub(super) fn put_back(mut list: Reserved) {
    while let Some(output) = list.pop() {
        RESERVED.lock().push(output);
    }
}

impl Reserved {
    fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    fn push(&mut self, output: KBox<Output>) {
        output.next.store(self.0, Relaxed);
        self.0 = KBox::into_raw(output);
    }

    /// Removes the first output from the list. The output does not move, because its event is
    /// registered.
    fn pop(&mut self) -> Option<KBox<Output>> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: `push` took the output out of its box. The list no longer has it.
        let output = unsafe { KBox::from_raw(self.0) };
        self.0 = output.next.load(Relaxed);
        Some(output)
    }
}

/// Unregisters the event of an output. Waits for readers that print its records.
fn unregister(output: &Output) {
    // SAFETY: By the type invariant, the event is registered. No other code unregisters it.
    unsafe { bindings::unregister_trace_event(output.event.get()) };
}

/// Waits for readers that print a record. They hold `trace_event_sem`. To unregister an event, the
/// kernel takes this semaphore for writing, so the function unregisters an event without a number.
fn wait_for_readers() {
    let mut none = bindings::trace_event::default();
    // SAFETY: The event is in no list, so the kernel removes it from none. No event has the number
    // 0.
    unsafe { bindings::unregister_trace_event(&mut none) };
}

// SAFETY: The kernel changes the event under its own locks. `Print` is `Send`.
unsafe impl Send for Output {}
// SAFETY: The kernel changes the event under its own locks. `Print` is `Sync`.
unsafe impl Sync for Output {}

extern "C" {
    static ktrace_output_funcs: bindings::trace_event_functions;
    static ktrace_over_funcs: bindings::trace_event_functions;
    fn ktrace_nop_funcs() -> *mut bindings::trace_event_functions;
}

impl Output {
    /// Takes a number. C: `register_trace_event()`.
    ///
    /// Process context. `ENODEV` if all numbers (about 65,000) are in use, `ENOMEM`.
    pub(super) fn new(group: Arc<Group>, name: &CStr, print: Arc<dyn Print>) -> Result<ARef<Self>> {
        let vtable = owner::vtable_of(&*print);
        let name = Name::new(name)?;
        // The allocation precedes the ManuallyDrop, so that a failed allocation drops the printer.
        let output = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let output = KBox::write(
            output,
            Self {
                class: Published::new(class_without_fields().cast_mut()),
                name,
                event: Opaque::new(bindings::trace_event::default()),
                print: UnsafeCell::new(ManuallyDrop::new(print)),
                group,
                _flags: 0,
                references: Refcount::new(1),
                is_recorded: Atomic::new(false),
                is_registered: Atomic::new(false),
                entry: Entry::none(),
                next: Atomic::new(ptr::null_mut()),
                memory: EventMemory(UnsafeCell::new(MaybeUninit::uninit())),
            },
        );
        output.set_funcs((&raw const ktrace_output_funcs).cast_mut());
        let this = ptr::from_ref(&*output).cast_mut().cast();
        // SAFETY: `take_back` ends the registration, and waits for readers that print. Without the
        // claim, the output is not freed while a reference to it exists.
        let claim = unsafe { leftover::track(Kind::Other, &[vtable], this, take_back) }
            .inspect_err(|_| {
                // SAFETY: No reader prints, and the box is freed without its printer.
                unsafe { output.drop_print() };
            })?;
        // SAFETY: The output stays in place until it is unregistered.
        if unsafe { bindings::register_trace_event(output.event.get()) } == 0 {
            // SAFETY: No reader prints, and the box is freed here without its printer.
            unsafe { output.drop_print() };
            return Err(ENODEV);
        }
        // INVARIANT: The event was registered above.
        output.entry.set(claim.keep());
        let output = NonNull::from(KBox::leak(output));
        // SAFETY: The reference count starts at one, and this value owns that reference.
        Ok(unsafe { ARef::from_raw(output) })
    }

    /// Sets the functions that print records.
    fn set_funcs(&self, funcs: *mut bindings::trace_event_functions) {
        // SAFETY: The field is live, and other code only reads it.
        unsafe { assign(&raw mut (*self.event.get()).funcs, funcs) };
    }

    /// Sets the list by which the kernel prints records if the option `fields` is set. Readers that
    /// print now may still use the previous list.
    pub(super) fn set_fields(&self, fields: Option<&FieldList>) {
        let class = fields.map_or_else(class_without_fields, FieldList::class);
        // INVARIANT: Both classes have fields and no function to get them.
        self.class.assign(class.cast_mut());
    }

    /// A pointer to the name, as the kernel's `struct tracepoint` of the event. The kernel reads
    /// only the name. This saves the 64 bytes of the other fields. C: `alloc_synth_tracepoint()`.
    pub(super) fn tracepoint(&self) -> *mut kernel::bindings::tracepoint {
        (&raw const self.name).cast_mut().cast()
    }

    /// The group of the event.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The name of the event.
    pub fn name(&self) -> &CStr {
        self.name.as_cstr()
    }

    /// The event number in the header of a record.
    pub fn number(&self) -> u16 {
        // SAFETY: By the type invariant, the event is registered, so the number does not change.
        // The number is at most 65535, because a record stores it in 16 bits.
        unsafe { (*self.event.get()).type_ as u16 }
    }

    /// Notes that the trace buffers may have records with this number from now on.
    pub(super) fn set_recorded(&self) {
        self.is_recorded.store(true, Relaxed);
    }

    /// Whether the trace buffers may have records with this number.
    pub fn is_recorded(&self) -> bool {
        self.is_recorded.load(Relaxed)
    }

    /// Notes whether the event of this output is registered. The caller holds `event_mutex`.
    pub(super) fn set_registered(&self, is_registered: bool) {
        self.is_registered.store(is_registered, Relaxed);
    }

    /// Whether the event of this output is registered. The caller holds `event_mutex`.
    pub(super) fn is_registered(&self) -> bool {
        self.is_registered.load(Relaxed)
    }

    /// Prints a record.
    ///
    /// # Safety
    ///
    /// `seq` must be valid and unshared. The caller must own a reference, or keep
    /// [`end`](Self::end) from returning.
    pub(super) unsafe fn print(
        &self,
        seq: *mut bindings::trace_seq,
        record: &[u8],
        addresses: bool,
    ) {
        // SAFETY: The caller guarantees that the sequence is valid and unshared.
        let mut seq = unsafe { TraceSeq::new(seq, addresses) };
        // SAFETY: The caller guarantees that the printer is not dropped during the call.
        let print = unsafe { &*self.print.get() };
        print.print(self.name(), record, &mut seq);
    }
}

// SAFETY: The output is not freed while `references` is not zero.
unsafe impl AlwaysRefCounted for Output {
    fn inc_ref(&self) {
        self.references.inc();
    }

    unsafe fn dec_ref(output: NonNull<Self>) {
        // SAFETY: The caller owns a reference.
        let this = unsafe { output.as_ref() };
        // If `take_back` gets the claim, the output can be freed as soon as it has no reference.
        let entry = this.entry.copy();
        if !this.references.dec_and_test() {
            return;
        }
        let Some(_claim) = entry.claim() else {
            return;
        };
        // SAFETY: `new` took the output out of a box. This was the last reference, and the claim
        // keeps `take_back` from using the output.
        let output = unsafe { KBox::from_raw(output.as_ptr()) };
        if !output.is_recorded() {
            unregister(&output);
            // SAFETY: No reader prints any more, and the box is freed here.
            unsafe { output.drop_print() };
            return;
        }
        output.end();
        // SAFETY: Readers that print from now on use other functions.
        unsafe { output.drop_print() };
        RESERVED.lock().push(output);
    }
}

/// Ends an output that its module left registered. No reader calls its printer afterwards.
///
/// References to the output may exist. They still find the output's name, number and group.
///
/// # Safety
///
/// `output` must be an [`Output`] from [`Output::new`]. Only the caller may free it.
unsafe fn take_back(output: *mut c_void) {
    // SAFETY: `new` took the output out of a box, and the caller guarantees that no other code
    // frees it.
    let output = unsafe { KBox::from_raw(output.cast::<Output>()) };
    output.end();
    RESERVED.lock().push(output);
}

impl Output {
    /// Ends printing. No reader calls the printer after this function returns.
    fn end(&self) {
        self.set_funcs((&raw const ktrace_over_funcs).cast_mut());
        wait_for_readers();
    }

    /// # Safety
    ///
    /// The caller calls this function once. No code may use the printer during the call or
    /// afterwards.
    unsafe fn drop_print(&self) {
        // SAFETY: The caller guarantees that no code uses the printer, now or later.
        unsafe { ManuallyDrop::drop(&mut *self.print.get()) };
    }
}

/// Prints a record for a reader of the trace.
///
/// # Safety
///
/// The kernel calls this function for a registered event of this file. `record` has `len` bytes.
#[no_mangle]
unsafe extern "C" fn ktrace_output_print(
    event: *mut bindings::trace_event,
    seq: *mut bindings::trace_seq,
    record: *const u8,
    len: c_int,
    addresses: bool,
) {
    // SAFETY: The kernel calls this for a registered event of this file, which is embedded in an
    // `Output`. Unregistering waits for readers.
    let output = unsafe { &*kernel::container_of!(Opaque::cast_from(event), Output, event) };
    let len = usize::try_from(len).unwrap_or(0);
    if len < HEADER_LEN {
        return;
    }
    // SAFETY: The kernel guarantees that the record has `len` bytes.
    let record = unsafe { core::slice::from_raw_parts(record, len) };
    // SAFETY: The reader of the trace owns the sequence. The event has these functions, so either
    // `references` is not zero, or `end` waits for this reader.
    unsafe { output.print(seq, record, addresses) };
}

// SPDX-License-Identifier: GPL-2.0

//! Printing of records.

use core::{
    cell::UnsafeCell,
    fmt,
    mem::{
        offset_of,
        ManuallyDrop, //
    },
    pin::Pin,
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicBool,
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings::list_head,
    ffi::{
        c_char,
        c_int,
        c_uint,
        c_void, //
    },
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

use crate::{
    arch,
    bindings,
    leftover,
    owner,
    symbol, //
};

use super::{
    Group,
    HEADER_LEN, //
};

/// Prints records of one event.
///
/// Called in process context by readers of the trace, but under `tp_printk` also by a handler and
/// with a raw spinlock held: it does not sleep, lock or allocate.
pub trait Print: Send + Sync + 'static {
    /// Prints a record of the event of this name: its bytes from the very first one.
    ///
    /// They may be any bytes of any length: records stay in the buffers longer than their event,
    /// whose number may be used again.
    fn print(&self, name: &CStr, record: &[u8], seq: &mut TraceSeq);
}

/// The number of an event in the records, and the function that prints them.
///
/// It outlives the event: as long as it lives its records can be read. No other event gets its
/// number as long as the trace buffers may have records with it: see
/// [`empty_traces`](super::empty_traces).
///
/// What the kernel registers is a `struct trace_event`, which it takes for a part of a
/// `struct trace_event_call` where the option `fields` is set. Such a call is never added to the
/// events, so an output has only those fields of it that the kernel then reads.
///
/// # Invariants
///
/// The event in `inner` is registered.
pub struct Output {
    inner: ManuallyDrop<Pin<KBox<PinnedOutput>>>,
}

/// Each event has one. It takes 128 bytes, as one of the allocator's sizes.
///
/// C: the fields up to `_flags` have the places that they have in a `struct trace_event_call`, from
/// its `class` on. The kernel does not read the fields of the call from `print_fmt` to `data`. In
/// their place are the fields of a `struct trace_event_class` that the kernel reads: `get_fields`,
/// which is NULL, and then `fields`. `_class` points as far before them as they are in the class.
#[repr(C)]
struct PinnedOutput {
    _class: *const bindings::trace_event_class,
    name: Name,
    event: Opaque<bindings::trace_event>,
    _get_fields: *const c_void,
    /// The fields of the event while it is registered.
    fields: Opaque<list_head>,
    _flags: c_int,
    /// Whether the trace buffers may have records with the number.
    is_recorded: AtomicBool,
    /// Whether only the number is left.
    is_over: AtomicBool,
    /// The next in [`Reserved`].
    next: *mut PinnedOutput,
    group: Arc<Group>,
    /// Valid until `is_over`.
    print: UnsafeCell<ManuallyDrop<Arc<dyn Print>>>,
}

// The places of the fields of the call, from `class` on, and of those of the class.
const _: () = {
    use bindings::{
        trace_event_call as Call,
        trace_event_class as Class, //
    };

    let class = offset_of!(Call, class);
    assert!(offset_of!(PinnedOutput, _class) == 0);
    assert!(offset_of!(PinnedOutput, name) == offset_of!(Call, __bindgen_anon_1) - class);
    assert!(offset_of!(PinnedOutput, event) == offset_of!(Call, event) - class);
    assert!(offset_of!(PinnedOutput, _flags) == offset_of!(Call, flags) - class);
    assert!(
        offset_of!(PinnedOutput, fields) - offset_of!(PinnedOutput, _get_fields)
            == offset_of!(Class, fields) - offset_of!(Class, get_fields)
    );
};

/// A string that is one pointer for the kernel.
///
/// # Invariants
///
/// A string from `kstrdup()`.
#[repr(transparent)]
struct Name(NonNull<c_char>);

impl Name {
    /// `ENOMEM`.
    fn new(name: &CStr) -> Result<Self> {
        // SAFETY: It is a string.
        let copy =
            unsafe { kernel::bindings::kstrdup(name.as_char_ptr(), kernel::bindings::GFP_KERNEL) };
        // INVARIANT: Copied just now.
        Ok(Self(NonNull::new(copy).ok_or(ENOMEM)?))
    }

    fn as_cstr(&self) -> &CStr {
        // SAFETY: A string, by the type invariant, which nobody changes.
        unsafe { CStr::from_char_ptr(self.0.as_ptr()) }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // SAFETY: It is from `kstrdup()`, by the type invariant, and not used after this.
        unsafe { kernel::bindings::kfree(self.0.as_ptr().cast()) };
    }
}

/// Numbers that records of removed events have: outputs that are over, linked by
/// [`PinnedOutput::next`].
pub(super) struct Reserved(*mut PinnedOutput);

// SAFETY: The outputs in the list belong to the list alone.
unsafe impl Send for Reserved {}

kernel::sync::global_lock! {
    // SAFETY: Initialised by `init` before any output is made.
    unsafe(uninit) static RESERVED: Mutex<Reserved> = Reserved(ptr::null_mut());
}

/// # Safety
///
/// Once, before any output is made.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any other use.
    unsafe { RESERVED.init() };
}

/// Takes the list of reserved numbers.
pub(super) fn take_reserved() -> Reserved {
    core::mem::replace(&mut *RESERVED.lock(), Reserved(ptr::null_mut()))
}

/// Gives numbers back to the kernel. The trace buffers must have no records with them.
pub(super) fn release(mut list: Reserved) {
    while let Some(inner) = list.pop() {
        unregister(&inner);
    }
}

/// Leaves numbers taken for good, also when this module is gone: the kernel prints their records
/// itself.
pub(super) fn abandon(mut list: Reserved) {
    let mut funcs: *mut bindings::trace_event_functions = ptr::null_mut();
    while let Some(inner) = list.pop() {
        while funcs.is_null() {
            // SAFETY: The control event was registered: its functions are the kernel's.
            funcs = unsafe { ktrace_nop_funcs() };
            if funcs.is_null() {
                fsleep(Delta::from_millis(20));
            }
        }
        // SAFETY: The output is registered, and stays in its box for good. Others only read the
        // field.
        let field = unsafe { AtomicPtr::from_ptr(&raw mut (*inner.event.get()).funcs) };
        field.store(funcs, Ordering::Relaxed);
        // SAFETY: It is not moved out of its box any more.
        let _ = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });
    }
    if !funcs.is_null() {
        pr_info!("a CPU is or was offline: the numbers of removed events stay taken\n");
        wait_for_readers();
    }
}

/// Keeps numbers reserved.
pub(super) fn put_back(mut list: Reserved) {
    while let Some(inner) = list.pop() {
        RESERVED.lock().push(inner);
    }
}

impl Reserved {
    fn push(&mut self, inner: Pin<KBox<PinnedOutput>>) {
        // SAFETY: The output stays in its box, which `pop` pins again.
        let inner = KBox::into_raw(unsafe { Pin::into_inner_unchecked(inner) });
        // SAFETY: The output is live, and nobody else uses the field.
        unsafe { (*inner).next = self.0 };
        self.0 = inner;
    }

    fn pop(&mut self) -> Option<Pin<KBox<PinnedOutput>>> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: `push` took it out of its box, and it leaves the list.
        let inner = unsafe { Pin::new_unchecked(KBox::from_raw(self.0)) };
        self.0 = inner.next;
        Some(inner)
    }
}

/// Unregisters the event of an output. Waits for those who print.
fn unregister(inner: &PinnedOutput) {
    // SAFETY: The caller's output is registered, and nobody else unregisters it.
    unsafe { bindings::unregister_trace_event(inner.event.get()) };
}

/// Waits for those who print a record: they hold `trace_event_sem`, which the kernel takes here to
/// unregister an event without a number, and that means nothing more.
fn wait_for_readers() {
    let mut none = bindings::trace_event::default();
    // SAFETY: The kernel takes an event that is in no list out of none, and the number 0 is not
    // that of an event.
    unsafe { bindings::unregister_trace_event(&mut none) };
}

// SAFETY: The kernel changes the event and the fields under its own locks; `Print` is `Send`.
unsafe impl Send for Output {}
// SAFETY: The kernel changes the event and the fields under its own locks; `Print` is `Sync`.
unsafe impl Sync for Output {}

extern "C" {
    static ktrace_output_funcs: bindings::trace_event_functions;
    fn ktrace_nop_funcs() -> *mut bindings::trace_event_functions;
}

impl Output {
    /// Takes a number. C: `register_trace_event()`.
    ///
    /// Process context. `ENODEV` where all numbers (some 65,000) are taken.
    pub(super) fn new(group: Arc<Group>, name: &CStr, print: Arc<dyn Print>) -> Result<Self> {
        let vtable = owner::vtable_of(&*print);
        let name = Name::new(name)?;
        // Allocated before the printer is in a ManuallyDrop, so that a failure drops the printer.
        let inner = KBox::<PinnedOutput>::new_uninit(GFP_KERNEL)?;
        let inner = KBox::into_raw(KBox::write(
            inner,
            PinnedOutput {
                _class: ptr::null(),
                name,
                event: Opaque::new(bindings::trace_event::default()),
                _get_fields: ptr::null(),
                fields: Opaque::new(list_head::default()),
                _flags: 0,
                is_recorded: AtomicBool::new(false),
                is_over: AtomicBool::new(false),
                next: ptr::null_mut(),
                group,
                print: UnsafeCell::new(ManuallyDrop::new(print)),
            },
        ));
        // SAFETY: Nobody else has the output yet. All pointers point into it, or at what lives as
        // long as the module.
        unsafe {
            let get_fields = &raw const (*inner)._get_fields;
            let before = offset_of!(bindings::trace_event_class, get_fields);
            (*inner)._class = get_fields.wrapping_byte_sub(before).cast();
            let fields = (*inner).fields.get();
            (*fields).next = fields;
            (*fields).prev = fields;
            (*(*inner).event.get()).funcs = (&raw const ktrace_output_funcs).cast_mut();
        }
        // SAFETY: It is from a box, and does not move until it is freed.
        let inner = unsafe { Pin::new_unchecked(KBox::from_raw(inner)) };
        let this: *const PinnedOutput = &*inner;
        // SAFETY: `take_back` ends the registration and waits for those who print. The output is
        // freed after `untrack` only.
        unsafe { leftover::track(vtable, this.cast_mut().cast(), take_back) }.inspect_err(
            |_| {
                // SAFETY: Nobody prints, and the box is freed without its printer.
                unsafe { inner.drop_print() };
            },
        )?;
        // SAFETY: It stays in place until it is unregistered.
        if unsafe { bindings::register_trace_event(inner.event.get()) } == 0 {
            leftover::untrack(this.cast_mut().cast());
            // SAFETY: Nobody prints, and the box is freed here without its printer.
            unsafe { inner.drop_print() };
            return Err(ENODEV);
        }
        // INVARIANT: Registered just now.
        Ok(Self {
            inner: ManuallyDrop::new(inner),
        })
    }

    /// The head of the fields of the event itself.
    pub(super) fn fields(&self) -> *mut list_head {
        self.inner.fields.get()
    }

    /// The group of the event.
    pub fn group(&self) -> &Arc<Group> {
        &self.inner.group
    }

    /// The name of the event.
    pub fn name(&self) -> &CStr {
        self.inner.name.as_cstr()
    }

    /// The number.
    pub fn number(&self) -> u16 {
        // SAFETY: Registered, by the type invariant: the number stays. It is at most 65535, as it
        // is kept in 16 bits in a record.
        unsafe { (*self.inner.event.get()).type_ as u16 }
    }

    /// The trace buffers may have records with the number from now on.
    pub(super) fn set_recorded(&self) {
        self.inner.is_recorded.store(true, Ordering::Relaxed);
    }

    /// Whether the trace buffers may have records with the number.
    pub fn is_recorded(&self) -> bool {
        self.inner.is_recorded.load(Ordering::Relaxed)
    }

    /// Prints a record.
    ///
    /// # Safety
    ///
    /// `seq` must be valid and unshared.
    pub(super) unsafe fn print(
        &self,
        seq: *mut bindings::trace_seq,
        record: &[u8],
        addresses: bool,
    ) {
        // SAFETY: The caller guarantees that the sequence is valid and unshared.
        let mut seq = unsafe { TraceSeq::new(seq, addresses) };
        // SAFETY: An output that lives is not over, so the printer is valid.
        let print = unsafe { &*self.inner.print.get() };
        print.print(self.name(), record, &mut seq);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: `self` is not used after this.
        let inner = unsafe { ManuallyDrop::take(&mut self.inner) };
        let this: *const PinnedOutput = &*inner;
        leftover::untrack(this.cast_mut().cast());
        if !inner.is_recorded.load(Ordering::Relaxed) {
            unregister(&inner);
            // SAFETY: Nobody prints any more, and the box is freed here.
            unsafe { inner.drop_print() };
            return;
        }
        inner.end();
        // SAFETY: Those who print from now on see that it is over.
        unsafe { inner.drop_print() };
        RESERVED.lock().push(inner);
    }
}

/// Ends an output that its module left behind: its printer is not called any more.
///
/// # Safety
///
/// `output` must be a [`PinnedOutput`] of an [`Output`] that nobody uses or frees any more.
unsafe fn take_back(output: *mut c_void) {
    // SAFETY: The caller guarantees that nobody else has the box.
    let inner = unsafe { Pin::new_unchecked(KBox::from_raw(output.cast::<PinnedOutput>())) };
    inner.end();
    RESERVED.lock().push(inner);
}

impl PinnedOutput {
    /// Nobody calls the printer any more when this returns.
    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        wait_for_readers();
    }

    /// # Safety
    ///
    /// Once, and nobody must use the printer any more.
    unsafe fn drop_print(&self) {
        // SAFETY: The caller guarantees that nobody uses it, now or later.
        unsafe { ManuallyDrop::drop(&mut *self.print.get()) };
    }
}

/// Where a record is printed to. C: `struct trace_seq`.
///
/// What does not fit is left out, and the kernel notices.
pub struct TraceSeq {
    seq: *mut bindings::trace_seq,
    addresses: bool,
}

impl TraceSeq {
    /// # Safety
    ///
    /// `seq` must be valid and unshared for as long as the value lives.
    unsafe fn new(seq: *mut bindings::trace_seq, addresses: bool) -> Self {
        Self { seq, addresses }
    }

    /// Writes bytes as they are. C: `trace_seq_putmem()`.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let len = c_uint::try_from(bytes.len()).unwrap_or(c_uint::MAX);
        // SAFETY: Valid, by the requirement of `new`.
        unsafe { bindings::trace_seq_putmem(self.seq, bytes.as_ptr().cast(), len) };
    }

    /// Writes an address of code as a symbol, and as a number too where the user asked for it
    /// (`sym-addr` in `trace_options`). C: `seq_print_ip_sym()`.
    pub fn code(&mut self, address: usize, with_offset: bool) {
        use core::fmt::Write as _;

        if address == 0 {
            self.bytes(b"0");
            return;
        }
        let mut buffer = [0; symbol::LEN];
        let name = symbol::format(address, with_offset, &mut buffer);
        if name.starts_with(arch::RETURN_TRAMPOLINE) {
            // The true caller is with the return probe that stands in for it.
            self.bytes(b"[unknown/kretprobe'd]");
        } else if with_offset {
            self.bytes(name);
        } else if name.starts_with(b"0x") {
            let _ = write!(self, "0x{address:08x}");
        } else {
            // The module of a function is not told where its offset is not.
            self.bytes(name.split(|&byte| byte == b' ').next().unwrap_or(name));
        }
        if self.addresses {
            let _ = write!(self, " <{address:016x}>");
        }
    }

    /// Writes an address as a symbol, or as a number. C: `%pS`.
    pub fn symbol(&mut self, address: usize) {
        let mut buffer = [0; symbol::LEN];
        let name = symbol::format(address, true, &mut buffer);
        self.bytes(name);
    }
}

impl probe::fetch::Output for TraceSeq {
    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.bytes(bytes);
        Ok(())
    }

    fn symbol(&mut self, address: u64) -> fmt::Result {
        self.symbol(address as usize);
        Ok(())
    }
}

impl fmt::Write for TraceSeq {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// Prints a record for a reader of the trace.
///
/// # Safety
///
/// Called by the kernel for a registered event of this file; `record` has `len` bytes.
#[no_mangle]
unsafe extern "C" fn ktrace_output_print(
    event: *mut bindings::trace_event,
    seq: *mut bindings::trace_seq,
    record: *const u8,
    len: c_int,
    addresses: bool,
) {
    // SAFETY: The kernel calls this for a registered event of this file, which is embedded in an
    // `PinnedOutput`; unregistering waits for readers.
    let inner = unsafe { &*kernel::container_of!(Opaque::cast_from(event), PinnedOutput, event) };
    let len = usize::try_from(len).unwrap_or(0);
    if len < HEADER_LEN {
        return;
    }
    // SAFETY: The reader of the trace owns the sequence.
    let mut seq = unsafe { TraceSeq::new(seq, addresses) };
    if inner.is_over.load(Ordering::Relaxed) {
        seq.bytes(inner.name.as_cstr().to_bytes());
        seq.bytes(b": (the event was removed)\n");
        return;
    }
    // SAFETY: The kernel says that the record has so many bytes.
    let record = unsafe { core::slice::from_raw_parts(record, len) };
    // SAFETY: It was not over when this began, and its end waits for those who print.
    let print = unsafe { &*inner.print.get() };
    print.print(inner.name.as_cstr(), record, &mut seq);
}

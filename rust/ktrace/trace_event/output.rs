// SPDX-License-Identifier: GPL-2.0

//! Printing of records.

use core::{
    cell::UnsafeCell,
    fmt,
    mem::{
        ManuallyDrop,
        MaybeUninit, //
    },
    pin::Pin,
    ptr,
    sync::atomic::{
        AtomicBool,
        AtomicPtr,
        Ordering, //
    },
};

use kernel::{
    bindings::list_head,
    ffi::{
        c_int,
        c_uint,
        c_void, //
    },
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

use crate::{
    bindings,
    leftover,
    owner,
    symbol, //
};

use super::HEADER_LEN;

/// Prints records of one event.
///
/// Called in process context by readers of the trace, but under `tp_printk` also by a handler and
/// with a raw spinlock held: it does not sleep, lock or allocate.
pub trait Print: Send + Sync + 'static {
    /// Prints a record: its bytes from the very first one.
    ///
    /// They may be any bytes of any length: records stay in the buffers longer than their event,
    /// whose number may be used again.
    fn print(&self, record: &[u8], seq: &mut TraceSeq);
}

/// The number of an event in the records, and the function that prints them.
///
/// It outlives the event: as long as it lives its records can be read. No other event gets its
/// number as long as the trace buffers may have records with it: see
/// [`empty_traces`](super::empty_traces).
///
/// What the kernel registers is a `struct trace_event`, which it takes for a part of a
/// `struct trace_event_call` where the option `fields` is set: so there is one, a shell that is
/// never added to the events, and whose class the event itself has too.
///
/// # Invariants
///
/// The event in the call in `inner` is registered.
pub struct Output {
    inner: ManuallyDrop<Pin<KBox<PinnedOutput>>>,
}

/// Each event has one. It takes 256 bytes, as one of the allocator's sizes.
struct PinnedOutput {
    call: Opaque<bindings::trace_event_call>,
    class: Opaque<bindings::trace_event_class>,
    /// The group and the name, with a NUL behind each. `class.system` and `call.name` point there.
    names: KVec<u8>,
    /// Where the name begins.
    name_at: u32,
    /// Valid until `is_over`.
    print: UnsafeCell<ManuallyDrop<KBox<dyn Print>>>,
    /// Whether the trace buffers may have records with the number.
    is_recorded: AtomicBool,
    /// Whether only the number is left.
    is_over: AtomicBool,
    /// The next in [`Reserved`].
    next: *mut PinnedOutput,
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
        let field = unsafe { AtomicPtr::from_ptr(&raw mut (*inner.call.get()).event.funcs) };
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
    // SAFETY: The projection stays within the allocation.
    let event = unsafe { &raw mut (*inner.call.get()).event };
    // SAFETY: The caller's output is registered, and nobody else unregisters it.
    unsafe { bindings::unregister_trace_event(event) };
}

/// Waits for those who print a record: they hold `trace_event_sem`, which the kernel takes here to
/// unregister an event without a number, and that means nothing more.
fn wait_for_readers() {
    let mut none = bindings::trace_event::default();
    // SAFETY: The kernel takes an event that is in no list out of none, and the number 0 is not
    // that of an event.
    unsafe { bindings::unregister_trace_event(&mut none) };
}

// SAFETY: The kernel changes the call and the class under its own locks; `Print` is `Send`.
unsafe impl Send for Output {}
// SAFETY: The kernel changes the call and the class under its own locks; `Print` is `Sync`.
unsafe impl Sync for Output {}

extern "C" {
    static ktrace_output_funcs: bindings::trace_event_functions;
    fn ktrace_nop_funcs() -> *mut bindings::trace_event_functions;
}

impl Output {
    /// Takes a number. C: `register_trace_event()`.
    ///
    /// Process context. `ENODEV` where all numbers (some 65,000) are taken.
    pub(super) fn new(group: &CStr, name: &CStr, print: KBox<dyn Print>) -> Result<Self> {
        let group = group.to_bytes_with_nul();
        let name_at = u32::try_from(group.len())?;
        let mut names = KVec::new();
        names.extend_from_slice(group, GFP_KERNEL)?;
        names.extend_from_slice(name.to_bytes_with_nul(), GFP_KERNEL)?;
        // Allocated before the printer is in a ManuallyDrop, so that a failure drops the printer.
        let inner = KBox::<PinnedOutput>::new_uninit(GFP_KERNEL)?;
        let inner = KBox::into_pin(KBox::write(
            inner,
            PinnedOutput {
                // SAFETY: All-zero is valid for both structures.
                call: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                // SAFETY: All-zero is valid for both structures.
                class: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                names,
                name_at,
                print: UnsafeCell::new(ManuallyDrop::new(print)),
                is_recorded: AtomicBool::new(false),
                is_over: AtomicBool::new(false),
                next: ptr::null_mut(),
            },
        ));
        let call = inner.call.get();
        let class = inner.class.get();
        // SAFETY: Nobody else has the output yet.
        let print = unsafe { &*inner.print.get() };
        // SAFETY: Nobody else has either yet. What they point at lives as long as `inner`, behind
        // `inner` in the same allocation, or for as long as the module.
        let event = unsafe {
            (*class).system = inner.group().as_char_ptr();
            let fields: *mut list_head = &raw mut (*class).fields;
            (*fields).next = fields;
            (*fields).prev = fields;
            (*call).class = class;
            (*call).__bindgen_anon_1.name = inner.name().as_char_ptr();
            (*call).event.funcs = (&raw const ktrace_output_funcs).cast_mut();
            &raw mut (*call).event
        };
        let this: *const PinnedOutput = &*inner;
        let vtable = owner::vtable_of(&***print);
        // SAFETY: `take_back` ends the registration and waits for those who print. The output is
        // freed after `untrack` only.
        unsafe { leftover::track(vtable, this.cast_mut().cast(), take_back) }.inspect_err(
            |_| {
                // SAFETY: Nobody prints, and the box is freed without its printer.
                unsafe { inner.drop_print() };
            },
        )?;
        // SAFETY: It stays in place until it is unregistered.
        if unsafe { bindings::register_trace_event(event) } == 0 {
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

    fn event(&self) -> *mut bindings::trace_event {
        // SAFETY: The projection stays within the allocation.
        unsafe { &raw mut (*self.inner.call.get()).event }
    }

    /// The class, for the event itself.
    pub(super) fn class(&self) -> *mut bindings::trace_event_class {
        self.inner.class.get()
    }

    /// The group of the event.
    pub fn group(&self) -> &CStr {
        self.inner.group()
    }

    /// The name of the event.
    pub fn name(&self) -> &CStr {
        self.inner.name()
    }

    /// The number.
    pub fn number(&self) -> u16 {
        // SAFETY: Registered, by the type invariant: the number stays. It is at most 65535, as it
        // is kept in 16 bits in a record.
        unsafe { (*self.event()).type_ as u16 }
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
        print.print(record, &mut seq);
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
    fn group(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.names).unwrap_or(c"")
    }

    fn name(&self) -> &CStr {
        let name = self.names.get(self.name_at as usize..).unwrap_or(&[]);
        CStr::from_bytes_until_nul(name).unwrap_or(c"")
    }

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
        if name.starts_with(b"arch_rethook_trampoline+0x0/") {
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
    let inner = unsafe {
        let call = kernel::container_of!(event, bindings::trace_event_call, event);
        &*kernel::container_of!(Opaque::cast_from(call), PinnedOutput, call)
    };
    let len = usize::try_from(len).unwrap_or(0);
    if len < HEADER_LEN {
        return;
    }
    // SAFETY: The reader of the trace owns the sequence.
    let mut seq = unsafe { TraceSeq::new(seq, addresses) };
    if inner.is_over.load(Ordering::Relaxed) {
        seq.bytes(inner.name().to_bytes());
        seq.bytes(b": (the event was removed)\n");
        return;
    }
    // SAFETY: The kernel says that the record has so many bytes.
    let record = unsafe { core::slice::from_raw_parts(record, len) };
    // SAFETY: It was not over when this began, and its end waits for those who print.
    let print = unsafe { &*inner.print.get() };
    print.print(record, &mut seq);
}

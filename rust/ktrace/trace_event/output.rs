// SPDX-License-Identifier: GPL-2.0

//! Printing of records.

use core::fmt;
use core::mem::MaybeUninit;
use core::pin::Pin;

use kernel::bindings::list_head;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::types::Opaque;

use super::HEADER_LEN;
use crate::bindings;
use crate::symbol;

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
/// It outlives the event: as long as it lives its records can be read, and no other event gets
/// its number.
///
/// What the kernel registers is a `struct trace_event`, which it takes for a part of a
/// `struct trace_event_call` where the option `fields` is set: so there is one, a shell that is
/// never added to the events, and whose class the event itself has too.
///
/// # Invariants
///
/// The event in the call in `inner` is registered.
pub struct Output {
    inner: Pin<KBox<Inner>>,
}

#[repr(C)]
struct Inner {
    call: Opaque<bindings::trace_event_call>,
    class: Opaque<bindings::trace_event_class>,
    /// `class.system` and `call.name` point into these.
    group: CString,
    name: CString,
    print: KBox<dyn Print>,
}

// SAFETY: The kernel changes the call and the class under its own locks; `Print` is `Send`.
unsafe impl Send for Output {}
// SAFETY: As above; `Print` is `Sync`.
unsafe impl Sync for Output {}

extern "C" {
    static ktrace_output_funcs: bindings::trace_event_functions;
}

impl Output {
    /// Takes a number. C: `register_trace_event()`.
    ///
    /// Process context. `ENODEV` where all numbers (some 65,000) are taken.
    pub(super) fn new(group: CString, name: CString, print: KBox<dyn Print>) -> Result<Self> {
        let inner = KBox::pin(
            Inner {
                // SAFETY: All-zero is valid for both structures.
                call: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                // SAFETY: As above.
                class: Opaque::new(unsafe { MaybeUninit::zeroed().assume_init() }),
                group,
                name,
                print,
            },
            GFP_KERNEL,
        )?;
        let call = inner.call.get();
        let class = inner.class.get();
        // SAFETY: Nobody else has either yet. What they point at lives as long as `inner`, behind
        // `inner` in the same allocation, or for as long as the module.
        let event = unsafe {
            (*class).system = inner.group.as_char_ptr();
            let fields: *mut list_head = &raw mut (*class).fields;
            (*fields).next = fields;
            (*fields).prev = fields;
            (*call).class = class;
            (*call).__bindgen_anon_1.name = inner.name.as_char_ptr();
            (*call).event.funcs = (&raw const ktrace_output_funcs).cast_mut();
            &raw mut (*call).event
        };
        // SAFETY: It stays in place until it is unregistered.
        if unsafe { bindings::register_trace_event(event) } == 0 {
            return Err(ENODEV);
        }
        // INVARIANT: Registered just now.
        Ok(Self { inner })
    }

    fn event(&self) -> *mut bindings::trace_event {
        // SAFETY: The projection stays within the allocation.
        unsafe { &raw mut (*self.inner.call.get()).event }
    }

    /// The class, for the event itself.
    pub(super) fn class(&self) -> *mut bindings::trace_event_class {
        self.inner.class.get()
    }

    /// The name of the event.
    pub(super) fn name(&self) -> &CStr {
        &self.inner.name
    }

    /// The number.
    pub fn number(&self) -> u16 {
        // SAFETY: Registered, by the type invariant: the number stays. It is at most 65535, as it
        // is kept in 16 bits in a record.
        unsafe { (*self.event()).type_ as u16 }
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
        // SAFETY: By the safety requirement.
        let mut seq = unsafe { TraceSeq::new(seq, addresses) };
        self.inner.print.print(record, &mut seq);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: Registered, by the type invariant. This waits for those who print.
        unsafe { bindings::unregister_trace_event(self.event()) };
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
    // SAFETY: By the safety requirement: unregistering waits for readers.
    let inner = unsafe {
        let call = kernel::container_of!(event, bindings::trace_event_call, event);
        &*kernel::container_of!(Opaque::cast_from(call), Inner, call)
    };
    let len = usize::try_from(len).unwrap_or(0);
    if len < HEADER_LEN {
        return;
    }
    // SAFETY: By the safety requirement.
    let record = unsafe { core::slice::from_raw_parts(record, len) };
    // SAFETY: The reader of the trace owns the sequence.
    let mut seq = unsafe { TraceSeq::new(seq, addresses) };
    inner.print.print(record, &mut seq);
}

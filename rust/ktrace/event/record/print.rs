// SPDX-License-Identifier: GPL-2.0

//! The printing of records for readers of the trace.

use core::fmt;

use kernel::{
    bindings::MAX_ERRNO,
    ffi::c_uint,
    prelude::*, //
};

use crate::{
    arch,
    bindings,
    symbols::symbol, //
};

/// Prints records of one event.
///
/// Readers of the trace call the printer in process context. Under `tp_printk`, a handler also
/// calls the printer, with a raw spinlock held. So a printer does not sleep, lock or allocate.
pub trait Print: Send + Sync + 'static {
    /// Prints a record of the event `name`. `record` starts with the record's first byte.
    ///
    /// `record` may hold any bytes, of any length. Records stay in the buffers longer than their
    /// event, and another event can get the event's number.
    fn print(&self, name: &CStr, record: &[u8], seq: &mut TraceSeq);
}

/// The destination of a printed record. C: `struct trace_seq`.
///
/// The kernel cuts text that does not fit, and notices it.
pub struct TraceSeq {
    seq: *mut bindings::trace_seq,
    addresses: bool,
}

impl TraceSeq {
    /// # Safety
    ///
    /// `seq` must be valid and unshared for as long as the value lives.
    pub(in crate::event) unsafe fn new(seq: *mut bindings::trace_seq, addresses: bool) -> Self {
        Self { seq, addresses }
    }

    /// Writes bytes as they are. C: `trace_seq_putmem()`.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let len = c_uint::try_from(bytes.len()).unwrap_or(c_uint::MAX);
        // SAFETY: The caller of `new` guarantees that the sequence is valid.
        unsafe { bindings::trace_seq_putmem(self.seq, bytes.as_ptr().cast(), len) };
    }

    /// Writes a code address as a symbol. Also writes it as a number if the user set `sym-addr` in
    /// `trace_options`. C: `seq_print_ip_sym()`.
    pub fn code(&mut self, address: usize, with_offset: bool) {
        use core::fmt::Write as _;

        if address == 0 {
            self.bytes(b"0");
            return;
        }
        let mut buffer = [0; symbol::LEN];
        let name = symbol::format(address, with_offset, &mut buffer);
        let behind = name.strip_prefix(arch::RETURN_TRAMPOLINE.to_bytes());
        if behind.is_some_and(|behind| behind.starts_with(b"+0x0/")) {
            // The return probe that replaced the return address has the true caller.
            self.bytes(b"[unknown/kretprobe'd]");
        } else if with_offset {
            self.bytes(name);
        } else if name.starts_with(b"0x") {
            let _ = write!(self, "0x{address:08x}");
        } else {
            // Without the offset, the kernel also omits the module of the function.
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

    fn error_name(&self, number: u16) -> Option<&'static str> {
        error_name(number)
    }

    fn function(&mut self, address: u64) -> fmt::Result {
        self.code(address as usize, false);
        Ok(())
    }
}

/// The name of an error, such as `ENOENT`. `None` for a number without a name, and on kernels
/// without names. C: `errname()`.
pub fn error_name(number: u16) -> Option<&'static str> {
    if !(1..=MAX_ERRNO).contains(&number.into()) {
        return None;
    }
    let error = Error::from_errno(-i32::from(number));
    error.name()?.to_str().ok()
}

impl fmt::Write for TraceSeq {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Prints a record as a line of the trace.
//!
//! C: `print_kprobe_event()`, `print_kretprobe_event()` in `kernel/trace/trace_kprobe.c`,
//! `print_eprobe_event()` in `kernel/trace/trace_eprobe.c`.

use kernel::prelude::*;

use ktrace::trace_event::{
    Print,
    TraceSeq,
    HEADER_LEN, //
};
use probe::fetch::{
    self,
    Head, //
};

use crate::records::Records;

/// Prints the records of an event. The event may no longer exist.
impl Print for Records {
    fn print(&self, name: &CStr, record: &[u8], seq: &mut TraceSeq) {
        let schema = &self.schema;
        seq.bytes(name.to_bytes());
        seq.bytes(b": (");
        match schema.head() {
            Head::Probe => seq.code(word(record, 0), true),
            Head::Return => {
                seq.code(word(record, 1), true);
                seq.bytes(b" <- ");
                seq.code(word(record, 0), false);
            }
            Head::Event => seq.bytes(schema.attached().as_bytes()),
        }
        seq.bytes(b")");
        // Writing to a `TraceSeq` does not fail. The kernel detects an overflow.
        let _ = fetch::print(schema.fields(), record, schema.fields_at(), seq);
        seq.bytes(b"\n");
    }
}

/// The Nth word after the header. 0 if the record is too short.
fn word(record: &[u8], n: usize) -> usize {
    record
        .get(HEADER_LEN..)
        .and_then(|words| words.chunks_exact(size_of::<usize>()).nth(n))
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, usize::from_ne_bytes)
}

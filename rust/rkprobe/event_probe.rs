// SPDX-License-Identifier: GPL-2.0

//! What a probe does that is attached to an event.
//!
//! C: `__eprobe_trace_func()` in `kernel/trace/trace_eprobe.c`.

use ktrace::event_probe;
use ktrace::event_probe::Record;

use crate::recorder::CallValues;
use crate::recorder::Head;
use crate::recorder::Recorder;

/// What it does at a hit.
pub(crate) struct AtEvent(pub(crate) Recorder);

impl event_probe::Handler for AtEvent {
    #[inline(always)]
    fn hit(&self, record: &Record<'_>) {
        self.0.record(record, OfEvent(record.bytes()), ());
    }
}

impl AsRef<Recorder> for AtEvent {
    fn as_ref(&self) -> &Recorder {
        &self.0
    }
}

/// A record of its own begins with no address.
impl Head for () {
    #[inline(always)]
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]> {
        Some(record)
    }
}

/// The record of the event that it is attached to.
#[derive(Clone, Copy)]
struct OfEvent<'a>(&'a [u8]);

impl CallValues for OfEvent<'_> {
    #[inline(always)]
    fn record(&self) -> &[u8] {
        self.0
    }
}

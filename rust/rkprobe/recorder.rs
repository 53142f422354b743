// SPDX-License-Identifier: GPL-2.0

//! The handler of a probe: a hit becomes a record.

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    percpu::Counters,
    registers::RegisterFile,
    trace_event::{
        Fill,
        Origin,
        HEADER_LEN, //
    },
};
use probe::fetch::{
    self,
    Program, //
};

use crate::{
    hit_context::{
        CallValues,
        HitContext, //
    },
    object::Role,
    records::Records,
    schema::StringBuffer,
};

/// The number of executed and of missed hits of a probe.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) missed: u64,
}

impl Counts {
    /// The counts of a handler. `missed` is the number of hits that did not reach it.
    pub(crate) fn of(handler: &impl AsRef<Recorder>, missed: u64) -> Self {
        let counters = &handler.as_ref().counters;
        Self {
            hits: counters.sum::<HITS>(),
            missed: missed.wrapping_add(counters.sum::<MISSED>()),
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            hits: self.hits.wrapping_add(other.hits),
            missed: self.missed.wrapping_add(other.missed),
        }
    }
}

/// The counter of executed hits.
const HITS: usize = 0;
/// The counter of hits that found no buffer.
const MISSED: usize = 1;

/// Makes a record at each hit. Each registration of a probe has its own recorder.
pub(crate) struct Recorder {
    records: Arc<Records>,
    counters: Counters<2>,
    programs: KVec<Program>,
    /// The size of the fields without strings, in bytes. The compiler knows that additions to 16
    /// bits do not overflow.
    fixed: u16,
    /// Whether a hit changes a table of objects instead of making a record.
    is_feed: bool,
    /// Whether the event has a buffer.
    has_strings: bool,
    /// The strings whose addresses the programs contain.
    _texts: Option<Arc<KVec<CString>>>,
}

impl AsRef<Recorder> for Recorder {
    fn as_ref(&self) -> &Recorder {
        self
    }
}

impl Recorder {
    /// Makes a recorder, from programs and the strings that the programs point at.
    pub(crate) fn new(
        records: Arc<Records>,
        programs: KVec<Program>,
        texts: Option<Arc<KVec<CString>>>,
    ) -> Result<Self> {
        Ok(Self {
            counters: Counters::new()?,
            programs,
            fixed: records.schema.layout().bytes().try_into()?,
            is_feed: records.schema.role().is_some_and(Role::is_feed),
            has_strings: records.schema.strings().is_some(),
            records,
            _texts: texts,
        })
    }

    /// Makes a record that begins with the addresses in `head`.
    #[inline(always)]
    pub(crate) fn record<O: Origin>(
        &self,
        hit: &O,
        values: impl CallValues,
        head: impl RecordHead,
    ) {
        match self.strings() {
            None => {
                self.counters.increment::<HITS>();
                let state = hit.state();
                let len = || HEADER_LEN + size_of_val(&head) + usize::from(self.fixed);
                // SAFETY: `Schema::define` makes the event's fields from the head and from the
                // layout that has `fixed` bytes. A field ends within `MAX_LEN` bytes.
                unsafe {
                    self.records.sink.record_filled(hit, len, || FixedRecord {
                        head,
                        recorder: self,
                        context: HitContext { state, values },
                    });
                }
            }
            Some(buffer) => {
                self.record_with_strings(buffer, *hit, values, head, |this, fields| {
                    this.counters.increment::<HITS>();
                    if this.is_feed {
                        this.feed(fields);
                    }
                    !this.is_feed
                });
            }
        }
    }

    /// The buffer of the event.
    #[inline(always)]
    fn strings(&self) -> Option<&StringBuffer> {
        match self.has_strings {
            true => self.records.schema.strings().map(|buffer| &**buffer),
            false => None,
        }
    }

    /// Changes the table of objects with the fields of the record that a feed does not make.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn feed(&self, fields: &[u8]) {
        if let Some(role) = self.records.schema.role() {
            role.feed(fields);
        }
    }

    /// Makes a record if `is_record` returns true for the bytes of its fields. Only for an event
    /// with a buffer: see [`Role::needs_buffer`](crate::object::Role::needs_buffer).
    #[inline(always)]
    pub(crate) fn record_if<O: Origin>(
        &self,
        hit: &O,
        values: impl CallValues,
        head: impl RecordHead,
        is_record: impl FnOnce(&[u8]) -> bool,
    ) {
        if let Some(buffer) = self.strings() {
            self.record_with_strings(buffer, *hit, values, head, |_, fields| {
                let is_record = is_record(fields);
                if is_record {
                    self.counters.increment::<HITS>();
                }
                is_record
            });
        }
    }

    /// Makes the record of an event with strings. Reads the strings once for all users. Writes it
    /// if `is_record` returns true for the bytes of its fields.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn record_with_strings<O: Origin>(
        &self,
        buffer: &StringBuffer,
        hit: O,
        values: impl CallValues,
        head: impl RecordHead,
        is_record: impl FnOnce(&Self, &[u8]) -> bool,
    ) {
        let state = hit.state();
        let fields_at = HEADER_LEN + size_of_val(&head);
        buffer.with(state.atomic(), |area| {
            let Some(area) = area else {
                // The handlers that this one interrupts use all buffers.
                self.counters.increment::<MISSED>();
                return;
            };
            let len = area.len().wrapping_sub(fields_at);
            let fields = area.get_mut(..len).unwrap_or(&mut []);
            let fixed = usize::from(self.fixed);
            let context = HitContext { state, values };
            let len = fetch::record(&self.programs, fixed, fields_at, context, fields);
            let Some(bytes) = fields.get(..len) else {
                return;
            };
            if bytes.len() < fixed || !is_record(self, bytes) {
                return;
            }
            let len = fields_at.wrapping_add(bytes.len());
            // SAFETY: `Schema::define` makes the event's fields from the head and from the layout
            // that has `fixed` bytes. There are not less, nor more than `MAX_LEN`.
            unsafe {
                self.records
                    .sink
                    .record_filled(&hit, || len, || RecordWithStrings { head, bytes });
            }
        });
    }
}

/// The record of an event without strings.
#[derive(Clone, Copy)]
struct FixedRecord<'a, R, K, H> {
    head: H,
    recorder: &'a Recorder,
    context: HitContext<R, K>,
}

// SAFETY: The record has the length of the head and of the event's fields, as `Recorder::record`
// computes it: `put` writes the head, and `record_fixed` writes the fields and the gaps between
// them. Both only write.
unsafe impl<R: RegisterFile, K: CallValues, H: RecordHead> Fill for FixedRecord<'_, R, K, H> {
    #[inline(always)]
    fn fill(self, record: &mut [u8]) {
        if let Some(fields) = self.head.put(record) {
            fetch::record_fixed(&self.recorder.programs, self.context, fields);
        }
    }
}

/// The record of an event with strings.
#[derive(Clone, Copy)]
struct RecordWithStrings<'a, H> {
    head: H,
    bytes: &'a [u8],
}

// SAFETY: The record has the length of the head and of `bytes`, as `Recorder::record_with_strings`
// computes it. Both are written, and nothing is read.
unsafe impl<H: RecordHead> Fill for RecordWithStrings<'_, H> {
    #[inline(always)]
    fn fill(self, record: &mut [u8]) {
        if let Some(fields) = self.head.put(record) {
            if fields.len() == self.bytes.len() {
                fields.copy_from_slice(self.bytes);
            }
        }
    }
}

/// The addresses at the start of a record. Their size in the record is the size of this type.
pub(crate) trait RecordHead: Copy {
    /// Writes the addresses. Returns the rest of the record.
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]>;
}

/// The record of an event probe starts with no address.
impl RecordHead for () {
    #[inline(always)]
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]> {
        Some(record)
    }
}

/// The address of the probe.
impl RecordHead for (usize,) {
    #[inline(always)]
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]> {
        put_address(record, self.0)
    }
}

/// The address of the function, and the address that it returns to.
impl RecordHead for (usize, usize) {
    #[inline(always)]
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]> {
        put_address(put_address(record, self.0)?, self.1)
    }
}

#[inline(always)]
fn put_address(record: &mut [u8], address: usize) -> Option<&mut [u8]> {
    let (first, rest) = record.split_first_chunk_mut()?;
    *first = address.to_ne_bytes();
    Some(rest)
}

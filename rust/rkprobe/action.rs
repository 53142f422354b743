// SPDX-License-Identifier: GPL-2.0

//! What a probe does at its hits: it makes records, or changes the objects of an object probe.

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
use probe::{
    argument::Argument,
    fetch::{
        self,
        Layout,
        Program, //
    },
};

use crate::{
    hit_context::{
        CallValues,
        HitContext, //
    },
    object::{
        is_address,
        Feed,
        Following, //
    },
    records::Records,
    schema::StringBuffer, //
};

/// What the hits of a probe are for. Each registration of the probe makes an [`Action`] of it.
#[derive(Clone)]
pub(crate) enum Purpose {
    /// Records of an event.
    Record(Arc<Records>),
    /// Records of the objects that an object probe follows.
    Follow(Arc<Records>, Arc<Following>),
    /// Changes of the objects that an object probe follows. There is one argument, the address of
    /// an object. It is read into the buffer.
    Feed(Feed, Arc<StringBuffer>),
}

impl Purpose {
    /// Whether these are arguments of the probe. A module can have other types when it loads again.
    pub(crate) fn accepts(&self, arguments: &[Argument<'_>]) -> bool {
        match self {
            Self::Record(records) | Self::Follow(records, _) => {
                let mut layout = Layout::new();
                let mut both = arguments.iter().zip(records.schema.fields());
                both.all(|(argument, (_, field))| layout.add(argument) == Ok(field))
            }
            Self::Feed(..) => arguments.iter().all(is_address),
        }
    }
}

/// The number of executed and of missed hits of a probe.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) missed: u64,
}

impl Counts {
    /// The counts of a handler. `missed` is the number of hits that did not reach it.
    pub(crate) fn of(handler: &impl AsRef<Action>, missed: u64) -> Self {
        let counters = &handler.as_ref().input().counters;
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

/// What happens at the hits of one registration of a probe.
pub(crate) enum Action {
    /// A record. Its fields are read in their place in the record.
    Record(Input, Arc<Records>),
    /// The fields are read into a buffer before anything is done with them.
    Buffered(KBox<Buffered>),
}

/// The input of an action: hits, and fields of them.
pub(crate) struct Input {
    counters: Counters<2>,
    programs: KVec<Program>,
    /// The size of the fields without strings, in bytes. The compiler knows that additions to 16
    /// bits do not overflow.
    fixed: u16,
    /// The strings whose addresses the programs contain.
    _texts: Option<Arc<KVec<CString>>>,
}

/// An action that reads the fields into a buffer first.
pub(crate) struct Buffered {
    input: Input,
    buffer: Arc<StringBuffer>,
    taker: Taker,
}

/// Takes the fields in a buffer.
enum Taker {
    /// A record with strings, or one that depends on the values of its fields.
    Record(Arc<Records>),
    /// A change of a table of objects.
    Feed(Feed),
}

impl AsRef<Action> for Action {
    fn as_ref(&self) -> &Action {
        self
    }
}

impl Action {
    /// Creates the action for a purpose, from programs and the strings that the programs point at.
    /// `ENOMEM`.
    pub(crate) fn new(
        purpose: &Purpose,
        programs: KVec<Program>,
        texts: Option<Arc<KVec<CString>>>,
    ) -> Result<Self> {
        let input = |fixed| {
            Ok::<_, Error>(Input {
                counters: Counters::new()?,
                programs,
                fixed,
                _texts: texts,
            })
        };
        let buffered = match purpose {
            Purpose::Record(records) | Purpose::Follow(records, _) => {
                let input = input(records.schema.layout().bytes().try_into()?)?;
                let Some(buffer) = records.schema.strings() else {
                    return Ok(Self::Record(input, records.clone()));
                };
                Buffered {
                    input,
                    buffer: buffer.clone(),
                    taker: Taker::Record(records.clone()),
                }
            }
            Purpose::Feed(feed, buffer) => Buffered {
                input: input(Feed::BYTES)?,
                buffer: buffer.clone(),
                taker: Taker::Feed(feed.clone()),
            },
        };
        Ok(Self::Buffered(KBox::new(buffered, GFP_KERNEL)?))
    }

    fn input(&self) -> &Input {
        match self {
            Self::Record(input, _) => input,
            Self::Buffered(buffered) => &buffered.input,
        }
    }

    /// Runs the action at a hit. A record begins with the addresses in `head`. Any context.
    #[inline(always)]
    pub(crate) fn run<O: Origin>(&self, hit: &O, values: impl CallValues, head: impl RecordHead) {
        match self {
            Self::Record(input, records) => {
                input.counters.increment::<HITS>();
                let state = hit.state();
                let len = || HEADER_LEN + size_of_val(&head) + usize::from(input.fixed);
                // SAFETY: `Schema::define` makes the event's fields from the head and from the
                // layout that has `fixed` bytes. A field ends within `MAX_LEN` bytes.
                unsafe {
                    records.sink.record_filled(hit, len, || FixedRecord {
                        head,
                        input,
                        context: HitContext { state, values },
                    });
                }
            }
            Self::Buffered(buffered) => buffered.run(*hit, values, head, |buffered, fields| {
                buffered.input.counters.increment::<HITS>();
                buffered.taker.take(fields)
            }),
        }
    }

    /// Makes a record if `is_record` returns true for the bytes of its fields. Only for an event
    /// with a buffer: see [`Kind::compares_records`](crate::kind::Kind::compares_records).
    #[inline(always)]
    pub(crate) fn record_if<O: Origin>(
        &self,
        hit: &O,
        values: impl CallValues,
        head: impl RecordHead,
        is_record: impl FnOnce(&[u8]) -> bool,
    ) {
        if let Self::Buffered(buffered) = self {
            buffered.run(*hit, values, head, |buffered, fields| {
                if !is_record(fields) {
                    return None;
                }
                buffered.input.counters.increment::<HITS>();
                buffered.taker.take(fields)
            });
        }
    }
}

impl Buffered {
    /// Reads the fields once for all users. Makes a record of them if `take` returns an event.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn run<O: Origin>(
        &self,
        hit: O,
        values: impl CallValues,
        head: impl RecordHead,
        take: impl for<'a> FnOnce(&'a Self, &[u8]) -> Option<&'a Records>,
    ) {
        let state = hit.state();
        let fields_at = HEADER_LEN + size_of_val(&head);
        self.buffer.with(state.atomic(), |area| {
            let Some(area) = area else {
                // The handlers that this one interrupts use all buffers.
                self.input.counters.increment::<MISSED>();
                return;
            };
            let len = area.len().wrapping_sub(fields_at);
            let fields = area.get_mut(..len).unwrap_or(&mut []);
            let fixed = usize::from(self.input.fixed);
            let context = HitContext { state, values };
            let len = fetch::record(&self.input.programs, fixed, fields_at, context, fields);
            let Some(bytes) = fields.get(..len) else {
                return;
            };
            if bytes.len() < fixed {
                return;
            }
            let Some(records) = take(self, bytes) else {
                return;
            };
            let len = fields_at.wrapping_add(bytes.len());
            // SAFETY: `Schema::define` makes the event's fields from the head and from the layout
            // that has `fixed` bytes. There are not less, nor more than `MAX_LEN`.
            unsafe {
                let sink = &records.sink;
                sink.record_filled(&hit, || len, || RecordWithStrings { head, bytes });
            }
        });
    }
}

impl Taker {
    /// Takes the fields. Returns the event if they are those of its record.
    #[inline(always)]
    fn take(&self, fields: &[u8]) -> Option<&Records> {
        match self {
            Self::Record(records) => Some(records),
            Self::Feed(feed) => {
                feed.take(fields);
                None
            }
        }
    }
}

/// The record of an event without strings.
#[derive(Clone, Copy)]
struct FixedRecord<'a, R, K, H> {
    head: H,
    input: &'a Input,
    context: HitContext<R, K>,
}

// SAFETY: The record has the length of the head and of the event's fields, as `Action::run`
// computes it: `put` writes the head, and `record_fixed` writes the fields and the gaps between
// them. Both only write.
unsafe impl<R: RegisterFile, K: CallValues, H: RecordHead> Fill for FixedRecord<'_, R, K, H> {
    #[inline(always)]
    fn fill(self, record: &mut [u8]) {
        if let Some(fields) = self.head.put(record) {
            fetch::record_fixed(&self.input.programs, self.context, fields);
        }
    }
}

/// The record of an event with strings.
#[derive(Clone, Copy)]
struct RecordWithStrings<'a, H> {
    head: H,
    bytes: &'a [u8],
}

// SAFETY: The record has the length of the head and of `bytes`, as `Action::run_buffered`
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

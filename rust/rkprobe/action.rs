// SPDX-License-Identifier: GPL-2.0

//! The actions of probes at their hits: they make records, count, or change the objects of an
//! object probe.

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    percpu::{
        Counter,
        Counters, //
    },
    registers::RegisterFile,
    trace_event::{
        Fill,
        Origin,
        HEADER_LEN,
        MAX_LEN, //
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
    condition::{
        Conditions,
        Gate, //
    },
    counting::{
        CountPrograms,
        Counting,
        KeysAndValues,
        Outcome, //
    },
    hit_context::{
        CallValues,
        HitContext, //
    },
    object::{
        is_address,
        Feed,
        Following, //
    },
    record_head::RecordHead,
    records::Records,
    schema::StringBuffer, //
};

/// The purpose of a probe's hits. Each registration of the probe makes an [`Action`] of it.
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
    /// Whether these are arguments, keys and values of the probe. A module can have other types
    /// when it loads again.
    pub(crate) fn accepts(
        &self,
        arguments: &[Argument<'_>],
        counted: Option<&KeysAndValues<'_>>,
    ) -> bool {
        match self {
            Self::Record(records) | Self::Follow(records, _) => {
                let mut layout = Layout::new();
                let mut both = arguments.iter().zip(records.schema.fields());
                both.all(|(argument, (_, field))| layout.add(argument) == Ok(field))
                    && match (counted, records.schema.tally()) {
                        (Some(counted), Some(tally)) => counted.fit(tally),
                        (None, None) => true,
                        _ => false,
                    }
            }
            Self::Feed(..) => arguments.iter().all(is_address),
        }
    }

    /// Whether the purpose needs an argument of the command.
    pub(crate) fn uses(&self, argument: &Argument<'_>) -> bool {
        match self {
            Self::Record(_) | Self::Follow(..) => true,
            Self::Feed(feed, _) => feed.reads(argument),
        }
    }
}

/// The numbers of hits of a probe.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Hits that did what the probe is for.
    pub(crate) hits: u64,
    pub(crate) missed: u64,
    /// Hits that did not fulfil the condition, and hits of an event that counts that no user of it
    /// took. `None` if there are none, and no condition.
    pub(crate) left_out: Option<u64>,
}

impl Counts {
    /// The counts of a handler. `missed` is the number of hits that did not reach it.
    pub(crate) fn of(handler: &impl AsRef<Action>, missed: u64) -> Self {
        let action = handler.as_ref();
        let counters = &action.input().counters;
        Self {
            hits: counters.sum::<HITS>(),
            missed: missed.wrapping_add(counters.sum::<MISSED>()),
            left_out: match (action.gate().map(Gate::left_out), action.not_taken()) {
                (None, 0) => None,
                (by_condition, not_taken) => {
                    Some(by_condition.unwrap_or(0).wrapping_add(not_taken))
                }
            },
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            hits: self.hits.wrapping_add(other.hits),
            missed: self.missed.wrapping_add(other.missed),
            left_out: match (self.left_out, other.left_out) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).wrapping_add(b.unwrap_or(0))),
            },
        }
    }
}

/// The counter of executed hits.
const HITS: usize = 0;
/// The counter of hits that found no buffer.
const MISSED: usize = 1;

/// The action at the hits of one registration of a probe.
pub(crate) enum Action {
    /// A record. Its fields have this size in bytes, and are read in their place in the record. The
    /// compiler knows that additions to 16 bits do not overflow.
    Record(Input, Arc<Records>, u16),
    /// The fields are read into a buffer before anything is done with them.
    Buffered(KBox<Buffered>),
    /// An action that few probes have. A third variant costs the other two nothing at a hit, and
    /// more variants would.
    Rare(KBox<Rare>),
}

/// An action that few probes have.
pub(crate) enum Rare {
    /// The hit is counted in the table of the event.
    Count(Counted),
    /// Another action, at the hits that fulfil a condition.
    If(Conditional),
}

/// An action with a condition.
pub(crate) struct Conditional {
    gate: Gate,
    /// Not [`Rare::If`].
    action: Action,
}

/// The input of an action: hits, and fields of them.
pub(crate) struct Input {
    counters: Counters<2>,
    programs: KVec<Program>,
    /// The strings whose addresses the programs and the condition contain.
    _texts: Option<Arc<KVec<CString>>>,
}

/// An action that counts.
pub(crate) struct Counted {
    input: Input,
    counting: Counting,
    /// Hits that no user of the event took.
    not_taken: Counter,
}

/// An action that reads the fields into a buffer first.
pub(crate) struct Buffered {
    input: Input,
    buffer: Arc<StringBuffer>,
    /// The size of the fields without strings, in bytes.
    fixed: u16,
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
    /// Creates the action for a purpose, from programs, those of an event that counts, conditions
    /// and the strings that all point at. `ENOMEM`.
    pub(crate) fn new(
        purpose: &Purpose,
        programs: KVec<Program>,
        counted: Option<&Arc<CountPrograms>>,
        conditions: Option<&Arc<Conditions>>,
        texts: Option<Arc<KVec<CString>>>,
    ) -> Result<Self> {
        let input = Input {
            counters: Counters::new()?,
            programs,
            _texts: texts,
        };
        let action = Self::always(purpose, counted, input)?;
        let Some(conditions) = conditions else {
            return Ok(action);
        };
        let gate = Gate::new(conditions)?;
        Self::rare(Rare::If(Conditional { gate, action }))
    }

    /// Creates an action without a condition. `ENOMEM`.
    fn always(
        purpose: &Purpose,
        counted: Option<&Arc<CountPrograms>>,
        input: Input,
    ) -> Result<Self> {
        let buffered = match purpose {
            Purpose::Record(records) | Purpose::Follow(records, _) => {
                if let (Some(programs), Some(tally)) = (counted, records.schema.tally()) {
                    let (programs, tally) = (programs.clone(), tally.clone());
                    return Self::rare(Rare::Count(Counted {
                        input,
                        counting: Counting::new(programs, records.clone(), tally),
                        not_taken: Counter::new()?,
                    }));
                }
                let fixed = records.schema.program_bytes().try_into()?;
                let Some(buffer) = records.schema.strings() else {
                    return Ok(Self::Record(input, records.clone(), fixed));
                };
                Buffered {
                    input,
                    buffer: buffer.clone(),
                    fixed,
                    taker: Taker::Record(records.clone()),
                }
            }
            Purpose::Feed(feed, buffer) => Buffered {
                input,
                buffer: buffer.clone(),
                fixed: Feed::BYTES,
                taker: Taker::Feed(feed.clone()),
            },
        };
        Ok(Self::Buffered(KBox::new(buffered, GFP_KERNEL)?))
    }

    /// `ENOMEM`.
    fn rare(action: Rare) -> Result<Self> {
        Ok(Self::Rare(KBox::new(action, GFP_KERNEL)?))
    }

    fn input(&self) -> &Input {
        match self {
            Self::Record(input, ..) => input,
            Self::Buffered(buffered) => &buffered.input,
            Self::Rare(rare) => match &**rare {
                Rare::Count(counted) => &counted.input,
                Rare::If(conditional) => conditional.action.input(),
            },
        }
    }

    /// The action with a condition, if it is one.
    #[inline(always)]
    pub(crate) fn conditional(&self) -> Option<&Conditional> {
        match self {
            Self::Rare(rare) => match &**rare {
                Rare::If(conditional) => Some(conditional),
                Rare::Count(_) => None,
            },
            Self::Record(..) | Self::Buffered(_) => None,
        }
    }

    fn gate(&self) -> Option<&Gate> {
        self.conditional().map(|conditional| &conditional.gate)
    }

    /// The number of hits that no user of an event that counts took.
    fn not_taken(&self) -> u64 {
        match self {
            Self::Rare(rare) => match &**rare {
                Rare::Count(counted) => counted.not_taken.sum(),
                Rare::If(conditional) => conditional.action.not_taken(),
            },
            Self::Record(..) | Self::Buffered(_) => 0,
        }
    }

    /// Whether a condition is checked at the entry of a call.
    pub(crate) fn checks_calls(&self) -> bool {
        self.gate().is_some_and(Gate::checks_calls)
    }

    /// Whether a call can fulfil the condition at its return. Counts the call otherwise. Any
    /// context.
    #[inline(always)]
    pub(crate) fn admits_call(&self, hit: &impl Origin) -> bool {
        match self.conditional() {
            None => true,
            Some(conditional) => conditional.admits_call(*hit),
        }
    }

    /// Runs the action at a hit. A record begins with the addresses in `head`. Any context.
    #[inline(always)]
    pub(crate) fn run<O: Origin>(&self, hit: &O, values: impl CallValues, head: impl RecordHead) {
        match self {
            Self::Record(input, records, fixed) => input.record(records, *fixed, hit, values, head),
            Self::Buffered(buffered) => buffered.run_always(*hit, values, head),
            Self::Rare(rare) => rare.run(*hit, values, head),
        }
    }

    /// Runs an action without a condition. [`run`](Self::run) does not call this function, because
    /// a comparison for the condition before the others would cost five instructions at each hit.
    #[inline(always)]
    pub(crate) fn run_always<O: Origin>(
        &self,
        hit: &O,
        values: impl CallValues,
        head: impl RecordHead,
    ) {
        match self {
            Self::Record(input, records, fixed) => input.record(records, *fixed, hit, values, head),
            Self::Buffered(buffered) => buffered.run_always(*hit, values, head),
            Self::Rare(rare) => rare.run_always(hit, values, head),
        }
    }

    /// Runs an action without a condition. Returns false if the hit has no record, because it found
    /// no buffer. Any context.
    #[inline(always)]
    pub(crate) fn record_always<O: Origin>(
        &self,
        hit: &O,
        values: impl CallValues,
        head: impl RecordHead,
    ) -> bool {
        let Self::Buffered(buffered) = self else {
            self.run_always(hit, values, head);
            return true;
        };
        let mut is_recorded = false;
        buffered.run(*hit, values, head, |buffered, fields| {
            is_recorded = true;
            buffered.hit(fields)
        });
        is_recorded
    }

    /// Runs an action with a condition, at a hit that most likely does not fulfil it. Any context.
    #[inline(always)]
    pub(crate) fn run_if<O: Origin>(
        &self,
        hit: &O,
        values: impl CallValues,
        head: impl RecordHead,
    ) {
        if let Some(conditional) = self.conditional() {
            conditional.run(hit, values, head);
        }
    }

    /// Counts a hit, if that is the action. Any context.
    #[inline(always)]
    pub(crate) fn run_count<O: Origin>(
        &self,
        hit: &O,
        values: impl CallValues,
        head: impl RecordHead,
    ) {
        if let Self::Rare(rare) = self {
            if !rare.count_by_shortcut(hit, head) {
                rare.run(*hit, values, head);
            }
        }
    }

    /// Makes a record if `is_record` returns true for the bytes of its fields. Only for an action
    /// without a condition, of an event with a buffer: see
    /// [`Kind::compares_records`](crate::kind::Kind::compares_records).
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
                buffered.hit(fields)
            });
        }
    }
}

impl Rare {
    /// Runs the action. It is out of line, because the handlers of other actions contain the call.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn run<O: Origin>(&self, hit: O, values: impl CallValues, head: impl RecordHead) {
        match self {
            Self::Count(counted) => counted.run(&hit, values, head),
            Self::If(conditional) => conditional.run(&hit, values, head),
        }
    }

    /// Counts a hit by [`Counting::count_by_shortcut`]. Returns false if it cannot.
    #[inline(always)]
    fn count_by_shortcut(&self, hit: &impl Origin, head: impl RecordHead) -> bool {
        let Self::Count(counted) = self else {
            return false;
        };
        let outcome = counted.counting.count_by_shortcut(hit, head.place());
        if let Some(outcome) = outcome {
            counted.note(outcome);
        }
        outcome.is_some()
    }

    /// Runs an action without a condition.
    #[inline(always)]
    fn run_always<O: Origin>(&self, hit: &O, values: impl CallValues, head: impl RecordHead) {
        if let Self::Count(counted) = self {
            counted.run(hit, values, head);
        }
    }
}

impl Conditional {
    /// The action of hits that fulfil the condition.
    pub(crate) fn action(&self) -> &Action {
        &self.action
    }

    /// Whether a hit fulfils the condition. Counts the hit otherwise. Any context.
    #[inline(always)]
    pub(crate) fn admits(&self, hit: &impl Origin, values: impl CallValues) -> bool {
        let state = hit.state();
        let is_admitted = self.gate.admits(HitContext { state, values });
        is_admitted.unwrap_or_else(|| self.miss())
    }

    /// Runs the action if a hit fulfils the condition.
    #[inline(always)]
    fn run<O: Origin>(&self, hit: &O, values: impl CallValues, head: impl RecordHead) {
        if self.admits(hit, values) {
            self.run_admitted(*hit, values, head);
        }
    }

    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn admits_call(&self, hit: impl Origin) -> bool {
        let (state, values) = (hit.state(), ());
        let is_admitted = self.gate.admits_call(HitContext { state, values });
        is_admitted.unwrap_or_else(|| self.miss())
    }

    /// Counts a hit whose condition found no buffer.
    #[cold]
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn miss(&self) -> bool {
        self.action.input().counters.increment::<MISSED>();
        false
    }

    /// Runs the action. It is out of line, because most hits do not fulfil a condition.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn run_admitted<O: Origin>(&self, hit: O, values: impl CallValues, head: impl RecordHead) {
        self.action.run_always(&hit, values, head);
    }
}

impl Input {
    /// Makes a record of a hit. Its fields have `fixed` bytes.
    #[inline(always)]
    fn record<O: Origin>(
        &self,
        records: &Records,
        fixed: u16,
        hit: &O,
        values: impl CallValues,
        head: impl RecordHead,
    ) {
        self.counters.increment::<HITS>();
        let state = hit.state();
        let len = || HEADER_LEN + size_of_val(&head) + usize::from(fixed);
        // SAFETY: `Schema::define` makes the event's fields from the head and from the layout that
        // has `fixed` bytes: `Action::always` keeps both together. A field ends within `MAX_LEN`
        // bytes.
        unsafe {
            records.sink.record_filled(hit, len, || FixedRecord {
                head,
                input: self,
                context: HitContext { state, values },
            });
        }
    }
}

impl Counted {
    /// Counts a hit.
    #[inline(always)]
    fn run<O: Origin>(&self, hit: &O, values: impl CallValues, head: impl RecordHead) {
        self.note(self.counting.count(hit, values, head.place()));
    }

    /// Counts a hit in the profile.
    #[inline(always)]
    fn note(&self, outcome: Outcome) {
        match outcome {
            Outcome::Counted => self.input.counters.increment::<HITS>(),
            Outcome::NoRoom => self.input.counters.increment::<MISSED>(),
            Outcome::LeftOut => self.not_taken.increment(),
        }
    }
}

impl Buffered {
    /// Takes the fields of a hit.
    #[inline(always)]
    fn run_always(&self, hit: impl Origin, values: impl CallValues, head: impl RecordHead) {
        self.run(hit, values, head, Self::hit);
    }

    /// Counts a hit, and takes its fields. Returns the event if they are those of its record.
    #[inline(always)]
    fn hit(&self, fields: &[u8]) -> Option<&Records> {
        self.input.counters.increment::<HITS>();
        self.taker.take(fields)
    }

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
            let fixed = usize::from(self.fixed);
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

/// Makes a record of these bytes, which follow the head. It counts as no hit. Any context.
#[inline(always)]
pub(crate) fn record_bytes<O: Origin>(
    records: &Records,
    hit: &O,
    head: impl RecordHead,
    bytes: &[u8],
) {
    let len = HEADER_LEN + size_of_val(&head) + bytes.len();
    let least = records.schema.fields_at() + records.schema.layout().bytes();
    if !(least..=MAX_LEN).contains(&len) {
        return;
    }
    // SAFETY: The length was checked above.
    unsafe {
        let sink = &records.sink;
        sink.record_filled(hit, || len, || RecordWithStrings { head, bytes });
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

// SAFETY: The record has the length of the head and of the event's fields, as `Input::record`
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

// SAFETY: The record has the length of the head and of `bytes`, as `Buffered::run` and
// `record_bytes` compute it. Both are written, and nothing is read.
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

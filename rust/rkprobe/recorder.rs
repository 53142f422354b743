// SPDX-License-Identifier: GPL-2.0

//! The handler of a probe: a hit becomes a record.
//!
//! C: `kprobe_dispatcher()`, `kretprobe_dispatcher()` in `kernel/trace/trace_kprobe.c`,
//! `fentry_dispatcher()`, `fexit_dispatcher()` in `kernel/trace/trace_fprobe.c`,
//! `__eprobe_trace_func()` in `kernel/trace/trace_eprobe.c`.

use core::sync::atomic::{
    AtomicBool,
    AtomicU32,
    AtomicUsize, //
};

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    event_probe::{
        self,
        Record, //
    },
    fprobe,
    function::Call,
    kprobe::{
        self,
        Hit, //
    },
    kretinsn,
    kretprobe,
    nofault,
    number,
    percpu::{
        Counter,
        Scratch, //
    },
    registers::RegisterFile,
    symbol,
    trace_event::{
        Fill,
        Origin,
        Sink,
        State,
        HEADER_LEN,
        MAX_LEN, //
    },
    tracepoint,
    watchpoint, //
};
use probe::{
    arch::Register,
    fetch::{
        self,
        Context,
        Fault,
        Program, //
    },
    hash::hash,
    types::{
        Space,
        Width, //
    },
};

use crate::{
    object::Objects,
    schema::Schema, //
};

/// Buffers that assemble the fields of events with strings: the length of such a record is known
/// after its strings were read.
pub(crate) type StringBuffer = Scratch<MAX_LEN>;

/// An event: the destination and the fields of its records. All probes of the event share it. With
/// the reference count, it takes at most 96 bytes, which is one of the allocator's sizes.
pub(crate) struct Records {
    pub(crate) sink: Sink,
    pub(crate) schema: Schema,
    /// Only for an event with strings, and for one that changes a table of objects.
    pub(crate) strings: Option<Arc<StringBuffer>>,
    pub(crate) state: EventState,
}

/// The state of an event in the registry. Only the holder of `REGISTRY` uses it.
#[derive(Default)]
pub(crate) struct EventState {
    /// No probe of the event has a lower number.
    pub(crate) first_probe: AtomicUsize,
    /// Number of probes.
    pub(crate) probes: AtomicU32,
    pub(crate) is_enabled: AtomicBool,
    /// Hash of the group and the name. Finds an event among thousands without a look at each name.
    pub(crate) hash: u64,
}

impl EventState {
    /// Creates the state of an event of this name, without probes.
    pub(crate) fn new(group: &str, name: &str) -> Self {
        Self {
            hash: Self::hash(group, name),
            ..Self::default()
        }
    }

    /// Hash of a group and a name.
    pub(crate) fn hash(group: &str, name: &str) -> u64 {
        hash(group.as_bytes()) ^ hash(name.as_bytes()).rotate_left(1)
    }
}

/// The number of recorded and of missed hits of a probe.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) missed: u64,
}

impl Counts {
    pub(crate) fn of(handler: &impl AsRef<Recorder>, missed: u64) -> Self {
        Self {
            hits: handler.as_ref().hits.sum(),
            missed,
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            hits: self.hits.wrapping_add(other.hits),
            missed: self.missed.wrapping_add(other.missed),
        }
    }
}

/// Makes a record at each hit. Each registration of a probe has its own recorder.
pub(crate) struct Recorder {
    records: Arc<Records>,
    hits: Counter,
    programs: KVec<Program>,
    /// The size of the fields without strings, in bytes. The compiler knows that additions to 16
    /// bits do not overflow.
    fixed: u16,
    /// The strings whose addresses the programs contain.
    _texts: Option<Arc<KVec<CString>>>,
}

#[vtable]
impl kprobe::Handler for Recorder {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        self.record(hit, (), (hit.address(),));
    }
}

#[vtable]
impl kretprobe::Handler for Recorder {
    type Data = ();
    const WITHOUT_ENTRY: Option<()> = Some(());

    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &kretprobe::Call<'_, ()>) {
        self.record(hit, (), (hit.address(), call.caller()));
    }
}

impl kretinsn::Handler for Recorder {
    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &kretinsn::Call) {
        let exit = ExitAddress(hit.address());
        self.record(hit, exit, (call.function(), call.caller()));
    }
}

impl watchpoint::Handler for Recorder {
    #[inline(always)]
    fn hit(&self, hit: &watchpoint::Hit<'_>) {
        let ip = hit.registers().instruction_pointer() as usize;
        self.record(hit, WatchedAddress(hit.address()), (ip,));
    }
}

impl AsRef<Recorder> for AtEntry {
    fn as_ref(&self) -> &Recorder {
        &self.0
    }
}

impl AsRef<Recorder> for AtExit {
    fn as_ref(&self) -> &Recorder {
        &self.0
    }
}

impl AsRef<Recorder> for Recorder {
    fn as_ref(&self) -> &Recorder {
        self
    }
}

/// The handler at the entry of functions, and at a tracepoint.
pub(crate) struct AtEntry(pub(crate) Recorder);

#[vtable]
impl fprobe::Handler for AtEntry {
    type Data = ();

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<()> {
        self.0.record(call, (), (call.function(),));
        Some(())
    }
}

impl tracepoint::Handler for AtEntry {
    #[inline(always)]
    fn hit(&self, hit: &tracepoint::Hit<'_>) {
        let call = hit.call();
        self.0.record(call, (), (call.function(),));
    }
}

/// The same at the entry of functions that receive an object.
pub(crate) struct AtObject {
    pub(crate) recorder: Recorder,
    pub(crate) objects: Arc<Objects>,
    /// The position of the parameter that may be an object, counted from 0.
    pub(crate) position: u16,
}

impl AsRef<Recorder> for AtObject {
    fn as_ref(&self) -> &Recorder {
        &self.recorder
    }
}

#[vtable]
impl fprobe::Handler for AtObject {
    type Data = ();

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<()> {
        let address = call.argument(self.position);
        if self.objects.contains(address) {
            let values = ReceivedObject {
                address,
                position: self.position,
            };
            self.recorder.record(call, values, (call.function(),));
        }
        Some(())
    }
}

/// The object that a call receives.
#[derive(Clone, Copy)]
struct ReceivedObject {
    address: u64,
    /// The position of its parameter, counted from 0.
    position: u16,
}

impl CallValues for ReceivedObject {
    #[inline(always)]
    fn entry_data(self, index: u8) -> u64 {
        match index {
            fetch::OBJECT => self.address,
            _ => u64::from(self.position).wrapping_add(1),
        }
    }
}

/// The same at the exit of functions.
pub(crate) struct AtExit(pub(crate) Recorder);

#[vtable]
impl fprobe::Handler for AtExit {
    type Data = ();

    #[inline(always)]
    fn entry(&self, _call: &Call<'_>) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    fn exit(&self, call: &Call<'_>, _data: &()) {
        self.0.record(call, (), (call.function(), call.caller()));
    }
}

/// The handler of a trace event that is recorded.
pub(crate) struct AtEvent(pub(crate) Recorder);

impl event_probe::Handler for AtEvent {
    #[inline(always)]
    fn hit(&self, record: &Record<'_>) {
        self.0.record(record, EventRecord(record.bytes()), ());
    }
}

impl AsRef<Recorder> for AtEvent {
    fn as_ref(&self) -> &Recorder {
        &self.0
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
            hits: Counter::new()?,
            programs,
            fixed: records.schema.layout().bytes().try_into()?,
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
        self.hits.increment();
        match &self.records.strings {
            None => {
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
            Some(buffer) => self.record_with_strings(buffer, *hit, values, head),
        }
    }

    /// Makes the record of an event with strings. Reads the strings once for all users.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn record_with_strings<O: Origin>(
        &self,
        buffer: &StringBuffer,
        hit: O,
        values: impl CallValues,
        head: impl RecordHead,
    ) {
        let state = hit.state();
        let fields_at = HEADER_LEN + size_of_val(&head);
        buffer.with(state.atomic(), |area| {
            let Some(area) = area else {
                // Handlers are nested deeper than any kernel does.
                return;
            };
            let len = area.len().wrapping_sub(fields_at);
            let fields = area.get_mut(..len).unwrap_or(&mut []);
            let fixed = usize::from(self.fixed);
            let context = HitContext { state, values };
            let len = fetch::record(&self.programs, fixed, fields_at, context, fields);
            let bytes = fields.get(..len).unwrap_or(&[]);
            let role = self.records.schema.role();
            if bytes.len() < fixed || role.is_some_and(|role| role.take(bytes)) {
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

/// Values of the call that a hit belongs to. Programs ask only for values that the probe has.
pub(crate) trait CallValues: Copy {
    /// The word of the entry data with this index.
    #[inline(always)]
    fn entry_data(self, _index: u8) -> u64 {
        0
    }

    /// The duration of the call, in ns.
    #[inline(always)]
    fn elapsed(self) -> u64 {
        0
    }

    /// The address of the return instruction.
    #[inline(always)]
    fn exit(self) -> u64 {
        0
    }

    /// The watched address.
    #[inline(always)]
    fn watched(self) -> u64 {
        0
    }

    /// The record of the event that an event probe is attached to.
    #[inline(always)]
    fn record(&self) -> &[u8] {
        &[]
    }
}

/// No values.
impl CallValues for () {}

/// The address of the return instruction.
#[derive(Clone, Copy)]
struct ExitAddress(usize);

impl CallValues for ExitAddress {
    #[inline(always)]
    fn exit(self) -> u64 {
        self.0 as u64
    }
}

/// The address that a watchpoint watches.
#[derive(Clone, Copy)]
struct WatchedAddress(usize);

impl CallValues for WatchedAddress {
    #[inline(always)]
    fn watched(self) -> u64 {
        self.0 as u64
    }
}

/// The record of the event that the probe is attached to.
#[derive(Clone, Copy)]
struct EventRecord<'a>(&'a [u8]);

impl CallValues for EventRecord<'_> {
    #[inline(always)]
    fn record(&self) -> &[u8] {
        self.0
    }
}

/// A hit as a program sees it.
#[derive(Clone, Copy)]
pub(crate) struct HitContext<R, K> {
    pub(crate) state: State<R>,
    /// Other values of the call.
    pub(crate) values: K,
}

impl<R: RegisterFile, K: CallValues> Context for HitContext<R, K> {
    #[inline(always)]
    fn register(&self, register: Register) -> u64 {
        self.state.register(register)
    }

    #[inline(always)]
    fn stack(&self, n: u16) -> u64 {
        self.state.stack(n)
    }

    #[inline(always)]
    fn comm(&self) -> u64 {
        self.state.atomic().comm() as u64
    }

    #[inline(always)]
    fn current(&self) -> u64 {
        self.state.atomic().current() as u64
    }

    #[inline(always)]
    fn this_cpu(&self, address: u64) -> u64 {
        self.state.atomic().this_cpu(address as usize) as u64
    }

    #[inline(always)]
    fn entry_data(&self, index: u8) -> u64 {
        self.values.entry_data(index)
    }

    #[inline(always)]
    fn elapsed(&self) -> u64 {
        self.values.elapsed()
    }

    #[inline(always)]
    fn exit(&self) -> u64 {
        self.values.exit()
    }

    #[inline(always)]
    fn watched(&self) -> u64 {
        self.values.watched()
    }

    #[inline(always)]
    fn record(&self) -> &[u8] {
        self.values.record()
    }

    #[inline(always)]
    fn symbol(&self, address: u64, to: &mut [u8]) -> usize {
        match to.first_chunk_mut() {
            Some(room) => symbol::format(address as usize, true, room).len(),
            None => cut_symbol(address as usize, to),
        }
    }

    #[inline(always)]
    fn read(&self, space: Space, address: u64, to: &mut [u8]) -> Result<(), Fault> {
        copy(space, address as usize, to)
    }

    #[inline(always)]
    fn number(&self, space: Space, address: u64, width: Width) -> u64 {
        if space == Space::Kernel {
            if let Some(number) = number::try_read(address as usize, width) {
                return number;
            }
        }
        if number::READS_NUMBERS {
            copy_rare_number(space, address as usize, width)
        } else {
            copy_number(space, address as usize, width)
        }
    }

    #[inline(always)]
    fn read_word(&self, space: Space, address: u64) -> Result<u64, Fault> {
        if space == Space::Kernel {
            // A word of 0 may be a fault.
            match number::try_read(address as usize, Width::W8) {
                None | Some(0) => {}
                Some(word) => return Ok(word),
            }
        }
        if number::READS_NUMBERS {
            copy_rare_word(space, address as usize)
        } else {
            copy_word(space, address as usize)
        }
    }
}

/// A number in memory that [`number::try_read`] does not read.
#[cold]
#[inline(never)]
fn copy_rare_number(space: Space, address: usize, width: Width) -> u64 {
    copy_number(space, address, width)
}

#[inline(always)]
fn copy_number(space: Space, address: usize, width: Width) -> u64 {
    let mut word = [0; 8];
    let number = word.get_mut(..width.bytes()).unwrap_or(&mut []);
    match copy(space, address, number) {
        Ok(()) => u64::from_le_bytes(word),
        Err(Fault) => 0,
    }
}

/// A word of memory that [`number::try_read`] does not read.
#[cold]
#[inline(never)]
fn copy_rare_word(space: Space, address: usize) -> Result<u64, Fault> {
    copy_word(space, address)
}

#[inline(always)]
fn copy_word(space: Space, address: usize) -> Result<u64, Fault> {
    let mut word = [0; 8];
    copy(space, address, &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Copies memory of any length.
#[inline(always)]
fn copy(space: Space, address: usize, to: &mut [u8]) -> Result<(), Fault> {
    match space {
        Space::Kernel if !is_user(address) => nofault::read_kernel(address, to),
        _ => nofault::read_user(address, to),
    }
    .map_err(|nofault::Fault| Fault)
}

/// Writes as much of a symbol as fits, if the room is too small for the longest symbol.
#[cold]
#[inline(never)]
fn cut_symbol(address: usize, to: &mut [u8]) -> usize {
    let mut room = [0; symbol::LEN];
    let text = symbol::format(address, true, &mut room);
    to.iter_mut()
        .zip(text)
        .map(|(to, byte)| *to = *byte)
        .count()
}

/// Whether this is an address of user space, also if the command takes it for one of the kernel.
/// If the spaces do not overlap, each has one half of the addresses.
///
/// C: `probe_mem_read()`, which compares with `TASK_SIZE`.
#[inline(always)]
fn is_user(address: usize) -> bool {
    cfg!(CONFIG_ARCH_HAS_NON_OVERLAPPING_ADDRESS_SPACE) && (address as isize) >= 0
}

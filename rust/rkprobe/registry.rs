// SPDX-License-Identifier: GPL-2.0

//! The registry: all events and probes.

mod modules;
mod removal;

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    str::CString,
    sync::{
        aref::ARef,
        atomic::Relaxed,
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

use ktrace::{
    dyn_event::{
        self,
        Arguments, //
    },
    event_probe,
    trace_event::{
        self,
        EventMutex,
        EventMutexHeld,
        Field,
        Group,
        NewName,
        Operations,
        Output,
        Sink,
        TraceEvent, //
    },
};
use probe::command::{
    EventsFile,
    ProbeKind, //
};

use crate::{
    event::Probe,
    records::{
        EventState,
        Records, //
    },
    schema::StringBuffer, //
};

pub(crate) use modules::{
    module_coming,
    module_going,
    module_leaving, //
};
pub(crate) use removal::{
    remove_or_log,
    shut_down, //
};

use removal::{
    limit_retired,
    remove,
    remove_locked_or_log, //
};

/// All events and probes.
struct Registry {
    events: VVec<Event>,
    /// In the order of the listing, which is that of the numbers.
    probes: VVec<Probe>,
    /// Number of the next probe.
    next_number: usize,
    /// Outputs of removed events that were enabled in a trace instance. They print the records in
    /// the trace buffers.
    retired: KVVec<ARef<Output>>,
    /// Created with the first event that has strings.
    strings: Option<Arc<StringBuffer>>,
}

/// A registered event.
type Event = TraceEvent<Records>;

kernel::sync::global_lock! {
    // SAFETY: Initialised by `init` when the module is loaded.
    unsafe(uninit) static REGISTRY: Mutex<Registry> = Registry {
        events: VVec::new(),
        probes: VVec::new(),
        next_number: 0,
        retired: KVVec::new(),
        strings: None,
    };
}

/// # Safety
///
/// Once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any other use.
    unsafe { REGISTRY.init() };
}

/// Returns the number of the first probe in `file` with the number `from` or a higher one.
pub(crate) fn next(file: EventsFile, from: usize) -> Option<usize> {
    let registry = REGISTRY.lock();
    let mut probes = registry.probes_from(from).iter();
    probes
        .find(|probe| probe.is_in(file))
        .map(|probe| probe.number())
}

/// Calls `f` with the probe of this number, if it exists.
pub(crate) fn with_probe<R>(number: usize, f: impl FnOnce(&Probe) -> R) -> Option<R> {
    let registry = REGISTRY.lock();
    registry.probe(number).map(f)
}

/// Calls `f` with the probe of this number, if it exists and is the first one of its event.
pub(crate) fn with_first_probe<R>(number: usize, f: impl FnOnce(&Probe) -> R) -> Option<R> {
    let registry = REGISTRY.lock();
    let probe = registry.probe(number)?;
    let first = registry.probes_of(probe.records()).next()?;
    (first.number() == number).then(|| f(probe))
}

/// Calls `f` with the event of this name and its probes, if it exists.
pub(crate) fn with_event<R>(
    group: &str,
    name: &str,
    f: impl FnOnce(&Arc<Records>, &mut dyn Iterator<Item = &Probe>) -> R,
) -> Option<R> {
    let hash = EventState::hash(group, name);
    let registry = REGISTRY.lock();
    let has_name = |probe: &&Probe| {
        let spec = probe.spec();
        probe.records().state.hash == hash && spec.group() == group && spec.event() == name
    };
    // Each event has a probe.
    let records = registry.probes.iter().find(has_name)?.records();
    let mut probes = registry.probes_of(records);
    Some(f(records, &mut probes))
}

/// Returns the group of this name, or creates it if no event is in it.
pub(crate) fn group(name: &CStr) -> Result<Arc<Group>> {
    let registry = REGISTRY.lock();
    let mut groups = registry.events.iter().map(Event::group);
    match groups.find(|group| group.name() == name) {
        Some(group) => Ok(group.clone()),
        None => Group::new(name, ktrace::this_module!()),
    }
}

/// Returns the buffer for strings, which all events share.
pub(crate) fn string_buffer() -> Result<Arc<StringBuffer>> {
    let mut registry = REGISTRY.lock();
    if let Some(strings) = &registry.strings {
        return Ok(strings.clone());
    }
    let strings = Arc::new(StringBuffer::new()?, GFP_KERNEL)?;
    registry.strings = Some(strings.clone());
    Ok(strings)
}

/// Number of attempts to remove an event while the kernel has no memory, 10 ms apart.
const REMOVALS: usize = 100;

/// Adds an event with its first probe, or fails and changes nothing.
#[inline(never)]
pub(crate) fn create(name: NewName, records: Arc<Records>, probe: Probe) -> Result {
    limit_retired();
    let output = EventMutex::with(|token| {
        REGISTRY.lock().reserve()?;
        let event = Event::register_typed(token, name, records)?;
        let output = event.output();
        let mut registry = REGISTRY.lock();
        registry.add_probe(token, probe);
        if registry.events.push_within_capacity(event).is_err() {
            pr_err!("no room was reserved for an event\n");
            return Err(ENOMEM);
        }
        Ok(output)
    })??;
    match output.has_directory() {
        // Another task has removed the event.
        Ok(true) | Err(ENOENT) => return Ok(()),
        // It is safe to assume after an error that the event has no directory.
        Ok(false) | Err(_) => {}
    }
    let is_new = |probe: &Probe| {
        let spec = probe.spec();
        (spec.group().as_bytes(), spec.event().as_bytes())
            == (output.group().name().to_bytes(), output.name().to_bytes())
    };
    for _ in 0..REMOVALS {
        match remove(is_new) {
            // Another task removed the event.
            Ok(0) => return Ok(()),
            Ok(_) => return Err(ENOMEM),
            // The removal has no memory either, or somebody enabled the event by `set_event`.
            Err(_) => fsleep(Delta::from_millis(10)),
        }
    }
    pr_warn!("an event has no directory in tracefs, and is in use\n");
    Ok(())
}

/// Adds a probe to its event, or fails and changes nothing. Returns false if the event was removed.
#[inline(never)]
pub(crate) fn append(mut probe: Probe) -> Result<bool> {
    EventMutex::with(|token| {
        let mut registry = REGISTRY.lock();
        if registry.event_of(probe.records()).is_none() {
            return Ok(false);
        }
        registry.reserve()?;
        if probe.records().state.is_enabled.load(Relaxed) {
            probe.hook_mut().enable(token)?;
        }
        registry.add_probe(token, probe);
        Ok(true)
    })?
}

/// Enables all events, for the module's parameter: all of them, or none and an error.
pub(crate) fn enable_all() -> Result {
    for (group, name) in &names()? {
        // The kernel takes `event_mutex` for each, and calls its event, which takes `REGISTRY`.
        trace_event::enable(group, name).inspect_err(|error| {
            pr_err!(
                "the event {}/{} cannot be enabled: {error:?}\n",
                &**group,
                &**name
            );
            disable_all();
        })?;
    }
    Ok(())
}

/// Disables all events in the top trace instance, as far as there is memory for their names.
fn disable_all() {
    for (group, name) in &names().unwrap_or_default() {
        // This has no effect on an event that is not enabled.
        let _ = trace_event::disable(group, name);
    }
}

/// Returns the groups and the names of all events.
fn names() -> Result<KVVec<(CString, CString)>> {
    let registry = REGISTRY.lock();
    let mut names = KVVec::with_capacity(registry.events.len(), GFP_KERNEL)?;
    for event in &registry.events {
        let (group, name) = event.names();
        names.push(
            (CString::try_from(group)?, CString::try_from(name)?),
            GFP_KERNEL,
        )?;
    }
    Ok(names)
}

/// The probes in the kernel's own `dynamic_events`, if the kernel lets modules use it.
struct ListedProbes;

impl dyn_event::Entries for ListedProbes {
    fn show(_: &EventMutex, number: usize, to: &SeqFile) {
        with_probe(number, |probe| probe.show(to));
    }

    fn is_busy(token: &EventMutex, number: usize) -> bool {
        let registry = REGISTRY.lock();
        let event = registry
            .probe(number)
            .and_then(|probe| registry.event_of(probe.records()));
        event.is_some_and(|event| event.is_busy(token))
    }

    fn remove(token: &EventMutex, number: usize) -> Result {
        let has_number = |probe: &Probe| probe.number() == number;
        remove_locked_or_log(token, has_number)?;
        Ok(())
    }

    fn matches(
        _: &EventMutex,
        number: usize,
        group: Option<&str>,
        event: &str,
        words: Arguments<'_>,
    ) -> bool {
        let is_meant = |probe: &Probe| probe.spec().matches(group, event, words);
        with_probe(number, is_meant).unwrap_or(false)
    }
}

/// Called by the kernel, with `event_mutex` held.
impl Operations for Records {
    fn sink(&self) -> &Sink {
        &self.sink
    }

    fn fields(&self) -> &[Field] {
        self.schema.kernel_fields()
    }

    fn print_fmt(&self) -> &CStr {
        self.schema.print_fmt()
    }

    fn allows_perf(&self) -> bool {
        self.schema.kind() != ProbeKind::EventProbe || event_probe::ALLOWS_PERF
    }

    fn enable(&self, token: &EventMutexHeld) -> Result {
        let mut registry = REGISTRY.lock();
        let mut enabled = 0;
        let result = registry.probes_of_mut(self).try_for_each(|probe| {
            probe.hook_mut().enable(token)?;
            enabled += 1;
            Ok(())
        });
        if result.is_err() {
            for probe in registry.probes_of_mut(self).take(enabled) {
                probe.hook_mut().disable(token);
            }
        }
        self.state.is_enabled.store(result.is_ok(), Relaxed);
        result
    }

    fn disable(&self, token: &EventMutexHeld) {
        let mut registry = REGISTRY.lock();
        self.state.is_enabled.store(false, Relaxed);
        for probe in registry.probes_of_mut(self) {
            probe.hook_mut().disable(token);
        }
    }
}

impl Registry {
    /// Makes room for one event and one probe.
    fn reserve(&mut self) -> Result {
        reserve_one(&mut self.events)?;
        reserve_one(&mut self.probes)
    }

    /// Adds a probe to the listings, after [`reserve`](Self::reserve).
    fn add_probe(&mut self, token: &EventMutex, mut probe: Probe) {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let event = &probe.records().state;
        if event.probes.fetch_add(1, Relaxed) == 0 {
            let lowest = u32::try_from(number).unwrap_or(u32::MAX);
            event.first_probe.store(lowest, Relaxed);
        }
        probe.list::<ListedProbes>(token, number);
        if self.probes.push_within_capacity(probe).is_err() {
            pr_err!("no room was reserved for a probe\n");
        }
    }

    /// Index of the first probe with the number `from` or a higher one.
    fn index_from(&self, from: usize) -> usize {
        self.probes.partition_point(|probe| probe.number() < from)
    }

    /// The probes with the number `from` or a higher one.
    fn probes_from(&self, from: usize) -> &[Probe] {
        self.probes.get(self.index_from(from)..).unwrap_or(&[])
    }

    /// The probes with the number `from` or a higher one.
    fn probes_from_mut(&mut self, from: usize) -> &mut [Probe] {
        let first = self.index_from(from);
        self.probes.get_mut(first..).unwrap_or(&mut [])
    }

    fn probe(&self, number: usize) -> Option<&Probe> {
        let probe = self.probes_from(number).first()?;
        (probe.number() == number).then_some(probe)
    }

    fn probe_mut(&mut self, number: usize) -> Option<&mut Probe> {
        let index = self.index_from(number);
        let probe = self.probes.get_mut(index)?;
        (probe.number() == number).then_some(probe)
    }

    fn event_of(&self, records: &Arc<Records>) -> Option<&Event> {
        let mut events = self.events.iter();
        events.find(|event| core::ptr::eq(event.operations(), &**records))
    }

    /// The probes of an event.
    fn probes_of<'a>(&'a self, records: &'a Records) -> impl Iterator<Item = &'a Probe> {
        let first = records.state.first_probe.load(Relaxed) as usize;
        let is_its = move |probe: &&Probe| core::ptr::eq(&**probe.records(), records);
        let probes = self.probes_from(first).iter();
        let count = records.state.probes.load(Relaxed) as usize;
        probes.filter(is_its).take(count)
    }

    /// The probes of an event.
    fn probes_of_mut<'a>(
        &'a mut self,
        records: &'a Records,
    ) -> impl Iterator<Item = &'a mut Probe> {
        let first = records.state.first_probe.load(Relaxed) as usize;
        let is_its = move |probe: &&mut Probe| core::ptr::eq(&**probe.records(), records);
        let probes = self.probes_from_mut(first).iter_mut();
        let count = records.state.probes.load(Relaxed) as usize;
        probes.filter(is_its).take(count)
    }
}

/// Makes room for one element. The capacity grows by a 64th: `reserve` of the list doubles it, so
/// that up to a half of the memory is unused.
fn reserve_one<T>(list: &mut VVec<T>) -> Result {
    let len = list.len();
    if len < list.capacity() {
        return Ok(());
    }
    let mut larger = VVec::with_capacity(len + len / 64 + 32, GFP_KERNEL)?;
    for element in core::mem::replace(list, VVec::new()) {
        let _ = larger.push_within_capacity(element);
    }
    *list = larger;
    Ok(())
}

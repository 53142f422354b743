// SPDX-License-Identifier: GPL-2.0

//! The registry: all events and probes.

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
    module::Module,
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
    EventField,
    EventsFile, //
};

use crate::{
    compile::Compiled,
    event::Probe,
    kinds,
    records::{
        EventState,
        Records, //
    },
    registered::UnregisterBatch,
    schema::StringBuffer,
    spec::{
        self,
        Spec, //
    },
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

/// Maximum number of removed events whose records stay readable. The kernel has some 65,000 event
/// numbers. Beyond the maximum, rkprobe empties the trace buffers.
const MAX_RETIRED: usize = 1024;

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

/// Empties the trace buffers if they have records of too many removed events. The numbers of these
/// events stay reserved while a CPU is offline.
fn limit_retired() {
    let mut registry = REGISTRY.lock();
    if registry.retired.len() < MAX_RETIRED {
        return;
    }
    let retired = core::mem::replace(&mut registry.retired, KVVec::new());
    drop(registry);
    // Their numbers stay reserved now until the trace buffers are empty.
    drop(retired);
    match trace_event::empty_traces() {
        Ok(()) => {
            pr_info!(
                "{MAX_RETIRED} events with records were removed: their trace buffers were emptied\n"
            )
        }
        Err(EBUSY) => {
            pr_info!(
                "a CPU is offline: the numbers of {MAX_RETIRED} removed events stay reserved\n"
            )
        }
        Err(error) => pr_warn!("the trace buffers cannot be emptied: {error:?}\n"),
    }
}

/// Number of attempts to remove an event while the kernel has no memory, 10 ms apart.
const REMOVALS: usize = 100;

/// Adds an event with its first probe, or fails and changes nothing.
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
pub(crate) fn append(mut probe: Probe) -> Result<bool> {
    EventMutex::with(|token| {
        let mut registry = REGISTRY.lock();
        if registry.event_of(probe.records()).is_none() {
            return Ok(false);
        }
        registry.reserve()?;
        if probe.records().state.is_enabled.load(Relaxed) {
            probe.enable(token)?;
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

/// Registers the probes in `module`, which is being loaded.
///
/// Process context; reads files.
pub(crate) fn module_coming(module: &Module) {
    // This reads files, so no lock may be held that is taken under `event_mutex`.
    compile_again(None, |probe| probe.needs_coming(module));
    let mut registry = REGISTRY.lock();
    let probes = registry.probes.iter();
    let count = probes
        .filter(|probe| probe.symbol_in(module).is_some())
        .count();
    if count == 0 {
        return;
    }
    // Without memory, each probe is unregistered by itself.
    let mut gone = UnregisterBatch::new(count).unwrap_or_default();
    for probe in &mut registry.probes {
        if probe.symbol_in(module).is_some() {
            if let Some(registered) = probe.take_gone() {
                registered.unregister_in(&mut gone);
            }
        }
    }
    gone.unregister();
    for probe in &mut registry.probes {
        let Some(symbol) = probe.symbol_in(module) else {
            continue;
        };
        let count = module.count_symbols(symbol);
        let is_enabled = probe.records().state.is_enabled.load(Relaxed);
        // After a failure, the probe waits until the module is loaded again.
        if let Err(error) = probe.register_in_module(count, is_enabled) {
            let spec = probe.spec();
            pr_warn!(
                "{} cannot be probed for {}/{}: {error:?}\n",
                spec.target_text(),
                spec.group(),
                spec.event()
            );
        }
    }
}

/// Disarms the probes in `module`, which is being unloaded.
pub(crate) fn module_leaving(module: &Module) {
    for probe in &REGISTRY.lock().probes {
        probe.disarm_in(module);
    }
}

/// Compiles the probes again that depend on `module`, which is being freed.
///
/// Process context; reads files.
pub(crate) fn module_going(module: &Module) {
    compile_again(Some(module), |probe| probe.needs_going(module));
}

/// Compiles the programs of probes again. Does not hold `REGISTRY` meanwhile.
fn compile_again(going: Option<&Module>, is_meant: impl Fn(&Probe) -> bool) {
    let compile = |spec: Result<Spec>, records: &Records| {
        let spec = spec?;
        let command = spec.command();
        let target = kinds::with(command.target, |kind| kind.resolve_again(&command))?;
        Compiled::again(&spec, &target, &records.schema, going).map_err(|failure| failure.errno())
    };
    // The number of a probe, and the index of a part of it.
    let find = |from: (usize, usize)| {
        let registry = REGISTRY.lock();
        let probes = registry.probes_from(from.0).iter();
        let mut parts = probes.flat_map(|probe| {
            let parts = probe.parts().enumerate();
            parts.map(|(index, part)| ((probe.number(), index), part))
        });
        let (at, part) = parts.find(|(at, part)| *at >= from && is_meant(part))?;
        let spec = spec::try_clone(part.spec());
        Some((at, spec, part.records().clone()))
    };
    let mut from = (0, 0);
    while let Some((at, spec, records)) = find(from) {
        let compiled = compile(spec, &records);
        let mut registry = REGISTRY.lock();
        let probe = registry.probe_mut(at.0);
        if let Some(part) = probe.and_then(|probe| probe.part_mut(at.1)) {
            part.set_compiled(compiled);
        }
        drop(registry);
        from = (at.0, at.1.wrapping_add(1));
    }
}

/// Removes all probes that satisfy `is_doomed`, and the events that keep no probe. Otherwise fails
/// and changes nothing. Returns the number of probes.
///
/// Fails with `EBUSY` if such an event is in use, or if a probe that stays uses it, and with
/// `ENOMEM`. Waits for one RCU grace period if there are kprobes, and for another one if there are
/// kretprobes. Also waits for each probe by ftrace or at a tracepoint that is enabled.
pub(crate) fn remove(is_doomed: impl Fn(&Probe) -> bool) -> Result<usize> {
    EventMutex::with(|token| remove_locked(token, is_doomed))?
}

/// Does what [`remove`] does, for a caller that holds `event_mutex`.
///
/// The kernel takes `trace_types_lock` to remove an event. It also holds this lock when the removal
/// of a trace instance disables events, which takes `REGISTRY`. So this function does not hold
/// `REGISTRY` while it removes events.
fn remove_locked(token: &EventMutex, is_doomed: impl Fn(&Probe) -> bool) -> Result<usize> {
    let Removed { probes, events } = REGISTRY.lock().take(token, is_doomed)?;
    for event in events {
        let output = event.output();
        let removed = event.try_remove(token);
        let mut registry = REGISTRY.lock();
        match removed {
            Ok(()) if output.is_recorded() => {
                // Without memory, the number stays reserved until the trace buffers are empty.
                let _ = registry.retired.push(output, GFP_KERNEL);
            }
            Ok(()) => {}
            Err((event, error)) => {
                pr_err!("an unused event could not be removed: {:?}\n", error);
                // `take` left room for each event.
                let _ = registry.events.push_within_capacity(event);
            }
        }
    }
    Ok(probes)
}

/// Events that have no probe any more, and the number of probes that were removed.
struct Removed {
    probes: usize,
    events: VVec<Event>,
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
        remove_locked(token, has_number)?;
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

    fn enable(&self, token: &EventMutexHeld) -> Result {
        let mut registry = REGISTRY.lock();
        let mut enabled = 0;
        let result = registry.probes_of_mut(self).try_for_each(|probe| {
            probe.enable(token)?;
            enabled += 1;
            Ok(())
        });
        if result.is_err() {
            for probe in registry.probes_of_mut(self).take(enabled) {
                probe.disable(token);
            }
        }
        self.state.is_enabled.store(result.is_ok(), Relaxed);
        result
    }

    fn disable(&self, token: &EventMutexHeld) {
        let mut registry = REGISTRY.lock();
        self.state.is_enabled.store(false, Relaxed);
        for probe in registry.probes_of_mut(self) {
            probe.disable(token);
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
        let first = self.index_from(records.state.first_probe.load(Relaxed) as usize);
        let is_its = move |probe: &&mut Probe| core::ptr::eq(&**probe.records(), records);
        let probes = self.probes.get_mut(first..).unwrap_or(&mut []).iter_mut();
        let count = records.state.probes.load(Relaxed) as usize;
        probes.filter(is_its).take(count)
    }

    /// Removes all probes that satisfy `is_doomed`, and takes the events that keep no probe out of
    /// the list. Otherwise fails and changes nothing. The list has room for these events.
    fn take(&mut self, token: &EventMutex, is_doomed: impl Fn(&Probe) -> bool) -> Result<Removed> {
        let doomed_probes = self.probes.iter().filter(|probe| is_doomed(probe)).count();
        let mut doomed_events = 0;
        for event in &self.events {
            if self.probes_of(event.operations()).all(&is_doomed) {
                if event.is_busy(token) {
                    return Err(EBUSY);
                }
                doomed_events += 1;
            }
        }
        let mut removed = Removed {
            probes: doomed_probes,
            events: VVec::with_capacity(doomed_events, GFP_KERNEL)?,
        };
        if doomed_probes == 0 && doomed_events == 0 {
            return Ok(removed);
        }
        for user in &self.probes {
            let mut used = user.used_fields();
            let is_lost = |field: EventField<'_>| {
                let used = (field.group.as_bytes(), field.event.as_bytes());
                let is_used = |event: &&Event| {
                    let (group, name) = event.names();
                    (group.to_bytes(), name.to_bytes()) == used
                };
                let event = self.events.iter().find(is_used);
                event.is_some_and(|event| self.probes_of(event.operations()).all(&is_doomed))
            };
            if used.any(is_lost) && !is_doomed(user) {
                return Err(EBUSY);
            }
        }
        let kept_probes = VVec::with_capacity(self.probes.len() - doomed_probes, GFP_KERNEL)?;
        let mut kept_events = VVec::with_capacity(self.events.len(), GFP_KERNEL)?;
        let mut batch = UnregisterBatch::new(doomed_probes)?;

        // From here on nothing fails: there is room for everything.
        for probe in core::mem::replace(&mut self.probes, kept_probes) {
            if is_doomed(&probe) {
                probe.records().state.probes.fetch_sub(1, Relaxed);
                probe.unlist(token, &mut batch);
            } else {
                let _ = self.probes.push_within_capacity(probe);
            }
        }
        batch.unregister();

        // No handler runs any more, so the events can be removed.
        for event in core::mem::replace(&mut self.events, VVec::new()) {
            let is_kept = event.operations().state.probes.load(Relaxed) > 0;
            let events = match is_kept {
                true => &mut kept_events,
                false => &mut removed.events,
            };
            let _ = events.push_within_capacity(event);
        }
        self.events = kept_events;
        Ok(removed)
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

/// Removes everything when the module is unloaded or its initialisation fails. This cannot fail, so
/// it waits for memory and for the users of events.
///
/// Usually there are no users. They keep the module from being unloaded, and they have no access to
/// events before the initialisation is over. But the initialisation itself enables events, and
/// other parts of the kernel may hold an event for a short time.
pub(crate) fn shut_down() {
    let mut attempts = 0;
    while let Err(error) = remove(|_| true) {
        attempts += 1;
        if attempts == 2 {
            pr_warn!("waiting until all events can be removed ({error:?})\n");
        }
        if attempts >= 2 {
            fsleep(Delta::from_millis(20));
        }
        // If this fails, the next attempt to remove the events fails too.
        disable_all();
    }
    let mut registry = REGISTRY.lock();
    registry.retired = KVVec::new();
    registry.events = VVec::new();
    registry.probes = VVec::new();
    registry.strings = None;
}

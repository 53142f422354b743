// SPDX-License-Identifier: GPL-2.0

//! All events and probes that there are.

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    str::CString,
    sync::Arc,
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
        Definition,
        EventMutex,
        Group,
        Output,
        TraceEvent, //
    },
};
use probe::{
    command::EventsFile,
    hash::hash, //
};

use crate::{
    event::{
        Event,
        Probe,
        Probes, //
    },
    recorder::StringBuffer,
    registered::UnregisterBatch, //
};

/// The events, their probes, and what outlives them.
struct Registry {
    events: KVVec<Named>,
    /// In the order in which they came, which is that of the listing.
    probes: KVVec<Arc<Probe>>,
    /// The number of the next one: they have increasing numbers, by which the listing goes.
    next_number: usize,
    /// The outputs of removed events that were enabled in a trace instance: they print the records
    /// in the trace buffers.
    retired: KVVec<Arc<Output>>,
    /// Made when the first event with strings comes.
    strings: Option<Arc<StringBuffer>>,
}

/// An event, with the hash of its name: one is found among thousands without a look at each.
struct Named {
    hash: u64,
    event: Event,
}

impl Named {
    fn new(event: Event) -> Self {
        Self {
            hash: Self::hash(event.names()),
            event,
        }
    }

    fn hash((group, name): (&[u8], &[u8])) -> u64 {
        hash(group) ^ hash(name).rotate_left(1)
    }
}

kernel::sync::global_lock! {
    // SAFETY: Initialised by `init` when the module is loaded.
    unsafe(uninit) static REGISTRY: Mutex<Registry> = Registry {
        events: KVVec::new(),
        probes: KVVec::new(),
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

/// For how many removed events the records can be read, of some 65,000 numbers that the kernel has.
/// Beyond that, the trace buffers are emptied.
const MAX_RETIRED: usize = 1024;

/// The number of the first probe of a file that has `from` or more.
pub(crate) fn next(file: EventsFile, from: usize) -> Option<usize> {
    let registry = REGISTRY.lock();
    let first = registry
        .probes
        .partition_point(|probe| probe.number() < from);
    let mut probes = registry.probes.get(first..)?.iter();
    probes
        .find(|probe| probe.is_in(file))
        .map(|probe| probe.number())
}

/// Calls `f` with the probe of this number, where there is one.
pub(crate) fn with_probe<R>(number: usize, f: impl FnOnce(&Probe) -> R) -> Option<R> {
    let registry = REGISTRY.lock();
    let found = registry
        .probes
        .binary_search_by_key(&number, |probe| probe.number());
    let probe = registry.probes.get(found.ok()?)?;
    Some(f(probe))
}

/// Calls `f` with each probe, without a lock.
pub(crate) fn each_probe(f: impl Fn(&Probe)) {
    let find = |from: usize| -> Option<Arc<Probe>> {
        let registry = REGISTRY.lock();
        let first = registry
            .probes
            .partition_point(|probe| probe.number() < from);
        registry.probes.get(first).cloned()
    };
    let mut from = 0;
    while let Some(probe) = find(from) {
        f(&probe);
        from = probe.number().wrapping_add(1);
    }
}

/// Calls `f` with an event, where there is one of this name.
pub(crate) fn with_event<R>(group: &str, name: &str, f: impl FnOnce(&Event) -> R) -> Option<R> {
    let names = (group.as_bytes(), name.as_bytes());
    let hash = Named::hash(names);
    let registry = REGISTRY.lock();
    let mut events = registry.events.iter();
    let named =
        events.find(|Named { hash: other, event }| *other == hash && event.names() == names);
    named.map(|named| f(&named.event))
}

/// The group of this name: that of an event, where there is one in it.
pub(crate) fn group(name: &CStr) -> Result<Arc<Group>> {
    let registry = REGISTRY.lock();
    let mut groups = registry
        .events
        .iter()
        .map(|named| named.event.trace_event.group());
    match groups.find(|group| group.name() == name) {
        Some(group) => Ok(group.clone()),
        None => Group::new(name, ktrace::this_module!()),
    }
}

/// The buffer for strings that all events share.
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

/// How often the removal of an event is tried for which the kernel had no memory, 10 ms apart.
const REMOVALS: usize = 100;

/// Adds an event, with its first probe: as this definition says, and all of it or nothing.
pub(crate) fn create(definition: Definition, event: impl FnOnce(TraceEvent) -> Event) -> Result {
    limit_retired();
    let (held, output) = EventMutex::with(|token| {
        REGISTRY.lock().reserve()?;
        let trace_event = TraceEvent::register(token, definition)?;
        let output = trace_event.output();
        let held = trace_event.hold(token);
        let event = event(trace_event);
        let mut registry = REGISTRY.lock();
        event.probes.each(|probe| registry.add_probe(token, probe));
        if registry
            .events
            .push_within_capacity(Named::new(event))
            .is_err()
        {
            pr_err!("no room was reserved for an event\n");
            return Err(ENOMEM);
        }
        Ok((held, output))
    })??;
    // With an error, it is treated as if it had none: that is safe.
    if held.has_directory().unwrap_or(false) {
        return Ok(());
    }
    drop(held);
    let is_its = |probe: &Probe| {
        let spec = probe.spec();
        (spec.group().as_bytes(), spec.event().as_bytes())
            == (output.group().name().to_bytes(), output.name().to_bytes())
    };
    for _ in 0..REMOVALS {
        match remove(is_its) {
            // Somebody was faster.
            Ok(0) => return Ok(()),
            Ok(_) => return Err(ENOMEM),
            // There is no memory to remove it either, or somebody enabled it by `set_event`.
            Err(_) => fsleep(Delta::from_millis(10)),
        }
    }
    pr_warn!("an event has no directory in tracefs, and is in use\n");
    Ok(())
}

/// Adds a probe to an event that there is, with these probes: all of it or nothing. `false` where
/// the event is not there any more.
pub(crate) fn append(probes: &Arc<Probes>, probe: Arc<Probe>) -> Result<bool> {
    EventMutex::with(|token| {
        let mut registry = REGISTRY.lock();
        let mut events = registry.events.iter();
        if !events.any(|named| Arc::ptr_eq(&named.event.probes, probes)) {
            return Ok(false);
        }
        registry.reserve()?;
        probes.add(token, probe.clone())?;
        registry.add_probe(token, &probe);
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
        // An event that was not enabled stays so.
        let _ = trace_event::disable(group, name);
    }
}

/// The groups and the names of all events.
fn names() -> Result<KVVec<(CString, CString)>> {
    let registry = REGISTRY.lock();
    let mut names = KVVec::with_capacity(registry.events.len(), GFP_KERNEL)?;
    for Named { event, .. } in &registry.events {
        let (group, name) = event.trace_event.names();
        names.push(
            (CString::try_from(group)?, CString::try_from(name)?),
            GFP_KERNEL,
        )?;
    }
    Ok(names)
}

/// Registers the probes that are in a module that has come.
pub(crate) fn module_came(module: &Module) {
    let registry = REGISTRY.lock();
    let probes = registry.probes.iter();
    let count = probes.filter(|probe| probe.is_of(module)).count();
    if count == 0 {
        return;
    }
    // Without memory each is unregistered by itself.
    let mut gone = UnregisterBatch::new(count).unwrap_or_default();
    for Named { event, .. } in &registry.events {
        event.probes.take_gone(module, &mut gone);
    }
    gone.unregister();
    for Named { event, .. } in &registry.events {
        event.probes.module_came(module);
    }
}

/// Removes the probes that `is_doomed`, and the events that are left without any: all of them, or
/// none and an error. Gives their number.
///
/// `EBUSY` where such an event is in use. However many they are, this waits for one RCU grace
/// period, or two where there are both kprobes and kretprobes: the kernel takes the ones and the
/// others, and waits for each; and once for each probe by ftrace or of a tracepoint that is
/// enabled.
pub(crate) fn remove(is_doomed: impl Fn(&Probe) -> bool) -> Result<usize> {
    EventMutex::with(|token| REGISTRY.lock().remove(token, is_doomed))?
}

/// The probes in the kernel's own `dynamic_events`, where that is open to modules.
struct ListedProbes;

impl dyn_event::Entries for ListedProbes {
    fn show(_: &EventMutex, number: usize, to: &SeqFile) {
        with_probe(number, |probe| probe.show(to));
    }

    fn is_busy(token: &EventMutex, number: usize) -> bool {
        let registry = REGISTRY.lock();
        let mut events = registry.events.iter();
        events.any(|Named { event, .. }| {
            event.probes.any(|probe| probe.number() == number) && event.trace_event.is_busy(token)
        })
    }

    fn remove(token: &EventMutex, number: usize) -> Result {
        let is_it = |probe: &Probe| probe.number() == number;
        REGISTRY.lock().remove(token, is_it)?;
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

impl Registry {
    /// Makes sure that one event and one probe can be added without memory.
    fn reserve(&mut self) -> Result {
        self.events.reserve(1, GFP_KERNEL)?;
        self.probes.reserve(1, GFP_KERNEL)?;
        // Events that go must find room for their outputs.
        let outputs = self.events.len() + 1;
        self.retired.reserve(outputs, GFP_KERNEL)?;
        Ok(())
    }

    /// Adds a probe to the listings. There must have been a [`reserve`](Self::reserve).
    fn add_probe(&mut self, token: &EventMutex, probe: &Arc<Probe>) {
        probe.list::<ListedProbes>(token, self.next_number);
        self.next_number = self.next_number.wrapping_add(1);
        if self.probes.push_within_capacity(probe.clone()).is_err() {
            pr_err!("no room was reserved for a probe\n");
        }
    }

    fn remove(&mut self, token: &EventMutex, is_doomed: impl Fn(&Probe) -> bool) -> Result<usize> {
        let mut doomed_probes = 0;
        let mut doomed_events = 0;
        for Named { event, .. } in &self.events {
            let (doomed, all) = event.probes.count(&is_doomed);
            if doomed == all {
                if event.trace_event.is_busy(token) {
                    return Err(EBUSY);
                }
                doomed_events += 1;
            }
            doomed_probes += doomed;
        }
        if doomed_probes == 0 && doomed_events == 0 {
            return Ok(0);
        }
        let mut kept_probes = KVVec::with_capacity(self.probes.len(), GFP_KERNEL)?;
        let mut kept_events = KVVec::with_capacity(self.events.len(), GFP_KERNEL)?;
        let mut batch = UnregisterBatch::new(doomed_probes)?;

        // From here on nothing fails: there is room for everything.
        for Named { event, .. } in &self.events {
            event.probes.forget(&is_doomed);
        }
        for probe in core::mem::replace(&mut self.probes, KVVec::new()) {
            if !is_doomed(&probe) {
                let _ = kept_probes.push_within_capacity(probe);
                continue;
            }
            // The event's own reference was dropped above.
            if let Some(registered) = probe.take(token) {
                registered.unregister_in(&mut batch);
            }
        }
        self.probes = kept_probes;
        batch.unregister();

        // No handler runs any more: the events can go.
        for named in core::mem::replace(&mut self.events, KVVec::new()) {
            if named.event.probes.count(|_| true).1 > 0 {
                let _ = kept_events.push_within_capacity(named);
                continue;
            }
            let Named { hash, event } = named;
            let output = event.trace_event.output();
            match event.trace_event.try_remove(token) {
                Ok(()) if output.is_recorded() => {
                    let _ = self.retired.push_within_capacity(output);
                }
                Ok(()) => {}
                Err((trace_event, error)) => {
                    pr_err!("an unused event could not be removed: {:?}\n", error);
                    let event = Event {
                        trace_event,
                        ..event
                    };
                    let _ = kept_events.push_within_capacity(Named { hash, event });
                }
            }
        }
        self.events = kept_events;
        Ok(doomed_probes)
    }
}

/// Removes everything, when the module is unloaded or its initialisation fails. This cannot fail,
/// so it waits for memory and for whoever uses an event.
///
/// Others do not use one: the users of an event keep the module from being unloaded, and have no
/// access to events before the initialisation is over. But the initialisation itself enables
/// events, and other parts of the kernel may hold one shortly.
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
        // The next attempt to remove them shows whether this failed.
        disable_all();
    }
    let mut registry = REGISTRY.lock();
    registry.retired = KVVec::new();
    registry.events = KVVec::new();
    registry.probes = KVVec::new();
    registry.strings = None;
}

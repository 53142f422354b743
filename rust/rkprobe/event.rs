// SPDX-License-Identifier: GPL-2.0

//! An event and its probes.

use core::sync::atomic::{
    AtomicUsize,
    Ordering, //
};

use kernel::{
    new_mutex,
    prelude::*,
    seq_file::SeqFile,
    sync::{
        Arc,
        Mutex, //
    },
};

use ktrace::{
    dyn_event::{
        self,
        DynEvent, //
    },
    module::Module,
    trace_event::{
        EventMutex,
        EventMutexHeld,
        Field,
        Operations,
        Sink,
        TraceEvent, //
    },
};
use probe::command::{
    EventsFile,
    Target, //
};

use crate::{
    compile::Compiled,
    reader,
    recorder::{
        Counts,
        Records, //
    },
    register::register_again,
    registered::{
        Registered,
        UnregisterBatch, //
    },
    spec::Spec,
    symbols, //
};

/// One probe of an event.
#[pin_data]
pub(crate) struct Probe {
    /// By which it goes in the listing.
    number: AtomicUsize,
    /// In the kernel's own.
    entry: DynEvent,
    records: Arc<Records>,
    spec: Spec,
    #[pin]
    state: Mutex<ProbeState>,
}

/// What changes while there is a probe.
struct ProbeState {
    /// `None` while a probe that is registered only with its event enabled is not, and for a kprobe
    /// of a module that is not loaded.
    registered: Option<KBox<dyn Registered>>,
    /// What to register it from again: for one that is registered with its event enabled always,
    /// for a kprobe while its module comes.
    compiled: Option<Result<KBox<Compiled>>>,
    /// How many calls in flight the last return probe had room for.
    maxactive: u32,
    /// What earlier registrations have counted.
    before: Counts,
}

impl ProbeState {
    fn set(&mut self, registered: KBox<dyn Registered>) {
        self.maxactive = registered.maxactive();
        self.registered = Some(registered);
    }

    /// Takes out what is in code that was unloaded, and keeps what it has counted.
    fn take_gone(&mut self) -> Option<KBox<dyn Registered>> {
        let gone = self.registered.take_if(|probe| probe.is_gone())?;
        self.before = self.before.and(gone.counts());
        Some(gone)
    }
}

impl Probe {
    /// `registered` is what was registered for it already, and `compiled` what to register it from
    /// again.
    pub(crate) fn new(
        records: Arc<Records>,
        spec: Spec,
        registered: Option<KBox<dyn Registered>>,
        compiled: Option<Result<KBox<Compiled>>>,
    ) -> Result<Arc<Self>> {
        let mut state = ProbeState {
            registered: None,
            compiled,
            maxactive: 0,
            before: Counts::default(),
        };
        if let Some(registered) = registered {
            state.set(registered);
        }
        let entry = DynEvent::new()?;
        Arc::pin_init(
            pin_init!(Self {
                number: AtomicUsize::new(0),
                entry,
                records,
                spec,
                state <- new_mutex!(state, "rkprobe::Probe"),
            }),
            GFP_KERNEL,
        )
    }

    /// Its number in the listing, once it is there.
    pub(crate) fn number(&self) -> usize {
        self.number.load(Ordering::Relaxed)
    }

    /// Gives it one, and puts it into the kernel's listing.
    pub(crate) fn list<E: dyn_event::Entries>(&self, token: &EventMutex, number: usize) {
        self.number.store(number, Ordering::Relaxed);
        self.entry.add::<E>(token, number);
    }

    /// What its command says.
    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Is it listed in this file?
    pub(crate) fn is_in(&self, file: EventsFile) -> bool {
        file == EventsFile::DynamicEvents || self.spec.kind().is_kprobe()
    }

    /// Writes its line in the files: in that of a return probe is the number that the kernel chose,
    /// as in C, once there is one.
    pub(crate) fn show(&self, to: &SeqFile) {
        let maxactive = match self.spec.maxactive() {
            Some(asked) => asked.get().into(),
            None => self.state.lock().maxactive,
        };
        to.call_printf(format_args!("{}", self.spec.kind().letter()));
        if maxactive > 0 {
            to.call_printf(format_args!("{maxactive}"));
        }
        to.call_printf(format_args!(":"));
        reader::show(to, self.spec.text());
        to.call_printf(format_args!("\n"));
    }

    /// How often it was hit, and missed.
    pub(crate) fn counts(&self) -> Counts {
        let state = self.state.lock();
        let now = state.registered.as_ref().map(|probe| probe.counts());
        state.before.and(now.unwrap_or_default())
    }

    /// Takes out what the kernel knows: the probe is removed.
    pub(crate) fn take(&self, token: &EventMutex) -> Option<KBox<dyn Registered>> {
        self.entry.remove(token);
        self.state.lock().registered.take()
    }

    /// Is it registered only while its event is enabled?
    fn comes_with_event(&self) -> bool {
        self.spec.kind().is_registered_with_event()
    }

    /// Registers it, disabled. Reads no file.
    fn register(&self, state: &ProbeState) -> Result<KBox<dyn Registered>> {
        let compiled = match &state.compiled {
            Some(Ok(compiled)) => &**compiled,
            Some(Err(error)) => return Err(*error),
            None => return Err(EINVAL),
        };
        register_again(&self.spec.command(), compiled, &self.records)
            .map_err(|failure| failure.errno())
    }

    fn enable(&self, token: &EventMutexHeld) -> Result {
        let mut state = self.state.lock();
        if self.comes_with_event() {
            let registered = self.register(&state)?;
            state.set(registered);
        }
        match &state.registered {
            Some(probe) if !probe.is_gone() => probe.enable(Some(token)),
            _ => Ok(()),
        }
    }

    fn disable(&self, token: &EventMutexHeld) {
        let mut state = self.state.lock();
        if self.comes_with_event() {
            if let Some(probe) = state.registered.take() {
                state.before = state.before.and(probe.unregister());
            }
            return;
        }
        let registered = state.registered.as_ref();
        tell_armed(registered.map(|probe| probe.disable(token)));
    }

    /// The symbol of a kprobe that is in this module by its command. What is looked for when it is
    /// enabled is in none.
    fn symbol_in(&self, module: &Module) -> Option<&str> {
        let Target::Symbol { symbol, .. } = self.spec.target() else {
            return None;
        };
        let (name, symbol) = symbol.split_once(':')?;
        (name.as_bytes() == &**module.name()).then_some(symbol)
    }

    /// Is it a kprobe that is in this module by its command?
    pub(crate) fn is_of(&self, module: &Module) -> bool {
        self.symbol_in(module).is_some()
    }

    /// Makes the programs anew if this module, which comes, can change them.
    ///
    /// Process context; reads files.
    pub(crate) fn module_comes(&self, module: &Module) {
        let may_change = match &self.state.lock().compiled {
            Some(Ok(compiled)) => compiled.needs(module) || compiled.is_open(),
            Some(Err(_)) => true,
            None => false,
        };
        if self.is_of(module) || self.comes_with_event() && may_change {
            self.compile_again(None);
        }
    }

    /// Disarms it if it is in this module, which goes.
    pub(crate) fn module_leaves(&self, module: &Module) {
        let state = self.state.lock();
        let registered = state.registered.as_ref();
        tell_armed(registered.map(|probe| probe.leave(module)));
    }

    /// Makes the programs anew without this module, which goes, if they depend on it.
    ///
    /// Process context; reads files.
    pub(crate) fn module_goes(&self, module: &Module) {
        let needs_it = match &self.state.lock().compiled {
            Some(Ok(compiled)) => compiled.needs(module),
            Some(Err(_)) | None => false,
        };
        if needs_it && self.comes_with_event() {
            self.compile_again(Some(module));
        }
    }

    fn compile_again(&self, going: Option<&Module>) {
        let compiled = match Compiled::again(&self.spec, &self.records.schema, going) {
            Ok(compiled) => KBox::new(compiled, GFP_KERNEL).map_err(Error::from),
            Err(failure) => Err(failure.errno()),
        };
        self.state.lock().compiled = Some(compiled);
    }

    /// Registers it where its module has come, which has `count` symbols of this name.
    fn register_again(&self, count: usize, is_enabled: bool) -> Result {
        let mut state = self.state.lock();
        // It came while the command was carried out.
        if state.registered.is_some() {
            return Ok(());
        }
        symbols::check_count(count)?;
        let registered = self.register(&state)?;
        // The next time that the module comes it is compiled anew.
        state.compiled = None;
        state.set(registered);
        match &state.registered {
            Some(probe) if is_enabled => probe.enable(None),
            _ => Ok(()),
        }
    }
}

/// Says that a probe is still armed.
fn tell_armed(disarmed: Option<Result>) {
    if let Some(Err(error)) = disarmed {
        pr_warn!("a probe could not be disarmed: {error:?}\n");
    }
}

/// The probes of an event, which hit while it is enabled.
#[pin_data]
pub(crate) struct Probes {
    records: Arc<Records>,
    #[pin]
    state: Mutex<ProbeList>,
}

struct ProbeList {
    probes: KVec<Arc<Probe>>,
    is_enabled: bool,
}

impl Probes {
    pub(crate) fn new(records: Arc<Records>, first: Arc<Probe>) -> Result<Arc<Self>> {
        let mut probes = KVec::with_capacity(1, GFP_KERNEL)?;
        probes.push(first, GFP_KERNEL)?;
        let state = ProbeList {
            probes,
            is_enabled: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                records,
                state <- new_mutex!(state, "rkprobe::Probes"),
            }),
            GFP_KERNEL,
        )
    }

    /// The records that they make.
    pub(crate) fn records(&self) -> &Arc<Records> {
        &self.records
    }

    /// Adds a probe, and enables it where the event is enabled.
    pub(crate) fn add(&self, token: &EventMutex, probe: Arc<Probe>) -> Result {
        let mut state = self.state.lock();
        state.probes.reserve(1, GFP_KERNEL)?;
        if state.is_enabled {
            probe.enable(token)?;
        }
        state.probes.push(probe, GFP_KERNEL)?;
        Ok(())
    }

    /// How many of the probes `is_doomed`, and how many there are.
    pub(crate) fn count(&self, is_doomed: impl Fn(&Probe) -> bool) -> (usize, usize) {
        let state = self.state.lock();
        let doomed = state.probes.iter().filter(|probe| is_doomed(probe)).count();
        (doomed, state.probes.len())
    }

    /// Lets go of the probes that `is_doomed`.
    pub(crate) fn forget(&self, is_doomed: impl Fn(&Probe) -> bool) {
        self.state.lock().probes.retain(|probe| !is_doomed(probe));
    }

    /// Takes out what was registered for probes in a module that has gone since, and has come
    /// again.
    pub(crate) fn take_gone(&self, module: &Module, to: &mut UnregisterBatch) {
        for probe in &self.state.lock().probes {
            if probe.is_of(module) {
                if let Some(gone) = probe.state.lock().take_gone() {
                    gone.unregister_in(to);
                }
            }
        }
    }

    /// Registers the probes that are in a module that has come. One that cannot be waits for the
    /// next time.
    pub(crate) fn module_came(&self, module: &Module) {
        let state = self.state.lock();
        for probe in &state.probes {
            let Some(symbol) = probe.symbol_in(module) else {
                continue;
            };
            let count = module.count_symbols(symbol);
            if let Err(error) = probe.register_again(count, state.is_enabled) {
                let spec = &probe.spec;
                pr_warn!(
                    "{} cannot be probed for {}/{}: {error:?}\n",
                    spec.target_text(),
                    spec.group(),
                    spec.event()
                );
            }
        }
    }

    /// Calls `f` with each probe.
    pub(crate) fn each(&self, f: impl FnMut(&Arc<Probe>)) {
        self.state.lock().probes.iter().for_each(f);
    }

    /// Does any probe satisfy `f`?
    pub(crate) fn any(&self, f: impl Fn(&Probe) -> bool) -> bool {
        self.state.lock().probes.iter().any(|probe| f(probe))
    }
}

/// What the kernel enables and disables with the event.
impl Operations for Probes {
    fn sink(&self) -> &Sink {
        &self.records.sink
    }

    fn fields(&self) -> &[Field] {
        self.records.schema.kernel_fields()
    }

    fn print_fmt(&self) -> &CStr {
        self.records.schema.print_fmt()
    }

    fn enable(&self, token: &EventMutexHeld) -> Result {
        let mut state = self.state.lock();
        for (index, probe) in state.probes.iter().enumerate() {
            if let Err(error) = probe.enable(token) {
                for enabled in state.probes.iter().take(index) {
                    enabled.disable(token);
                }
                return Err(error);
            }
        }
        state.is_enabled = true;
        Ok(())
    }

    fn disable(&self, token: &EventMutexHeld) {
        let mut state = self.state.lock();
        state.is_enabled = false;
        for probe in &state.probes {
            probe.disable(token);
        }
    }
}

/// A registered event.
pub(crate) struct Event {
    pub(crate) probes: Arc<Probes>,
    pub(crate) trace_event: TraceEvent,
}

impl Event {
    /// The bytes of its group and of its name.
    pub(crate) fn names(&self) -> (&[u8], &[u8]) {
        let (group, name) = self.trace_event.names();
        (group.to_bytes(), name.to_bytes())
    }
}

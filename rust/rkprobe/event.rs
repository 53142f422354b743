// SPDX-License-Identifier: GPL-2.0

//! An event and its probes.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering;

use kernel::new_mutex;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::str::CString;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use ktrace::dyn_event::DynEvent;
use ktrace::module::Module;
use ktrace::trace_event::EventMutex;
use ktrace::trace_event::EventMutexHeld;
use ktrace::trace_event::Operations;
use ktrace::trace_event::Sink;
use ktrace::trace_event::TraceEvent;
use probe::command::File;

use crate::armed::Armed;
use crate::armed::Batch;
use crate::dynamic::Dynamic;
use crate::plan::Plan;
use crate::reader;
use crate::recorder::Counts;
use crate::recorder::Parts;
use crate::shape::Shape;
use crate::symbols;

/// One probe of an event.
#[pin_data]
pub(crate) struct Probe {
    /// By which it goes in the listing.
    number: AtomicUsize,
    /// In the kernel's own.
    entry: DynEvent,
    shape: Arc<Shape>,
    /// How many calls in flight it has room for is not in it, unless the command said so.
    listing: CString,
    parts: Parts,
    #[pin]
    state: Mutex<Registration>,
}

/// What the kernel knows of a probe.
struct Registration {
    /// A [`Hook`] only while the event is enabled, one of the others always: but where it is of a
    /// module that is not loaded.
    armed: Option<Armed>,
    /// For a [`Hook`] always, for a kprobe while its module comes.
    plan: Option<Result<KBox<Plan>>>,
    /// How many calls in flight the last return probe had room for.
    maxactive: u32,
    /// What earlier registrations have counted.
    before: Counts,
}

impl Registration {
    /// Registers the probe as the plan says. Reads no file.
    fn arm(&self, parts: &Parts) -> Result<Armed> {
        match &self.plan {
            Some(Ok(plan)) => plan.arm(parts).map_err(|failure| failure.errno()),
            Some(Err(error)) => Err(*error),
            None => Err(EINVAL),
        }
    }

    fn set(&mut self, armed: Armed) {
        if let Armed::Return(probe) = &armed {
            self.maxactive = probe.maxactive();
        }
        self.armed = Some(armed);
    }

    /// Unregisters what waits for its event to be enabled again.
    fn unregister(&mut self) {
        if let Some(Armed::Hook(hook)) = self.armed.take_if(|armed| matches!(armed, Armed::Hook(_)))
        {
            self.before = self.before.and(hook.unregister());
        }
    }

    /// Takes out what is in code that was unloaded, and keeps what it has counted.
    fn take_gone(&mut self) -> Option<Armed> {
        let gone = self.armed.take_if(|armed| armed.is_gone())?;
        self.before = self.before.and(gone.counts());
        Some(gone)
    }
}

impl Probe {
    /// `armed` is what was registered for it already, and `plan` how to register a [`Hook`].
    pub(crate) fn new(
        shape: Arc<Shape>,
        listing: CString,
        parts: Parts,
        armed: Option<Armed>,
        plan: Option<Result<KBox<Plan>>>,
    ) -> Result<Arc<Self>> {
        let mut state = Registration {
            armed: None,
            plan,
            maxactive: 0,
            before: Counts::default(),
        };
        if let Some(armed) = armed {
            state.set(armed);
        }
        let entry = DynEvent::new()?;
        Arc::pin_init(
            pin_init!(Self {
                number: AtomicUsize::new(0),
                entry,
                shape,
                listing,
                parts,
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
    pub(crate) fn list(&self, token: &EventMutex, number: usize) {
        self.number.store(number, Ordering::Relaxed);
        self.entry.add::<Dynamic>(token, number);
    }

    /// The name and the fields of its event.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Is it listed in this file?
    pub(crate) fn is_in(&self, file: File) -> bool {
        file == File::All || self.shape.kind().is_kprobe()
    }

    /// Its command, in the form of the listing.
    pub(crate) fn command(&self) -> &str {
        self.listing.to_str().unwrap_or("")
    }

    /// Writes its line in the files: in that of a return probe is the number that the kernel chose,
    /// as in C, once there is one.
    pub(crate) fn show(&self, to: &SeqFile) {
        let maxactive = self.state.lock().maxactive;
        let rest = match self.command().strip_prefix("r:") {
            Some(rest) if maxactive > 0 => {
                to.call_printf(format_args!("r{maxactive}:"));
                rest
            }
            _ => self.command(),
        };
        reader::show(to, rest);
        to.call_printf(format_args!("\n"));
    }

    /// How often it was hit, and missed.
    pub(crate) fn counts(&self) -> Counts {
        let state = self.state.lock();
        let now = state.armed.as_ref().map(Armed::counts);
        state.before.and(now.unwrap_or_default())
    }

    /// Takes out what the kernel knows: the probe is removed.
    pub(crate) fn take(&self, token: &EventMutex) -> Option<Armed> {
        self.entry.remove(token);
        self.state.lock().armed.take()
    }

    fn enable(&self, _token: &EventMutexHeld) -> Result {
        let mut state = self.state.lock();
        if self.shape.kind().is_hook() {
            let armed = state.arm(&self.parts)?;
            state.set(armed);
        }
        match &state.armed {
            #[cfg(CONFIG_RKPROBE_EXPORTS)]
            Some(Armed::Event(probe)) => probe.attach(_token),
            Some(armed) => armed.enable(),
            None => Ok(()),
        }
    }

    fn disable(&self, _token: &EventMutexHeld) {
        let mut state = self.state.lock();
        let result = match &state.armed {
            Some(Armed::Entry(probe)) => probe.disable(),
            Some(Armed::Return(probe)) => probe.disable(),
            Some(Armed::ReturnInsn(probe)) => probe.disable(),
            #[cfg(CONFIG_RKPROBE_EXPORTS)]
            Some(Armed::Event(probe)) => {
                probe.detach(_token);
                Ok(())
            }
            Some(Armed::Hook(_)) | None => {
                state.unregister();
                Ok(())
            }
        };
        if let Err(error) = result {
            pr_warn!("a probe could not be disarmed: {:?}\n", error);
        }
    }

    /// Where it is, as the command says.
    fn target(&self) -> &str {
        self.command().split(' ').nth(1).unwrap_or("")
    }

    /// The symbol of a kprobe that is in this module by its command. What is looked for when it is
    /// enabled is in none.
    fn symbol_in(&self, module: &Module) -> Option<&str> {
        if !self.shape.kind().is_kprobe() {
            return None;
        }
        let (name, symbol) = self.target().split_once(':')?;
        let is_it = name.as_bytes() == &**module.name();
        symbol.split(['+', '%']).next().filter(|_| is_it)
    }

    /// Is it a kprobe that is in this module by its command?
    pub(crate) fn is_of(&self, module: &Module) -> bool {
        self.symbol_in(module).is_some()
    }

    /// Makes the plan anew if this module, which comes, can change it.
    ///
    /// Process context; reads files.
    pub(crate) fn module_comes(&self, module: &Module) {
        let may_change = match &self.state.lock().plan {
            Some(Ok(plan)) => plan.needs(module) || plan.is_open(),
            Some(Err(_)) => true,
            None => false,
        };
        if self.is_of(module) || self.shape.kind().is_hook() && may_change {
            self.plan_again(None);
        }
    }

    /// Makes the plan anew without this module, which goes, if the plan depends on it.
    ///
    /// Process context; reads files.
    pub(crate) fn module_goes(&self, module: &Module) {
        let needs_it = match &self.state.lock().plan {
            Some(Ok(plan)) => plan.needs(module),
            Some(Err(_)) | None => false,
        };
        if needs_it {
            self.plan_again(Some(module));
        }
    }

    fn plan_again(&self, going: Option<&Module>) {
        let plan = Plan::again(self.command(), &self.shape, going)
            .and_then(|plan| Ok(KBox::new(plan, GFP_KERNEL)?));
        self.state.lock().plan = Some(plan);
    }

    /// Registers it where its module has come, which has `count` symbols of this name.
    fn register_again(&self, count: usize, is_enabled: bool) -> Result {
        let mut state = self.state.lock();
        // It came while the command was carried out.
        if state.armed.is_some() {
            return Ok(());
        }
        symbols::check_count(count)?;
        let armed = state.arm(&self.parts)?;
        // The next time that the module comes there is another plan.
        state.plan = None;
        state.set(armed);
        match &state.armed {
            Some(armed) if is_enabled => armed.enable(),
            _ => Ok(()),
        }
    }
}

/// The probes of an event, which are armed while it is enabled.
#[pin_data]
pub(crate) struct Probes {
    #[pin]
    state: Mutex<State>,
}

struct State {
    probes: KVec<Arc<Probe>>,
    is_enabled: bool,
}

impl Probes {
    pub(crate) fn new(first: Arc<Probe>) -> Result<Arc<Self>> {
        let mut probes = KVec::with_capacity(1, GFP_KERNEL)?;
        probes.push(first, GFP_KERNEL)?;
        let state = State {
            probes,
            is_enabled: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(state, "rkprobe::Probes"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a probe, and arms it where the event is enabled.
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
    pub(crate) fn take_gone(&self, module: &Module, to: &mut Batch) {
        for probe in &self.state.lock().probes {
            if probe.is_of(module) {
                if let Some(gone) = probe.state.lock().take_gone() {
                    to.add(gone);
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
                pr_warn!(
                    "{} cannot be probed for {}/{}: {error:?}\n",
                    probe.target(),
                    probe.shape.group(),
                    probe.shape.name()
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

/// What the kernel switches on and off with the event.
pub(crate) struct Switch(pub(crate) Arc<Probes>);

impl Operations for Switch {
    fn enable(&self, token: &EventMutexHeld) -> Result {
        let mut state = self.0.state.lock();
        for (index, probe) in state.probes.iter().enumerate() {
            if let Err(error) = probe.enable(token) {
                for armed in state.probes.iter().take(index) {
                    armed.disable(token);
                }
                return Err(error);
            }
        }
        state.is_enabled = true;
        Ok(())
    }

    fn disable(&self, token: &EventMutexHeld) {
        let mut state = self.0.state.lock();
        state.is_enabled = false;
        for probe in &state.probes {
            probe.disable(token);
        }
    }
}

/// A registered event.
pub(crate) struct Event {
    pub(crate) shape: Arc<Shape>,
    pub(crate) probes: Arc<Probes>,
    pub(crate) sink: Arc<Sink>,
    pub(crate) trace_event: TraceEvent,
}

// SPDX-License-Identifier: GPL-2.0

//! A probe of an event.
//!
//! The registry owns all probes. One lock, `REGISTRY`, protects them.

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    sync::Arc, //
};

use ktrace::{
    dyn_event::{
        self,
        DynEvent, //
    },
    module::Module,
    security,
    trace_event::{
        EventMutex,
        EventMutexHeld, //
    },
};
use probe::command::{
    EventField,
    EventFields,
    EventsFile, //
};

use crate::{
    compile::Compiled,
    kind::{
        Awaited,
        Start, //
    },
    kinds,
    object::{
        Objects,
        Role, //
    },
    reader,
    recorder::Counts,
    records::Records,
    registered::{
        Registered,
        UnregisterBatch, //
    },
    spec::Spec,
    symbols, //
};

/// One probe of an event.
pub(crate) struct Probe {
    /// Number in the listing. A newer probe has a higher number.
    number: usize,
    /// Entry in the kernel's `dynamic_events`.
    entry: DynEvent,
    /// The event.
    records: Arc<Records>,
    spec: Spec,
    registration: Registration,
}

/// How the kernel knows a probe. It takes no more memory than a `KBox<dyn Registered>`.
enum Registration {
    /// The probe is registered only once.
    Once(KBox<dyn Registered>),
    /// The probe is registered more than once.
    Renewed(KBox<Renewal>),
}

/// State of a probe that is registered more than once.
#[derive(Default)]
struct Renewal {
    /// `None` while the kernel does not know the probe.
    registered: Option<KBox<dyn Registered>>,
    /// Whether the probe is registered each time that its event is enabled, and not each time that
    /// its module is loaded.
    is_with_event: bool,
    /// Programs for the next registration. A kprobe has none until its module is loaded.
    compiled: Option<Result<Compiled>>,
    /// Maximum number of calls in flight of the previous return probe.
    maxactive: u32,
    /// Counts of all earlier registrations.
    earlier: Counts,
    /// For an object probe: the probes that change its table. They are not listed.
    feeds: KVec<Probe>,
}

impl Registration {
    /// `ENOMEM`.
    fn new(start: Start, feeds: KVec<Probe>) -> Result<Self> {
        let renewal = match start {
            Start::Once(registered) => return Ok(Self::Once(registered)),
            Start::WithModule(registered) => Renewal {
                registered,
                feeds,
                ..Renewal::default()
            },
            Start::WithEvent(compiled) => Renewal {
                is_with_event: true,
                compiled: Some(compiled),
                feeds,
                ..Renewal::default()
            },
        };
        Ok(Self::Renewed(KBox::new(renewal, GFP_KERNEL)?))
    }
}

impl Probe {
    /// Creates a probe without a number. `ENOMEM`.
    pub(crate) fn new(
        records: Arc<Records>,
        spec: Spec,
        start: Start,
        feeds: KVec<Probe>,
    ) -> Result<Self> {
        Ok(Self {
            number: 0,
            entry: DynEvent::new()?,
            records,
            spec,
            registration: Registration::new(start, feeds)?,
        })
    }

    /// Number in the listing. Only listed probes have one.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Sets the number, and adds the probe to the kernel's listing.
    pub(crate) fn list<E: dyn_event::Entries>(&mut self, token: &EventMutex, number: usize) {
        self.number = number;
        self.entry.add::<E>(token, number);
    }

    /// The event of the probe.
    pub(crate) fn records(&self) -> &Arc<Records> {
        &self.records
    }

    /// The content of the command.
    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether `file` lists the probe.
    pub(crate) fn is_in(&self, file: EventsFile) -> bool {
        file.lists(self.spec.kind())
    }

    /// Writes the line of the probe in the listing. As in C, the line of a return probe contains
    /// the MAXACTIVE that the kernel chose.
    pub(crate) fn show(&self, to: &SeqFile) {
        to.call_printf(format_args!("{}", self.spec.kind().letter()));
        let maxactive = self.maxactive();
        if maxactive > 0 {
            to.call_printf(format_args!("{maxactive}"));
        }
        to.call_printf(format_args!(":"));
        reader::show(to, self.spec.text());
        to.call_printf(format_args!("\n"));
    }

    fn maxactive(&self) -> u32 {
        if let Some(maxactive) = self.spec.maxactive() {
            return maxactive.get().into();
        }
        match (self.registered(), self.renewal()) {
            (Some(registered), _) => registered.maxactive(),
            (None, Some(renewal)) => renewal.maxactive,
            (None, None) => 0,
        }
    }

    /// `None` while the kernel does not know the probe.
    fn registered(&self) -> Option<&dyn Registered> {
        match &self.registration {
            Registration::Once(registered) => Some(&**registered),
            Registration::Renewed(renewal) => renewal.registered.as_deref(),
        }
    }

    /// `None` if the probe is registered only once.
    fn renewal(&self) -> Option<&Renewal> {
        match &self.registration {
            Registration::Once(_) => None,
            Registration::Renewed(renewal) => Some(renewal),
        }
    }

    fn renewal_mut(&mut self) -> Option<&mut Renewal> {
        match &mut self.registration {
            Registration::Once(_) => None,
            Registration::Renewed(renewal) => Some(renewal),
        }
    }

    /// Hits and misses of all registrations.
    pub(crate) fn counts(&self) -> Counts {
        let earlier = self.renewal().map(|renewal| renewal.earlier);
        let now = self.registered().map(|registered| registered.counts());
        let mut counts = earlier.unwrap_or_default().and(now.unwrap_or_default());
        // The probe misses an object that found no room, and an object whose hit was missed.
        if let Some(objects) = self.objects() {
            counts.missed = counts.missed.wrapping_add(objects.refused());
        }
        for feed in self.feeds() {
            counts.missed = counts.missed.wrapping_add(feed.counts().missed);
        }
        counts
    }

    /// What the probe or one of its feeds waits for, if it cannot hit until a module is loaded.
    pub(crate) fn awaited(&self) -> Option<Awaited<'_>> {
        self.parts().find_map(Self::awaited_alone)
    }

    fn awaited_alone(&self) -> Option<Awaited<'_>> {
        let registered = self.registered();
        if registered.is_some_and(|registered| !registered.is_waiting()) {
            return None;
        }
        kinds::with(self.spec.target(), |kind| {
            kind.awaited(registered.is_some())
        })
    }

    /// Removes the probe from the kernel's listing. Moves the registrations to `batch`.
    pub(crate) fn unlist(self, token: &EventMutex, batch: &mut UnregisterBatch) {
        self.entry.remove(token);
        match self.registration {
            Registration::Once(registered) => registered.unregister_in(batch),
            Registration::Renewed(mut renewal) => {
                for feed in core::mem::take(&mut renewal.feeds) {
                    feed.unlist(token, batch);
                }
                if let Some(registered) = renewal.registered.take() {
                    registered.unregister_in(batch);
                }
            }
        }
    }

    /// The fields of other events that the probe uses.
    pub(crate) fn used_fields(&self) -> impl Iterator<Item = EventField<'_>> {
        let lists = kinds::with(self.spec.target(), |kind| kind.used_fields());
        lists.into_iter().flatten().flat_map(EventFields::iter)
    }

    fn feeds(&self) -> &[Probe] {
        match self.renewal() {
            Some(renewal) => &renewal.feeds,
            None => &[],
        }
    }

    fn feeds_mut(&mut self) -> &mut [Probe] {
        match self.renewal_mut() {
            Some(renewal) => &mut renewal.feeds,
            None => &mut [],
        }
    }

    /// The probe and its feeds.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Probe> {
        Iterator::chain(Some(self).into_iter(), self.feeds())
    }

    /// The element with this index of [`parts`](Self::parts).
    pub(crate) fn part_mut(&mut self, index: usize) -> Option<&mut Probe> {
        match index.checked_sub(1) {
            None => Some(self),
            Some(feed) => self.feeds_mut().get_mut(feed),
        }
    }

    /// For an object probe: the table of its objects.
    fn objects(&self) -> Option<&Objects> {
        match self.records.schema.role() {
            Some(Role::Follow(following)) => Some(&following.objects),
            _ => None,
        }
    }

    /// Whether the probe is registered only while its event is enabled.
    fn is_registered_with_event(&self) -> bool {
        self.renewal().is_some_and(|renewal| renewal.is_with_event)
    }

    fn compiled(&self) -> Option<&Result<Compiled>> {
        self.renewal()?.compiled.as_ref()
    }

    /// Sets the programs for the next registration.
    pub(crate) fn set_compiled(&mut self, compiled: Result<Compiled>) {
        if let Some(renewal) = self.renewal_mut() {
            renewal.compiled = Some(compiled);
        }
    }

    /// Registers the probe again, disabled. Reads no file.
    fn register(&self) -> Result<KBox<dyn Registered>> {
        let compiled = match self.compiled() {
            Some(Ok(compiled)) => compiled,
            Some(Err(error)) => return Err(*error),
            None => return Err(EINVAL),
        };
        security::kprobes_allowed()?;
        let command = self.spec.command();
        let registered = kinds::with(command.target, |kind| {
            kind.register_again(&command, compiled, &self.records)
        });
        registered.map_err(|failure| failure.errno())
    }

    /// Enables the probe when its event is enabled.
    pub(crate) fn enable(&mut self, token: &EventMutexHeld) -> Result {
        self.enable_alone(token)?;
        // The ends come before the sources, so that no object stays for ever.
        let mut enabled = 0;
        let result = self.feeds_mut().iter_mut().try_for_each(|feed| {
            feed.enable_alone(token)?;
            enabled += 1;
            Ok(())
        });
        if result.is_err() {
            self.disable_first(enabled, token);
        }
        result
    }

    /// Disables the probe when its event is disabled.
    pub(crate) fn disable(&mut self, token: &EventMutexHeld) {
        self.disable_first(self.feeds().len(), token);
    }

    /// Disables the first `feeds` feeds, and the probe itself.
    fn disable_first(&mut self, feeds: usize, token: &EventMutexHeld) {
        for feed in self.feeds_mut().iter_mut().take(feeds).rev() {
            feed.disable_alone(token);
        }
        // This waits for all handlers of an object probe, including those of the feeds.
        self.disable_alone(token);
        if let Some(objects) = self.objects() {
            objects.clear();
        }
    }

    fn enable_alone(&mut self, token: &EventMutexHeld) -> Result {
        if self.is_registered_with_event() {
            let registered = self.register()?;
            if let Some(renewal) = self.renewal_mut() {
                renewal.registered = Some(registered);
            }
        }
        match self.registered() {
            // The state of a module changes before `disarm_in`. So this function sees the state, or
            // `disarm_in` disarms the probe.
            Some(registered) if !registered.is_gone() => registered.enable(Some(token)),
            _ => Ok(()),
        }
    }

    fn disable_alone(&mut self, token: &EventMutexHeld) {
        if !self.is_registered_with_event() {
            let registered = self.registered();
            warn_if_armed(registered.map(|registered| registered.disable(token)));
        } else if let Some(renewal) = self.renewal_mut() {
            if let Some(registered) = renewal.registered.take() {
                renewal.earlier = renewal.earlier.and(registered.unregister());
            }
        }
    }

    /// The symbol of a kprobe whose command names this module.
    pub(crate) fn symbol_in(&self, module: &Module) -> Option<&str> {
        let (name, symbol) = kinds::with(self.spec.target(), |kind| kind.module_symbol())?;
        (name.as_bytes() == &**module.name()).then_some(symbol)
    }

    /// Whether the programs must be compiled again before `module`, which is being loaded, runs.
    pub(crate) fn needs_coming(&self, module: &Module) -> bool {
        let may_change = match self.compiled() {
            Some(Ok(compiled)) => compiled.needs(module) || compiled.is_open(),
            Some(Err(_)) => true,
            None => false,
        };
        self.symbol_in(module).is_some() || self.is_registered_with_event() && may_change
    }

    /// Whether the programs must be compiled again without `module`, which is being unloaded.
    pub(crate) fn needs_going(&self, module: &Module) -> bool {
        let needs_module = match self.compiled() {
            Some(Ok(compiled)) => compiled.needs(module),
            Some(Err(_)) | None => false,
        };
        needs_module && self.is_registered_with_event()
    }

    /// Disarms the probe if it is in `module`, which is being unloaded.
    pub(crate) fn disarm_in(&self, module: &Module) {
        for part in self.parts() {
            let registered = part.registered();
            warn_if_armed(registered.map(|registered| registered.disarm_in(module)));
        }
    }

    /// Takes the registration out if its code was unloaded. Keeps the counts.
    pub(crate) fn take_gone(&mut self) -> Option<KBox<dyn Registered>> {
        let renewal = self.renewal_mut()?;
        let gone = renewal
            .registered
            .take_if(|registered| registered.is_gone())?;
        renewal.maxactive = gone.maxactive();
        renewal.earlier = renewal.earlier.and(gone.counts());
        Some(gone)
    }

    /// Registers a kprobe of a module that was loaded. `count` is the number of symbols in the
    /// module that have the name of the target.
    pub(crate) fn register_in_module(&mut self, count: usize, is_enabled: bool) -> Result {
        // The module was loaded while the command was carried out.
        if self.registered().is_some() {
            return Ok(());
        }
        symbols::check_count(count)?;
        let registered = self.register()?;
        let Some(renewal) = self.renewal_mut() else {
            return Ok(());
        };
        // The programs are compiled again each time that the module is loaded.
        renewal.compiled = None;
        let registered = renewal.registered.insert(registered);
        if is_enabled {
            registered.enable(None)?;
        }
        Ok(())
    }
}

/// Logs a warning if a probe is still armed.
fn warn_if_armed(disarmed: Option<Result>) {
    if let Some(Err(error)) = disarmed {
        pr_warn!("a probe could not be disarmed: {error:?}\n");
    }
}

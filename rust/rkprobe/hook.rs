// SPDX-License-Identifier: GPL-2.0

//! A command in the kernel: its registrations, from the first one to the last one.

use kernel::prelude::*;

use ktrace::{
    module::Module,
    security,
    trace_event::EventMutexHeld, //
};

use probe::call_tree::{
    CallInProgress,
    OpenStep, //
};

use crate::{
    action::{
        Counts,
        Purpose, //
    },
    compile::Programs,
    kind::Start,
    kinds,
    registered::{
        Awaited,
        Registered,
        UnregisterBatch, //
    },
    spec::Spec,
    symbols, //
};

/// A command, and how the kernel knows it. An event's probe has one for itself, and an object probe
/// also has one for each probe of the events that it names.
pub(crate) struct Hook {
    spec: Spec,
    registration: Registration,
}

/// How the kernel knows a command. It takes no more memory than a `KBox<dyn Registered>`.
enum Registration {
    /// It is registered only once.
    Once(KBox<dyn Registered>),
    /// It is registered more than once.
    Renewed(KBox<Renewal>),
}

/// State of a command that is registered more than once.
struct Renewal {
    /// `None` while the kernel does not know the command.
    registered: Option<KBox<dyn Registered>>,
    programs: Programs,
    /// Maximum number of calls in flight of the previous return probe.
    maxactive: u32,
    /// Counts of all earlier registrations.
    earlier: Counts,
}

impl Registration {
    /// `ENOMEM`.
    fn new(start: Start, purpose: &Purpose) -> Result<Self> {
        let (registered, is_with_event, compiled) = match start {
            Start::Once(registered) => return Ok(Self::Once(registered)),
            Start::WithModule(registered) => (registered, false, None),
            Start::WithEvent(compiled) => (None, true, Some(compiled)),
        };
        let renewal = Renewal {
            registered,
            programs: Programs {
                purpose: purpose.clone(),
                is_with_event,
                compiled,
            },
            maxactive: 0,
            earlier: Counts::default(),
        };
        Ok(Self::Renewed(KBox::new(renewal, GFP_KERNEL)?))
    }
}

impl Hook {
    /// Creates the hook of a command that its kind has started. `ENOMEM`.
    pub(crate) fn new(spec: Spec, start: Start, purpose: &Purpose) -> Result<Self> {
        Ok(Self {
            spec,
            registration: Registration::new(start, purpose)?,
        })
    }

    /// Creates the hook of a command that is registered only once.
    pub(crate) fn once(spec: Spec, registered: KBox<dyn Registered>) -> Self {
        Self {
            spec,
            registration: Registration::Once(registered),
        }
    }

    /// The content of the command.
    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Maximum number of calls in flight of a return probe, or 0.
    pub(crate) fn maxactive(&self) -> u32 {
        if let Some(maxactive) = self.spec.maxactive() {
            return maxactive.get().into();
        }
        match (self.registered(), self.renewal()) {
            (Some(registered), _) => registered.maxactive(),
            (None, Some(renewal)) => renewal.maxactive,
            (None, None) => 0,
        }
    }

    /// `None` while the kernel does not know the command.
    fn registered(&self) -> Option<&dyn Registered> {
        match &self.registration {
            Registration::Once(registered) => Some(&**registered),
            Registration::Renewed(renewal) => renewal.registered.as_deref(),
        }
    }

    fn registered_mut(&mut self) -> Option<&mut dyn Registered> {
        match &mut self.registration {
            Registration::Once(registered) => Some(&mut **registered),
            Registration::Renewed(renewal) => match &mut renewal.registered {
                Some(registered) => Some(&mut **registered),
                None => None,
            },
        }
    }

    /// `None` if the command is registered only once.
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
        earlier.unwrap_or_default().and(now.unwrap_or_default())
    }

    /// Calls `f` with each call in progress of a call tree: see [`Registered::each_call`].
    pub(crate) fn each_call(&self, f: &mut dyn FnMut(&CallInProgress, &[OpenStep])) -> Result {
        match self.registered() {
            Some(registered) => registered.each_call(f),
            None => Ok(()),
        }
    }

    /// The thing that the command or a part of it waits for, if it cannot hit before.
    pub(crate) fn awaited(&self) -> Option<Awaited<'_>> {
        let registered = self.registered();
        if let Some(registered) = registered.filter(|registered| !registered.is_waiting()) {
            return registered.awaited();
        }
        kinds::with(self.spec.target(), |kind| {
            kind.awaited(registered.is_some())
        })
    }

    /// Moves the registration to `batch`.
    pub(crate) fn unregister_in(self, batch: &mut UnregisterBatch) {
        let registered = match self.registration {
            Registration::Once(registered) => Some(registered),
            Registration::Renewed(renewal) => KBox::into_inner(renewal).registered,
        };
        if let Some(registered) = registered {
            registered.unregister_in(batch);
        }
    }

    /// Whether the command is registered only while its event is enabled.
    fn is_registered_with_event(&self) -> bool {
        self.renewal()
            .is_some_and(|renewal| renewal.programs.is_with_event)
    }

    /// Registers the command again, disabled. Reads no file.
    fn register(&self) -> Result<KBox<dyn Registered>> {
        let programs = &self.renewal().ok_or(EINVAL)?.programs;
        let compiled = match &programs.compiled {
            Some(Ok(compiled)) => compiled,
            Some(Err(error)) => return Err(*error),
            None => return Err(EINVAL),
        };
        security::kprobes_allowed()?;
        let command = self.spec.command();
        let registered = kinds::with(command.target, |kind| {
            kind.register_again(&command, compiled, &programs.purpose)
        });
        registered.map_err(|failure| failure.errno())
    }

    /// Enables the hook when its event is enabled.
    pub(crate) fn enable(&mut self, token: &EventMutexHeld) -> Result {
        if self.is_registered_with_event() {
            let registered = self.register()?;
            if let Some(renewal) = self.renewal_mut() {
                renewal.registered = Some(registered);
            }
        }
        match self.registered_mut() {
            // The state of a module changes before `disarm_in`. So this function sees the state, or
            // `disarm_in` disarms the probe.
            Some(registered) if !registered.is_gone() => registered.enable(Some(token)),
            _ => Ok(()),
        }
    }

    /// Disables the hook when its event is disabled.
    pub(crate) fn disable(&mut self, token: &EventMutexHeld) {
        if !self.is_registered_with_event() {
            let registered = self.registered_mut();
            warn_if_armed(registered.map(|registered| registered.disable(token)));
        } else if let Some(renewal) = self.renewal_mut() {
            if let Some(registered) = renewal.registered.take() {
                renewal.earlier = renewal.earlier.and(registered.unregister());
            }
        }
    }

    /// The symbol of a kprobe whose command names this module.
    pub(crate) fn symbol_in(&self, module: &Module) -> Option<&str> {
        symbol_in(&self.spec, module)
    }

    /// Calls `f` with the programs of the command and of each part of it, and with the command of
    /// these. They are compiled again when modules come and go.
    pub(crate) fn each_programs(&mut self, f: &mut dyn FnMut(&Spec, &mut Programs)) {
        match &mut self.registration {
            Registration::Once(registered) => registered.each_programs(f),
            Registration::Renewed(renewal) => f(&self.spec, &mut renewal.programs),
        }
    }

    /// Disarms the command in `module`, which is being unloaded.
    pub(crate) fn disarm_in(&self, module: &Module) {
        let registered = self.registered();
        warn_if_armed(registered.map(|registered| registered.disarm_in(module)));
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
        renewal.programs.compiled = None;
        let registered = renewal.registered.insert(registered);
        if is_enabled {
            registered.enable(None)?;
        }
        Ok(())
    }
}

/// The symbol of a kprobe whose command names this module.
pub(crate) fn symbol_in<'a>(spec: &'a Spec, module: &Module) -> Option<&'a str> {
    let (name, symbol) = kinds::with(spec.target(), |kind| kind.module_symbol())?;
    (name.as_bytes() == &**module.name()).then_some(symbol)
}

/// Logs a warning if a probe is still armed.
fn warn_if_armed(disarmed: Option<Result>) {
    if let Some(Err(error)) = disarmed {
        pr_warn!("a probe could not be disarmed: {error:?}\n");
    }
}

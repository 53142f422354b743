// SPDX-License-Identifier: GPL-2.0

//! The trait of a kind of probe. Each kind has a file below `kinds/`.

use kernel::{
    prelude::*,
    str::CString, //
};

use probe::command::{
    Command,
    EventFields, //
};

use crate::{
    action::Purpose,
    compile::Compiled,
    failure::Failure,
    registered::{
        Awaited,
        Registered, //
    },
    resolve::ResolvedTarget, //
};

/// A kind of probe, implemented by its target. `'a` is the lifetime of the target's text.
///
/// The commands that the functions get have this target. They are called in process context, and
/// may sleep. Only [`resolve`](Self::resolve), [`resolve_again`](Self::resolve_again),
/// [`complete`](Self::complete) and [`start`](Self::start) may read files.
pub(crate) trait Kind<'a> {
    /// Adds what the command leaves to the kernel.
    fn complete(&self, command: &Command<'a>) -> Result<Command<'a>, Failure> {
        Ok(command.clone())
    }

    /// Checks that the kernel has the target, and finds the probe point. An error that C reports at
    /// the registration belongs to [`start`](Self::start).
    fn resolve(&self, command: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure>;

    /// Resolves the target of an accepted command, without the checks of the command.
    fn resolve_again(&self, command: &Command<'a>) -> Result<ResolvedTarget<'a>> {
        self.resolve(command).map_err(|failure| failure.errno())
    }

    /// Maximum number of words of entry data, if the kind has one.
    fn max_entry_words(&self) -> Option<usize> {
        None
    }

    /// The event that the probe is attached to, as the trace shows it. `ENOMEM`.
    fn attached(&self) -> Result<Option<CString>> {
        Ok(None)
    }

    /// Whether the fields of a record are compared before it is known whether it is made.
    fn compares_records(&self) -> bool {
        false
    }

    /// Creates the probe of a command: registers it, disabled, unless it is registered later. Most
    /// kinds are registered each time that the event is enabled.
    fn start(
        &self,
        _command: &Command<'a>,
        compiled: Result<Compiled, Failure>,
        _purpose: &Purpose,
    ) -> Result<Start, Failure> {
        Start::with_event(compiled)
    }

    /// Registers the probe of an accepted command again. A probe that is registered only while its
    /// event is enabled is armed at once.
    ///
    /// Reads no file, because the kernel holds `event_mutex` while it enables an event. A kind that
    /// always returns [`Start::Once`] is not registered again.
    fn register_again(
        &self,
        _command: &Command<'a>,
        _compiled: &Compiled,
        _purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        Err(EINVAL.into())
    }

    /// The module and the symbol in it, if the command names a module. Such a probe is registered
    /// each time that the module is loaded.
    fn module_symbol(&self) -> Option<(&'a str, &'a str)> {
        None
    }

    /// The module or the tracepoint that a probe waits for, because it cannot hit before.
    /// `is_registered` is whether the kernel knows the probe.
    fn awaited(&self, _is_registered: bool) -> Option<Awaited<'a>> {
        None
    }

    /// The fields of events that the probe uses. Such an event is removed only with the probe.
    fn used_fields(&self) -> [Option<EventFields<'a>>; 2] {
        [None; 2]
    }
}

/// When the probe of a command is registered.
pub(crate) enum Start {
    /// Once, now.
    Once(KBox<dyn Registered>),
    /// Each time that its module is loaded. `None` if the module is not loaded.
    WithModule(Option<KBox<dyn Registered>>),
    /// Each time that its event is enabled, with these programs.
    WithEvent(Result<Compiled>),
}

impl Start {
    /// Keeps the programs until the event is enabled. As in C, a missing symbol is an error then.
    /// `ENOMEM`.
    pub(crate) fn with_event(compiled: Result<Compiled, Failure>) -> Result<Self, Failure> {
        match compiled {
            Err(failure) if failure.errno() == ENOMEM => Err(failure),
            compiled => Ok(Self::WithEvent(compiled.map_err(|failure| failure.errno()))),
        }
    }
}

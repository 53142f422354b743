// SPDX-License-Identifier: GPL-2.0

//! Event probes: they hit when the kernel records a trace event.
//!
//! C: `__trace_eprobe_create()`, `__eprobe_trace_func()` in `kernel/trace/trace_eprobe.c`.

use kernel::{
    prelude::*,
    str::CString, //
};

use ktrace::{
    event_probe::{
        self,
        Event,
        EventProbe,
        Record, //
    },
    trace_event::EventMutexHeld, //
};
use probe::{
    command::{
        self,
        Command,
        ProbePoint, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use crate::{
    action::{
        Action,
        Counts,
        Purpose, //
    },
    compile::Compiled,
    failure::Failure,
    hit_context::CallValues,
    kind::{
        Kind,
        Start, //
    },
    registered::{
        boxed,
        Registered, //
    },
    resolve::{
        ResolvedTarget,
        TypeSource, //
    },
};

/// The trace event that an event probe is attached to.
pub(super) struct Attached<'a> {
    pub(super) system: &'a str,
    pub(super) name: &'a str,
}

impl Attached<'_> {
    /// Takes a reference to the event.
    fn hold(&self) -> Result<Event, Failure> {
        let system = CString::try_from_fmt(format_args!("{}", self.system))?;
        let name = CString::try_from_fmt(format_args!("{}", self.name))?;
        Event::get(&system, &name).map_err(|error| match error {
            ENOENT | EBUSY => {
                command::Error::at_target(ErrorKind::BadAttachEvent, Errno::ENODEV).into()
            }
            _ => error.into(),
        })
    }

    /// Creates the probe. It is attached while its own event is enabled.
    fn create(
        &self,
        compiled: &Compiled,
        purpose: &Purpose,
    ) -> Result<KBox<dyn Registered>, Failure> {
        let event = self.hold()?;
        let (action, _) = compiled.action(purpose)?;
        Ok(boxed(EventProbe::new(event, AtEvent(action))?)?)
    }
}

impl<'a> Kind<'a> for Attached<'a> {
    fn resolve(&self, _: &Command<'a>) -> Result<ResolvedTarget<'a>, Failure> {
        Ok(ResolvedTarget {
            point: ProbePoint::Event,
            types: TypeSource::Event(self.hold()?),
        })
    }

    fn attached(&self) -> Result<Option<CString>> {
        let Self { system, name } = self;
        Ok(Some(CString::try_from_fmt(format_args!(
            "{system}.{name}"
        ))?))
    }

    fn start(
        &self,
        _: &Command<'a>,
        compiled: Result<Compiled, Failure>,
        purpose: &Purpose,
    ) -> Result<Start, Failure> {
        // As in C, the error does not say which symbol is missing.
        let compiled = compiled.map_err(|failure| failure.errno())?;
        Ok(Start::Once(self.create(&compiled, purpose)?))
    }
}

impl<H: event_probe::Handler + AsRef<Action>> Registered for EventProbe<H> {
    /// `EINVAL` without the token.
    fn enable(&mut self, token: Option<&EventMutexHeld>) -> Result {
        self.attach(token.ok_or(EINVAL)?)
    }

    fn disable(&mut self, token: &EventMutexHeld) -> Result {
        self.detach(token);
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::of(self.handler(), self.missed())
    }
}

/// The handler of a trace event that is recorded.
struct AtEvent(Action);

impl event_probe::Handler for AtEvent {
    #[inline(always)]
    fn hit(&self, record: &Record<'_>) {
        self.0.run(record, EventRecord(record.bytes()), ());
    }
}

impl AsRef<Action> for AtEvent {
    fn as_ref(&self) -> &Action {
        &self.0
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

// SPDX-License-Identifier: GPL-2.0

//! A probe that is attached to an event. In the kernel's own tree only.
//!
//! C: `__trace_eprobe_create()` in `kernel/trace/trace_eprobe.c`.

use kernel::prelude::*;
use kernel::str::CString;

use ktrace::event_probe;
use ktrace::event_probe::Event;
use ktrace::event_probe::Record;
use probe::command;
use probe::command::Command;
use probe::command::Place;
use probe::command::Signature;
use probe::command::Site;
use probe::command::Target;
use probe::error::Errno;
use probe::error::ErrorKind;

use crate::armed::Armed;
use crate::failure::Failure;
use crate::plan::Compiled;
use crate::recorder::Head;
use crate::recorder::OfCall;
use crate::recorder::Parts;
use crate::recorder::Recorder;
use crate::signature::vmlinux;

/// A probe that is attached while its event is enabled.
pub(crate) type EventProbe = event_probe::EventProbe<AtEvent>;

/// What it does at a hit.
pub(crate) struct AtEvent(Recorder);

impl event_probe::Handler for AtEvent {
    #[inline(always)]
    fn hit(&self, record: &Record<'_>) {
        self.0.record(record, OfEvent(record.bytes()), ());
    }
}

impl AsRef<Recorder> for AtEvent {
    fn as_ref(&self) -> &Recorder {
        &self.0
    }
}

/// A record of its own begins with no address.
impl Head for () {
    #[inline(always)]
    fn put(self, record: &mut [u8]) -> Option<&mut [u8]> {
        Some(record)
    }
}

/// The record of the event that it is attached to.
#[derive(Clone, Copy)]
struct OfEvent<'a>(&'a [u8]);

impl OfCall for OfEvent<'_> {
    #[inline(always)]
    fn record(&self) -> &[u8] {
        self.0
    }
}

/// Calls `f` with the event that the command's probe goes to, which is there meanwhile.
pub(crate) fn with_site<R>(
    command: &Command<'_>,
    f: impl FnOnce(Site<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let Target::Event { system, name } = command.target else {
        return Err(EINVAL.into());
    };
    let event = get((system, name))?;
    command.filter()?;
    let vmlinux = match command.needs_signature() {
        true => vmlinux()?,
        false => None,
    };
    let btf = match &vmlinux {
        Some(object) => Some(object.btf(None)?),
        None => None,
    };
    f(Site {
        place: Place::Event,
        signature: Signature::Event(&event, btf),
    })
}

/// Holds an event.
fn get((system, name): (&str, &str)) -> Result<Event, Failure> {
    let system = CString::try_from_fmt(format_args!("{system}"))?;
    let name = CString::try_from_fmt(format_args!("{name}"))?;
    Event::get(&system, &name).map_err(|error| match error {
        ENOMEM => error.into(),
        _ => command::Error::at_target(ErrorKind::BadAttachEvent, Errno::ENODEV).into(),
    })
}

/// Makes the probe, which is attached while its event is enabled.
#[inline(never)]
pub(crate) fn place(
    command: &Command<'_>,
    event: (&str, &str),
    site: Site<'_>,
    parts: &Parts,
) -> Result<Armed, Failure> {
    // As in C, it is not told which symbol there is none of.
    let compiled = Compiled::new(command, site, None).map_err(|failure| failure.errno())?;
    let filter = match command.filter()? {
        Some(filter) => Some(CString::try_from_fmt(format_args!("{filter}"))?),
        None => None,
    };
    let recorder = AtEvent(compiled.recorder(parts)?.0);
    Ok(Armed::Event(EventProbe::new(
        get(event)?,
        filter,
        recorder,
    )?))
}

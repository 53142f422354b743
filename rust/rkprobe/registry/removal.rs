// SPDX-License-Identifier: GPL-2.0

//! Removal of probes and events.

use core::fmt;

use kernel::{
    prelude::*,
    sync::atomic::Relaxed,
    time::{
        delay::fsleep,
        Delta, //
    },
};

use ktrace::trace_event::{
    self,
    EventMutex,
    EventUsers, //
};

use crate::{
    event::Probe,
    reader,
    registered::UnregisterBatch, //
};

use super::{
    disable_all,
    Event,
    Registry,
    REGISTRY, //
};

/// Maximum number of removed events whose records stay readable. The kernel has some 65,000 event
/// numbers. Beyond the maximum, rkprobe empties the trace buffers.
const MAX_RETIRED: usize = 1024;

/// Empties the trace buffers if they have records of too many removed events. The numbers of these
/// events stay reserved while a CPU is offline.
pub(super) fn limit_retired() {
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

/// Removes all probes that satisfy `is_doomed`, and the events that keep no probe. Otherwise fails
/// and changes nothing. Returns the number of probes.
///
/// Fails with `EBUSY` if such an event is in use, or if a probe that stays uses it, and with
/// `ENOMEM`. Waits for one RCU grace period if there are kprobes, and for another one if there are
/// kretprobes. Also waits for each probe by ftrace or at a tracepoint that is enabled.
pub(crate) fn remove(is_doomed: impl Fn(&Probe) -> bool) -> Result<usize> {
    EventMutex::with(|token| remove_locked(token, is_doomed))?
}

/// Does what [`remove`] does, for a user. If an event is in use, logs which one, and by whom.
pub(crate) fn remove_or_log(is_doomed: impl Fn(&Probe) -> bool) -> Result<usize> {
    EventMutex::with(|token| remove_locked_or_log(token, is_doomed))?
}

/// Does what [`remove_or_log`] does, for a caller that holds `event_mutex`.
pub(super) fn remove_locked_or_log(
    token: &EventMutex,
    is_doomed: impl Fn(&Probe) -> bool,
) -> Result<usize> {
    let removed = remove_locked(token, &is_doomed);
    if matches!(removed, Err(EBUSY)) {
        log_in_use(token, &is_doomed);
    }
    removed
}

/// Logs the first event that cannot be removed, and its users.
#[inline(never)]
fn log_in_use(token: &EventMutex, is_doomed: impl Fn(&Probe) -> bool) {
    let registry = REGISTRY.lock();
    if let Err(in_use) = registry.doomed_events(token, is_doomed) {
        reader::log_line(format_args!("{in_use}"));
    }
}

/// Does what [`remove`] does, for a caller that holds `event_mutex`.
///
/// The kernel takes `trace_types_lock` to remove an event. It also holds this lock when the removal
/// of a trace instance disables events, which takes `REGISTRY`. So this function does not hold
/// `REGISTRY` while it removes events.
pub(super) fn remove_locked(
    token: &EventMutex,
    is_doomed: impl Fn(&Probe) -> bool,
) -> Result<usize> {
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

/// An event that cannot be removed. `Display` writes the reason.
struct InUse<'a> {
    event: &'a Event,
    users: EventUsers<'a>,
    /// A probe that stays, and uses the event.
    by: Option<&'a Probe>,
}

impl fmt::Display for InUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, name) = self.event.names();
        let (group, name) = (group.to_str().unwrap_or(""), name.to_str().unwrap_or(""));
        write!(f, "{group}/{name} is in use: ")?;
        match self.by.map(Probe::spec) {
            Some(user) => write!(f, "the probe {}/{}", user.group(), user.event()),
            None => self.users.fmt(f),
        }
    }
}

impl Registry {
    /// Counts the events all of whose probes satisfy `is_doomed`. Fails with the first event that
    /// has a user, or that a probe that stays uses.
    fn doomed_events<'a>(
        &'a self,
        token: &'a EventMutex,
        is_doomed: impl Fn(&Probe) -> bool,
    ) -> Result<usize, InUse<'a>> {
        let is_lost = |event: &Event| self.probes_of(event.operations()).all(&is_doomed);
        let in_use = |event, by| InUse {
            event,
            users: event.users(token),
            by,
        };
        let mut doomed = 0;
        for event in self.events.iter().filter(|event| is_lost(event)) {
            if event.is_busy(token) {
                return Err(in_use(event, None));
            }
            doomed += 1;
        }
        if doomed == 0 {
            return Ok(0);
        }
        for user in self.probes.iter().filter(|probe| !is_doomed(probe)) {
            for field in user.used_fields() {
                let used = (field.group.as_bytes(), field.event.as_bytes());
                let is_used = |event: &&Event| {
                    let (group, name) = event.names();
                    (group.to_bytes(), name.to_bytes()) == used
                };
                if let Some(event) = self
                    .events
                    .iter()
                    .find(is_used)
                    .filter(|event| is_lost(event))
                {
                    return Err(in_use(event, Some(user)));
                }
            }
        }
        Ok(doomed)
    }

    /// Removes all probes that satisfy `is_doomed`, and takes the events that keep no probe out of
    /// the list. Otherwise fails and changes nothing. The list has room for these events.
    fn take(&mut self, token: &EventMutex, is_doomed: impl Fn(&Probe) -> bool) -> Result<Removed> {
        let doomed_probes = self.probes.iter().filter(|probe| is_doomed(probe)).count();
        let doomed_events = self.doomed_events(token, &is_doomed).map_err(|_| EBUSY)?;
        let mut removed = Removed {
            probes: doomed_probes,
            events: VVec::with_capacity(doomed_events, GFP_KERNEL)?,
        };
        if doomed_probes == 0 && doomed_events == 0 {
            return Ok(removed);
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

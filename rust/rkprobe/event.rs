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
    trace_event::EventMutex, //
};
use probe::command::{
    EventField,
    EventFields,
    EventsFile, //
};

use crate::{
    hook::Hook,
    kinds,
    reader,
    records::Records,
    registered::UnregisterBatch,
    spec::Spec, //
};

/// One probe of an event.
pub(crate) struct Probe {
    /// Number in the listing. A newer probe has a higher number.
    number: usize,
    /// Entry in the kernel's `dynamic_events`.
    entry: DynEvent,
    /// The event.
    records: Arc<Records>,
    hook: Hook,
}

impl Probe {
    /// Creates a probe without a number. `ENOMEM`.
    pub(crate) fn new(records: Arc<Records>, hook: Hook) -> Result<Self> {
        Ok(Self {
            number: 0,
            entry: DynEvent::new()?,
            records,
            hook,
        })
    }

    /// Number in the listing.
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

    /// The command in the kernel.
    pub(crate) fn hook(&self) -> &Hook {
        &self.hook
    }

    /// The command in the kernel.
    pub(crate) fn hook_mut(&mut self) -> &mut Hook {
        &mut self.hook
    }

    /// The content of the command.
    pub(crate) fn spec(&self) -> &Spec {
        self.hook.spec()
    }

    /// Whether `file` lists the probe.
    pub(crate) fn is_in(&self, file: EventsFile) -> bool {
        file.lists(self.spec().kind())
    }

    /// Writes the line of the probe in the listing. As in C, the line of a return probe contains
    /// the MAXACTIVE that the kernel chose.
    pub(crate) fn show(&self, to: &SeqFile) {
        to.call_printf(format_args!("{}", self.spec().kind().letter()));
        let maxactive = self.hook.maxactive();
        if maxactive > 0 {
            to.call_printf(format_args!("{maxactive}"));
        }
        to.call_printf(format_args!(":"));
        reader::show(to, self.spec().text());
        to.call_printf(format_args!("\n"));
    }

    /// Removes the probe from the kernel's listing. Moves the registrations to `batch`.
    pub(crate) fn unlist(self, token: &EventMutex, batch: &mut UnregisterBatch) {
        self.entry.remove(token);
        self.hook.unregister_in(batch);
    }

    /// The fields of other events that the probe uses.
    pub(crate) fn used_fields(&self) -> impl Iterator<Item = EventField<'_>> {
        let lists = kinds::with(self.spec().target(), |kind| kind.used_fields());
        lists.into_iter().flatten().flat_map(EventFields::iter)
    }
}

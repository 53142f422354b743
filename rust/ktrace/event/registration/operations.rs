// SPDX-License-Identifier: GPL-2.0

//! The definition of an event by its owner.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::event::{
    mutex::EventMutexHeld,
    record::{
        print::Print,
        sink::Sink, //
    },
};

use super::{
    field::Field,
    name::NewName, //
};

/// The parts of an event, and the callbacks for its first and its last user.
///
/// `TraceEvent::register` calls each of the first three functions once.
pub trait Operations: Send + Sync + 'static {
    /// The sink that takes the event's records. No other event uses this sink.
    fn sink(&self) -> &Sink;

    /// The fields that follow the header of a record.
    fn fields(&self) -> &[Field];

    /// The format by which user space prints a record: the last line of `format`.
    fn print_fmt(&self) -> &CStr;

    /// Whether perf can open the event. If not, perf gets `EOPNOTSUPP`.
    fn allows_perf(&self) -> bool {
        true
    }

    /// Called for the first user. If the function fails, it leaves nothing enabled. Process
    /// context, with `event_mutex` held.
    fn enable(&self, token: &EventMutexHeld) -> Result;

    /// Called after the last user. Handlers may still be running. Process context, with
    /// `event_mutex` held.
    fn disable(&self, token: &EventMutexHeld);
}

/// The parts of an event.
pub struct Definition {
    /// The group and the name.
    pub name: NewName,
    /// The fields, the sink and the callbacks.
    pub operations: Arc<dyn Operations>,
    /// The printer of its records.
    pub print: Arc<dyn Print>,
}

// SPDX-License-Identifier: GPL-2.0

//! A handler for the records of a trace event.
//!
//! An event probe is a trigger on the event. Users do not see it. Because of the trigger, the
//! kernel creates the record even if nobody has enabled the event.
//!
//! Only the kernel's own tree [supports](ARE_SUPPORTED) event probes. Elsewhere [`Event::get`]
//! fails with `EOPNOTSUPP`, and neither an [`Event`] nor an [`EventProbe`] can exist.
//!
//! C: `kernel/trace/trace_eprobe.c`, `kernel/trace/trace_events_trigger.c`.

use crate::tree;

pub use crate::tree::{
    Event,
    EventProbe,
    Record, //
};
pub use handler::Handler;

pub(crate) mod handler;

/// Whether event probes can exist: rkprobe is a part of the kernel's tree.
pub const ARE_SUPPORTED: bool = tree::HAS_EVENT_PROBES;

// SPDX-License-Identifier: GPL-2.0

//! A handler for the records of a trace event.
//!
//! An event probe is a trigger on the event, which users do not see. Because of the trigger, the
//! kernel creates the record even if no user has enabled the event.
//!
//! Event probes [need](ARE_SUPPORTED) a build in the kernel tree. In other builds, [`Event::get`]
//! fails with `EOPNOTSUPP`, and neither an [`Event`] nor an [`EventProbe`] can exist.
//!
//! C: `kernel/trace/trace_eprobe.c`, `kernel/trace/trace_events_trigger.c`.

use crate::support::{
    tree_variants,
    IN_TREE, //
};

pub use handler::Handler;
pub use record::Record;
pub use tree::{
    Event,
    EventProbe, //
};

pub(crate) mod handler;
mod record;

tree_variants!();

/// Whether event probes can exist: true if rkprobe is built in the kernel tree.
pub const ARE_SUPPORTED: bool = IN_TREE;

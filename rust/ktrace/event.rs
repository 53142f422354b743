// SPDX-License-Identifier: GPL-2.0

//! Trace events: events of modules, records in the trace buffers, and events of the kernel.

pub mod dyn_event;
pub mod event_probe;
pub mod trace_event;
pub mod tracing;

pub(crate) mod mutex;

// SPDX-License-Identifier: GPL-2.0

//! Trace events of modules, and events of the kernel.
//!
//! - [`record`]: records, from the origin of a record to the trace buffers;
//! - [`registration`]: events of this crate in the kernel;
//! - [`definition`]: events that a structure defines;
//! - [`trace_event`]: the public names of these three;
//! - [`event_probe`]: handlers for the records of any event;
//! - [`dyn_event`]: the kernel's list of events that users create;
//! - [`mutex`]: the lock for all events; [`tracing`]: the switch of the trace.

pub mod dyn_event;
pub mod event_probe;
pub mod trace_event;
pub mod tracing;

pub(crate) mod definition;
pub(crate) mod mutex;
pub(crate) mod record;
pub(crate) mod registration;

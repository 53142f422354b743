// SPDX-License-Identifier: GPL-2.0

//! The handler of an event probe.

use super::record::Record;

/// Handles the records of a trace event.
pub trait Handler: Send + Sync + 'static {
    /// Called in atomic context (see [`crate::context`]), before the record is in the trace buffer.
    fn hit(&self, record: &Record<'_>);
}

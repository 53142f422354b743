// SPDX-License-Identifier: GPL-2.0

//! The kernel's `error_log` in tracefs, which is open to modules of the kernel's tree alone.
//!
//! C: `tracing_log_err()` in `kernel/trace/trace.c`.

use kernel::str::CStr;

use crate::tree;

/// Whether [`add`] has an effect.
pub const IS_OPEN: bool = tree::HAS_ERROR_LOG;

/// Adds an entry: an error in a command of a subsystem, and its position in bytes. Adds nothing if
/// memory is exhausted. Process context.
///
/// The kernel keeps each text for good: it must be one of a few.
pub fn add(subsystem: &CStr, command: &CStr, text: &CStr, caret: u16) {
    tree::log_error(subsystem, command, text, caret);
}

// SPDX-License-Identifier: GPL-2.0

//! The kernel's `error_log` in tracefs, which the kernel offers only to code in its own tree.
//!
//! C: `tracing_log_err()` in `kernel/trace/trace.c`.

use kernel::str::CStr;

use crate::tree;

/// Whether [`add`] has an effect.
pub const IS_OPEN: bool = tree::HAS_ERROR_LOG;

/// Adds an entry for an error in a command of a subsystem. `caret` is the position of the error, in
/// bytes. Adds nothing if memory is exhausted. Process context.
///
/// The kernel keeps each text permanently, so there must be only a few different texts.
pub fn add(subsystem: &CStr, command: &CStr, text: &CStr, caret: u16) {
    tree::log_error(subsystem, command, text, caret);
}

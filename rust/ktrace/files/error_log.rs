// SPDX-License-Identifier: GPL-2.0

//! The kernel's `error_log` in tracefs, which the kernel offers only to code in its own tree.
//!
//! C: `tracing_log_err()` in `kernel/trace/trace.c`.

use kernel::{
    ffi::c_char,
    prelude::*, //
};

use crate::support::IN_TREE;

extern "C" {
    fn rkprobe_log_err(
        subsystem: *const c_char,
        command: *const c_char,
        text: *const c_char,
        caret: u16,
    );
}

/// Whether [`add`] has an effect.
pub const IS_OPEN: bool = IN_TREE;

/// Adds an entry for an error in a command of a subsystem. `caret` is the position of the error, in
/// bytes. Adds nothing if memory is exhausted. Process context.
///
/// The kernel keeps each text permanently, so there must be only a few different texts.
#[export_name = "ktrace_own_add_error"]
pub fn add(subsystem: &CStr, command: &CStr, text: &CStr, caret: u16) {
    if !IN_TREE {
        return;
    }
    // SAFETY: All arguments are NUL-terminated strings, because each is a `CStr`. The kernel copies
    // them.
    unsafe {
        rkprobe_log_err(
            subsystem.as_char_ptr(),
            command.as_char_ptr(),
            text.as_char_ptr(),
            caret,
        )
    };
}

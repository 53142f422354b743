// SPDX-License-Identifier: GPL-2.0

//! The switch of the top trace instance, the file `tracing_on` in tracefs.
//!
//! C header: `include/linux/trace_printk.h`

use kernel::bindings;

/// Stops recording in the top trace instance, so that the trace keeps the events before this call.
/// Other instances continue to record: the trigger `traceoff` stops the instance of its event. Any
/// context.
///
/// C: `tracing_off()`.
pub fn off() {
    // SAFETY: The function has no requirements.
    unsafe { bindings::tracing_off() };
}

/// Whether the top trace instance records. Any context. C: `tracing_is_on()`.
pub fn is_on() -> bool {
    // SAFETY: The function has no requirements.
    unsafe { bindings::tracing_is_on() != 0 }
}

// SPDX-License-Identifier: GPL-2.0

//! The switch of the top trace instance, the file `tracing_on` in tracefs.
//!
//! C header: `include/linux/trace_printk.h`

use kernel::bindings;

/// Stops recording in the top trace instance, to keep what led to an event. Other instances
/// continue: a trigger `traceoff` of an event stops its own instance. Any context.
///
/// C: `tracing_off()`.
pub fn off() {
    // SAFETY: No requirements.
    unsafe { bindings::tracing_off() };
}

/// Whether the top trace instance records. Any context. C: `tracing_is_on()`.
pub fn is_on() -> bool {
    // SAFETY: No requirements.
    unsafe { bindings::tracing_is_on() != 0 }
}

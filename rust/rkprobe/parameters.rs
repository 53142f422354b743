// SPDX-License-Identifier: GPL-2.0

//! The parameter `event`: commands that rkprobe runs when the module loads, or, if rkprobe is built
//! in, when the kernel boots. Also runs the commands of the boot configuration.
//!
//! C: `setup_boot_kprobe_events()` in `kernel/trace/trace_kprobe.c`.

use kernel::{
    ffi::c_char,
    prelude::*, //
};

use crate::{
    commands,
    registry, //
};

extern "C" {
    fn rkprobe_event() -> *const c_char;
}

/// Runs the commands and enables their events. Logs errors. After an error, a module fails to load
/// and enables nothing. If rkprobe is built in, it continues with the next command.
pub(crate) fn apply() -> Result {
    #[cfg(not(MODULE))]
    boot::set_ready();
    // SAFETY: The function has no requirements.
    let event = unsafe { rkprobe_event() };
    if event.is_null() {
        return Ok(());
    }
    // SAFETY: The kernel keeps the string of a parameter. Only the kernel could change it, and does
    // not.
    let event = unsafe { CStr::from_char_ptr(event) };
    let mut commands = KVec::new();
    commands.extend_from_slice(event.to_bytes(), GFP_KERNEL)?;
    // A space ends a parameter that has no quotes, so commas separate the words of a command.
    for byte in commands.iter_mut().filter(|byte| **byte == b',') {
        *byte = b' ';
    }
    let mut result = Ok(());
    for command in commands.split(|&byte| byte == b';') {
        result = result.and(commands::run_at_load(command));
    }
    if cfg!(MODULE) {
        result?;
        return registry::enable_all();
    }
    let _ = registry::enable_all();
    Ok(())
}

/// Runs the commands of the boot configuration, which `boot.c` reads.
#[cfg(not(MODULE))]
mod boot {
    use kernel::{
        ffi::c_char,
        prelude::*,
        sync::atomic::{
            Atomic,
            Relaxed, //
        },
    };

    use crate::commands;

    /// Whether the built-in module is initialised.
    static IS_READY: Atomic<bool> = Atomic::new(false);

    /// Sets `IS_READY`.
    pub(super) fn set_ready() {
        IS_READY.store(true, Relaxed);
    }

    /// Runs a command of the boot configuration. Logs errors. Returns whether the command
    /// succeeded.
    ///
    /// # Safety
    ///
    /// `command` must be a NUL-terminated string.
    #[no_mangle]
    unsafe extern "C" fn rkprobe_run_at_boot(command: *const c_char) -> bool {
        // SAFETY: The caller guarantees a NUL-terminated string.
        let command = unsafe { CStr::from_char_ptr(command) };
        IS_READY.load(Relaxed) && commands::run_at_load(command.to_bytes()).is_ok()
    }
}

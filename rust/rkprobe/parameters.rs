// SPDX-License-Identifier: GPL-2.0

//! The parameter `event`: commands that are carried out when the module is loaded, or at the boot
//! of the kernel that it is built into; and those in the boot configuration.
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

/// Carries the commands out, and enables their events. What is wrong is told in the kernel's log.
///
/// A module is not to be loaded where there is an error: then nothing is enabled. One that is built
/// in goes on with the other commands.
pub(crate) fn apply() -> Result {
    #[cfg(not(MODULE))]
    boot::set_ready();
    // SAFETY: The function has no requirements.
    let event = unsafe { rkprobe_event() };
    if event.is_null() {
        return Ok(());
    }
    // SAFETY: The kernel keeps the string of a parameter, which only it can change, and does not.
    let event = unsafe { CStr::from_char_ptr(event) };
    let mut commands = KVec::new();
    commands.extend_from_slice(event.to_bytes(), GFP_KERNEL)?;
    // A space ends a parameter, unless it is quoted.
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

/// The boot configuration: it is read in `boot.c`.
#[cfg(not(MODULE))]
mod boot {
    use core::sync::atomic::{
        AtomicBool,
        Ordering, //
    };

    use kernel::{
        ffi::c_char,
        prelude::*, //
    };

    use crate::commands;

    /// Was the module initialised, when it is built in?
    static IS_READY: AtomicBool = AtomicBool::new(false);

    /// It was.
    pub(super) fn set_ready() {
        IS_READY.store(true, Ordering::Relaxed);
    }

    /// Carries a command of the boot configuration out, and says whether it could. What is wrong is
    /// told in the kernel's log.
    ///
    /// # Safety
    ///
    /// `command` must be a string.
    #[no_mangle]
    unsafe extern "C" fn rkprobe_run_at_boot(command: *const c_char) -> bool {
        // SAFETY: The caller guarantees a string.
        let command = unsafe { CStr::from_char_ptr(command) };
        IS_READY.load(Ordering::Relaxed) && commands::run_at_load(command.to_bytes()).is_ok()
    }
}

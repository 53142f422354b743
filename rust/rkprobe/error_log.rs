// SPDX-License-Identifier: GPL-2.0

//! The errors of the last commands. They go to the kernel's `error_log`, or, if modules have no
//! access, to `rkprobe_error_log`.
//!
//! C: `tracing_log_err()` in `kernel/trace/trace.c`.

use kernel::{
    prelude::*,
    str::CString, //
};

use ktrace::context::local_clock;
use probe::command::{
    Error,
    EventsFile,
    Normalized, //
};

/// Maximum number of entries. C: `TRACING_LOG_ERRS_MAX`.
const MAX_ENTRIES: usize = 8;

kernel::sync::global_lock! {
    // SAFETY: `init` initialises it when the module loads.
    unsafe(uninit) static LOG: Mutex<KVec<CString>> = KVec::new();
}

/// # Safety
///
/// The caller must call this once, before any other function of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any use of the lock.
    unsafe { LOG.init() };
}

/// Adds an entry for a line that a user wrote to `file`. If the log is full, replaces the oldest
/// entry. Without memory, adds no entry.
pub(crate) fn add(file: EventsFile, line: &str, error: &Error) {
    if ktrace::error_log::IS_OPEN {
        let _ = add_to_kernel(file, line, error);
    } else {
        add_to_ours(file, line, error);
    }
}

fn add_to_kernel(file: EventsFile, line: &str, error: &Error) -> Result {
    ktrace::error_log::add(
        &CString::try_from_fmt(format_args!("{}", file.subsystem(line, error)))?,
        &CString::try_from_fmt(format_args!("{}", Normalized(line)))?,
        &CString::try_from_fmt(format_args!("{}", error.kind.text()))?,
        u16::try_from(error.column(line))?,
    );
    Ok(())
}

fn add_to_ours(file: EventsFile, line: &str, error: &Error) {
    const NS_PER_US: u64 = 1_000;
    const US_PER_S: u64 = 1_000_000;

    let us = local_clock() / NS_PER_US;
    let Ok(entry) = CString::try_from_fmt(format_args!(
        "[{:5}.{:06}] {}: error: {}",
        us / US_PER_S,
        us % US_PER_S,
        file.subsystem(line, error),
        error.entry(line)
    )) else {
        return;
    };
    let mut log = LOG.lock();
    if log.len() == MAX_ENTRIES {
        let _ = log.remove(0);
    }
    let _ = log.push(entry, GFP_KERNEL);
}

/// Removes all entries.
pub(crate) fn clear() {
    *LOG.lock() = KVec::new();
}

/// Number of entries.
pub(crate) fn len() -> usize {
    LOG.lock().len()
}

/// Calls `f` with the entry `index`, if the entry exists.
pub(crate) fn with_entry(index: usize, f: impl FnOnce(&str)) {
    let log = LOG.lock();
    if let Some(entry) = log.get(index) {
        f(entry.to_str().unwrap_or(""));
    }
}

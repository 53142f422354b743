// SPDX-License-Identifier: GPL-2.0

//! What was wrong with the last commands: in the kernel's `error_log`, or, where that is not open
//! to modules, in one of ours.
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

/// How many entries are kept. C: `TRACING_LOG_ERRS_MAX`.
const MAX_ENTRIES: usize = 8;

kernel::sync::global_lock! {
    // SAFETY: Initialised by `init` when the module is loaded.
    unsafe(uninit) static LOG: Mutex<KVec<CString>> = KVec::new();
}

/// # Safety
///
/// Called once, before anything else here is used.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, and nobody has used the lock yet.
    unsafe { LOG.init() };
}

/// Adds an entry for a line that was written to `file`, in place of the oldest where the log is
/// full. Without memory there is none.
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

/// Forgets all entries.
pub(crate) fn clear() {
    *LOG.lock() = KVec::new();
}

/// How many entries there are.
pub(crate) fn len() -> usize {
    LOG.lock().len()
}

/// Calls `f` with an entry, where there is one.
pub(crate) fn with_entry(index: usize, f: impl FnOnce(&str)) {
    let log = LOG.lock();
    if let Some(entry) = log.get(index) {
        f(entry.to_str().unwrap_or(""));
    }
}

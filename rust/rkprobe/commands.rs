// SPDX-License-Identifier: GPL-2.0

//! Runs a line that a user wrote to a control file: creates a probe ([`create`]), or removes
//! probes.
//!
//! C: `create_or_delete_trace_kprobe()` in `kernel/trace/trace_kprobe.c`, `create_dyn_event()` and
//! `dyn_event_release()` in `kernel/trace/trace_dynevent.c`.

use core::fmt;

use kernel::{
    bindings::ECANCELED,
    ffi::c_int,
    prelude::*, //
};

use ktrace::{
    dyn_event,
    module::Module,
    module_notifier, //
};
use probe::{
    arch,
    command::{
        self,
        Delete,
        EventsFile,
        Hint,
        Line,
        Normalized, //
    },
    error::{
        Errno,
        ErrorKind, //
    },
};

use crate::{
    create::create,
    error_log,
    event::Probe,
    exits::Analysis,
    failure::Failure,
    reader,
    registry,
    symbols, //
};

kernel::sync::global_lock! {
    // A command holds this lock, so that no other command changes the state that the command found.
    // SAFETY: `init` initialises it when the module loads.
    unsafe(uninit) static COMMANDS: Mutex<()> = ();
}

/// # Safety
///
/// The caller must call this once, before any other function of this file.
pub(crate) unsafe fn init() {
    // SAFETY: The caller calls this once, before any use of the lock.
    unsafe { COMMANDS.init() };
}

/// Runs a line that a user wrote to `file`. Reports errors in the error log.
pub(crate) fn run(file: EventsFile, line: &[u8]) -> Result {
    carry_out(file, line, |line, failure| {
        if let Failure::Command(error) = failure {
            error_log::add(file, line, error);
        }
    })
}

/// Receives lines that users wrote to the kernel's `dynamic_events`, if the kernel lets modules use
/// that file.
pub(crate) struct Dynamic;

impl dyn_event::Commands for Dynamic {
    fn create(line: &[u8]) -> Result {
        let file = EventsFile::DynamicEvents;
        let mut is_ours = true;
        let result = carry_out(file, line, |line, failure| match failure {
            Failure::Command(error) if error.kind == ErrorKind::NoMatchingType => is_ours = false,
            Failure::Command(error) => error_log::add(file, line, error),
            Failure::Other(_) => {}
        });
        if is_ours {
            result
        } else {
            Err(Error::from_errno(-(ECANCELED as c_int)))
        }
    }
}

/// Runs a line of the module's parameter. Reports errors in the kernel's log.
pub(crate) fn run_at_load(line: &[u8]) -> Result {
    let tell = |text: fmt::Arguments<'_>| reader::log(text, |text| pr_err!("error: {text}"));
    let file = EventsFile::DynamicEvents;
    carry_out(file, line, |line, failure| match failure {
        Failure::Command(error) => tell(format_args!("{}", error.entry(line))),
        Failure::Other(error) => tell(format_args!("{error:?}\n  Command: {}\n", Normalized(line))),
    })
}

#[inline(never)]
fn carry_out(file: EventsFile, line: &[u8], report: impl FnOnce(&str, &Failure)) -> Result {
    let _commands = COMMANDS.lock();
    let line = command::without_comment(line).ok_or_else(|| {
        pr_warn!("a command is not UTF-8\n");
        EINVAL
    })?;
    let result = match file.parse(line) {
        Ok(Line::Nothing) => Ok(()),
        Ok(Line::Create(command)) => create(&command),
        Ok(Line::Delete(delete)) => remove(file, &delete),
        Err(error) => Err(error.into()),
    };
    result.map_err(|failure| {
        report(line, &failure);
        if let Failure::Command(error) = &failure {
            log_hint(file, line, error);
        }
        failure.errno()
    })
}

/// Logs what to write instead of a refused command, if rkprobe knows it.
#[inline(never)]
fn log_hint(file: EventsFile, line: &str, error: &command::Error) {
    if let Some(hint) = Hint::new(file, line, error, arch::current::kernel_name) {
        reader::log_line(format_args!("{hint}"));
    }
}

/// Removes all probes that `file` lists. Fails with `EBUSY` if one of them is in use, then removes
/// none, and logs which one.
pub(crate) fn clear(file: EventsFile) -> Result {
    let _commands = COMMANDS.lock();
    registry::remove_or_log(|probe| probe.is_in(file))?;
    Ok(())
}

/// Analyses a function for a file.
pub(crate) fn analyse(analysis: Analysis, line: &[u8]) -> Result {
    let _commands = COMMANDS.lock();
    let symbol = core::str::from_utf8(line).map_err(|_| EINVAL)?.trim();
    if symbol.is_empty() {
        return Ok(());
    }
    analysis.find(symbols::unique_address_of(symbol)?)
}

/// Handles the loading and unloading of modules.
pub(crate) struct Modules;

impl module_notifier::Handler for Modules {
    fn coming(&self, module: &Module) {
        // Waits for the current command. If its probe waits for the module, the probe is then in
        // the registry.
        let _commands = COMMANDS.lock();
        registry::module_coming(module);
    }

    fn leaving(&self, module: &Module) {
        let _commands = COMMANDS.lock();
        registry::module_leaving(module);
    }

    fn going(&self, module: &Module) {
        let _commands = COMMANDS.lock();
        registry::module_going(module);
    }
}

fn remove(file: EventsFile, delete: &Delete<'_>) -> Result<(), Failure> {
    let is_deleted = |probe: &Probe| probe.is_in(file) && probe.spec().is_deleted_by(delete);
    match registry::remove_or_log(is_deleted) {
        Ok(0) => Err(command::Error::at_command(ErrorKind::NoSuchEvent, Errno::ENOENT).into()),
        Ok(_) => Ok(()),
        Err(error) if error == EBUSY => {
            Err(command::Error::at_command(ErrorKind::EventBusy, Errno::EBUSY).into())
        }
        Err(error) => Err(error.into()),
    }
}

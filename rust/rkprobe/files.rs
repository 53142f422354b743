// SPDX-License-Identifier: GPL-2.0

//! The control files: `rkprobe_events`, `rkprobe_dynamic_events`, `rkprobe_profile`,
//! `rkprobe_error_log` and `rkprobe_exits`. Files that the kernel lacks also exist under the
//! kernel's names.

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    ThisModule, //
};

use ktrace::tracefs::{
    ControlFile,
    File, //
};
use probe::command::EventsFile;

use crate::{
    commands,
    error_log,
    exits,
    reader,
    registry, //
};

/// Creates the files and adds them to `files`.
pub(crate) fn create(module: &'static ThisModule, files: &mut KVec<File>) -> Result {
    let mut add = |file: Result<File>| -> Result { Ok(files.push(file?, GFP_KERNEL)?) };
    add(File::create::<Events<KPROBE_EVENTS>>(
        c"rkprobe_events",
        module,
    ))?;
    add(File::create::<Events<DYNAMIC_EVENTS>>(
        c"rkprobe_dynamic_events",
        module,
    ))?;
    add(File::create::<Profile<DYNAMIC_EVENTS>>(
        c"rkprobe_profile",
        module,
    ))?;
    if !ktrace::error_log::IS_OPEN {
        add(File::create::<ErrorLog>(c"rkprobe_error_log", module))?;
    }
    if ktrace::exits::IS_BUILT {
        add(File::create::<Exits>(c"rkprobe_exits", module))?;
    }
    // perf and trace-cmd look for these names.
    if !cfg!(CONFIG_KPROBE_EVENTS) {
        add(File::create::<Events<KPROBE_EVENTS>>(
            c"kprobe_events",
            module,
        ))?;
        add(File::create::<Profile<KPROBE_EVENTS>>(
            c"kprobe_profile",
            module,
        ))?;
    }
    if !cfg!(CONFIG_DYNAMIC_EVENTS) {
        add(File::create::<Events<DYNAMIC_EVENTS>>(
            c"dynamic_events",
            module,
        ))?;
    }
    Ok(())
}

const KPROBE_EVENTS: bool = false;
const DYNAMIC_EVENTS: bool = true;

/// The [`EventsFile`] for a parameter of [`Events`] or [`Profile`].
const fn events_file(is_dynamic: bool) -> EventsFile {
    match is_dynamic {
        KPROBE_EVENTS => EventsFile::KprobeEvents,
        DYNAMIC_EVENTS => EventsFile::DynamicEvents,
    }
}

/// Reads list the probes. Writes are commands.
struct Events<const IS_DYNAMIC: bool>;

impl<const IS_DYNAMIC: bool> Events<IS_DYNAMIC> {
    const FILE: EventsFile = events_file(IS_DYNAMIC);
}

#[vtable]
impl<const IS_DYNAMIC: bool> ControlFile for Events<IS_DYNAMIC> {
    fn next(from: usize) -> Option<usize> {
        registry::next(Self::FILE, from)
    }

    fn show(number: usize, to: &SeqFile) {
        registry::with_probe(number, |probe| probe.show(to));
    }

    fn clear() -> Result {
        commands::clear(Self::FILE)
    }

    fn write_line(line: &[u8]) -> Result {
        commands::run(Self::FILE, line)
    }
}

/// Hits and misses of each probe. The kernel's own file does not show what a probe waits for.
struct Profile<const IS_DYNAMIC: bool>;

impl<const IS_DYNAMIC: bool> Profile<IS_DYNAMIC> {
    const FILE: EventsFile = events_file(IS_DYNAMIC);
}

#[vtable]
impl<const IS_DYNAMIC: bool> ControlFile for Profile<IS_DYNAMIC> {
    fn next(from: usize) -> Option<usize> {
        registry::next(Self::FILE, from)
    }

    fn show(number: usize, to: &SeqFile) {
        registry::with_probe(number, |probe| {
            let counts = probe.counts();
            to.call_printf(format_args!(
                "  {:<44} {:>15} {:>15}",
                probe.spec().event(),
                counts.hits,
                counts.missed
            ));
            if let (DYNAMIC_EVENTS, Some(awaited)) = (IS_DYNAMIC, probe.awaited()) {
                to.call_printf(format_args!("  waiting for {}", format_args!("{awaited}")));
            }
            to.call_printf(format_args!("\n"));
        });
    }
}

/// The errors of the last commands.
struct ErrorLog;

#[vtable]
impl ControlFile for ErrorLog {
    fn next(from: usize) -> Option<usize> {
        (from < error_log::len()).then_some(from)
    }

    fn show(index: usize, to: &SeqFile) {
        error_log::with_entry(index, |entry| reader::show(to, entry));
    }

    fn clear() -> Result {
        error_log::clear();
        Ok(())
    }

    // The truncation by `echo >` clears the log. The written line has no effect.
    fn write_line(_line: &[u8]) -> Result {
        Ok(())
    }
}

/// The exits of the function that the user wrote last.
struct Exits;

#[vtable]
impl ControlFile for Exits {
    fn next(from: usize) -> Option<usize> {
        (from < exits::len()).then_some(from)
    }

    fn show(index: usize, to: &SeqFile) {
        exits::with_line(index, |line| {
            reader::show(to, line);
            to.call_printf(format_args!("\n"));
        });
    }

    fn clear() -> Result {
        exits::clear();
        Ok(())
    }

    fn write_line(line: &[u8]) -> Result {
        commands::find_exits(line)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The control files: `rkprobe_events`, `rkprobe_dynamic_events`, `rkprobe_profile`,
//! `rkprobe_counts`, `rkprobe_calls`, `rkprobe_error_log`, `rkprobe_exits` and `rkprobe_blocks`.
//! Files that the kernel lacks also exist under the kernel's names.

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
    calls,
    commands,
    counts,
    error_log,
    exits::Analysis,
    reader,
    registry, //
};

/// Creates the files and adds them to `files`.
pub(crate) fn create(module: &'static ThisModule, files: &mut KVec<File>) -> Result {
    use EventsFile::{
        DynamicEvents,
        KprobeEvents, //
    };

    let mut add = |file: Result<File>| -> Result { Ok(files.push(file?, GFP_KERNEL)?) };
    add(File::create(
        c"rkprobe_events",
        module,
        Events(KprobeEvents),
    ))?;
    add(File::create(
        c"rkprobe_dynamic_events",
        module,
        Events(DynamicEvents),
    ))?;
    add(File::create(
        c"rkprobe_profile",
        module,
        Profile(DynamicEvents),
    ))?;
    add(File::create(c"rkprobe_counts", module, Counts))?;
    add(File::create(c"rkprobe_calls", module, Calls))?;
    if !ktrace::error_log::IS_OPEN {
        add(File::create(c"rkprobe_error_log", module, ErrorLog))?;
    }
    if ktrace::exits::IS_BUILT {
        add(File::create(
            c"rkprobe_exits",
            module,
            Function(Analysis::Exits),
        ))?;
        add(File::create(
            c"rkprobe_blocks",
            module,
            Function(Analysis::Blocks),
        ))?;
    }
    // perf and trace-cmd look for these names.
    if !cfg!(CONFIG_KPROBE_EVENTS) {
        add(File::create(c"kprobe_events", module, Events(KprobeEvents)))?;
        add(File::create(
            c"kprobe_profile",
            module,
            Profile(KprobeEvents),
        ))?;
    }
    if !cfg!(CONFIG_DYNAMIC_EVENTS) {
        add(File::create(
            c"dynamic_events",
            module,
            Events(DynamicEvents),
        ))?;
    }
    Ok(())
}

/// Reads list the probes. Writes are commands.
struct Events(EventsFile);

#[vtable]
impl ControlFile for Events {
    fn next(&self, from: usize) -> Option<usize> {
        registry::next(self.0, from)
    }

    fn show(&self, number: usize, to: &SeqFile) {
        registry::with_probe(number, |probe| probe.show(to));
    }

    fn clear(&self) -> Result {
        commands::clear(self.0)
    }

    fn write_line(&self, line: &[u8]) -> Result {
        commands::run(self.0, line)
    }
}

/// Hits and misses of each probe. The kernel's own file does not show what a probe waits for.
struct Profile(EventsFile);

#[vtable]
impl ControlFile for Profile {
    fn next(&self, from: usize) -> Option<usize> {
        registry::next(self.0, from)
    }

    fn show(&self, number: usize, to: &SeqFile) {
        registry::with_probe(number, |probe| {
            let counts = probe.hook().counts();
            to.call_printf(format_args!(
                "  {:<44} {:>15} {:>15}",
                probe.spec().event(),
                counts.hits,
                counts.missed
            ));
            // The kernel's own file has only the numbers.
            if self.0 == EventsFile::DynamicEvents {
                if let Some(left_out) = counts.left_out {
                    to.call_printf(format_args!("  left out: {left_out}"));
                }
                if let Some(awaited) = probe.hook().awaited() {
                    to.call_printf(format_args!("  waiting for {}", format_args!("{awaited}")));
                }
            }
            to.call_printf(format_args!("\n"));
        });
    }
}

/// The tables of the events that count. A written line empties those of the events that it names.
struct Counts;

#[vtable]
impl ControlFile for Counts {
    fn next(&self, from: usize) -> Option<usize> {
        counts::next(from)
    }

    fn show(&self, number: usize, to: &SeqFile) {
        counts::show(number, to);
    }

    fn write_line(&self, line: &[u8]) -> Result {
        counts::reset(line)
    }
}

/// The calls in progress of the call trees.
struct Calls;

#[vtable]
impl ControlFile for Calls {
    fn next(&self, from: usize) -> Option<usize> {
        calls::next(from)
    }

    fn show(&self, number: usize, to: &SeqFile) {
        calls::show(number, to);
    }
}

/// The errors of the last commands.
struct ErrorLog;

#[vtable]
impl ControlFile for ErrorLog {
    fn next(&self, from: usize) -> Option<usize> {
        (from < error_log::len()).then_some(from)
    }

    fn show(&self, index: usize, to: &SeqFile) {
        error_log::with_entry(index, |entry| reader::show(to, entry));
    }

    fn clear(&self) -> Result {
        error_log::clear();
        Ok(())
    }

    // The truncation by `echo >` clears the log. The written line has no effect.
    fn write_line(&self, _line: &[u8]) -> Result {
        Ok(())
    }
}

/// The exits or the blocks of the function that the user wrote last.
struct Function(Analysis);

#[vtable]
impl ControlFile for Function {
    fn next(&self, from: usize) -> Option<usize> {
        (from < self.0.len()).then_some(from)
    }

    fn show(&self, index: usize, to: &SeqFile) {
        self.0.with_line(index, |line| {
            reader::show(to, line);
            to.call_printf(format_args!("\n"));
        });
    }

    fn clear(&self) -> Result {
        self.0.clear();
        Ok(())
    }

    fn write_line(&self, line: &[u8]) -> Result {
        commands::analyse(self.0, line)
    }
}

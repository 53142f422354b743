// SPDX-License-Identifier: GPL-2.0

//! The control files: `rkprobe_events`, `rkprobe_dynamic_events`, `rkprobe_profile`,
//! `rkprobe_error_log`.

use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::ThisModule;

use ktrace::tracefs::ControlFile;
use ktrace::tracefs::File;
use probe::command;

use crate::commands;
use crate::error_log;
use crate::registry;

/// Makes all of them, and puts them into `files` one by one.
pub(crate) fn create(module: &'static ThisModule, files: &mut KVec<File>) -> Result {
    files.push(
        File::create::<Events<KPROBES>>(c"rkprobe_events", module)?,
        GFP_KERNEL,
    )?;
    files.push(
        File::create::<Events<ALL>>(c"rkprobe_dynamic_events", module)?,
        GFP_KERNEL,
    )?;
    files.push(
        File::create::<Profile>(c"rkprobe_profile", module)?,
        GFP_KERNEL,
    )?;
    files.push(
        File::create::<ErrorLog>(c"rkprobe_error_log", module)?,
        GFP_KERNEL,
    )?;
    Ok(())
}

/// Commands to write, the probes to read: of one of the two kinds of [`command::File`].
struct Events<const IS_ALL: bool>;

const KPROBES: bool = false;
const ALL: bool = true;

impl<const IS_ALL: bool> Events<IS_ALL> {
    const FILE: command::File = match IS_ALL {
        KPROBES => command::File::Kprobes,
        ALL => command::File::All,
    };
}

#[vtable]
impl<const IS_ALL: bool> ControlFile for Events<IS_ALL> {
    fn show(index: usize, to: &SeqFile) {
        registry::with_probe(Self::FILE, index, |probe| {
            to.call_printf(format_args!("{}\n", probe.listing()));
        });
    }

    fn len() -> usize {
        registry::len(Self::FILE)
    }

    fn clear() -> Result {
        commands::clear(Self::FILE)
    }

    fn write_line(line: &[u8]) -> Result {
        commands::run(Self::FILE, line)
    }
}

/// How often each probe was hit, and missed.
struct Profile;

#[vtable]
impl ControlFile for Profile {
    fn show(index: usize, to: &SeqFile) {
        registry::with_probe(command::File::All, index, |probe| {
            let counts = probe.counts();
            to.call_printf(format_args!(
                "  {:<44} {:>15} {:>15}\n",
                probe.shape().name(),
                counts.hits,
                counts.missed
            ));
        });
    }

    fn len() -> usize {
        registry::len(command::File::All)
    }
}

/// What was wrong with the last commands.
struct ErrorLog;

#[vtable]
impl ControlFile for ErrorLog {
    fn show(index: usize, to: &SeqFile) {
        error_log::with_entry(index, |entry| to.call_printf(format_args!("{entry}")));
    }

    fn len() -> usize {
        error_log::len()
    }

    fn clear() -> Result {
        error_log::clear();
        Ok(())
    }

    /// Writing alone, as `echo >` does, changes nothing.
    fn write_line(_line: &[u8]) -> Result {
        Ok(())
    }
}

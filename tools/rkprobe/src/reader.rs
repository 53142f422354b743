// SPDX-License-Identifier: GPL-2.0

//! The records of an instance, in the order of their times. Each CPU has a buffer, whose pages are read from a file.

use std::{
    fs::{
        File,
        OpenOptions, //
    },
    io::Read,
    os::{
        fd::{
            AsFd,
            BorrowedFd, //
        },
        unix::fs::OpenOptionsExt, //
    },
    rc::Rc,
    time::{
        Duration,
        Instant, //
    }, //
};

use crate::{
    decoder::Decoder,
    failure::{
        note,
        Failure,
        Result, //
    },
    instance::Instance,
    merge::{
        Merge,
        Raw, //
    },
    programs::{
        self,
        Programs, //
    },
    record::Entry,
    ring_buffer::{
        Layout,
        Lost, //
    },
    stream::{
        self,
        Options,
        Pending,
        Stacks, //
    },
    symbols::Symbols,
    sys,
    tracefs::Tracefs, //
};

/// More than the size of the file that describes a page.
const MAX_HEADER: usize = 4096;
/// How long the names of tasks are taken for those that the kernel has.
const MOMENT: Duration = Duration::from_millis(10);

/// Reads the records of an instance.
pub struct Reader {
    tracefs: Tracefs,
    merge: Merge<File>,
    decoder: Decoder,
    refreshed: Option<Instant>,
    stacks: Stacks,
    /// The programs, if records have their stack traces.
    programs: Option<Programs>,
}

impl Reader {
    /// Opens the records. Reading takes them away.
    pub fn open(
        tracefs: &Tracefs,
        instance: &Instance<'_>,
        symbols: Rc<Symbols>,
        options: &Options,
    ) -> Result<Self> {
        let directory = instance.file("per_cpu");
        let mut files = Vec::new();
        for name in tracefs.names(&directory) {
            let Some(number) = name.strip_prefix("cpu").and_then(|of| of.parse().ok()) else {
                continue;
            };
            let name = format!("{directory}/{name}/trace_pipe_raw");
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(sys::NON_BLOCKING)
                .open(tracefs.path(&name))
                .map_err(|error| Failure::file(&name, &error))?;
            files.push((number, file));
        }
        Ok(Self {
            merge: Merge::new(files, read_layout(tracefs)?),
            decoder: Decoder::new(tracefs, instance, symbols, options)?,
            refreshed: None,
            stacks: Stacks::new(options),
            programs: options.has_user_stack.then(Programs::new),
            tracefs: tracefs.clone(),
        })
    }

    /// The buffers of the CPUs. Each can be waited for until it is half full. C: `buffer_percent`.
    pub fn buffers(&self) -> Vec<BorrowedFd<'_>> {
        self.merge.files().map(File::as_fd).collect()
    }

    /// Calls `show` with each record, and without one when there are no others, until it returns false. Returns what it
    /// returned last. Reports where records were lost.
    ///
    /// A function that is called all the time must not keep the run from ending: `is_over` says that it ends, and
    /// that the rest is read later.
    pub fn read(
        &mut self,
        is_over: impl Fn() -> bool,
        mut show: impl FnMut(Option<Entry>) -> Result<bool>,
    ) -> Result<bool> {
        loop {
            self.fill()?;
            if self.merge.is_empty() {
                break;
            }
            for entry in self.take_until_empty() {
                if !show(Some(entry))? {
                    return Ok(false);
                }
            }
            if is_over() {
                return Ok(true);
            }
        }
        let complete = self.stacks.rest();
        for entry in self.finish(complete) {
            if !show(Some(entry))? {
                return Ok(false);
            }
        }
        show(None)
    }

    /// The end of the run. Returns the records that wait for a stack trace.
    pub fn end(mut self) -> Vec<Entry> {
        let complete = self.stacks.end();
        self.finish(complete)
    }

    /// Reads the records that there are.
    fn fill(&mut self) -> Result {
        let is_read = self.merge.fill(report_lost)?;
        // The kernel knows the names of the tasks of these records now.
        if is_read && self.refreshed.is_none_or(|last| last.elapsed() >= MOMENT) {
            self.decoder.refresh(&self.tracefs);
            self.refreshed = Some(Instant::now());
        }
        Ok(())
    }

    /// Takes the records in the order of their times, until no record of one of the CPUs is left.
    fn take_until_empty(&mut self) -> Vec<Entry> {
        let Self {
            merge,
            decoder,
            stacks,
            ..
        } = self;
        let mut complete = Vec::new();
        merge.take_until_empty(|Raw { cpu, time, bytes }| {
            if let Some(part) = decoder.part(cpu, time, bytes) {
                stacks.take(cpu, part, &mut complete);
            }
        });
        self.finish(complete)
    }

    /// The records with the functions of their stack traces. Takes those of mappings.
    fn finish(&mut self, complete: Vec<Pending>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for Pending {
            mut entry,
            user_stack,
            ..
        } in complete
        {
            if let Some(programs) = &mut self.programs {
                if &*entry.event == programs::EVENT {
                    programs.take(&entry.record());
                    continue;
                }
                if let Ok(thread) = entry.pid.parse() {
                    entry.user_stack = programs.frames(thread, &user_stack);
                }
            }
            stream::remove_probe(&mut entry);
            entries.push(entry);
        }
        entries
    }
}

/// Reads where the parts of a page are.
fn read_layout(tracefs: &Tracefs) -> Result<Layout> {
    const NAME: &str = "events/header_page";

    // The file ends after the first read, whatever its size.
    let mut buffer = vec![0; MAX_HEADER];
    let file = tracefs.open(NAME);
    let length = file.and_then(|mut file| file.read(&mut buffer));
    let length = length.map_err(|error| Failure::file(NAME, &error))?;
    let layout = Layout::parse(&String::from_utf8_lossy(&buffer[..length]));
    layout.ok_or_else(|| Failure::new(format!("{NAME} has no known form")))
}

/// Reports records that the kernel lost.
fn report_lost(cpu: u32, lost: Lost) {
    match lost {
        Lost::None => {}
        Lost::Some(count) => note(format!("rkprobe: CPU:{cpu} [LOST {count} EVENTS]")),
        Lost::Unknown => note(format!("rkprobe: CPU:{cpu} [LOST EVENTS]")),
    }
}

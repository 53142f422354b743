// SPDX-License-Identifier: GPL-2.0

//! The records of an instance, in the order of their times.
//!
//! Each CPU has a buffer. A record comes after those of its CPU that the tool has read, so the tool must look at all
//! other CPUs after it has read a record, before it can say that no earlier record is left.

use std::{
    collections::VecDeque,
    fs::{
        File,
        OpenOptions, //
    },
    io::{
        ErrorKind,
        Read, //
    },
    os::unix::fs::OpenOptionsExt,
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
    programs::{
        self,
        Programs, //
    },
    record::Entry,
    ring_buffer::{
        Layout,
        Lost,
        Page, //
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

/// More than a page of a buffer. The kernel reads at most a page at once.
const MAX_PAGE: usize = 256 * 1024;
/// How long the names of tasks are taken for those that the kernel has.
const MOMENT: Duration = Duration::from_millis(10);

/// The buffer of a CPU.
struct Cpu {
    number: u32,
    file: File,
    /// The records that were read, with their times.
    queue: VecDeque<(u64, Vec<u8>)>,
}

/// Reads the records of an instance.
pub struct Reader {
    tracefs: Tracefs,
    cpus: Vec<Cpu>,
    layout: Layout,
    page: Vec<u8>,
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
        let mut cpus = Vec::new();
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
            cpus.push(Cpu {
                number,
                file,
                queue: VecDeque::new(),
            });
        }
        cpus.sort_by_key(|cpu| cpu.number);
        let mut page = vec![0; MAX_PAGE];
        let layout = read_layout(tracefs, &mut page)?;
        Ok(Self {
            cpus,
            layout,
            page,
            decoder: Decoder::new(tracefs, instance, symbols)?,
            refreshed: None,
            stacks: Stacks::new(options),
            programs: options.has_user_stack.then(Programs::new),
            tracefs: tracefs.clone(),
        })
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
            if self.cpus.iter().all(|cpu| cpu.queue.is_empty()) {
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

    /// Reads a page of each CPU of which no record is left. Looks at a CPU without records until no other has new ones.
    fn fill(&mut self) -> Result {
        let mut is_read = false;
        loop {
            let mut has_new = false;
            for cpu in self.cpus.iter_mut().filter(|cpu| cpu.queue.is_empty()) {
                // A page can have only records that were dropped.
                while cpu.queue.is_empty() && read_page(cpu, &mut self.page, &self.layout)? {}
                has_new |= !cpu.queue.is_empty();
            }
            is_read |= has_new;
            if !has_new {
                break;
            }
        }
        // The kernel knows the names of the tasks of these records now.
        if is_read && self.refreshed.is_none_or(|last| last.elapsed() >= MOMENT) {
            self.decoder.refresh(&self.tracefs);
            self.refreshed = Some(Instant::now());
        }
        Ok(())
    }

    /// Takes the records in the order of their times, until no record of one of the CPUs is left.
    fn take_until_empty(&mut self) -> Vec<Entry> {
        let mut complete = Vec::new();
        loop {
            let full = self.cpus.iter_mut().filter(|cpu| !cpu.queue.is_empty());
            let Some(cpu) = full.min_by_key(|cpu| cpu.queue.front().map(|(time, _)| *time)) else {
                break;
            };
            let Some((time, record)) = cpu.queue.pop_front() else {
                break;
            };
            let (number, is_empty) = (cpu.number, cpu.queue.is_empty());
            if let Some(part) = self.decoder.part(number, time, &record) {
                complete.extend(self.stacks.take(number, part));
            }
            if is_empty {
                break;
            }
        }
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
            let stack = stream::without_probe(&entry.stack, &entry.record());
            entry.stack = stack.into_iter().map(String::from).collect();
            entries.push(entry);
        }
        entries
    }
}

/// Reads where the parts of a page are.
fn read_layout(tracefs: &Tracefs, buffer: &mut [u8]) -> Result<Layout> {
    const NAME: &str = "events/header_page";

    // The file ends after the first read, whatever its size.
    let file = tracefs.open(NAME);
    let length = file.and_then(|mut file| file.read(buffer));
    let length = length.map_err(|error| Failure::file(NAME, &error))?;
    let layout = Layout::parse(&String::from_utf8_lossy(&buffer[..length]));
    layout.ok_or_else(|| Failure::new(format!("{NAME} has no known form")))
}

/// Reads a page of a CPU. Returns whether there was one.
fn read_page(cpu: &mut Cpu, page: &mut [u8], layout: &Layout) -> Result<bool> {
    let length = match cpu.file.read(page) {
        Ok(length) => length,
        Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => 0,
        Err(error) => return Err(Failure::file("trace_pipe_raw", &error)),
    };
    let Some(page) = Page::new(&page[..length], layout) else {
        return Ok(false);
    };
    let number = cpu.number;
    match page.lost {
        Lost::None => {}
        Lost::Some(count) => note(format!("rkprobe: CPU:{number} [LOST {count} EVENTS]")),
        Lost::Unknown => note(format!("rkprobe: CPU:{number} [LOST EVENTS]")),
    }
    let records = page.records.map(|(time, record)| (time, record.to_vec()));
    cpu.queue.extend(records);
    Ok(true)
}

// SPDX-License-Identifier: GPL-2.0

//! A worker, and what all operations use.

use std::{
    fmt,
    fs::File,
    io::{
        self,
        Read,
        Write, //
    },
    os::unix::fs::OpenOptionsExt,
    sync::atomic::Ordering::Relaxed, //
};

use crate::{
    grammar,
    rng::Rng,
    shared::{
        Page,
        Shared, //
    },
    sys::Ring,
};

/// How many files a worker holds open.
pub const SLOTS: usize = 12;

pub const INSTANCES: usize = 3;

/// A worker.
pub struct Worker {
    pub id: usize,
    pub shared: &'static Shared,
    page: &'static Page,
    number: u64,
    pub slots: [Option<File>; SLOTS],
    /// Memory for the samples of those that are of perf.
    rings: [Option<Ring>; SLOTS],
}

impl Worker {
    pub fn new(id: usize, shared: &'static Shared) -> Self {
        let page = &shared.pages[id];
        page.claim(id);
        Self {
            id,
            shared,
            page,
            number: 0,
            slots: Default::default(),
            rings: Default::default(),
        }
    }

    /// Writes down which operation runs from now on.
    pub fn begin(&mut self, number: u64, name: &str) {
        self.number = number;
        self.page.begin(number, name);
    }

    /// Writes down what it came to.
    pub fn end(&self, result: &io::Result<()>) {
        self.page.end(self.number, result);
    }

    /// Adds words to the text of the running operation.
    pub fn note(&self, words: fmt::Arguments<'_>) {
        self.page.note(self.number, words.to_string().as_bytes());
    }

    pub fn note_bytes(&self, words: &[u8]) {
        self.page.note(self.number, words);
    }

    /// Closes all files.
    pub fn let_go(&mut self) {
        (0..SLOTS).for_each(|slot| self.close(slot));
    }

    /// Keeps a file open, and closes the one that was in its slot. Not while somebody wants to
    /// unload the module.
    pub fn keep(&mut self, slot: usize, file: File) {
        self.close(slot);
        let is_free = self.shared.unloaders.load(Relaxed) == 0;
        self.slots[slot] = is_free.then_some(file);
    }

    /// Keeps the memory of the file in this slot, if the file was kept.
    pub fn keep_ring(&mut self, slot: usize, ring: Option<Ring>) {
        self.rings[slot] = ring.filter(|_| self.slots[slot].is_some());
    }

    pub fn close(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.rings[slot] = None;
    }
}

/// Writes all at once to a file.
pub fn write(path: &str, bytes: &[u8]) -> io::Result<()> {
    File::options()
        .write(true)
        .open(path)?
        .write(bytes)
        .map(drop)
}

pub fn random_event(rng: &mut Rng) -> String {
    format!("events/{}", grammar::event(rng))
}

pub fn open(path: &str) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

/// Reads some bytes, at most.
pub fn read_some(file: &mut File, len: usize) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let mut left = len;
    while left > 0 {
        let at_most = left.min(buffer.len());
        match file.read(&mut buffer[..at_most])? {
            0 => break,
            more => left -= more,
        }
    }
    Ok(())
}

pub fn command(worker: &Worker, file: &str, command: &[u8]) -> io::Result<()> {
    worker.note_bytes(command);
    write(file, command)
}

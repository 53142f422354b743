// SPDX-License-Identifier: GPL-2.0

//! Memory that all processes share: the last operations of each worker, and counts.
//!
//! Each worker has a page of its own, which begins with a mark. The virtual machine's memory is a
//! file of the host, so the host finds the pages there even after the kernel died.

use std::{
    fs::File,
    io::{
        self,
        Read, //
    },
    mem::size_of,
    ptr,
    sync::{
        atomic::{
            AtomicBool,
            AtomicI32,
            AtomicU32,
            AtomicU64,
            AtomicU8,
            Ordering::Relaxed, //
        },
        OnceLock, //
    },
    time::Instant, //
};

use crate::gate::Gate;

pub const WORKERS: usize = 8;
pub const MAX_KINDS: usize = 64;

const PAGE: usize = 4096;
const MARK: [u64; 2] = [0x726b_7072_6f62_6521, 0x7374_6f72_6d20_6f70];
const TEXT: usize = 128;
const ENTRIES: usize = 27;

/// The result of an operation that has not ended.
const RUNS: i32 = i32::MIN;

/// An operation.
#[repr(C)]
struct Entry {
    /// Its number in the worker's sequence, plus 1. 0 for an unused entry.
    number: AtomicU64,
    /// 0, or an errno.
    result: AtomicI32,
    len: AtomicU32,
    /// The name of its kind and its subject.
    text: [AtomicU8; TEXT],
}

/// The page of a worker.
#[repr(C, align(4096))]
pub struct Page {
    mark: [AtomicU64; 2],
    worker: AtomicU64,
    /// Milliseconds from the start of the storm to the start of the running operation.
    since: AtomicU64,
    /// The number of operations that ended.
    pub done: AtomicU64,
    entries: [Entry; ENTRIES],
}

/// All of the shared memory.
#[repr(C)]
pub struct Shared {
    pub pages: [Page; WORKERS],
    pub attempts: [AtomicU64; MAX_KINDS],
    pub successes: [AtomicU64; MAX_KINDS],
    /// How many workers want to unload the module. Others close their files meanwhile.
    pub unloaders: AtomicU32,
    pub gate: Gate,
    /// The workers shall end.
    pub stop: AtomicBool,
}

const _: () = assert!(size_of::<Page>() == PAGE);

/// Milliseconds since the first call, which `map` makes.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// Makes the memory. Children inherit it.
pub fn map() -> io::Result<&'static Shared> {
    now();
    // SAFETY: A new mapping changes no memory that anyone uses.
    let memory = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<Shared>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The mapping is as large as a `Shared`, aligned to a page and never unmapped. `Shared`
    // has atomics only, for which zeros are valid.
    Ok(unsafe { &*memory.cast::<Shared>() })
}

impl Page {
    /// Begins to be the page of a worker.
    pub fn claim(&self, worker: usize) {
        self.worker.store(worker as u64, Relaxed);
        for (to, from) in self.mark.iter().zip(MARK) {
            to.store(from, Relaxed);
        }
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.entries[number as usize % ENTRIES]
    }

    /// An operation begins.
    pub fn begin(&self, number: u64, kind: &str) {
        let entry = self.entry(number);
        entry.number.store(number + 1, Relaxed);
        entry.result.store(RUNS, Relaxed);
        entry.len.store(0, Relaxed);
        self.since.store(now(), Relaxed);
        self.note(number, kind.as_bytes());
    }

    /// Adds words to the text of an operation.
    pub fn note(&self, number: u64, words: &[u8]) {
        let entry = self.entry(number);
        let len = entry.len.load(Relaxed) as usize;
        let added = words.len().min(TEXT - 1 - len.min(TEXT - 1));
        for (to, from) in entry.text[len..]
            .iter()
            .zip(words[..added].iter().chain(b" "))
        {
            to.store(*from, Relaxed);
        }
        entry.len.store((len + added + 1).min(TEXT) as u32, Relaxed);
    }

    /// The operation ended.
    pub fn end(&self, number: u64, result: &io::Result<()>) {
        let errno = match result {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(-1),
        };
        self.entry(number).result.store(errno, Relaxed);
        self.done.store(number + 1, Relaxed);
    }

    /// How long the running operation runs, in milliseconds.
    pub fn age(&self) -> u64 {
        now().saturating_sub(self.since.load(Relaxed))
    }
}

/// Prints the last operations of each worker, from a file with the memory of the machine.
pub fn report(path: &str) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0u8; 256 * PAGE];
    let mut pages = Vec::new();
    loop {
        let mut len = 0;
        while len < bytes.len() {
            match file.read(&mut bytes[len..])? {
                0 => break,
                more => len += more,
            }
        }
        if len == 0 {
            break;
        }
        for page in bytes[..len].chunks_exact(PAGE) {
            if word(page, 0) == MARK[0] && word(page, 8) == MARK[1] {
                pages.push(page.to_vec());
            }
        }
    }
    if pages.is_empty() {
        println!("storm: no worker had started");
    }
    pages.sort_by_key(|page| word(page, 16));
    for page in pages {
        println!(
            "worker {}, after {} operations:",
            word(&page, 16),
            word(&page, 32)
        );
        let mut entries: Vec<&[u8]> = page[40..].chunks_exact(size_of::<Entry>()).collect();
        entries.retain(|entry| word(entry, 0) != 0);
        entries.sort_by_key(|entry| word(entry, 0));
        for entry in entries {
            let result = word(entry, 8) as u32 as i32;
            let len = (word(entry, 8) >> 32) as usize;
            let result = match result {
                RUNS => "runs".into(),
                0 => "ok".into(),
                _ => format!("errno {result}"),
            };
            let text = entry[16..16 + len.min(TEXT)]
                .trim_ascii_end()
                .escape_ascii();
            println!("  {:>8} {result:<9} {text}", word(entry, 0) - 1);
        }
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

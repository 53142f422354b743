// SPDX-License-Identifier: GPL-2.0

//! A word that the CPUs of a loom test share.

use std::{
    array,
    cell::Cell, //
};

use loom::{
    model::Builder,
    sync::{
        atomic::{
            AtomicU64,
            Ordering::{
                Acquire,
                Relaxed,
                Release, //
            },
        },
        Arc, //
    },
    thread::{
        spawn,
        JoinHandle, //
    },
};
use probe::object_table::Word;

/// How often a CPU stops in favour of another one before its end, at most. With this number, the
/// tests take 15 s. The variable `LOOM_MAX_PREEMPTIONS` replaces it.
pub const PREEMPTIONS: usize = 3;

/// The number of CPUs of a test.
const CPUS: usize = 3;

loom::thread_local! {
    /// The number of this CPU.
    static CPU: Cell<usize> = Cell::new(0);
}

/// A word of the table.
#[derive(Debug)]
pub struct Shared {
    value: AtomicU64,
    /// For each CPU, an access before each of its loads and before each write of another CPU.
    /// `None` if no test writes the value.
    ///
    /// For a write, loom only considers the last access before it. If this is a load by the same
    /// CPU, it misses the orders of the write and of an earlier load by another CPU. With these
    /// accesses, it finds them. They are relaxed and order nothing.
    turns: Option<[AtomicU64; CPUS]>,
}

impl Shared {
    /// A word that no test writes.
    #[allow(dead_code)]
    pub fn unwritten() -> Self {
        Self {
            value: AtomicU64::new(0),
            turns: None,
        }
    }

    fn for_load(&self) -> &AtomicU64 {
        if let Some(turns) = &self.turns {
            turns[CPU.with(Cell::get)].store(0, Relaxed);
        }
        &self.value
    }

    fn for_write(&self) -> &AtomicU64 {
        let turns = self.turns.as_ref().expect("the test needs more slots");
        for (cpu, turn) in turns.iter().enumerate() {
            if cpu != CPU.with(Cell::get) {
                turn.store(0, Relaxed);
            }
        }
        &self.value
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            value: AtomicU64::new(0),
            turns: Some(array::from_fn(|_| AtomicU64::new(0))),
        }
    }
}

impl Word for Shared {
    fn load(&self) -> u64 {
        self.for_load().load(Relaxed)
    }

    fn load_acquire(&self) -> u64 {
        self.for_load().load(Acquire)
    }

    fn store(&self, value: u64) {
        self.for_write().store(value, Relaxed);
    }

    fn store_release(&self, value: u64) {
        self.for_write().store(value, Release);
    }

    fn fetch_add(&self, number: u64) -> u64 {
        self.for_write().fetch_add(number, Relaxed)
    }

    fn swap(&self, value: u64) -> u64 {
        self.for_write().swap(value, Relaxed)
    }

    fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
        let replaced = self
            .for_write()
            .compare_exchange(old, new, Relaxed, Relaxed);
        replaced.map(drop)
    }

    fn replace_acquire(&self, old: u64, new: u64) -> Result<(), u64> {
        let replaced = self
            .for_write()
            .compare_exchange(old, new, Acquire, Relaxed);
        replaced.map(drop)
    }

    fn replace_release(&self, old: u64, new: u64) -> Result<(), u64> {
        let replaced = self
            .for_write()
            .compare_exchange(old, new, Release, Relaxed);
        replaced.map(drop)
    }
}

/// The model of a test.
pub fn model() -> Builder {
    let mut model = Builder::new();
    model.preemption_bound.get_or_insert(PREEMPTIONS);
    model
}

/// Runs a function on another CPU, 1 or 2.
pub fn on_cpu<T: 'static, S: 'static>(
    cpu: usize,
    table: &Arc<S>,
    f: impl FnOnce(&S) -> T + 'static,
) -> JoinHandle<T> {
    let table = table.clone();
    spawn(move || {
        CPU.with(|this| this.set(cpu));
        f(&table)
    })
}

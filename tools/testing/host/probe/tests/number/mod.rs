// SPDX-License-Identifier: GPL-2.0

//! A word of a table that threads share.

use std::sync::atomic::{
    AtomicU64,
    Ordering, //
};

use probe::object_table::Word;

/// A word of the standard library.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Word for Number {
    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn load_acquire(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn store_release(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    fn fetch_add(&self, number: u64) -> u64 {
        self.0.fetch_add(number, Ordering::Relaxed)
    }

    fn swap(&self, value: u64) -> u64 {
        self.0.swap(value, Ordering::Relaxed)
    }

    fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
        self.0
            .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
            .map(drop)
    }

    fn replace_acquire(&self, old: u64, new: u64) -> Result<(), u64> {
        self.0
            .compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed)
            .map(drop)
    }

    fn replace_release(&self, old: u64, new: u64) -> Result<(), u64> {
        self.0
            .compare_exchange(old, new, Ordering::Release, Ordering::Relaxed)
            .map(drop)
    }
}

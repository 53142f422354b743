// SPDX-License-Identifier: GPL-2.0

//! The places of tasks in a table: which of its calls each task is in.
//!
//! All memory exists before the first task. Other tasks only search for themselves, which reads one
//! cache line. Any context, except that the place of a task is only changed by code that runs in
//! the context of this task, or when the task runs no more. No function waits, and none repeats a
//! step without a bound.

use core::ops::Deref;

use crate::object_table::Word;

/// The tasks of a bucket.
const TASKS: usize = 4;

/// A task that another task is about to add. No task has this address.
const RESERVED: u64 = 1;

/// A bucket, which is a cache line: tasks, and the index of the call of each.
#[derive(Debug, Default)]
pub struct Bucket<W> {
    tasks: [W; TASKS],
    calls: [W; TASKS],
}

/// The number of buckets for so many calls: at least 2, and a power of two.
///
/// There are 64 slots or more for each call. With 1,024 calls, a bucket is full before all calls
/// are in use in one of some 9,000 tables. With 8 slots for each call, it was in one of four.
pub const fn buckets(calls: u32) -> usize {
    (calls as usize).next_power_of_two().saturating_mul(16)
}

/// The places of tasks.
#[derive(Debug)]
pub(crate) struct TaskSlots<B> {
    buckets: B,
    /// The bits of a hash from this one on choose the bucket. At most 63.
    shift: u32,
}

impl<B, W> TaskSlots<B>
where
    B: Deref<Target = [Bucket<W>]>,
    W: Word,
{
    /// Without tasks. The memory has [`buckets`] buckets, all 0. With other memory, there is room
    /// for fewer tasks.
    pub(crate) fn new(buckets: B) -> Self {
        Self {
            shift: 64u32.saturating_sub(buckets.len().trailing_zeros().max(1)),
            buckets,
        }
    }

    /// The bucket of a task.
    #[inline(always)]
    pub(crate) fn bucket(&self, task: u64) -> Option<&Bucket<W>> {
        let hash = task.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.buckets.get(hash.wrapping_shr(self.shift) as usize)
    }

    /// Whether a task is in a call. Any context.
    #[inline(always)]
    pub(crate) fn has(&self, task: u64) -> bool {
        let bucket = self.bucket(task);
        bucket.is_some_and(|bucket| bucket.tasks.iter().any(|slot| slot.load() == task))
    }

    /// The index of the call that a task is in. Any context.
    #[inline(always)]
    pub(crate) fn find(&self, task: u64) -> Option<usize> {
        let (_, call) = self.bucket(task)?.slot(task)?;
        Some(call.load() as usize)
    }
}

impl<W: Word> Bucket<W> {
    #[inline(always)]
    fn slot(&self, task: u64) -> Option<(&W, &W)> {
        let index = self.tasks.iter().position(|slot| slot.load() == task)?;
        Some((self.tasks.get(index)?, self.calls.get(index)?))
    }

    /// Reserves a slot for a task that has none. `None` if there is no room.
    pub(crate) fn reserve(&self) -> Option<Reserved<'_, W>> {
        // Acquire: the last task has read the index of its call.
        let is_free = |slot: &W| slot.replace_acquire(0, RESERVED).is_ok();
        let mut slots = self.tasks.iter().zip(&self.calls);
        let (slot, call) = slots.find(|(slot, _)| is_free(slot))?;
        Some(Reserved { slot, call })
    }

    /// Moves a task to the call `index`.
    #[inline(always)]
    pub(crate) fn set(&self, task: u64, index: usize) {
        if let Some((_, call)) = self.slot(task) {
            call.store(index as u64);
        }
    }

    /// Removes a task.
    pub(crate) fn remove(&self, task: u64) {
        for slot in &self.tasks {
            if slot.load() == task {
                // Release: the task has read the index of its call.
                let _ = slot.replace_release(task, 0);
            }
        }
    }
}

/// A slot that no task has yet.
pub(crate) struct Reserved<'a, W> {
    slot: &'a W,
    call: &'a W,
}

impl<W: Word> Reserved<'_, W> {
    /// Adds the task, which is in the call `index`.
    pub(crate) fn publish(self, task: u64, index: usize) {
        self.call.store(index as u64);
        self.slot.store(task);
    }
}

/// Takes the first call that nobody uses, from the one that a task starts to search at. `word`
/// gives the word of a call that has its task, or 0.
pub(crate) fn take_call<C, W: Word>(
    calls: &[C],
    task: u64,
    word: impl Fn(&C) -> &W,
) -> Option<usize> {
    // Tasks begin to search at different calls.
    let first = (task >> 6) as usize % calls.len().max(1);
    let (before, from) = calls.split_at_checked(first)?;
    // Acquire: all accesses of the last task come before. It gave the call back by a release.
    let is_taken = |call: &C| word(call).load() == 0 && word(call).replace_acquire(0, task).is_ok();
    match from.iter().position(is_taken) {
        Some(index) => Some(index.wrapping_add(first)),
        None => before.iter().position(is_taken),
    }
}

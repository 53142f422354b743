// SPDX-License-Identifier: GPL-2.0

//! The calls of one function that are in progress, each with its steps: the calls that its task
//! makes meanwhile.
//!
//! The number of calls and the number of their steps have a limit, so all memory exists before the
//! first call. A task that enters the function takes a call, and writes its steps alone. Other
//! tasks only search for themselves: that reads one cache line. A reader on another CPU gets the
//! steps that have not returned. Any context, except that a call of a task is only changed by code
//! that runs in the context of this task. No function waits, and none repeats a step without a
//! bound.
//!
//! A function that writes a call can be called again while it runs, by the same task, because it is
//! itself a function that can be traced, or calls one. Then the inner function changes nothing.

use core::{
    marker::PhantomData,
    ops::Deref, //
};

use crate::{
    argument_words::STEP_WORDS,
    object_table::Word,
    task_slots::{
        take_call,
        TaskSlots, //
    }, //
};

pub use crate::task_slots::{
    buckets,
    Bucket, //
};

/// The number of words of entry data of a call.
pub const ENTRY_WORDS: usize = 8;

/// The state of a call.
#[derive(Debug, Default)]
pub struct Call<W> {
    /// The task, or 0 for a call that nobody uses.
    task: W,
    /// The number of the call, or 0 while it begins and when it has ended.
    number: W,
    pid: W,
    comm: [W; 2],
    /// The time of the entry.
    since: W,
    /// The number of steps, with the function itself as the first one.
    len: W,
    /// The number of steps that found no room.
    lost: W,
    /// The innermost step that has not returned.
    open: W,
    /// 1 while the call is written.
    is_busy: W,
    /// The stack pointer at the entry.
    stack: W,
    /// The number of calls that were not traced, from the [`Beginning`].
    untraced: W,
    entry: [W; ENTRY_WORDS],
}

/// A step: the function, the time since the entry of the call, the duration, the returned word, the
/// arguments, and the `Place`.
pub type Step<W> = [W; 9];

/// The place of a step in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    depth: u32,
    /// The index of the step that called it.
    parent: u32,
    has_returned: bool,
}

impl Place {
    const fn to_word(self) -> u64 {
        (self.depth as u64) << 32 | (self.parent as u64) << 1 | self.has_returned as u64
    }

    const fn of(word: u64) -> Self {
        Self {
            depth: (word >> 32) as u32,
            parent: word as u32 >> 1,
            has_returned: word & 1 != 0,
        }
    }
}

/// A step that has not returned, as the exit of its function finds it again: the index of the call,
/// the index of the step, and a part of the number of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    const STEP_BITS: u32 = 21;
    const CALL_BITS: u32 = 11;

    const fn new(call: usize, step: u64, number: u64) -> Self {
        let call = (call as u64) << Self::STEP_BITS;
        let number = number << (Self::STEP_BITS + Self::CALL_BITS);
        Self(number | call | step)
    }

    /// The token of this word, which is from [`word`](Self::word), or is any other.
    pub const fn of(word: u64) -> Self {
        Self(word)
    }

    /// The token as a word.
    pub const fn word(self) -> u64 {
        self.0
    }

    const fn step(self) -> u64 {
        self.0 & ((1 << Self::STEP_BITS) - 1)
    }

    const fn call(self) -> usize {
        (self.0 >> Self::STEP_BITS) as usize & ((1 << Self::CALL_BITS) - 1)
    }

    const fn is_of(self, number: u64) -> bool {
        let shift = Self::STEP_BITS + Self::CALL_BITS;
        number << shift >> shift == self.0 >> shift
    }

    /// Whether this is the call itself, and not a step in it.
    #[inline(always)]
    pub const fn is_root(self) -> bool {
        self.step() == 0
    }
}

/// A call that begins.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// The number of the call. Not 0. The lower 32 bits tell calls apart.
    pub number: u64,
    /// The number of the task.
    pub pid: u32,
    /// The name of the task.
    pub comm: [u64; 2],
    /// The time, in ns.
    pub now: u64,
    /// The called function.
    pub function: u64,
    /// The first words of its arguments.
    pub arguments: [u64; 4],
    /// The stack pointer.
    pub stack: u64,
    /// The number of calls of the task so far that were not traced, for the end of the call.
    pub untraced: u64,
    /// The entry data.
    pub entry: [u64; ENTRY_WORDS],
}

/// The calls of one function.
#[derive(Debug)]
pub struct CallTable<B, C, S, W> {
    tasks: TaskSlots<B>,
    calls: C,
    steps: S,
    /// The number of steps of each call, with the function itself.
    per_call: usize,
    _words: PhantomData<W>,
}

/// Whether a sorted list has a function. This makes no call, unlike [`binary_search`], which can
/// panic, so its caller needs no frame.
///
/// [`binary_search`]: slice::binary_search
#[inline(always)]
pub fn has_function(sorted: &[usize], function: usize) -> bool {
    let (mut first, mut len) = (0_usize, sorted.len());
    while len > 1 {
        let half = len / 2;
        let middle = first.wrapping_add(half);
        if sorted.get(middle).is_some_and(|found| *found <= function) {
            first = middle;
        }
        len = len.wrapping_sub(half);
    }
    sorted.get(first) == Some(&function)
}

impl<B, C, S, W> CallTable<B, C, S, W>
where
    B: Deref<Target = [Bucket<W>]>,
    C: Deref<Target = [Call<W>]>,
    S: Deref<Target = [Step<W>]>,
    W: Word,
{
    /// Creates a table. The memory has [`buckets`] buckets, and `per_call` steps for each call, all
    /// 0. With other memory, the table finds fewer calls, and has fewer steps.
    pub fn new(buckets: B, calls: C, steps: S, per_call: usize) -> Self {
        Self {
            tasks: TaskSlots::new(buckets),
            calls,
            steps,
            per_call,
            _words: PhantomData,
        }
    }

    /// Whether a task is in a call. Any context.
    #[inline(always)]
    pub fn has(&self, task: u64) -> bool {
        self.tasks.has(task)
    }

    /// The index of the call that a task is in. Any context.
    #[inline(always)]
    pub fn find(&self, task: u64) -> Option<usize> {
        self.tasks.find(task)
    }

    /// The steps of a call.
    #[inline(always)]
    fn steps_of(&self, call: usize) -> &[Step<W>] {
        let start = call.wrapping_mul(self.per_call);
        let end = start.wrapping_add(self.per_call);
        self.steps.get(start..end).unwrap_or(&[])
    }

    /// Begins a call of a task that is in no other. `None` if all calls are in use. The task itself
    /// calls this.
    pub fn begin(&self, task: u64, beginning: &Beginning) -> Option<Token> {
        let bucket = self.tasks.bucket(task)?;
        let index = take_call(&self.calls, task, |call| &call.task)?;
        let call = self.calls.get(index)?;
        let Some(slot) = bucket.reserve() else {
            call.task.store(0);
            return None;
        };
        call.is_busy.store(1);
        slot.publish(task, index);
        let function = self.steps_of(index).first()?;
        // Release, as in all functions that write what a reader reads: a reader that sees the value
        // also sees that the last call has ended.
        call.pid.store_release(beginning.pid.into());
        for (to, word) in call.comm.iter().zip(beginning.comm) {
            to.store_release(word);
        }
        call.since.store_release(beginning.now);
        call.lost.store(0);
        call.stack.store(beginning.stack);
        call.untraced.store(beginning.untraced);
        for (to, word) in call.entry.iter().zip(beginning.entry) {
            to.store(word);
        }
        write_step(
            function,
            beginning.function,
            0,
            beginning.arguments,
            Place::default(),
        );
        call.open.store_release(0);
        call.len.store(1);
        call.number.store_release(beginning.number);
        call.is_busy.store(0);
        Some(Token::new(index, 0, beginning.number))
    }

    /// Adds a step to the call `index`, in which the current task is. `None` if there is no room,
    /// or if the call is being written. `clock` gives the time, in ns.
    #[inline(always)]
    pub fn enter(
        &self,
        index: usize,
        function: u64,
        arguments: [u64; 4],
        clock: impl FnOnce() -> u64,
    ) -> Option<Token> {
        let call = self.calls.get(index)?;
        if call.is_busy.load() != 0 {
            return None;
        }
        call.is_busy.store(1);
        let len = call.len.load();
        let steps = self.steps_of(index);
        let token = match steps.get(len as usize) {
            None => {
                call.lost.store(call.lost.load().wrapping_add(1));
                None
            }
            Some(step) => {
                let parent = call.open.load();
                let of_parent = steps
                    .get(parent as usize)
                    .map_or(0, |[.., place]| place.load());
                let place = Place {
                    depth: Place::of(of_parent).depth.wrapping_add(1),
                    parent: parent as u32,
                    has_returned: false,
                };
                let time = clock().saturating_sub(call.since.load());
                write_step(step, function, time, arguments, place);
                call.open.store_release(len);
                call.len.store(len.wrapping_add(1));
                Some(Token::new(index, len, call.number.load()))
            }
        };
        call.is_busy.store(0);
        token
    }

    /// Whether the current task has left the call `index`: its stack pointer is above that of the
    /// entry.
    pub fn has_left(&self, index: usize, stack: u64) -> bool {
        let call = self.calls.get(index);
        call.is_some_and(|call| call.is_busy.load() == 0 && stack > call.stack.load())
    }

    /// The call of a token, if the task is in it and nobody writes it.
    #[inline(always)]
    fn call_of(&self, task: u64, token: Token) -> Option<&Call<W>> {
        let call = self.calls.get(token.call())?;
        (call.task.load() == task && token.is_of(call.number.load()) && call.is_busy.load() == 0)
            .then_some(call)
    }

    /// Ends a step, which is not the call itself.
    #[inline(always)]
    pub fn leave(&self, task: u64, token: Token, returned: u64, clock: impl FnOnce() -> u64) {
        let Some(call) = self.call_of(task, token) else {
            return;
        };
        call.is_busy.store(1);
        if let Some(step) = self.steps_of(token.call()).get(token.step() as usize) {
            let since = call.since.load();
            let place = end_step(step, clock().saturating_sub(since), returned);
            call.open.store_release(place.parent.into());
        }
        call.is_busy.store(0);
    }

    /// Ends the call itself. Until the result is dropped, or the current task is in another one of
    /// its functions, calls of this task add no steps.
    pub fn finish(
        &self,
        task: u64,
        token: Token,
        returned: u64,
        now: u64,
    ) -> Option<Finished<'_, W>> {
        let call = self.call_of(task, token)?;
        call.is_busy.store(1);
        let steps = self.steps_of(token.call());
        let len = call.len.load();
        let steps = steps.get(..len as usize).unwrap_or(steps);
        end_step(
            steps.first()?,
            now.saturating_sub(call.since.load()),
            returned,
        );
        Some(Finished {
            call,
            bucket: self.tasks.bucket(task)?,
            task,
            steps,
        })
    }

    /// Ends the call of a task that runs no more. Whether there was one.
    pub fn abandon(&self, task: u64) -> bool {
        let call = self.find(task).and_then(|index| self.calls.get(index));
        match (call, self.tasks.bucket(task)) {
            (Some(call), Some(bucket)) => {
                end_call(call, bucket, task);
                true
            }
            _ => false,
        }
    }

    /// The number of calls in progress.
    pub fn in_progress(&self) -> usize {
        let in_use = |call: &&Call<W>| call.task.load() != 0;
        self.calls.iter().filter(in_use).count()
    }

    /// The number of calls that can be in progress.
    pub fn capacity(&self) -> usize {
        self.calls.len()
    }

    /// Reads the call `index`, and writes its steps that have not returned to `open`, by their
    /// depth. Returns nothing if there is no such call, or if it ends meanwhile. Any CPU.
    pub fn read(&self, index: usize, open: &mut [OpenStep]) -> Option<CallInProgress> {
        let call = self.calls.get(index)?;
        // Acquire, as for all accesses before the last one.
        let number = call.number.load_acquire();
        if number == 0 {
            return None;
        }
        let [first, second] = &call.comm;
        let mut read = CallInProgress {
            number,
            pid: call.pid.load_acquire() as u32,
            comm: [first.load_acquire(), second.load_acquire()],
            since: call.since.load_acquire(),
            depth: 0,
        };
        let steps = self.steps_of(index);
        let mut at = call.open.load_acquire() as usize;
        loop {
            let [function, enter, .., place] = steps.get(at)?;
            let place = Place::of(place.load_acquire());
            read.depth = read.depth.max(place.depth);
            if let Some(to) = open.get_mut(place.depth as usize) {
                *to = OpenStep {
                    function: function.load_acquire(),
                    enter: enter.load_acquire(),
                };
            }
            if at == 0 {
                break;
            }
            let parent = place.parent as usize;
            if parent >= at {
                return None;
            }
            at = parent;
        }
        (call.number.load() == number).then_some(read)
    }
}

/// A call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallInProgress {
    /// The number of the call.
    pub number: u64,
    /// The number of its task.
    pub pid: u32,
    /// The name of its task.
    pub comm: [u64; 2],
    /// The time of its entry, in ns.
    pub since: u64,
    /// The depth of the innermost step that has not returned.
    pub depth: u32,
}

/// A step that has not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenStep {
    /// The called function.
    pub function: u64,
    /// The time since the entry of the call, in ns.
    pub enter: u64,
}

fn write_step<W: Word>(step: &Step<W>, function: u64, enter: u64, args: [u64; 4], place: Place) {
    let [to_function, to_enter, ns, returned, rest @ .., to_place] = step;
    to_function.store_release(function);
    to_enter.store_release(enter);
    ns.store(0);
    returned.store(0);
    for (to, word) in rest.iter().zip(args) {
        to.store(word);
    }
    to_place.store_release(place.to_word());
}

/// Ends a step at a time since the entry of the call.
#[inline(always)]
fn end_step<W: Word>(step: &Step<W>, time: u64, value: u64) -> Place {
    let [_, enter, ns, returned, .., place] = step;
    ns.store(time.saturating_sub(enter.load()));
    returned.store(value);
    let ended = Place {
        has_returned: true,
        ..Place::of(place.load())
    };
    place.store_release(ended.to_word());
    ended
}

/// Gives the call of a task back.
fn end_call<W: Word>(call: &Call<W>, bucket: &Bucket<W>, task: u64) {
    call.number.store(0);
    bucket.remove(task);
    // Release: all accesses to the call come before those of the next task.
    let _ = call.task.replace_release(task, 0);
}

/// A call that has returned. Dropping it gives the call back.
#[derive(Debug)]
pub struct Finished<'a, W: Word> {
    call: &'a Call<W>,
    bucket: &'a Bucket<W>,
    task: u64,
    steps: &'a [Step<W>],
}

impl<W: Word> Finished<'_, W> {
    /// The entry data.
    #[inline(always)]
    pub fn entry_data(&self) -> [u64; ENTRY_WORDS] {
        let mut words = [0; ENTRY_WORDS];
        for (to, word) in words.iter_mut().zip(&self.call.entry) {
            *to = word.load();
        }
        words
    }

    /// The duration, in ns.
    pub fn elapsed(&self) -> u64 {
        self.steps.first().map_or(0, |[_, _, ns, ..]| ns.load())
    }

    /// The number of calls that were not traced, from the [`Beginning`].
    pub fn untraced(&self) -> u64 {
        self.call.untraced.load()
    }

    /// Adds to the steps that found no room.
    pub fn lose(&self, steps: u64) {
        let lost = &self.call.lost;
        lost.store(lost.load().wrapping_add(steps));
    }

    /// The record of the call itself, then those of its steps, in the order of their entry.
    /// `words_of` gives the number of words that the arguments of a function have. Others are 0.
    pub fn records<'f>(
        &'f self,
        words_of: impl Fn(u64) -> usize + 'f,
    ) -> impl Iterator<Item = StepRecord> + 'f {
        let number = self.call.number.load();
        let root = self
            .steps
            .first()
            .map_or(0, |[function, ..]| function.load());
        let counts = {
            let steps = self.steps.len().saturating_sub(1) as u64;
            let lost = self.call.lost.load().min(u64::from(u32::MAX));
            lost << 32 | steps
        };
        self.steps.iter().enumerate().map(move |(index, step)| {
            let [function, enter, ns, returned, args @ .., place] = step;
            let (function, place) = (function.load(), Place::of(place.load()));
            let mut words = [0; STEP_WORDS];
            for (to, word) in words.iter_mut().zip(args).take(words_of(function)) {
                *to = word.load();
            }
            let [a, b, c, d] = words;
            StepRecord([
                root,
                number,
                place.depth.into(),
                function,
                enter.load(),
                ns.load(),
                returned.load(),
                place.has_returned.into(),
                a,
                b,
                c,
                d,
                if index == 0 { counts } else { 0 },
            ])
        })
    }
}

impl<W: Word> Drop for Finished<'_, W> {
    fn drop(&mut self) {
        end_call(self.call, self.bucket, self.task);
    }
}

/// The start of the record of a step: the address of the function whose call it is, then the fields
/// that each record has, as little-endian words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRecord([u64; Self::WORDS]);

impl StepRecord {
    const WORDS: usize = 13;

    /// The size in bytes.
    pub const BYTES: usize = Self::WORDS * size_of::<u64>();

    /// The size of the fields that each record has, in bytes.
    pub const FIELD_BYTES: usize = Self::BYTES - size_of::<u64>();

    /// The words.
    #[inline(always)]
    pub const fn words(&self) -> &[u64; Self::WORDS] {
        &self.0
    }
}

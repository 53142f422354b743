// SPDX-License-Identifier: GPL-2.0

//! The calls of a function that are in progress, each with its path: the basic blocks that it has
//! visited, in the order of their first visit.
//!
//! The path is a text, which grows by the name of each block: `+0x0 +0x1c .cold+0x7`. So a filter
//! can search it, and at the return of the call it only has to be copied. A call visits the blocks
//! that have a probe. The [`Route`] of the function adds those that are implied.
//!
//! The number of calls has a limit, and so has the text of each, so all memory exists before the
//! first call. A call is only changed by code that runs in the context of its task. A call of a
//! task that is in a call already, by recursion or in an interrupt, has a path of its own. Any
//! context. No function waits, and none repeats a step without a bound.

use core::{
    fmt::{
        self,
        Write as _, //
    },
    marker::PhantomData,
    ops::Deref, //
};

use crate::{
    insn::route::Route,
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

/// The maximum number of blocks of a function.
pub const MAX_BLOCKS: usize = 1024;

/// The words of the text of a call.
pub const TEXT_WORDS: usize = 256;

/// The end of a text that has no room for more blocks.
const CUT: Name = Name::new(" ...");

/// The number of words in which a block that was visited has its bit.
const SEEN_WORDS: usize = MAX_BLOCKS / u64::BITS as usize;

/// A bit of the index of a call that has no path. The other bits are the index of the call around
/// it.
const HIDDEN: usize = 1 << 32;

/// The state of a call.
#[derive(Debug, Default)]
pub struct Call<W> {
    /// The task, or 0 for a call that nobody uses.
    task: W,
    /// The index of the call of the same task around this one, plus 1, or 0.
    outer: W,
    /// The number of visited blocks.
    blocks: W,
    /// The index of the block that was visited last.
    at: W,
    /// The length of the text, in bytes.
    len: W,
    seen: [W; SEEN_WORDS],
}

/// The text of a call.
pub type TextOf<W> = [W; TEXT_WORDS];

/// A block that a call can visit.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    /// The address of its last instruction.
    pub last: u64,
    /// Its name, with a space before it, unless it is the first block.
    pub name: Name,
}

/// The blocks of a function, at most [`MAX_BLOCKS`], and which of them are implied.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    /// The blocks by their indices.
    pub visits: &'a [Visit],
    /// The implied blocks.
    pub route: Route<'a>,
}

impl Blocks<'_> {
    /// No block.
    pub const NONE: Self = Self {
        visits: &[],
        route: Route::of(&[], &[]),
    };
}

/// A short text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    text: [u8; Self::MAX],
    len: u8,
}

impl Name {
    /// The maximum length, in bytes.
    pub const MAX: usize = 16;

    const fn new(text: &str) -> Self {
        let mut name = Self {
            text: [0; Self::MAX],
            len: 0,
        };
        while (name.len as usize) < text.len() {
            name.text[name.len as usize] = text.as_bytes()[name.len as usize];
            name.len += 1;
        }
        name
    }

    /// The name of a block at `offset` from the start of the function, or of the part of it whose
    /// name has this end, such as `.cold`. If that is too long, `from_start` is the offset from
    /// the start of the function.
    pub fn of_block(is_first: bool, part: &str, offset: u64, from_start: i64) -> Self {
        let before = if is_first { "" } else { " " };
        Self::format(format_args!("{before}{part}+{offset:#x}"))
            .unwrap_or_else(|| Self::from_start(is_first, from_start))
    }

    /// The name of a block at this offset from the start of the function.
    pub fn from_start(is_first: bool, from_start: i64) -> Self {
        let before = if is_first { "" } else { " " };
        let sign = if from_start < 0 { '-' } else { '+' };
        let offset = from_start.unsigned_abs();
        Self::format(format_args!("{before}{sign}{offset:#x}")).unwrap_or(CUT)
    }

    fn format(text: fmt::Arguments<'_>) -> Option<Self> {
        let mut name = Self::new("");
        name.write_fmt(text).ok()?;
        Some(name)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let text = self.text.get(..self.len.into()).unwrap_or_default();
        core::str::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = usize::from(self.len).wrapping_add(text.len());
        let to = self.text.get_mut(self.len.into()..end).ok_or(fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.len = end as u8;
        Ok(())
    }
}

/// A call, as its return finds it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    /// The token of this word, which is from [`word`](Self::word), or is any other.
    pub const fn of(word: u64) -> Self {
        Self(word)
    }

    /// The token as a word.
    pub const fn word(self) -> u64 {
        self.0
    }
}

/// The calls of one function.
#[derive(Debug)]
pub struct PathTable<B, C, T, W> {
    tasks: TaskSlots<B>,
    calls: C,
    texts: T,
    _words: PhantomData<W>,
}

impl<B, C, T, W> PathTable<B, C, T, W>
where
    B: Deref<Target = [Bucket<W>]>,
    C: Deref<Target = [Call<W>]>,
    T: Deref<Target = [TextOf<W>]>,
    W: Word,
{
    /// Creates a table. The memory has [`buckets`] buckets, and a text for each call, all 0. With
    /// other memory, the table finds fewer calls, and some have no text.
    pub fn new(buckets: B, calls: C, texts: T) -> Self {
        Self {
            tasks: TaskSlots::new(buckets),
            calls,
            texts,
            _words: PhantomData,
        }
    }

    /// Begins a call of a task, which visits the first of these blocks. `None` if all calls are in
    /// use. The task itself calls this.
    pub fn begin(&self, task: u64, blocks: Blocks<'_>) -> Option<Token> {
        let index = take_call(&self.calls, task, |call| &call.task)?;
        let call = self.calls.get(index)?;
        let outer = self.tasks.find(task);
        call.outer.store(outer.map_or(0, |outer| outer as u64 + 1));
        call.blocks.store(0);
        call.at.store(0);
        call.len.store(0);
        for word in &call.seen {
            word.store(0);
        }
        self.add(index, 0, blocks);
        let bucket = self.tasks.bucket(task)?;
        match (outer, bucket.reserve()) {
            (Some(_), _) => bucket.set(task, index),
            (None, Some(slot)) => slot.publish(task, index),
            (None, None) => {
                call.task.store(0);
                return None;
            }
        }
        Some(Token(index as u64))
    }

    /// Begins a call that has no path. So its blocks are not in the path of a call of the same task
    /// around it. `None` if no such call has a path. The task itself calls this.
    pub fn hide(&self, task: u64) -> Option<Token> {
        let outer = self.tasks.find(task)?;
        if outer & HIDDEN != 0 {
            return None;
        }
        self.tasks.bucket(task)?.set(task, HIDDEN | outer);
        Some(Token((HIDDEN | outer) as u64))
    }

    /// Adds the block with this index to the path of the current call of a task, if it is in one,
    /// after the implied blocks before it.
    #[inline(always)]
    pub fn visit(&self, task: u64, block: u16, blocks: Blocks<'_>) {
        if let Some(index) = self.tasks.find(task) {
            self.add(index, block, blocks);
        }
    }

    #[inline(always)]
    fn add(&self, index: usize, block: u16, blocks: Blocks<'_>) {
        let Some(call) = self.calls.get(index) else {
            return;
        };
        let mut at = call.at.load() as u16;
        call.at.store(block.into());
        let Some(seen) = call.seen.get(usize::from(block / 64)) else {
            return;
        };
        let bit = 1 << (block % 64);
        if seen.load() & bit == 0 {
            seen.store(seen.load() | bit);
            while let Some(implied) = blocks.route.implied(at, Some(block)) {
                self.append(index, implied, blocks);
                at = implied;
            }
            self.append(index, block, blocks);
        }
    }

    /// Appends a block to the text of a call.
    #[inline(always)]
    fn append(&self, index: usize, block: u16, blocks: Blocks<'_>) {
        if let (Some(call), Some(text), Some(visit)) = (
            self.calls.get(index),
            self.texts.get(index),
            blocks.visits.get(usize::from(block)),
        ) {
            call.blocks.store(call.blocks.load().wrapping_add(1));
            call.len.store(append(text, call.len.load(), &visit.name));
        }
    }

    /// Ends a call. `None` if it has no path. The task itself calls this.
    pub fn finish(&self, task: u64, token: Token, blocks: Blocks<'_>) -> Option<Finished<'_, W>> {
        let (index, bucket) = (token.0 as usize, self.tasks.bucket(task)?);
        if index & HIDDEN != 0 {
            bucket.set(task, index & !HIDDEN);
            return None;
        }
        let call = self.calls.get(index)?;
        let text = self.texts.get(index)?;
        if call.task.load() != task {
            return None;
        }
        let mut at = call.at.load() as u16;
        while let Some(implied) = blocks.route.implied(at, None) {
            self.append(index, implied, blocks);
            at = implied;
        }
        let last = blocks.visits.get(usize::from(at));
        Some(Finished {
            call,
            bucket,
            task,
            text,
            last: last.map_or(0, |visit| visit.last),
        })
    }

    /// Ends all calls of a task that runs no more. Returns their number.
    pub fn abandon(&self, task: u64) -> u64 {
        let Some(bucket) = self.tasks.bucket(task) else {
            return 0;
        };
        if self.tasks.find(task).is_none() {
            return 0;
        }
        bucket.remove(task);
        let of_task = self.calls.iter().filter(|call| call.task.load() == task);
        of_task.fold(0, |count: u64, call| {
            let _ = call.task.replace_release(task, 0);
            count.wrapping_add(1)
        })
    }

    /// The number of calls in progress.
    pub fn in_progress(&self) -> usize {
        let in_use = |call: &&Call<W>| call.task.load() != 0;
        self.calls.iter().filter(in_use).count()
    }
}

/// A call that has returned. Dropping it gives the call back.
#[derive(Debug)]
pub struct Finished<'a, W: Word> {
    call: &'a Call<W>,
    bucket: &'a Bucket<W>,
    task: u64,
    text: &'a TextOf<W>,
    last: u64,
}

impl<W: Word> Finished<'_, W> {
    /// The number of visited blocks.
    pub fn blocks(&self) -> u64 {
        self.call.blocks.load()
    }

    /// The address of the last instruction of the block that was visited last.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The text of the path, which ends with a NUL.
    pub fn text(&self) -> &TextOf<W> {
        self.text
    }
}

impl<W: Word> Drop for Finished<'_, W> {
    fn drop(&mut self) {
        match self.call.outer.load().checked_sub(1) {
            None => self.bucket.remove(self.task),
            Some(outer) => self.bucket.set(self.task, outer as usize),
        }
        // Release: all accesses to the call come before those of the next task.
        let _ = self.call.task.replace_release(self.task, 0);
    }
}

/// Appends a name to a text with this length, and a NUL. Returns the new length. If there is no
/// room, appends the mark [`CUT`] instead, once.
#[inline(always)]
fn append<W: Word>(text: &TextOf<W>, len: u64, name: &Name) -> u64 {
    const IS_CUT: u64 = u64::MAX;
    // The last words are for the mark.
    const FULL: u64 = ((TEXT_WORDS - 4) * size_of::<u64>()) as u64;

    match len {
        ..FULL => put(text, len, name),
        IS_CUT => len,
        _ => {
            put(text, len, &CUT);
            IS_CUT
        }
    }
}

#[inline(always)]
fn put<W: Word>(text: &TextOf<W>, len: u64, name: &Name) -> u64 {
    let bits = (len % 8) as u32 * 8;
    let bytes = u128::from_le_bytes(name.text);
    let (low, high) = (bytes << bits, (bytes >> 64) >> (64 - bits));
    let at = (len / 8) as usize;
    if let Some([first, second, third]) = text.get(at..at.saturating_add(3)) {
        let before = first.load() & (1u64 << bits).wrapping_sub(1);
        first.store(before | low as u64);
        second.store((low >> 64) as u64);
        third.store(high as u64);
    }
    len.wrapping_add(name.len.into())
}

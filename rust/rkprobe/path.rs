// SPDX-License-Identifier: GPL-2.0

//! Paths: the handlers at the entry, the blocks and the return of a function, which collect the
//! blocks that a call visits.

use core::{
    iter,
    num::NonZero,
    ptr, //
};

use kernel::{
    cpu,
    prelude::*,
    sync::Arc, //
};

use ktrace::{
    atomic::Word,
    exits::Block,
    kprobe::{
        self,
        Hit, //
    },
    kretprobe,
    percpu::Counter,
    symbol,
    trace_event::Origin, //
};
use probe::{
    fetch::EntryArgument,
    path::{
        self,
        Bucket,
        Finished,
        Name,
        PathTable,
        TextOf,
        Token,
        Visit, //
    },
};

use crate::{
    action::Action,
    collect::collect,
    entry_saver::{
        EntryData,
        EntrySaver, //
    },
    hit_context::CallValues,
    task_free::OfTasks, //
};

/// The number of calls of a function that can be in progress, if the command has no number.
const CALLS: u16 = 32;

type Table = PathTable<KVVec<Bucket<Word>>, KVVec<path::Call<Word>>, KVVec<TextOf<Word>>, Word>;

/// The calls of a function that are in progress, with their paths.
pub(crate) struct Paths {
    table: Table,
    calls: u16,
    /// Calls without a record: there was no room, or they did not return.
    missed: Counter,
}

impl Paths {
    /// Without calls. `calls` is the number that can be in progress. `ENOMEM`.
    pub(crate) fn new(calls: Option<NonZero<u16>>) -> Result<Self> {
        let calls = calls.map_or(CALLS, NonZero::get);
        let count = calls.into();
        let text = || [const { Word::new(0) }; path::TEXT_WORDS];
        Ok(Self {
            table: PathTable::new(
                collect(iter::repeat_with(Bucket::default).take(path::buckets(count)))?,
                collect(iter::repeat_with(path::Call::default).take(calls.into()))?,
                collect(iter::repeat_with(text).take(calls.into()))?,
            ),
            calls,
            missed: Counter::new()?,
        })
    }

    /// The number of calls that can be in progress.
    pub(crate) fn calls(&self) -> u16 {
        self.calls
    }

    /// The number of calls that the kretprobe must be able to follow. A call without a path is
    /// followed only if the call around it has one, so there are at most as many of them. Each CPU
    /// can be at the entry of one more.
    pub(crate) fn instances(&self) -> u16 {
        let calls = self.calls.saturating_mul(2);
        calls.saturating_add(cpu::nr_cpu_ids().try_into().unwrap_or(u16::MAX))
    }

    /// The number of calls that have no record, except those that the condition left out.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.sum()
    }
}

impl OfTasks for Paths {
    #[inline(always)]
    fn abandon(&self, task: u64) {
        for _ in 0..self.table.abandon(task) {
            self.missed.increment();
        }
    }
}

/// The block with this index of the function with this entry, as paths show it: by its offset,
/// after the part of its symbol that the function's symbol does not have, such as `.cold`.
#[inline(never)]
pub(crate) fn visit(entry: usize, index: usize, block: &Block) -> Visit {
    let mut buffer = [0; symbol::LEN];
    let whole = symbol::location(entry, &mut buffer);
    let mut buffer = [0; symbol::LEN];
    let location = symbol::location(block.address as usize, &mut buffer);
    let part = match (&whole, &location) {
        (Some(whole), Some(location)) => location.name.strip_prefix(whole.name),
        _ => None,
    };
    let start = entry.wrapping_sub(whole.as_ref().map_or(0, |whole| whole.offset));
    let from_start = block.address.wrapping_sub(start as u64) as i64;
    let name = match (part, &location) {
        (Some(part), Some(location)) => {
            Name::of_block(index == 0, part, location.offset as u64, from_start)
        }
        _ => Name::from_start(index == 0, from_start),
    };
    Visit {
        index: index as u16,
        last: block.last,
        name,
    }
}

/// The handler at a block.
pub(crate) struct AtBlock {
    pub(crate) paths: Arc<Paths>,
    pub(crate) visit: Visit,
}

#[vtable]
impl kprobe::Handler for AtBlock {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        let task = hit.state().atomic().current() as u64;
        self.paths.table.visit(task, &self.visit);
    }
}

/// The handler at the entry and the return of the function. `N` is the number of words of its entry
/// data.
pub(crate) struct AtCall<const N: usize> {
    paths: Arc<Paths>,
    first: Visit,
    saver: EntrySaver<N, true>,
}

impl<const N: usize> AtCall<N> {
    /// Creates a handler. `first` is the first block. Fails as [`EntrySaver::new`].
    pub(crate) fn new(
        paths: Arc<Paths>,
        first: Visit,
        action: Action,
        arguments: KVec<EntryArgument>,
    ) -> Result<Self> {
        Ok(Self {
            paths,
            first,
            saver: EntrySaver::new(action, arguments)?,
        })
    }
}

/// The data of a call from its entry to its return.
#[derive(Clone, Copy)]
pub(crate) struct InCall<const N: usize> {
    words: [u64; N],
    token: Token,
}

#[vtable]
impl<const N: usize> kretprobe::Handler for AtCall<N> {
    type Data = InCall<N>;

    #[inline(always)]
    fn entry(&self, hit: &Hit<'_>) -> Option<InCall<N>> {
        let task = hit.state().atomic().current() as u64;
        if self.saver.as_ref().admits_call(hit) {
            if let Some(token) = self.paths.table.begin(task, &self.first) {
                let words = self.saver.save(hit);
                return Some(InCall { words, token });
            }
            self.paths.missed.increment();
        }
        let token = self.paths.table.hide(task)?;
        let words = [0; N];
        Some(InCall { words, token })
    }

    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &kretprobe::Call<'_, InCall<N>>) {
        let task = hit.state().atomic().current() as u64;
        let InCall { words, token } = call.data();
        if let Some(finished) = self.paths.table.finish(task, *token) {
            let values = PathValues {
                entry: EntrySaver::<N, true>::saved(words),
                path: &finished,
            };
            let head = (hit.address(), call.caller());
            self.saver.as_ref().run(hit, values, head);
        }
    }
}

impl<const N: usize> AsRef<Action> for AtCall<N> {
    fn as_ref(&self) -> &Action {
        self.saver.as_ref()
    }
}

/// The values of a call that returns.
#[derive(Clone, Copy)]
struct PathValues<'a> {
    entry: EntryData<'a>,
    path: &'a Finished<'a, Word>,
}

impl CallValues for PathValues<'_> {
    #[inline(always)]
    fn entry_data(self, index: u8) -> u64 {
        self.entry.entry_data(index)
    }

    #[inline(always)]
    fn elapsed(self) -> u64 {
        self.entry.elapsed()
    }

    #[inline(always)]
    fn exit(self) -> u64 {
        self.path.last()
    }

    #[inline(always)]
    fn path(self) -> u64 {
        ptr::from_ref(self.path.text()).addr() as u64
    }

    #[inline(always)]
    fn blocks(self) -> u64 {
        self.path.blocks()
    }
}

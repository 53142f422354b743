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
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SetOnce, //
    }, //
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
        Blocks,
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
    block_probes::{
        BlockProbes,
        OwnedRoute, //
    },
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
    /// The blocks of the function, from before the first call.
    blocks: SetOnce<NamedBlocks>,
    /// How often the probes were armed. A call from an earlier round may lack blocks.
    round: Atomic<u32>,
    /// Calls without a record: there was no room, or they did not return.
    missed: Counter,
}

impl Paths {
    /// Without calls. `calls` is the number that can be in progress. `ENOMEM`.
    #[inline(never)]
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
            blocks: SetOnce::new(),
            round: Atomic::new(0),
            missed: Counter::new()?,
        })
    }

    /// Sets the blocks of the function, once. Takes the route from the probes. Process context.
    pub(crate) fn set_blocks<P>(&self, probes: &mut BlockProbes<P>) -> Result {
        let function = NamedFunction::of(probes.entry())?;
        let blocks = { probes.blocks().iter().enumerate() }
            .map(|(index, (block, _))| function.visit(index, block));
        let visits = collect(blocks)?;
        let route = probes.take_route();
        let is_first = self.blocks.populate(NamedBlocks { visits, route });
        is_first.then_some(()).ok_or(EBUSY)
    }

    /// The probes are armed again: calls that are in progress have no record. Process context.
    pub(crate) fn start_round(&self) {
        self.round.fetch_add(1, Relaxed);
    }

    #[inline(always)]
    fn blocks(&self) -> Blocks<'_> {
        { self.blocks.as_ref() }.map_or(Blocks::NONE, |blocks| Blocks {
            visits: &blocks.visits,
            route: blocks.route.get(),
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

/// The blocks of a function, with their names.
struct NamedBlocks {
    visits: KVVec<Visit>,
    route: OwnedRoute,
}

/// A function whose blocks get names.
struct NamedFunction {
    start: usize,
    /// The name of its symbol, if it has one.
    name: Option<CString>,
}

impl NamedFunction {
    /// The function with this entry. `ENOMEM`.
    #[inline(never)]
    fn of(entry: usize) -> Result<Self> {
        let mut buffer = [0; symbol::LEN];
        let location = symbol::location(entry, &mut buffer);
        let copy = |name| CString::try_from_fmt(format_args!("{name}"));
        Ok(Self {
            start: entry.wrapping_sub(location.as_ref().map_or(0, |location| location.offset)),
            name: location.map(|location| copy(location.name)).transpose()?,
        })
    }

    /// The block with this index, as paths show it: by its offset, after the part of its symbol
    /// that the function's symbol does not have, such as `.cold`.
    #[inline(never)]
    fn visit(&self, index: usize, block: &Block) -> Visit {
        let mut buffer = [0; symbol::LEN];
        let location = symbol::location(block.address as usize, &mut buffer);
        let whole = self.name.as_ref().and_then(|name| name.to_str().ok());
        let part = match (whole, &location) {
            (Some(whole), Some(location)) => location.name.strip_prefix(whole),
            _ => None,
        };
        let from_start = block.address.wrapping_sub(self.start as u64) as i64;
        let name = match (part, &location) {
            (Some(part), Some(location)) => {
                Name::of_block(index == 0, part, location.offset as u64, from_start)
            }
            _ => Name::from_start(index == 0, from_start),
        };
        Visit {
            last: block.last,
            name,
        }
    }
}

/// The handler at a block.
pub(crate) struct AtBlock {
    paths: Arc<Paths>,
    block: u16,
}

impl AtBlock {
    /// The handler at the block with this index.
    pub(crate) fn new(paths: Arc<Paths>, index: usize) -> Self {
        Self {
            paths,
            block: index as u16,
        }
    }
}

#[vtable]
impl kprobe::Handler for AtBlock {
    #[inline(always)]
    fn pre(&self, hit: &Hit<'_>) {
        let task = hit.state().atomic().current() as u64;
        let paths = &self.paths;
        paths.table.visit(task, self.block, paths.blocks());
    }
}

/// The handler at the entry and the return of the function. `N` is the number of words of its entry
/// data.
pub(crate) struct AtCall<const N: usize> {
    paths: Arc<Paths>,
    saver: EntrySaver<N, true>,
}

impl<const N: usize> AtCall<N> {
    /// Creates a handler. Fails as [`EntrySaver::new`].
    pub(crate) fn new(
        paths: Arc<Paths>,
        action: Action,
        arguments: KVec<EntryArgument>,
    ) -> Result<Self> {
        Ok(Self {
            paths,
            saver: EntrySaver::new(action, arguments)?,
        })
    }
}

/// The data of a call from its entry to its return.
#[derive(Clone, Copy)]
pub(crate) struct InCall<const N: usize> {
    words: [u64; N],
    token: Token,
    round: u32,
}

#[vtable]
impl<const N: usize> kretprobe::Handler for AtCall<N> {
    type Data = InCall<N>;

    #[inline(always)]
    fn entry(&self, hit: &Hit<'_>) -> Option<InCall<N>> {
        let task = hit.state().atomic().current() as u64;
        let round = self.paths.round.load(Relaxed);
        if self.saver.as_ref().admits_call(hit) {
            if let Some(token) = self.paths.table.begin(task, self.paths.blocks()) {
                return Some(InCall {
                    words: self.saver.save(hit),
                    token,
                    round,
                });
            }
            self.paths.missed.increment();
        }
        Some(InCall {
            words: [0; N],
            token: self.paths.table.hide(task)?,
            round,
        })
    }

    #[inline(always)]
    fn ret(&self, hit: &Hit<'_>, call: &kretprobe::Call<'_, InCall<N>>) {
        let task = hit.state().atomic().current() as u64;
        let paths = &self.paths;
        let InCall {
            words,
            token,
            round,
        } = call.data();
        if let Some(finished) = paths.table.finish(task, *token, paths.blocks()) {
            if *round != paths.round.load(Relaxed) {
                paths.missed.increment();
                return;
            }
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

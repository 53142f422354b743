// SPDX-License-Identifier: GPL-2.0

//! Events that count their hits by keys, instead of making records.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use ktrace::{
    registers::RegisterFile,
    trace_event::{
        Origin,
        State, //
    },
};
use probe::{
    arch,
    argument::Argument,
    command::{
        By,
        Command,
        ParseContext,
        WrittenArgument,
        MAX_KEYS, //
    },
    counting::{
        cut_comm,
        Key,
        COMM_WORDS,
        STACK_WORDS, //
    },
    fetch::{
        self,
        KeyContext,
        KeyProgram,
        SumProgram, //
    },
};

use crate::{
    collect::collect,
    failure::Failure,
    hit_context::{
        CallValues,
        HitContext, //
    },
    record_head::Place,
    records::Records,
    tally::{
        Table,
        Tally, //
    },
};

/// The text after `by`, as the user wrote it.
#[derive(Default)]
pub(crate) struct WrittenBy<'a> {
    /// `None` if the command makes records.
    by: Option<KBox<By<'a>>>,
    pub(crate) keys: KVVec<WrittenArgument<'a>>,
    pub(crate) sums: KVVec<WrittenArgument<'a>>,
}

impl<'a> WrittenBy<'a> {
    /// Parses the text after `by`. `ENOMEM`, and the errors of the text.
    #[inline(never)]
    pub(crate) fn parse(command: &Command<'a>) -> Result<Self, Failure> {
        let Some(by) = command.by()? else {
            return Ok(Self::default());
        };
        Ok(Self {
            keys: collect(by.key_operands())?,
            sums: collect(by.sum_operands())?,
            by: Some(KBox::new(by, GFP_KERNEL)?),
        })
    }

    /// Resolves the keys and the sums. `arguments` are the arguments of the command. `None` if the
    /// command makes records.
    #[inline(never)]
    pub(crate) fn resolve<'c>(
        &'c self,
        command: &'c Command<'c>,
        arguments: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
    ) -> Result<Option<KeysAndSums<'c>>, Failure> {
        let Some(by) = &self.by else {
            return Ok(None);
        };
        let register = arch::current::register;
        let (mut keys, mut sums) = (KVVec::new(), KVVec::new());
        for key in command.resolve_keys(by, &self.keys, arguments, context, register) {
            keys.push(key?, GFP_KERNEL)?;
        }
        for sum in command.resolve_sums(by, &self.sums, arguments, context, register) {
            sums.push(sum?, GFP_KERNEL)?;
        }
        let size = by.size();
        Ok(Some(KeysAndSums { keys, sums, size }))
    }
}

/// The resolved keys and sums of an event.
pub(crate) struct KeysAndSums<'a> {
    keys: KVVec<Key<'a>>,
    sums: KVVec<Argument<'a>>,
    /// The maximum number of keys in the table.
    size: u32,
}

impl<'a> KeysAndSums<'a> {
    /// Creates the table for them. `ENOMEM`.
    pub(crate) fn tally(&self) -> Result<Tally> {
        Tally::new(self.size, &self.keys, &self.sums)
    }

    /// Whether they can count in this table.
    pub(crate) fn fit(&self, tally: &Tally) -> bool {
        tally.accepts(self.size, &self.keys, &self.sums)
    }

    /// The arguments that the keys and sums read.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Argument<'a>> {
        let keys = self.keys.iter().filter_map(Key::argument);
        Iterator::chain(keys, &self.sums)
    }

    /// Compiles them. `ENOMEM`, and the errors of `resolver`.
    #[inline(never)]
    pub(crate) fn compile(
        &self,
        resolver: &mut impl fetch::Resolver<Error = Failure>,
    ) -> Result<CountPrograms, Failure> {
        let (mut keys, mut sums) = (KVec::new(), KVec::new());
        for key in &self.keys {
            keys.push(fetch::compile_key(key, resolver)?, GFP_KERNEL)?;
        }
        for sum in &self.sums {
            sums.push(fetch::compile_sum(sum, resolver)?, GFP_KERNEL)?;
        }
        Ok(CountPrograms { keys, sums })
    }
}

/// The compiled keys and sums of a probe. All registrations of the probe share them.
pub(crate) struct CountPrograms {
    keys: KVec<KeyProgram>,
    sums: KVec<SumProgram>,
}

/// The result of a hit.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    /// It is in the table.
    Counted,
    /// The table has no room for its keys.
    NoRoom,
    /// No user of the event takes hits of the task.
    LeftOut,
}

impl Outcome {
    #[inline(always)]
    const fn of(has_room: bool) -> Self {
        match has_room {
            true => Self::Counted,
            false => Self::NoRoom,
        }
    }
}

/// Counts the hits of a probe.
pub(crate) struct Counting {
    programs: Arc<CountPrograms>,
    /// The users of the event.
    records: Arc<Records>,
    tally: Arc<Tally>,
    key_words: usize,
    shortcut: Shortcut,
}

/// A way to the key without programs, for the keys that are used most often. There are no sums.
enum Shortcut {
    /// There is no key.
    NoKey,
    /// The key is the function.
    Function,
    /// The key is the name of the task.
    Comm,
    /// Any others.
    None,
}

/// The number of words of keys that are often used: numbers, and the name of the task.
const FEW: usize = 4;

/// The maximum number of words of all keys.
const MANY: usize = MAX_KEYS * STACK_WORDS;

impl Counting {
    pub(crate) fn new(
        programs: Arc<CountPrograms>,
        records: Arc<Records>,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            key_words: tally.key_words(),
            shortcut: match (&*programs.keys, &*programs.sums) {
                ([], []) => Shortcut::NoKey,
                ([key], []) if key.is_function() => Shortcut::Function,
                ([key], []) if key.is_comm() => Shortcut::Comm,
                _ => Shortcut::None,
            },
            programs,
            records,
            tally,
        }
    }

    /// Counts a hit if there is a shortcut to its key, and the only user of the event takes each
    /// hit. Returns `None` otherwise. Any context.
    ///
    /// It calls no function to find out who takes the hit, so handlers need not save registers.
    #[inline(always)]
    pub(crate) fn count_by_shortcut<O: Origin>(&self, hit: &O, place: Place) -> Option<Outcome> {
        let state = hit.state();
        match self.records.sink.takes_all(state.atomic()) {
            true => self.count_shortcut(hit, place).map(Outcome::of),
            false => None,
        }
    }

    /// Counts a hit that a user takes, if there is a shortcut to its key. Returns whether the table
    /// has room for it.
    #[inline(always)]
    fn count_shortcut<O: Origin>(&self, hit: &O, place: Place) -> Option<bool> {
        let state = hit.state();
        let atomic = state.atomic();
        let table = self.tally.table(atomic);
        match self.shortcut {
            Shortcut::NoKey => Some(table.count(atomic, &[])),
            Shortcut::Function => Some(table.count(atomic, &[place.address as u64])),
            Shortcut::Comm => Some(table.count(atomic, &cut_comm(atomic.comm_words()))),
            Shortcut::None => None,
        }
    }

    /// Counts a hit. Any context.
    #[inline(always)]
    pub(crate) fn count<O: Origin>(
        &self,
        hit: &O,
        values: impl CallValues,
        place: Place,
    ) -> Outcome {
        let state = hit.state();
        if !self.records.sink.takes(state.atomic()) {
            return Outcome::LeftOut;
        }
        if let Some(has_room) = self.count_shortcut(hit, place) {
            return Outcome::of(has_room);
        }
        let table = self.tally.table(state.atomic());
        Outcome::of(self.count_keys(table, HitContext { state, values }, place))
    }

    /// Reads the keys of a hit, and counts it.
    #[inline(always)]
    fn count_keys<R: RegisterFile>(
        &self,
        table: &Table,
        context: HitContext<R, impl CallValues>,
        place: Place,
    ) -> bool {
        match self.key_words {
            1 => self.count_in(table, context, place, &mut [0]),
            len @ ..=FEW => {
                let mut words = [0; FEW];
                let words = words.get_mut(..len).unwrap_or(&mut []);
                self.count_in(table, context, place, words)
            }
            _ => self.count_many(table, context, place),
        }
    }

    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn count_many<R: RegisterFile>(
        &self,
        table: &Table,
        context: HitContext<R, impl CallValues>,
        place: Place,
    ) -> bool {
        let mut words = [0; MANY];
        let words = words.get_mut(..self.key_words).unwrap_or(&mut []);
        self.count_in(table, context, place, words)
    }

    /// Writes the keys to `words`, and counts the hit.
    #[inline(always)]
    fn count_in<R: RegisterFile>(
        &self,
        table: &Table,
        context: HitContext<R, impl CallValues>,
        place: Place,
        words: &mut [u64],
    ) -> bool {
        let state = context.state;
        let CountPrograms { keys, sums } = &*self.programs;
        let exit = context.values.exit();
        fetch::write_key(keys, context, &KeyHit { state, place, exit }, words);
        if sums.is_empty() {
            return table.count(state.atomic(), words);
        }
        let numbers = sums.iter().map(|sum| sum.number(context));
        table.add_up(state.atomic(), words, numbers)
    }
}

/// A hit, as a key reads it.
struct KeyHit<R> {
    state: State<R>,
    place: Place,
    /// The address of the return instruction, or 0 if the hit is not at one.
    exit: u64,
}

impl<R: RegisterFile> KeyContext for KeyHit<R> {
    #[inline(always)]
    fn function(&self) -> u64 {
        self.place.address as u64
    }

    #[inline(always)]
    fn pid(&self) -> u64 {
        self.state.atomic().pid().into()
    }

    #[inline(always)]
    fn comm(&self) -> [u64; COMM_WORDS] {
        self.state.atomic().comm_words()
    }

    #[inline(always)]
    fn callers(&self, to: &mut [u64]) {
        let Place { address, caller } = self.place;
        match self.exit {
            0 => self.state.callers(address, caller, to),
            // The stack is still that of the function.
            exit => self.state.callers(exit as usize, None, to),
        }
    }
}

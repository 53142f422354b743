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
    count_value::{
        Operation,
        Value,
        ValueForm, //
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
        NumberProgram, //
    },
};

use crate::{
    collect::{
        collect,
        try_collect, //
    },
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
    by: Option<By<'a>>,
    pub(crate) keys: KVVec<WrittenArgument<'a>>,
    pub(crate) fields: KVVec<WrittenArgument<'a>>,
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
            fields: collect(by.field_operands())?,
            by: Some(by),
        })
    }

    /// Resolves the keys and the fields. `arguments` are the arguments of the command. `None` if
    /// the command makes records.
    pub(crate) fn resolve<'c>(
        &'c self,
        command: &'c Command<'c>,
        arguments: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
    ) -> Result<Option<KeysAndValues<'c>>, Failure> {
        let Some(by) = &self.by else {
            return Ok(None);
        };
        Ok(Some(KeysAndValues {
            keys: self.resolve_keys(by, command, arguments, context)?,
            values: self.resolve_values(by, command, arguments, context)?,
            size: by.size(),
        }))
    }

    #[inline(never)]
    fn resolve_keys<'c>(
        &'c self,
        by: &'c By<'c>,
        command: &'c Command<'c>,
        arguments: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
    ) -> Result<KVVec<Key<'c>>, Failure> {
        let register = arch::current::register;
        try_collect(command.resolve_keys(by, &self.keys, arguments, context, register))
    }

    #[inline(never)]
    fn resolve_values<'c>(
        &'c self,
        by: &'c By<'c>,
        command: &'c Command<'c>,
        arguments: &'c [WrittenArgument<'c>],
        context: ParseContext<'c>,
    ) -> Result<KVVec<Value<'c>>, Failure> {
        let register = arch::current::register;
        try_collect(command.resolve_values(by, &self.fields, arguments, context, register))
    }
}

/// The resolved keys and values of an event.
pub(crate) struct KeysAndValues<'a> {
    keys: KVVec<Key<'a>>,
    values: KVVec<Value<'a>>,
    /// The maximum number of keys in the table.
    size: u32,
}

impl<'a> KeysAndValues<'a> {
    /// Creates the table for them. `ENOMEM`.
    pub(crate) fn tally(&self) -> Result<Tally> {
        Tally::new(self.size, &self.keys, &self.values)
    }

    /// Whether they can count in this table.
    pub(crate) fn fit(&self, tally: &Tally) -> bool {
        tally.accepts(self.size, &self.keys, &self.values)
    }

    /// The arguments that the keys and values read.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Argument<'a>> {
        let keys = self.keys.iter().filter_map(Key::argument);
        let fields = self.values.iter().map(|value| &value.argument);
        Iterator::chain(keys, fields)
    }

    /// Compiles them. `ENOMEM`, and the errors of `resolver`.
    #[inline(never)]
    pub(crate) fn compile(
        &self,
        resolver: &mut impl fetch::Resolver<Error = Failure>,
    ) -> Result<CountPrograms, Failure> {
        let mut keys = KVec::new();
        for key in &self.keys {
            keys.push(fetch::compile_key(key, resolver)?, GFP_KERNEL)?;
        }
        let (mut sums, mut fields) = (KVec::new(), KVec::new());
        let is_sum = |value: &Value<'_>| value.operation == Operation::Sum;
        if self.values.iter().all(is_sum) {
            for value in &self.values {
                sums.push(
                    fetch::compile_number(&value.argument, resolver)?,
                    GFP_KERNEL,
                )?;
            }
        } else {
            for (index, value) in self.values.iter().enumerate() {
                let is_same = |earlier: &Value<'_>| earlier.argument == value.argument;
                // A field with several values is read once.
                if !self.values.iter().take(index).any(is_same) {
                    fields.push(self.field(&value.argument, resolver)?, GFP_KERNEL)?;
                }
            }
        }
        Ok(CountPrograms { keys, sums, fields })
    }

    /// Compiles a field, with all of its values. `ENOMEM`, and the errors of `resolver`.
    fn field(
        &self,
        argument: &Argument<'a>,
        resolver: &mut impl fetch::Resolver<Error = Failure>,
    ) -> Result<Field, Failure> {
        let mut values = KVec::new();
        // The number of hits comes before the values.
        for (index, value) in (1..).zip(&self.values) {
            if value.argument == *argument {
                values.push((index, value.form()), GFP_KERNEL)?;
            }
        }
        let number = fetch::compile_number(argument, resolver)?;
        Ok(Field { number, values })
    }
}

/// The compiled keys and values of a probe. All registrations of the probe share them.
pub(crate) struct CountPrograms {
    keys: KVec<KeyProgram>,
    /// The values, if all of them are sums.
    sums: KVec<NumberProgram>,
    /// The values otherwise.
    fields: KVec<Field>,
}

/// A compiled field, with its values and their places in an entry of the table.
struct Field {
    number: NumberProgram,
    values: KVec<(usize, ValueForm)>,
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
    /// `key_words`, or [`usize::MAX`] if there are [fields](CountPrograms::fields). So a hit
    /// without them makes no comparison to find this out.
    plain_words: usize,
    shortcut: Shortcut,
}

/// A way to the key without programs, for the keys that are used most often. There are no values.
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
        let has_fields = !programs.fields.is_empty();
        let key_words = tally.key_words();
        Self {
            key_words,
            plain_words: if has_fields { usize::MAX } else { key_words },
            shortcut: match (&*programs.keys, &*programs.sums) {
                _ if has_fields => Shortcut::None,
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
        match self.plain_words {
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
        if self.plain_words > MANY {
            return match self.key_words {
                ..=FEW => self.count_fields::<_, FEW>(table, context, place),
                _ => self.count_fields::<_, MANY>(table, context, place),
            };
        }
        let mut words = [0; MANY];
        let words = words.get_mut(..self.plain_words).unwrap_or(&mut []);
        self.count_in(table, context, place, words)
    }

    /// Reads the keys, which have at most `N` words, and the fields of a hit, and counts it.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn count_fields<R: RegisterFile, const N: usize>(
        &self,
        table: &Table,
        context: HitContext<R, impl CallValues>,
        place: Place,
    ) -> bool {
        let mut words = [0; N];
        let words = words.get_mut(..self.key_words).unwrap_or(&mut []);
        let CountPrograms { keys, fields, .. } = &*self.programs;
        fetch::write_key(keys, context, &KeyHit::new(context, place), words);
        let fields = fields.iter();
        let numbers = fields.map(|field| (field.number.number(context), &*field.values));
        table.count_values(context.state.atomic(), words, numbers)
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
        let CountPrograms { keys, sums, .. } = &*self.programs;
        fetch::write_key(keys, context, &KeyHit::new(context, place), words);
        if sums.is_empty() {
            return table.count(context.state.atomic(), words);
        }
        let numbers = sums.iter().map(|sum| sum.number(context));
        table.add_up(context.state.atomic(), words, numbers)
    }
}

/// A hit, as a key reads it.
struct KeyHit<R> {
    state: State<R>,
    place: Place,
    /// The address of the return instruction, or 0 if the hit is not at one.
    exit: u64,
}

impl<R> KeyHit<R> {
    #[inline(always)]
    fn new(context: HitContext<R, impl CallValues>, place: Place) -> Self {
        Self {
            state: context.state,
            place,
            exit: context.values.exit(),
        }
    }
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

// SPDX-License-Identifier: GPL-2.0

//! Call trees: the handlers at the entry and the exit of the functions, which collect the steps of
//! a call, and write them as records if the call fulfils the condition.

use core::iter;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use ktrace::{
    atomic::Word,
    context::monotonic_clock,
    fprobe,
    function::{
        Call,
        CallOrigin, //
    },
    percpu::Counter,
    trace_event::Origin, //
};
use probe::{
    arch::{
        current,
        Slot, //
    },
    argument_words::FewWords,
    call_tree::{
        self,
        Beginning,
        Bucket,
        CallInProgress,
        CallTable,
        OpenStep,
        Step,
        Token,
        ENTRY_WORDS, //
    },
    command::CallTreeTarget,
    fetch,
    object_table::Word as _, //
};

use crate::{
    action::{
        record_bytes,
        Action, //
    },
    collect::collect,
    entry_saver::{
        EntryData,
        EntryLayout, //
    },
    hit_context::HitContext,
    records::Records,
    task_free::OfTasks, //
};

/// The calls in progress of a call tree.
type Calls = CallTable<KVVec<Bucket<Word>>, KVVec<call_tree::Call<Word>>, KVVec<Step<Word>>, Word>;

/// The number of the next call of any call tree.
static NEXT_CALL: Word = Word::new(1);

/// The maximum number of steps that have not returned. ftrace has room for some fifty.
const MAX_OPEN: usize = 128;

/// A registered call tree.
pub(crate) struct CallTree {
    action: Action,
    records: Arc<Records>,
    calls: Calls,
    /// The call site of the first function that is a root.
    first_root: usize,
    /// The call sites of all roots, sorted. Empty if there is one.
    roots: KVVec<usize>,
    entry: EntryLayout,
    /// The fields of a step that the arguments of the command have in the record of the root.
    no_arguments: KVec<u8>,
    /// The functions of which a step does not show all words, by their call site.
    few_words: KVVec<FewWords>,
    /// Calls without a record: there was no room, they were in an interrupt, or did not return.
    missed: Counter,
}

impl CallTree {
    /// Creates a call tree without calls. `ENOMEM`.
    pub(crate) fn new(
        target: &CallTreeTarget<'_>,
        mut roots: KVVec<usize>,
        few_words: KVVec<FewWords>,
        (action, entry): (Action, EntryLayout),
        records: Arc<Records>,
    ) -> Result<Self> {
        let (calls, per_call) = (target.max_calls(), target.max_steps() as usize + 1);
        let count = calls as usize;
        let calls = CallTable::new(
            collect(iter::repeat_with(Bucket::default).take(call_tree::buckets(calls)))?,
            collect(iter::repeat_with(call_tree::Call::default).take(count))?,
            collect(iter::repeat_with(Step::<Word>::default).take(count * per_call))?,
            per_call,
        );
        let first_root = roots.first().copied().ok_or(EINVAL)?;
        if roots.len() == 1 {
            roots.clear();
        }
        Ok(Self {
            action,
            calls,
            first_root,
            roots,
            entry,
            no_arguments: no_arguments(&records)?,
            records,
            few_words,
            missed: Counter::new()?,
        })
    }

    /// The number of calls that have no record, except those that the condition left out.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.sum()
    }

    /// The number of calls in progress.
    pub(crate) fn in_progress(&self) -> usize {
        self.calls.in_progress()
    }

    /// Calls `f` with each call in progress, and its steps that have not returned, by their depth.
    /// `ENOMEM`.
    pub(crate) fn each_call(&self, f: &mut dyn FnMut(&CallInProgress, &[OpenStep])) -> Result {
        let mut open = KVec::from_elem(OpenStep::default(), MAX_OPEN, GFP_KERNEL)?;
        for index in 0..self.calls.capacity() {
            if let Some(call) = self.calls.read(index, &mut open) {
                let steps = open.get(..=call.depth as usize).unwrap_or(&open);
                f(&call, steps);
            }
        }
        Ok(())
    }

    /// Whether a call of the function with this call site can be the root of a tree.
    #[inline(always)]
    fn is_root(&self, function: usize) -> bool {
        function == self.first_root
            || !self.roots.is_empty() && call_tree::has_function(&self.roots, function)
    }

    /// Begins a call of the function at the root.
    #[cold]
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn begin(&self, call: CallOrigin<'_>, function: usize, task: u64) -> Option<[u64; 1]> {
        let state = call.state();
        let current = state.atomic();
        if !current.is_in_task() {
            self.missed.increment();
            return None;
        }
        if !self.action.admits_call(&call) {
            return None;
        }
        let mut entry = [0; ENTRY_WORDS];
        let context = HitContext { state, values: () };
        fetch::save_entry_data(&self.entry.arguments, context, &mut entry);
        let beginning = Beginning {
            number: NEXT_CALL.fetch_add(1),
            pid: current.pid(),
            comm: current.comm_words(),
            now: monotonic_clock(),
            function: function as u64,
            arguments: first_arguments(call),
            stack: state.register(current::STACK_POINTER),
            untraced: current.untraced_returns().into(),
            entry,
        };
        let token = self.calls.begin(task, &beginning);
        if token.is_none() {
            self.missed.increment();
        }
        token.map(|token| [token.word()])
    }

    /// Adds a step to the call `index` of the current task.
    #[inline(always)]
    fn enter(
        &self,
        call: CallOrigin<'_>,
        function: usize,
        task: u64,
        index: usize,
    ) -> Option<[u64; 1]> {
        let state = call.state();
        if !state.atomic().is_in_task() {
            return None;
        }
        let stack = state.register(current::STACK_POINTER);
        if self.is_root(function) && self.calls.has_left(index, stack) {
            // ftrace did not trace the return of the call.
            self.calls.abandon(task);
            self.missed.increment();
            return self.begin(call, function, task);
        }
        let arguments = first_arguments(call);
        let token = self
            .calls
            .enter(index, function as u64, arguments, monotonic_clock)?;
        Some([token.word()])
    }

    /// Ends a call. Writes its records if it fulfils the condition.
    #[cold]
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn end(&self, call: CallOrigin<'_>, task: u64, token: Token) {
        let state = call.state();
        let current = state.atomic();
        let returned = state.register(current::RETURN_VALUE);
        let Some(finished) = self.calls.finish(task, token, returned, monotonic_clock()) else {
            return;
        };
        let untraced = current
            .untraced_returns()
            .wrapping_sub(finished.untraced() as u32);
        finished.lose(untraced.into());
        let values = EntryData {
            words: &finished.entry_data(),
            elapsed: finished.elapsed(),
        };
        let action = match self.action.conditional() {
            None => &self.action,
            Some(conditional) if conditional.admits(&call, values) => conditional.action(),
            Some(_) => return,
        };
        let mut records = finished.records(|function| FewWords::count(&self.few_words, function));
        // Steps without the record of their root would have no arguments.
        match records.next() {
            Some(root) if action.record_always(&call, values, root) => {}
            _ => return,
        }
        for step in records {
            record_bytes(&self.records, &call, step, &self.no_arguments);
        }
    }
}

impl OfTasks for CallTree {
    #[inline(always)]
    fn abandon(&self, task: u64) {
        if self.calls.abandon(task) {
            self.missed.increment();
        }
    }
}

impl AsRef<Action> for CallTree {
    fn as_ref(&self) -> &Action {
        &self.action
    }
}

/// The first words of the arguments of a call.
#[inline(always)]
fn first_arguments(call: CallOrigin<'_>) -> [u64; 4] {
    let state = call.state();
    core::array::from_fn(|n| match current::argument(n as u16) {
        Slot::Register(register) => state.register(register),
        Slot::Stack(_) => 0,
    })
}

/// The bytes of the arguments in the record of a step: zeros and empty strings. `ENOMEM`.
fn no_arguments(records: &Records) -> Result<KVec<u8>> {
    let schema = &records.schema;
    let fixed = schema.program_bytes();
    let nul = usize::from(schema.layout().is_dynamic());
    let mut bytes = KVec::from_elem(0, fixed + nul, GFP_KERNEL)?;
    let fields = schema.fields().map(|(_, field)| field);
    let nul_at = schema.fields_at() + schema.layout().bytes();
    fetch::write_empty_strings(fields, schema.own_bytes(), nul_at, &mut bytes);
    Ok(bytes)
}

/// The handler at the functions of a call tree. It saves a [`Token`] for the exit of a step.
pub(crate) struct AtStep(pub(crate) Arc<CallTree>);

#[vtable]
impl fprobe::Handler for AtStep {
    type Data = [u64; 1];

    #[inline(always)]
    fn ignores(&self, call: &Call<'_>) -> bool {
        let tree = &*self.0;
        let task = call.atomic().current() as u64;
        !tree.calls.has(task) && !tree.is_root(call.function())
    }

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<[u64; 1]> {
        let tree = &*self.0;
        let task = call.atomic().current() as u64;
        match tree.calls.find(task) {
            None if !tree.is_root(call.function()) => None,
            None => tree.begin(call.origin(), call.function(), task),
            Some(index) => tree.enter(call.origin(), call.function(), task, index),
        }
    }

    #[inline(always)]
    fn exit(&self, call: &Call<'_>, data: &[u64; 1]) {
        let [word] = *data;
        let (token, task) = (Token::of(word), call.atomic().current() as u64);
        let tree = &*self.0;
        if token.is_root() {
            tree.end(call.origin(), task, token);
        } else {
            let returned = call.origin().state().register(current::RETURN_VALUE);
            tree.calls.leave(task, token, returned, monotonic_clock);
        }
    }
}

impl AsRef<Action> for AtStep {
    fn as_ref(&self) -> &Action {
        &self.0.action
    }
}

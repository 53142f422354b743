// SPDX-License-Identifier: GPL-2.0

//! The handlers of an object probe, at the entry and at the return of functions that may receive an
//! object.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use ktrace::{
    context::monotonic_clock,
    fprobe,
    function::{
        Call,
        CallOrigin, //
    },
    trace_event::Origin, //
};
use probe::{
    arch::Register,
    fetch,
    object_table::Counted, //
};

use crate::{
    action::{
        Action,
        Conditional, //
    },
    entry_saver::{
        elapsed_since,
        EntryLayout,
        FEW, //
    },
    hit_context::{
        CallValues,
        HitContext, //
    },
    object::{
        Objects,
        Selection, //
    },
    record_head::RecordHead,
};

/// The handler at the entry of functions that may receive an object.
pub(crate) struct AtObject {
    pub(crate) action: Action,
    pub(crate) objects: Arc<Objects>,
    /// The position of the parameter that may be an object, counted from 0.
    pub(crate) position: u16,
    /// The register of this parameter.
    pub(crate) register: Register,
    pub(crate) selection: Selection,
    /// The offset of the values that can change in the fields of a record, in bytes.
    pub(crate) values_at: usize,
}

impl AsRef<Action> for AtObject {
    fn as_ref(&self) -> &Action {
        &self.action
    }
}

#[vtable]
impl fprobe::Handler for AtObject {
    type Data = ();

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<()> {
        if let Some(address) = self.received(call) {
            self.record_entry(call.origin(), call.function(), address);
        }
        Some(())
    }
}

impl AtObject {
    /// The address of the live object that a call receives.
    #[inline(always)]
    fn received(&self, call: &Call<'_>) -> Option<u64> {
        let address = call.state().register(self.register);
        self.objects.contains(address).then_some(address)
    }

    /// Records a call. Most calls receive no object, so the handler itself saves no registers for
    /// this function.
    #[cold]
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn record_entry(&self, call: CallOrigin<'_>, function: usize, address: u64) {
        let values = ReceivedObject {
            address,
            position: self.position,
            unchanged: 0,
        };
        self.record(&call, values, (function,), function);
    }

    /// Records a call of `function`, if the selection has a record for it.
    #[inline(always)]
    fn record(
        &self,
        call: &impl Origin,
        values: impl ObjectValues,
        head: impl RecordHead,
        function: usize,
    ) {
        if self.selection.is_all() {
            return self.action.run(call, values, head);
        }
        match self.action.conditional() {
            Some(conditional) => self.select_admitted(conditional, *call, values, head, function),
            None => self.select(&self.action, call, values, head, function, |_| true),
        }
    }

    /// Records a call if it also fulfils the condition.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn select_admitted(
        &self,
        conditional: &Conditional,
        call: impl Origin,
        values: impl ObjectValues,
        head: impl RecordHead,
        function: usize,
    ) {
        let action = conditional.action();
        self.select(action, &call, values, head, function, |values| {
            conditional.admits(&call, values)
        });
    }

    /// Records a call if the selection has a record for it, and `is_admitted` returns true.
    #[inline(always)]
    fn select<V: ObjectValues>(
        &self,
        action: &Action,
        call: &impl Origin,
        mut values: V,
        head: impl RecordHead,
        function: usize,
        is_admitted: impl FnOnce(V) -> bool,
    ) {
        let address = values.object().address;
        let Some(state) = self.objects.state(address) else {
            // The object has ended.
            return;
        };
        let mut is_last = false;
        let mut is_counted = || {
            let Some(limit) = self.selection.hits else {
                return true;
            };
            let counted = state.count(limit.get());
            is_last = counted == Counted::Last;
            if counted == Counted::Raced {
                self.objects.refuse();
            }
            is_last || counted == Counted::More
        };
        if self.selection.is_of_changes {
            values.object().unchanged = state.see(function as u64);
            if is_admitted(values) {
                action.record_if(call, values, head, |fields| {
                    state.differs(fields.get(self.values_at..).unwrap_or(&[])) && is_counted()
                });
            }
        } else if is_admitted(values) && is_counted() {
            action.run_always(call, values, head);
        }
        if is_last {
            self.objects.remove(address);
        }
    }
}

/// The values of a call with an object.
trait ObjectValues: CallValues {
    fn object(&mut self) -> &mut ReceivedObject;
}

/// The object that a call receives.
#[derive(Clone, Copy)]
struct ReceivedObject {
    address: u64,
    /// The position of its parameter, counted from 0.
    position: u16,
    /// The address of the function that received it last, or 0.
    unchanged: u64,
}

impl CallValues for ReceivedObject {
    #[inline(always)]
    fn entry_data(self, index: u8) -> u64 {
        match index {
            fetch::OBJECT => self.address,
            fetch::UNCHANGED => self.unchanged,
            _ => u64::from(self.position).wrapping_add(1),
        }
    }
}

impl ObjectValues for ReceivedObject {
    #[inline(always)]
    fn object(&mut self) -> &mut ReceivedObject {
        self
    }
}

/// Maximum number of words of entry data: the address of the object and [`FEW`] others.
pub(crate) const MAX_WORDS: usize = 1 + FEW;

/// Records calls at their return. At the entry, it saves the address of the object, then arguments,
/// and last the time.
pub(crate) struct ObjectSaver {
    object: AtObject,
    entry: EntryLayout,
}

impl ObjectSaver {
    pub(crate) fn new(object: AtObject, entry: EntryLayout) -> Self {
        Self { object, entry }
    }

    /// Whether a condition is checked at the entry of a call.
    pub(crate) fn checks_calls(&self) -> bool {
        self.object.action.checks_calls()
    }

    /// The number of words of entry data.
    pub(crate) fn words(&self) -> usize {
        1 + self.entry.words()
    }

    /// Saves the entry data of a call with an object. `words` has the length
    /// [`words`](Self::words).
    #[cold]
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn save(&self, call: CallOrigin<'_>, address: u64, words: &mut [u64]) {
        if self.entry.is_timed {
            if let Some(time) = words.last_mut() {
                *time = monotonic_clock();
            }
        }
        let Some((object, rest)) = words.split_first_mut() else {
            return;
        };
        *object = address;
        let context = HitContext {
            state: call.state(),
            values: (),
        };
        fetch::save_entry_data(&self.entry.arguments, context, rest);
    }

    /// Records the return of a call with an object.
    #[inline(never)]
    #[link_section = ".kprobes.text"]
    fn record_return(&self, call: CallOrigin<'_>, function: usize, caller: usize, words: &[u64]) {
        let Some((address, arguments)) = words.split_first() else {
            return;
        };
        let elapsed = match words.last() {
            Some(then) if self.entry.is_timed => elapsed_since(*then),
            _ => 0,
        };
        let values = ReturnedObject {
            object: ReceivedObject {
                address: *address,
                position: self.object.position,
                unchanged: 0,
            },
            arguments,
            elapsed,
        };
        self.object
            .record(&call, values, (function, caller), function);
    }
}

/// The handler at the return of functions that may receive an object, with `N` words of entry data.
/// `CHECKS` is whether a condition is checked at the entry of a call.
///
/// The kernel reserves memory for these words in each call, and skips the exit of a call that
/// receives no object.
pub(crate) struct AtObjectReturn<const N: usize, const CHECKS: bool>(pub(crate) ObjectSaver);

#[vtable]
impl<const N: usize, const CHECKS: bool> fprobe::Handler for AtObjectReturn<N, CHECKS> {
    type Data = [u64; N];

    #[inline(always)]
    fn entry(&self, call: &Call<'_>) -> Option<[u64; N]> {
        let address = self.0.object.received(call)?;
        if CHECKS && !self.0.object.action.admits_call(call) {
            return None;
        }
        let mut words = [0; N];
        self.0.save(call.origin(), address, &mut words);
        Some(words)
    }

    #[inline(always)]
    fn exit(&self, call: &Call<'_>, words: &[u64; N]) {
        let (function, caller) = (call.function(), call.caller());
        self.0.record_return(call.origin(), function, caller, words);
    }
}

impl<const N: usize, const CHECKS: bool> AsRef<Action> for AtObjectReturn<N, CHECKS> {
    fn as_ref(&self) -> &Action {
        &self.0.object.action
    }
}

/// The object that a call received, at the return of the call.
#[derive(Clone, Copy)]
struct ReturnedObject<'a> {
    object: ReceivedObject,
    /// The arguments of the call, by their index.
    arguments: &'a [u64],
    /// The duration of the call, in ns.
    elapsed: u64,
}

impl CallValues for ReturnedObject<'_> {
    #[inline(always)]
    fn entry_data(self, index: u8) -> u64 {
        match index {
            fetch::OBJECT | fetch::PARAMETER | fetch::UNCHANGED => self.object.entry_data(index),
            // Each other index in a program has a word.
            _ => self.arguments.get(usize::from(index)).copied().unwrap_or(0),
        }
    }

    #[inline(always)]
    fn elapsed(self) -> u64 {
        self.elapsed
    }
}

impl ObjectValues for ReturnedObject<'_> {
    #[inline(always)]
    fn object(&mut self) -> &mut ReceivedObject {
        &mut self.object
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The table of an event that counts its hits by keys, and makes no records.
//!
//! C: `struct hist_trigger_data` in `kernel/trace/trace_events_hist.c`.

use core::{
    fmt,
    iter, //
};

use kernel::{
    prelude::*,
    seq_file::SeqFile,
    str::CString,
    sync::Arc, //
};

use ktrace::{
    atomic::Word,
    context::Atomic,
    counter_array::CounterArray,
    percpu::Counter,
    replaceable::Replaceable,
    trace_event::prepare_callers, //
};
use probe::{
    argument::Name,
    command::Normalized,
    count_table::{
        slots,
        table_words,
        CountTable, //
    },
    count_value::{
        Operation,
        Value,
        ValueForm, //
    },
    counting::{
        Key,
        KeyForm,
        KeySource, //
    },
    histogram::{
        print_entry,
        print_head,
        print_totals,
        Rows, //
    },
};

use crate::{
    collect::collect,
    seq_text::SeqText, //
};

/// The keys and values of an event, and the table of its counts. All probes of the event share it.
pub(crate) struct Tally {
    size: u32,
    keys: KVec<(CString, KeyForm)>,
    value_names: KVec<CString>,
    value_forms: KVec<ValueForm>,
    table: Replaceable<Table>,
}

/// The counts of an event since the last reset.
pub(crate) struct Table {
    keys: CountTable<KVVec<Word>, Word>,
    /// For each slot the number of hits, and then the words of the values.
    values: CounterArray,
    /// The number of counters of a slot.
    stride: usize,
    /// Hits that found no slot.
    dropped: Counter,
}

impl Tally {
    /// Creates an empty table for `size` keys. `ENOMEM`.
    pub(crate) fn new(size: u32, keys: &[Key<'_>], values: &[Value<'_>]) -> Result<Self> {
        let mut names = KVec::with_capacity(keys.len(), GFP_KERNEL)?;
        for key in keys {
            let name = CString::try_from_fmt(format_args!("{}", key.name))?;
            names.push((name, key.form()), GFP_KERNEL)?;
        }
        if keys.iter().any(|key| key.source == KeySource::Stack) {
            prepare_callers();
        }
        let mut value_names = KVec::with_capacity(values.len(), GFP_KERNEL)?;
        let mut value_forms = KVec::with_capacity(values.len(), GFP_KERNEL)?;
        for value in values {
            let name = CString::try_from_fmt(format_args!("{}", value.argument.name))?;
            value_names.push(name, GFP_KERNEL)?;
            value_forms.push(value.form(), GFP_KERNEL)?;
        }
        Ok(Self {
            size,
            table: Replaceable::new(Table::new(size, words(&names), values.len())?),
            keys: names,
            value_names,
            value_forms,
        })
    }

    /// Whether a probe with these keys and values can count in the table.
    pub(crate) fn accepts(&self, size: u32, keys: &[Key<'_>], values: &[Value<'_>]) -> bool {
        let is_key = |((name, form), key): ((&str, KeyForm), &Key<'_>)| {
            name == key.name && form == key.form()
        };
        let is_value = |((name, form), value): ((&str, ValueForm), &Value<'_>)| {
            value.argument.name.is_same(Name::Given(name)) && form == value.form()
        };
        self.size == size
            && self.keys.len() == keys.len()
            && self.value_forms.len() == values.len()
            && self.keys().zip(keys).all(is_key)
            && self.values().zip(values).all(is_value)
    }

    /// The number of words of all keys.
    pub(crate) fn key_words(&self) -> usize {
        words(&self.keys)
    }

    /// The table, in a handler.
    #[inline(always)]
    pub(crate) fn table<'a>(&'a self, atomic: &'a Atomic) -> &'a Table {
        self.table.get(atomic)
    }

    /// Empties the table. Hits count all the time: those until then are lost together with the
    /// counts. Process context; sleeps. `ENOMEM`.
    pub(crate) fn reset(&self) -> Result {
        let table = Table::new(self.size, self.key_words(), self.value_forms.len())?;
        drop(self.table.replace(table));
        Ok(())
    }

    /// Writes the table. `condition` is that of the event. `ENOMEM`.
    pub(crate) fn show(
        &self,
        condition: Option<&Normalized<'_>>,
        is_active: bool,
        to: &SeqFile,
    ) -> Result {
        let table = self.table.load();
        let key_words = self.key_words();
        let mut words = table.copy(key_words, &self.value_forms)?;
        let dropped = table.dropped.sum();
        let mut rows = Rows::new(&mut words, key_words, &self.value_forms);
        let mut order = KVVec::from_elem(0, rows.count(), GFP_KERNEL)?;
        let order = rows.merge(&mut order);

        let mut out = SeqText::new(to);
        // Writing to a `SeqFile` does not fail. The kernel detects an overflow.
        let condition = condition.map(|condition| condition as &dyn fmt::Display);
        let _ = print_head(
            self.keys(),
            self.values(),
            self.size,
            condition,
            is_active,
            &mut out,
        );
        let mut hits = 0u64;
        for (key, words) in order.iter().filter_map(|row| rows.get(*row)) {
            hits = hits.wrapping_add(words.first().copied().unwrap_or(0));
            let _ = print_entry(self.keys(), self.values(), key, words, &mut out);
        }
        let _ = print_totals(hits, order.len(), dropped, &mut out);
        Ok(())
    }

    fn keys(&self) -> impl Iterator<Item = (&str, KeyForm)> {
        let keys = self.keys.iter();
        keys.map(|(name, form)| (name.to_str().unwrap_or(""), *form))
    }

    fn values(&self) -> impl Iterator<Item = (&str, ValueForm)> {
        let names = self.value_names.iter();
        names
            .map(|name| name.to_str().unwrap_or(""))
            .zip(self.value_forms.iter().copied())
    }
}

/// The number of words of all keys.
fn words(keys: &[(CString, KeyForm)]) -> usize {
    keys.iter().map(|(_, form)| form.words()).sum()
}

impl Table {
    /// Creates an empty table. `ENOMEM`.
    fn new(size: u32, key_words: usize, values: usize) -> Result<Arc<Self>> {
        let words = iter::repeat_with(Word::default).take(table_words(size, key_words));
        let words = collect(words)?;
        let stride = 1 + values;
        let table = Self {
            keys: CountTable::new(words, size, key_words),
            values: CounterArray::new(slots(size, key_words) * stride)?,
            stride,
            dropped: Counter::new()?,
        };
        Ok(Arc::new(table, GFP_KERNEL)?)
    }

    /// Counts a hit with a key. Returns false if the key has no slot.
    #[inline(always)]
    pub(crate) fn count(&self, atomic: &Atomic, key: &[u64]) -> bool {
        self.add_up(atomic, key, iter::empty())
    }

    /// Counts a hit with a key, and adds up its numbers. Returns false if the key has no slot.
    #[inline(always)]
    pub(crate) fn add_up(
        &self,
        atomic: &Atomic,
        key: &[u64],
        numbers: impl Iterator<Item = u64>,
    ) -> bool {
        let Some(slot) = self.keys.find_or_add(key) else {
            self.dropped.increment();
            return false;
        };
        let first = slot.wrapping_mul(self.stride);
        for (index, number) in (1..).zip(numbers) {
            self.values.add(atomic, first.wrapping_add(index), number);
        }
        self.values.add(atomic, first, 1);
        true
    }

    /// Counts a hit with a key, and adds its numbers to the values, each with its place among them.
    /// Returns false if the key has no slot, or if a number meets too many others: see
    /// [`CounterArray::raise`].
    #[inline(always)]
    pub(crate) fn count_values<'a>(
        &self,
        atomic: &Atomic,
        key: &[u64],
        numbers: impl Iterator<Item = (u64, &'a [(usize, ValueForm)])>,
    ) -> bool {
        let Some(slot) = self.keys.find_or_add(key) else {
            self.dropped.increment();
            return false;
        };
        let first = slot.wrapping_mul(self.stride);
        for (number, values) in numbers {
            for (value, form) in values {
                let (index, word) = (first.wrapping_add(*value), form.word(number));
                let has_it = match form.operation() {
                    Operation::Sum => {
                        self.values.add(atomic, index, word);
                        true
                    }
                    Operation::Min | Operation::Max => self.values.raise(atomic, index, word),
                };
                if !has_it {
                    self.dropped.increment();
                    return false;
                }
            }
        }
        // A reader of this hit also finds its numbers.
        self.values.add_release(atomic, first, 1);
        true
    }

    /// Copies the keys, the hits and the words of the values. `ENOMEM`.
    fn copy(&self, key_words: usize, forms: &[ValueForm]) -> Result<KVVec<u64>> {
        let rows = self.keys.used();
        let mut copy = KVVec::with_capacity(rows * (key_words + self.stride), GFP_KERNEL)?;
        for key in self.keys.keys() {
            for word in key.words() {
                copy.push(word, GFP_KERNEL)?;
            }
            // The hits are first, because a key without a hit has no minimum: see `count_values`.
            let first = key.slot() * self.stride;
            copy.push(self.values.sum(first), GFP_KERNEL)?;
            for (value, form) in (first + 1..).zip(forms) {
                let word = match form.operation() {
                    Operation::Sum => self.values.sum(value),
                    Operation::Min | Operation::Max => self.values.greatest(value),
                };
                copy.push(word, GFP_KERNEL)?;
            }
        }
        Ok(copy)
    }
}

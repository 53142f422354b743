// SPDX-License-Identifier: GPL-2.0

//! Prints a table of counts, in the text of the kernel's `hist` files.
//!
//! A reader copies the keys and values of the table to [`Rows`], merges and sorts them, and prints
//! them: [`print_head`], [`print_entry`] for each entry, [`print_totals`].
//!
//! C: `hist_trigger_show()` in `kernel/trace/trace_events_hist.c`.

use core::{
    cmp::Ordering,
    fmt,
    iter, //
};

use crate::{
    count_value::ValueForm,
    counting::{
        KeyForm,
        KeyValue,
        Modifier, //
    },
    fetch::{
        write_error_name,
        Output, //
    }, //
};

/// A destination of the text of a table.
pub trait HistogramOutput: Output {
    /// Writes the symbol of an address without its offset, and spaces up to a length of `width`
    /// bytes.
    ///
    /// C: `%-*ps`.
    fn symbol_name(&mut self, address: u64, width: usize) -> fmt::Result;

    /// Writes the symbol of an address with offset and size, and spaces up to a length of `width`
    /// bytes.
    ///
    /// C: `%-*pS`.
    fn padded_symbol(&mut self, address: u64, width: usize) -> fmt::Result;

    /// Writes the name of a system call, or `unknown_syscall`, and spaces up to a length of `width`
    /// bytes.
    ///
    /// C: `get_syscall_name()`.
    fn syscall(&mut self, number: u64, width: usize) -> fmt::Result;
}

/// Prints the head of a table. `keys` and `values` have the names and forms of the keys and values.
/// A table is active or paused.
///
/// # Errors
///
/// The errors of `out`.
///
/// C: `event_hist_trigger_print()`.
pub fn print_head<'a, O: Output>(
    keys: impl Iterator<Item = (&'a str, KeyForm)>,
    values: impl Iterator<Item = (&'a str, ValueForm)>,
    size: u32,
    condition: Option<&dyn fmt::Display>,
    is_active: bool,
    out: &mut O,
) -> fmt::Result {
    out.write_str("# event histogram\n#\n# trigger info: hist:keys=")?;
    for (index, (name, form)) in keys.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}{}", key_name(name, form))?;
        let modifier = match form.modifier {
            Modifier::None => continue,
            Modifier::Hex => "hex",
            Modifier::Sym => "sym",
            Modifier::SymOffset => "sym-offset",
            Modifier::Execname => "execname",
            Modifier::Syscall => "syscall",
            Modifier::Log2 => "log2",
            Modifier::Buckets(size) => {
                write!(out, ".buckets={size}")?;
                continue;
            }
        };
        write!(out, ".{modifier}")?;
    }
    out.write_str(":vals=hitcount")?;
    for (name, form) in values {
        write!(out, ",{}{name}", form.operation().prefix())?;
    }
    write!(out, ":sort=hitcount:size={size}")?;
    if let Some(condition) = condition {
        write!(out, " if {condition}")?;
    }
    let state = if is_active { "active" } else { "paused" };
    write!(out, " [{state}]\n#\n\n")
}

/// Prints an entry of a table. `key` has the words of the keys, in their order. `words` has the
/// number of hits and then the words of the values.
///
/// # Errors
///
/// The errors of `out`.
///
/// C: `hist_trigger_print_key()`, `hist_trigger_entry_print()`.
pub fn print_entry<'a, O: HistogramOutput>(
    keys: impl Iterator<Item = (&'a str, KeyForm)>,
    values: impl Iterator<Item = (&'a str, ValueForm)>,
    mut key: &[u64],
    words: &[u64],
    out: &mut O,
) -> fmt::Result {
    let mut is_multiline = false;
    out.write_str("{ ")?;
    for (index, (name, form)) in keys.enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        let (own, rest) = key.split_at_checked(form.words()).unwrap_or((key, &[]));
        key = rest;
        print_key(name, form, own, out)?;
        is_multiline |= form.value == KeyValue::Stack;
    }
    if !is_multiline {
        out.write_str(" ")?;
    }
    out.write_str("}")?;
    let (hits, words) = words.split_first().unwrap_or((&0, &[]));
    write!(out, " hitcount: {hits:>10}")?;
    for ((name, form), word) in values.zip(words) {
        write!(out, "  {}{name}: ", form.operation().prefix())?;
        form.print(*word, out)?;
    }
    out.write_str("\n")
}

/// Prints a key. `words` are its words.
fn print_key<O: HistogramOutput>(
    name: &str,
    form: KeyForm,
    words: &[u64],
    out: &mut O,
) -> fmt::Result {
    write!(out, "{}:", key_name(name, form))?;
    let number = words.first().copied().unwrap_or(0);
    match (form.value, form.modifier) {
        (KeyValue::Stack, _) => {
            out.write_str("\n")?;
            for address in words.iter().take_while(|address| **address != 0) {
                write!(out, "{:9}", "")?;
                out.symbol(*address)?;
                out.write_str("\n")?;
            }
            Ok(())
        }
        (KeyValue::Comm | KeyValue::String, _) => {
            out.write_str(" ")?;
            print_string(words, 50, out)
        }
        (KeyValue::Error, _) => {
            let number = number as i64;
            write!(out, " {number:>10}")?;
            write_error_name(number, out)
        }
        (KeyValue::Number, Modifier::None) => write!(out, " {number:>10}"),
        (KeyValue::Number, Modifier::Hex) => write!(out, " {number:x}"),
        (KeyValue::Number, Modifier::Sym) => {
            write!(out, " [{number:x}] ")?;
            out.symbol_name(number, 45)
        }
        (KeyValue::Number, Modifier::SymOffset) => {
            write!(out, " [{number:x}] ")?;
            out.padded_symbol(number, 55)
        }
        (KeyValue::Number, Modifier::Execname) => {
            out.write_str(" ")?;
            print_string(words.get(1..).unwrap_or(&[]), 16, out)?;
            write!(out, "[{number:>10}]")
        }
        (KeyValue::Number, Modifier::Syscall) => {
            out.write_str(" ")?;
            out.syscall(number, 30)?;
            write!(out, "[{number:>3}]")
        }
        (KeyValue::Number, Modifier::Log2) => write!(out, " ~ 2^{number:<2}"),
        (KeyValue::Number, Modifier::Buckets(size)) => {
            let last = number.wrapping_add(size.get()).wrapping_sub(1);
            write!(out, " ~ {number}-{last}")
        }
    }
}

/// Prints a string of the table, and spaces up to a length of `width` bytes.
fn print_string<O: Output>(words: &[u64], width: usize, out: &mut O) -> fmt::Result {
    let mut len = 0usize;
    for word in words {
        let bytes = word.to_le_bytes();
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
        out.bytes(text)?;
        len = len.saturating_add(text.len());
        if text.len() < bytes.len() {
            break;
        }
    }
    write!(out, "{:1$}", "", width.saturating_sub(len))
}

/// The name of a key. The kernel has one name for all stacks.
fn key_name(name: &str, form: KeyForm) -> &str {
    match form.value {
        KeyValue::Stack => "common_stacktrace",
        _ => name,
    }
}

/// Prints the end of a table: the number of hits that counted, of entries, and of hits that found
/// no slot.
///
/// # Errors
///
/// The errors of `out`.
///
/// C: `hist_trigger_show()`.
pub fn print_totals(
    hits: u64,
    entries: usize,
    dropped: u64,
    out: &mut impl fmt::Write,
) -> fmt::Result {
    write!(
        out,
        "\nTotals:\n    Hits: {hits}\n    Entries: {entries}\n    Dropped: {dropped}\n",
    )
}

/// A copy of a table: for each key its words, the number of its hits, and the words of its values.
#[derive(Debug)]
pub struct Rows<'a> {
    words: &'a mut [u64],
    key_words: usize,
    forms: &'a [ValueForm],
}

impl<'a> Rows<'a> {
    /// Takes rows of `key_words` words, the number of hits, and a word for each of `forms`.
    pub fn new(words: &'a mut [u64], key_words: usize, forms: &'a [ValueForm]) -> Self {
        Self {
            words,
            key_words,
            forms,
        }
    }

    fn stride(&self) -> usize {
        let values = self.forms.len().saturating_add(1);
        self.key_words.saturating_add(values)
    }

    /// The number of rows.
    pub fn count(&self) -> usize {
        self.words.len().checked_div(self.stride()).unwrap_or(0)
    }

    /// The words of the key, and the hits and the words of the values of a row.
    pub fn get(&self, row: u32) -> Option<(&[u64], &[u64])> {
        let stride = self.stride();
        let start = (row as usize).saturating_mul(stride);
        let row = self.words.get(start..)?.get(..stride)?;
        row.split_at_checked(self.key_words)
    }

    fn key(&self, row: u32) -> &[u64] {
        self.get(row).map_or(&[], |(key, _)| key)
    }

    fn hits(&self, row: u32) -> u64 {
        let values = self.get(row).map_or(&[][..], |(_, values)| values);
        values.first().copied().unwrap_or(0)
    }

    /// Merges the rows with equal keys, and sorts them in ascending order of their hits, and then
    /// of their keys. Rows without a hit are left out.
    ///
    /// Returns the rows in their order, in `order`, which has an element for each row.
    pub fn merge<'o>(&mut self, order: &'o mut [u32]) -> &'o [u32] {
        let rows = self.count().min(order.len());
        let Some(order) = order.get_mut(..rows) else {
            return &[];
        };
        for (row, slot) in (0..).zip(order.iter_mut()) {
            *slot = row;
        }
        sort(order, &|a, b| self.compare_keys(a, b));
        let mut last: Option<u32> = None;
        for row in order.iter() {
            match last.filter(|last| self.compare_keys(*last, *row).is_eq()) {
                Some(last) => self.move_values(*row, last),
                None => last = Some(*row),
            }
        }
        sort(order, &|a, b| {
            let hits = self.hits(a).cmp(&self.hits(b));
            hits.then_with(|| self.compare_keys(a, b))
        });
        let empty = order.partition_point(|row| self.hits(*row) == 0);
        order.get(empty..).unwrap_or(&[])
    }

    fn compare_keys(&self, a: u32, b: u32) -> Ordering {
        self.key(a).cmp(self.key(b))
    }

    /// Moves the values of a row to another row.
    fn move_values(&mut self, from: u32, to: u32) {
        let stride = self.stride();
        let start = |row: u32| {
            (row as usize)
                .saturating_mul(stride)
                .saturating_add(self.key_words)
        };
        let (from, to) = (start(from), start(to));
        let forms = iter::once(&ValueForm::HITS).chain(self.forms);
        for (value, form) in forms.enumerate() {
            let moved = self.words.get_mut(from.saturating_add(value));
            let moved = moved.map_or(0, core::mem::take);
            if let Some(word) = self.words.get_mut(to.saturating_add(value)) {
                *word = form.merge(*word, moved);
            }
        }
    }
}

/// Sorts numbers, as a heap. The sort of `core` can panic, and has more code.
fn sort(numbers: &mut [u32], compare: &dyn Fn(u32, u32) -> Ordering) {
    let len = numbers.len();
    for root in (0..len / 2).rev() {
        sift_down(numbers, root, compare);
    }
    for end in (1..len).rev() {
        swap(numbers, 0, end);
        sift_down(numbers.get_mut(..end).unwrap_or(&mut []), 0, compare);
    }
}

/// Moves the number at `root` down the heap, until no number below it is greater.
fn sift_down(numbers: &mut [u32], mut root: usize, compare: &dyn Fn(u32, u32) -> Ordering) {
    let is_less = |numbers: &[u32], a: usize, b: usize| match (numbers.get(a), numbers.get(b)) {
        (Some(a), Some(b)) => compare(*a, *b).is_lt(),
        _ => false,
    };
    // Each step doubles `root`, so it leaves the slice after a few.
    loop {
        let left = root.saturating_mul(2).saturating_add(1);
        let right = left.saturating_add(1);
        let child = if is_less(numbers, left, right) {
            right
        } else {
            left
        };
        if !is_less(numbers, root, child) {
            return;
        }
        swap(numbers, root, child);
        root = child;
    }
}

fn swap(numbers: &mut [u32], a: usize, b: usize) {
    let (Some(&first), Some(&second)) = (numbers.get(a), numbers.get(b)) else {
        return;
    };
    for (index, number) in [(a, second), (b, first)] {
        if let Some(slot) = numbers.get_mut(index) {
            *slot = number;
        }
    }
}

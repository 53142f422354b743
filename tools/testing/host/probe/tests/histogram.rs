// SPDX-License-Identifier: GPL-2.0

//! Tables of counts as text, as the kernel's `hist` files have it.

use std::{
    collections::BTreeMap,
    fmt,
    num::NonZeroU64, //
};

use probe::{
    count_value::{
        Operation,
        ValueForm, //
    },
    counting::{
        bucket,
        log2,
        write_string,
        Extend,
        KeyForm,
        KeyValue,
        Modifier, //
    },
    fetch::Output,
    histogram::{
        print_entry,
        print_head,
        print_totals,
        HistogramOutput,
        Rows, //
    },
    types::FetchType, //
};
use proptest::prelude::*;

#[derive(Default)]
struct Text(String);

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(text)
    }
}

impl Output for Text {
    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.0.push_str(std::str::from_utf8(bytes).unwrap());
        Ok(())
    }

    fn symbol(&mut self, address: u64) -> fmt::Result {
        self.padded_symbol(address, 0)
    }

    fn error_name(&self, number: u16) -> Option<&'static str> {
        (number == 2).then_some("ENOENT")
    }

    fn function(&mut self, address: u64) -> fmt::Result {
        self.symbol_name(address, 0)
    }
}

impl HistogramOutput for Text {
    fn symbol_name(&mut self, address: u64, width: usize) -> fmt::Result {
        self.0 += &format!("{:width$}", format!("f{address:x}"));
        Ok(())
    }

    fn padded_symbol(&mut self, address: u64, width: usize) -> fmt::Result {
        self.0 += &format!("{:width$}", format!("f{address:x}+0x0/0x10"));
        Ok(())
    }

    fn syscall(&mut self, number: u64, width: usize) -> fmt::Result {
        let name = ["sys_read"].get(number as usize);
        self.0 += &format!("{:<width$}", name.unwrap_or(&"unknown_syscall"));
        Ok(())
    }
}

const NUMBER: KeyForm = KeyForm {
    value: KeyValue::Number,
    modifier: Modifier::None,
};

const fn number(modifier: Modifier) -> KeyForm {
    KeyForm { modifier, ..NUMBER }
}

const fn text(value: KeyValue) -> KeyForm {
    KeyForm { value, ..NUMBER }
}

fn value(operation: Operation, ty: &str) -> ValueForm {
    ValueForm::of(operation, FetchType::from_name(ty).unwrap())
}

fn sum() -> ValueForm {
    value(Operation::Sum, "u64")
}

fn entry(keys: &[(&str, KeyForm)], sums: &[&str], key: &[u64], words: &[u64]) -> String {
    let values: Vec<_> = sums.iter().map(|name| (*name, sum())).collect();
    entry_of(keys, &values, key, words)
}

fn entry_of(
    keys: &[(&str, KeyForm)],
    values: &[(&str, ValueForm)],
    key: &[u64],
    words: &[u64],
) -> String {
    let mut text = Text::default();
    let (keys, values) = (keys.iter().copied(), values.iter().copied());
    print_entry(keys, values, key, words, &mut text).unwrap();
    text.0
}

fn words(text: &str, len: usize) -> Vec<u64> {
    let mut words = vec![u64::MAX; len];
    write_string(text.as_bytes(), &mut words);
    words
}

const BUCKETS: Modifier = Modifier::Buckets(NonZeroU64::new(100).unwrap());

/// The lines in Documentation/trace/histogram.rst of the kernel have this form.
#[test]
fn entries_have_the_text_of_the_kernel() {
    let comm = words("cat", 2);
    let with_pid = [&[1234][..], &comm].concat();
    let path = words("/etc/passwd", 8);
    for (keys, sums, key, values, expected) in [
        (
            &[("common_pid", NUMBER)][..],
            &["bytes_req"][..],
            &[1234][..],
            &[5, 100][..],
            "{ common_pid:       1234 } hitcount:          5  bytes_req:        100\n",
        ),
        (
            &[("call_site", number(Modifier::Hex))],
            &[],
            &[0xffff_ffff_8120_0000],
            &[1],
            "{ call_site: ffffffff81200000 } hitcount:          1\n",
        ),
        (
            &[("func", number(Modifier::Sym))],
            &["a", "b"],
            &[0x1000],
            &[1, 2, 12_345_678_901],
            "{ func: [1000] f1000                                         } \
             hitcount:          1  a:          2  b: 12345678901\n",
        ),
        (
            &[("func", number(Modifier::SymOffset))],
            &[],
            &[0x1000],
            &[1],
            "{ func: [1000] f1000+0x0/0x10                                          } \
             hitcount:          1\n",
        ),
        (
            &[("common_pid", number(Modifier::Execname))],
            &[],
            &with_pid,
            &[7],
            "{ common_pid: cat             [      1234] } hitcount:          7\n",
        ),
        (
            &[("id", number(Modifier::Syscall))],
            &[],
            &[0],
            &[7],
            "{ id: sys_read                      [  0] } hitcount:          7\n",
        ),
        (
            &[("id", number(Modifier::Syscall))],
            &[],
            &[999],
            &[7],
            "{ id: unknown_syscall               [999] } hitcount:          7\n",
        ),
        (
            &[("ns", number(Modifier::Log2))],
            &[],
            &[9],
            &[7],
            "{ ns: ~ 2^9  } hitcount:          7\n",
        ),
        (
            &[("ns", number(BUCKETS)), ("n", NUMBER)],
            &[],
            &[200, 3],
            &[7],
            "{ ns: ~ 200-299, n:          3 } hitcount:          7\n",
        ),
        (
            &[("$comm", text(KeyValue::Comm)), ("n", NUMBER)],
            &[],
            &[comm[0], comm[1], 3],
            &[7],
            "{ $comm: cat                                               , n:          3 } \
             hitcount:          7\n",
        ),
        (
            &[("path", text(KeyValue::String))],
            &[],
            &path,
            &[7],
            "{ path: /etc/passwd                                        } \
             hitcount:          7\n",
        ),
        (
            &[("stack", text(KeyValue::Stack))],
            &[],
            &[0x1000, 0x2000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[7],
            "{ common_stacktrace:\n         f1000+0x0/0x10\n         f2000+0x0/0x10\n} \
             hitcount:          7\n",
        ),
        (
            &[("ret", text(KeyValue::Error))],
            &[],
            &[0u64.wrapping_sub(2)],
            &[7],
            "{ ret:         -2 (-ENOENT) } hitcount:          7\n",
        ),
        (
            &[("ret", text(KeyValue::Error))],
            &[],
            &[2],
            &[7],
            "{ ret:          2 } hitcount:          7\n",
        ),
        (&[], &[], &[], &[7], "{  } hitcount:          7\n"),
        (
            &[("ret", NUMBER)],
            &[],
            &[0u64.wrapping_sub(22)],
            &[7],
            "{ ret: 18446744073709551594 } hitcount:          7\n",
        ),
    ] {
        assert_eq!(entry(keys, sums, key, values), expected);
    }
}

/// The values of an entry follow the sums, each with a name of its own.
#[test]
fn minima_and_maxima_have_names_of_their_own() {
    let values = [
        ("ns", value(Operation::Sum, "u64")),
        ("ret", value(Operation::Sum, "s32")),
        ("ns", value(Operation::Min, "u64")),
        ("ret", value(Operation::Min, "s32")),
        ("ns", value(Operation::Max, "u64")),
        ("ret", value(Operation::Max, "s64")),
    ];
    let minus = |number: u64| 0u64.wrapping_sub(number);
    let numbers = [700, minus(2), 3, minus(22), u64::MAX, minus(1)];
    let words = values.iter().zip(numbers);
    let words: Vec<_> = words.map(|((_, form), number)| form.word(number)).collect();
    let text = entry_of(&[], &values, &[], &[&[5][..], &words].concat());
    assert_eq!(
        text,
        "{  } hitcount:          5  ns:        700  ret: 18446744073709551614  \
         min_ns:          3  min_ret:        -22  max_ns: 18446744073709551615  max_ret:         -1\n"
    );
    let mut text = Text::default();
    print_head(
        [].into_iter(),
        values.into_iter(),
        128,
        None,
        true,
        &mut text,
    )
    .unwrap();
    assert!(text
        .0
        .contains(":vals=hitcount,ns,ret,min_ns,min_ret,max_ns,max_ret:sort="));
}

#[test]
fn the_head_and_the_totals_have_the_text_of_the_kernel() {
    let head = |keys: &[(&str, KeyForm)],
                sums: &[&str],
                condition: Option<&dyn fmt::Display>,
                is_active| {
        let mut text = Text::default();
        let (keys, sums) = (keys.iter().copied(), sums.iter().map(|name| (*name, sum())));
        print_head(keys, sums, 2048, condition, is_active, &mut text).unwrap();
        text.0
    };
    assert_eq!(
        head(&[("common_pid", NUMBER)], &[], None, true),
        "# event histogram\n#\n# trigger info: hist:keys=common_pid:vals=hitcount:sort=hitcount:\
         size=2048 [active]\n#\n\n"
    );
    let keys = [
        ("stack", text(KeyValue::Stack)),
        ("func", number(Modifier::Sym)),
        ("ns", number(BUCKETS)),
    ];
    assert_eq!(
        head(&keys, &["a", "b"], Some(&"ns > 1"), false),
        "# event histogram\n#\n# trigger info: hist:keys=common_stacktrace,func.sym,\
         ns.buckets=100:vals=hitcount,a,b:sort=hitcount:size=2048 if ns > 1 [paused]\n#\n\n"
    );
    let mut text = String::new();
    print_totals(81, 5, 2, &mut text).unwrap();
    assert_eq!(
        text,
        "\nTotals:\n    Hits: 81\n    Entries: 5\n    Dropped: 2\n"
    );
}

#[test]
fn numbers_fall_into_powers_and_ranges() {
    for (number, power) in [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 2),
        (5, 3),
        (1 << 63, 63),
    ] {
        assert_eq!(log2(number), power, "{number}");
    }
    assert_eq!(log2((1 << 63) + 1), 64);
    assert_eq!(log2(u64::MAX), 64);
    let size = |size| NonZeroU64::new(size).unwrap();
    assert_eq!(bucket(299, size(100)), 200);
    assert_eq!(bucket(u64::MAX, size(10)), 18_446_744_073_709_551_610);
    assert_eq!(bucket(7, size(1)), 7);
}

#[test]
fn numbers_are_extended_by_their_type() {
    for (name, number, extended) in [
        ("u8", 0xfff, 0xff),
        ("s8", 0xfff, u64::MAX),
        ("s8", 0x17f, 0x7f),
        ("x16", 0xf_ffff, 0xffff),
        ("s32", 0xffff_ffff, u64::MAX),
        ("u32", u64::MAX, 0xffff_ffff),
        ("s64", u64::MAX, u64::MAX),
        ("u64", u64::MAX, u64::MAX),
        ("char", 0x161, 0x61),
        ("symbol", u64::MAX, u64::MAX),
    ] {
        let ty = FetchType::from_name(name).unwrap();
        assert_eq!(Extend::of(ty).extend(number), extended, "{name}");
    }
}

#[test]
fn a_long_string_is_cut_and_nothing_follows_a_nul() {
    let long = "0123456789abcdefXYZ";
    let comm = [("c", text(KeyValue::Comm))];
    assert!(entry(&comm, &[], &words(long, 2), &[1]).starts_with("{ c: 0123456789abcdef  "));
    assert_eq!(words("ab\0cd", 2), words("ab", 2));
    assert_eq!(words("", 2), [0, 0]);
}

proptest! {
    #[test]
    fn equal_keys_are_merged(
        rows in prop::collection::vec((0..4u64, 0..4u64, 0..5u64, any::<u64>()), 0..60),
        key_words in 0..3usize,
    ) {
        let forms = [sum(), value(Operation::Min, "s64"), value(Operation::Max, "u64")];
        let mut memory = Vec::new();
        let mut model = BTreeMap::new();
        for (first, second, hits, number) in &rows {
            let key = &[*first, *second][..key_words];
            memory.extend_from_slice(key);
            memory.push(*hits);
            memory.extend(forms.map(|form| form.word(*number)));
            let entry = model.entry(key.to_vec()).or_insert((0, 0u64, i64::MAX, 0));
            *entry = (
                entry.0 + hits,
                entry.1.wrapping_add(*number),
                entry.2.min(*number as i64),
                entry.3.max(*number),
            );
        }
        let mut expected: Vec<_> = model
            .into_iter()
            .filter(|(_, (hits, ..))| *hits > 0)
            .map(|(key, (hits, sum, min, max))| (hits, key, [sum, min as u64, max]))
            .collect();
        expected.sort();
        let mut rows_of = Rows::new(&mut memory, key_words, &forms);
        let mut order = vec![0; rows.len()];
        let order = rows_of.merge(&mut order);
        let merged: Vec<_> = order
            .iter()
            .map(|row| rows_of.get(*row).unwrap())
            .map(|(key, words)| {
                let number = |index: usize| forms[index].number(words[index + 1]);
                (words[0], key.to_vec(), [0, 1, 2].map(number))
            })
            .collect();
        prop_assert_eq!(merged, expected);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Minima and maxima of numbers, by their own type.

use std::cell::Cell;

use probe::{
    count_value::{
        raise,
        Operation,
        ValueForm, //
    },
    counting::Extend,
    object_table::Word,
    types::FetchType, //
};
use proptest::prelude::*;

use number::Number;

mod number;

fn ty(name: &str) -> FetchType {
    FetchType::from_name(name).unwrap()
}

/// The value of numbers, as a table has it.
fn value_of(operation: Operation, name: &str, numbers: &[u64]) -> u64 {
    let form = ValueForm::of(operation, ty(name));
    let word = Number::default();
    for number in numbers {
        assert!(raise(
            &word,
            form.word(Extend::of(ty(name)).extend(*number))
        ));
    }
    form.number(word.load())
}

#[test]
fn numbers_compare_by_their_type() {
    use Operation::{
        Max,
        Min, //
    };

    let minus = |number: u64| 0u64.wrapping_sub(number);
    for (name, min, max) in [
        ("s64", minus(7), 9),
        ("u64", 3, minus(1)),
        ("x64", 3, minus(1)),
        ("s8", minus(7), 9),
        ("u8", 3, 0xff),
        ("s32", minus(7), 9),
        ("u32", 3, 0xffff_ffff),
    ] {
        let numbers = [3, minus(1), 9, minus(7)];
        let found = [Min, Max].map(|operation| value_of(operation, name, &numbers));
        assert_eq!(found, [min, max], "{name}");
        // A single number is both, whatever it is.
        for number in [0, 1, 1 << 63, (1 << 63) - 1, u64::MAX] {
            let alone = Extend::of(ty(name)).extend(number);
            let found = [Min, Max].map(|operation| value_of(operation, name, &[number]));
            assert_eq!(found, [alone, alone], "{name} {number}");
        }
    }
}

/// A word that other hits raise at each replacement.
#[derive(Default)]
struct Contested {
    value: Cell<u64>,
    replacements: Cell<u32>,
    by: u64,
}

impl Word for Contested {
    fn load(&self) -> u64 {
        self.value.get()
    }

    fn replace(&self, old: u64, _: u64) -> Result<(), u64> {
        assert_eq!(old, self.value.get());
        self.replacements.set(self.replacements.get() + 1);
        self.value.set(old + self.by);
        Err(self.value.get())
    }

    fn load_acquire(&self) -> u64 {
        unreachable!()
    }

    fn store(&self, _: u64) {
        unreachable!()
    }

    fn store_release(&self, _: u64) {
        unreachable!()
    }

    fn fetch_add(&self, _: u64) -> u64 {
        unreachable!()
    }

    fn swap(&self, _: u64) -> u64 {
        unreachable!()
    }

    fn replace_acquire(&self, _: u64, _: u64) -> Result<(), u64> {
        unreachable!()
    }

    fn replace_release(&self, _: u64, _: u64) -> Result<(), u64> {
        unreachable!()
    }
}

#[test]
fn a_race_ends() {
    let word = |by| Contested {
        by,
        ..Contested::default()
    };
    // The other hits come to the number.
    let slow = word(100);
    assert!(raise(&slow, 1000));
    assert_eq!((slow.load(), slow.replacements.get()), (1000, 10));
    let never = word(1);
    assert!(!raise(&never, 1000));
    assert_eq!(never.replacements.get(), 64);
    // A greater word stays.
    assert!(raise(&never, 64));
    assert_eq!((never.load(), never.replacements.get()), (64, 64));
}

proptest! {
    #[test]
    fn a_table_has_the_smallest_and_the_greatest(
        numbers in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let signed = || numbers.iter().map(|number| *number as i64);
        let unsigned = || numbers.iter().copied();
        for (operation, name, expected) in [
            (Operation::Min, "u64", unsigned().min().unwrap()),
            (Operation::Max, "u64", unsigned().max().unwrap()),
            (Operation::Min, "s64", signed().min().unwrap() as u64),
            (Operation::Max, "s64", signed().max().unwrap() as u64),
        ] {
            prop_assert_eq!(value_of(operation, name, &numbers), expected);
        }
    }

    /// Whichever CPU or slot has seen a number, the merged word is that of all.
    #[test]
    fn words_merge_as_numbers(first: u64, second: u64) {
        for name in ["u64", "s64"] {
            for operation in Operation::ALL {
                let form = ValueForm::of(operation, ty(name));
                let merged = form.number(form.merge(form.word(first), form.word(second)));
                let expected = match operation {
                    Operation::Sum => first.wrapping_add(second),
                    _ => value_of(operation, name, &[first, second]),
                };
                prop_assert_eq!(merged, expected);
                // A copy without a hit changes nothing.
                let alone = form.merge(0, form.word(first));
                prop_assert_eq!(form.number(alone), first);
            }
        }
    }
}

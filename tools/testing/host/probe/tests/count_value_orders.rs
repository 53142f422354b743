// SPDX-License-Identifier: GPL-2.0

//! A word that hits raise, under loom, as in `object_table_orders.rs`.
//!
//! An interrupt that runs between two accesses of a hit is one of the orders of two CPUs.

mod shared_word;

use loom::sync::Arc;
use probe::{
    count_value::raise,
    object_table::Word, //
};
use shared_word::{
    model,
    on_cpu,
    Shared, //
};

#[test]
fn the_greatest_of_three_hits_stays() {
    model().check(|| {
        let word = Arc::new(Shared::default());
        let first = on_cpu(1, &word, |word| raise(word, 5));
        let second = on_cpu(2, &word, |word| raise(word, 9));
        assert!(raise(&*word, 7));
        assert!(word.load() >= 7);
        assert!(first.join().unwrap() && second.join().unwrap());
        assert_eq!(word.load(), 9);
    });
}

#[test]
fn a_reader_sees_numbers_of_hits_that_only_grow() {
    model().check(|| {
        let word = Arc::new(Shared::default());
        let writer = on_cpu(1, &word, |word| raise(word, 5) && raise(word, 3));
        let reader = on_cpu(2, &word, |word| [word.load(), word.load()]);
        assert!(raise(&*word, 8));
        let [before, after] = reader.join().unwrap();
        assert!([0, 5, 8].contains(&before) && [0, 5, 8].contains(&after));
        assert!(before <= after);
        assert!(writer.join().unwrap());
    });
}

// SPDX-License-Identifier: GPL-2.0

//! Sorting without recursion gives the same order as the standard library.

use probe::sort::{
    sort,
    sort_by_key,
    sort_unique, //
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn numbers_have_the_order_of_the_standard_library(
        values in prop::collection::vec(0u16..300, 0..500),
    ) {
        let mut sorted = values.clone();
        sort(&mut sorted);
        let mut expected = values;
        expected.sort_unstable();
        prop_assert_eq!(sorted, expected);
    }

    #[test]
    fn different_numbers_come_first_each_once(
        values in prop::collection::vec(0u16..300, 0..500),
    ) {
        let mut sorted = values.clone();
        let count = sort_unique(&mut sorted);
        let expected: std::collections::BTreeSet<u16> = values.into_iter().collect();
        prop_assert!(sorted[..count].iter().eq(&expected));
    }

    #[test]
    fn keys_are_in_order_and_no_value_is_lost(
        names in prop::collection::vec("[a-c]{0,4}", 0..100),
    ) {
        let mut sorted: Vec<(usize, &str)> = names.iter().map(String::as_str).enumerate().collect();
        sort_by_key(&mut sorted, |(_, name)| *name);
        prop_assert!(sorted.is_sorted_by_key(|(_, name)| *name));
        sort(&mut sorted);
        prop_assert!(sorted.into_iter().eq(names.iter().map(String::as_str).enumerate()));
    }
}

#[test]
fn a_list_that_is_sorted_stays_as_it_is() {
    let mut values: Vec<u32> = (0..50_000).collect();
    sort(&mut values);
    assert!(values.iter().copied().eq(0..50_000));
    values.reverse();
    sort(&mut values);
    assert!(values.iter().copied().eq(0..50_000));
}

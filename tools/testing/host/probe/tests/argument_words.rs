// SPDX-License-Identifier: GPL-2.0

//! The number of words of a function's arguments, by its call site.

use probe::argument_words::FewWords;
use proptest::prelude::*;

#[test]
fn a_call_site_near_the_start_of_a_function_finds_it() {
    const AT: u64 = 0xffff_ffff_8100_0000;
    assert_eq!(FewWords::new(AT, 4), None);
    let functions = [(AT, 1), (AT + 32, 0), (AT + 64, 3)];
    let functions = functions.map(|(address, words)| FewWords::new(address, words).unwrap());
    let cases = [
        (AT - 1, 4),
        (AT, 1),
        (AT + 4, 1),
        (AT + 8, 1),
        (AT + 9, 4),
        (AT + 31, 4),
        (AT + 32, 0),
        (AT + 40, 0),
        (AT + 68, 3),
        (AT + 73, 4),
        (0, 4),
        (u64::MAX, 4),
    ];
    for (site, words) in cases {
        assert_eq!(FewWords::count(&functions, site), words, "{site:#x}");
    }
    assert_eq!(FewWords::count(&[], AT), 4);
}

proptest! {
    #[test]
    fn all_functions_are_found(
        mut words in prop::collection::vec(0usize..=4, 0..200),
        to_site in 0u64..=8,
    ) {
        words.push(4);
        let address = |index: usize| 0xffff_8000_8000_0000 + index as u64 * 16;
        let functions = words.iter().enumerate();
        let functions: Vec<_> = functions
            .filter_map(|(index, words)| FewWords::new(address(index), *words))
            .collect();
        for (index, words) in words.iter().enumerate() {
            prop_assert_eq!(FewWords::count(&functions, address(index) + to_site), *words);
        }
    }
}

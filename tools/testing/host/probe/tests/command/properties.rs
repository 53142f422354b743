// SPDX-License-Identifier: GPL-2.0

//! What holds for any command. What holds for any text is asserted by a fuzz target.

use proptest::prelude::*;

use super::{
    create,
    deletes,
    listing::assert_same_condition,
    spec, //
};

/// A well-formed argument, `NAME=BODY`, without its name.
fn body() -> impl Strategy<Value = String> {
    let base = prop::sample::select(vec!["%di", "@0x10", "@sym-4", "$stack3", "$arg2", "\\-7"]);
    let deref = ("[+-]u?", 0u32..5000).prop_map(|(sign, offset)| format!("{sign}{offset}("));
    let ty = prop::sample::select(vec![
        "", ":u8", ":s64", ":x16", ":char", ":symbol", ":b3@1/32",
    ]);
    (base, prop::collection::vec(deref, 0..4), ty).prop_map(|(base, derefs, ty)| {
        format!("{}{base}{}{ty}", derefs.concat(), ")".repeat(derefs.len()))
    })
}

/// A condition, ` if ...`, or nothing.
fn condition() -> impl Strategy<Value = String> {
    let operator = prop::sample::select(vec!["==", "!=", "<=", ">", "&"]);
    let number = (body(), "[ \t]{0,2}", operator, "[ \t]{0,2}", 1u8..7).prop_map(
        |(body, before, operator, after, value)| format!("{body}{before}{operator}{after}{value}"),
    );
    let string = (
        prop::sample::select(vec!["==", "!=", "~"]),
        "\"[a-c*&(  \t]{0,6}\"|'[!|\" ]{0,3}'|[a-z*]{1,5}",
    )
        .prop_map(|(operator, value)| format!("$comm {operator} {value}"));
    let comparison = prop_oneof![3 => number, 1 => string];
    let part = comparison.prop_recursive(4, 16, 3, |part| {
        let joined = (
            part.clone(),
            "[ \t]{0,2}(&&|\\|\\|)[ \t]{0,2}",
            part.clone(),
        );
        prop_oneof![
            joined.prop_map(|(left, operator, right)| format!("{left}{operator}{right}")),
            part.prop_map(|part| format!("!( {part})")),
        ]
    });
    prop::option::of(part).prop_map(|part| part.map_or(String::new(), |part| format!(" if {part}")))
}

/// A well-formed command.
fn command() -> impl Strategy<Value = String> {
    let head = prop::sample::select(vec!["p", "p:ev", "p:g/ev", "p:g.", "probe:g-1/"]);
    let target = prop_oneof![
        "[a-z_][a-z0-9_.]{0,80}",
        ("[a-z_]{1,9}:[a-z_]{1,9}").boxed(),
    ];
    let space = "[ \t]{1,3}";
    let argument = ("([a-z]{2,5}=)?", body(), space).prop_map(|(name, body, space)| {
        // A name of two letters up to five is neither reserved nor automatic.
        format!("{space}{name}{body}")
    });
    let arguments = prop::collection::vec(argument, 0..6);
    (head, space, target, arguments, condition()).prop_map(
        |(head, space, target, arguments, condition)| {
            let arguments = arguments.concat();
            format!("{head}{space}{target}{arguments}{condition}")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_listing_lists_itself(line in command()) {
        // Two names may be one.
        let Ok(whole) = create(&line) else {
            prop_assume!(false);
            return Ok(());
        };
        let listing = whole.listing();
        let again = create(&listing);
        prop_assert!(again.is_ok(), "{listing}: {again:?}");
        let again = again.unwrap();
        prop_assert_eq!(&again.listing(), &listing);
        prop_assert_eq!(again.command.target, whole.command.target);
        for (a, b) in again.arguments.iter().zip(&whole.arguments) {
            prop_assert_eq!((&a.fetch, a.ty, a.count), (&b.fetch, b.ty, b.count));
            prop_assert_eq!(a.name.to_string(), b.name.to_string());
        }
        prop_assert_eq!(again.arguments.len(), whole.arguments.len());
        assert_same_condition(&again.condition, &whole.condition);
    }

    #[test]
    fn the_command_of_a_probe_is_that_of_its_listing(line in command()) {
        let Ok(whole) = create(&line) else {
            prop_assume!(false);
            return Ok(());
        };
        let probe = whole.spec();
        prop_assert_eq!(probe.group(), whole.name.group);
        prop_assert_eq!(probe.event(), &whole.name.event.to_string());
        prop_assert_eq!(probe.target(), whole.command.target);
        let command = probe.command();
        let written: Vec<_> = command.arguments().collect();
        prop_assert_eq!(spec(&command, &written, &whole.name), probe.clone());
        let listing = probe.to_string();
        let again = create(&listing).unwrap().spec();
        prop_assert!(again.is_same_probe(&probe));
        prop_assert_eq!(again, probe);
    }

    #[test]
    fn a_listing_is_deleted_by_its_own_words(line in command()) {
        let Ok(whole) = create(&line) else {
            prop_assume!(false);
            return Ok(());
        };
        let listing = whole.listing();
        let (name, words) = listing.split_once(' ').unwrap();
        let name = name.split_once(':').unwrap().1;
        let line = format!("-:{name} {words}");
        let probe = whole.spec();
        prop_assert!(deletes(&line, &probe));
        let other = line.replacen(":", ":other_", 1);
        prop_assert!(!deletes(&other, &probe));
    }
}

// SPDX-License-Identifier: GPL-2.0

//! What holds for any text.

use super::create;
use super::OFFSETS;
use probe::arch::x86_64::register;
use probe::command::argument::Place;
use probe::command::parse;
use probe::command::Error;
use probe::command::File;
use probe::command::Line;
use probe::command::Normalized;
use probe::command::Signature;
use probe::command::Site;
use proptest::prelude::*;

/// Any text, and texts that look like commands and go wrong late.
fn line() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "p",
        "r",
        "f",
        "t",
        "!",
        "-",
        ":",
        "/",
        ".",
        "=",
        " ",
        " ",
        " ",
        "+",
        "-",
        "(",
        ")",
        "[",
        "]",
        "@",
        "$",
        "%",
        "\\",
        "\"",
        "#",
        "*",
        "u",
        "0",
        "1",
        "64",
        "0x",
        "9999999999",
        "arg",
        "stack",
        "comm",
        "retval",
        "elapsed",
        "return",
        "string",
        "ustring",
        "symbol",
        "symstr",
        ":%pd",
        ":%pD",
        "u8",
        "x64",
        "b1@0/8",
        "di",
        "sym",
        "+0(",
        "+u8(",
        "%di",
        "$arg1",
        "$retval",
        "$elapsed",
        "@sym",
        "\\1",
        "vfs_read",
        "a=",
        "é",
        "\u{a0}",
        "\t",
        "\0",
    ]);
    let pieces = |start: &'static str| {
        prop::collection::vec(piece.clone(), 0..40)
            .prop_map(move |p| start.to_owned() + &p.concat())
    };
    prop_oneof![
        any::<String>(),
        pieces(""),
        pieces("p vfs_read "),
        pieces("r:a/b vfs_read "),
        pieces("p vfs_read +0("),
        pieces("f vfs_read "),
        pieces("t kfree "),
        pieces("p:ev vfs_read+4 "),
        pieces("-:"),
    ]
}

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
    (head, space, target, prop::collection::vec(argument, 0..6)).prop_map(
        |(head, space, target, arguments)| format!("{head}{space}{target}{}", arguments.concat()),
    )
}

/// Every error that is in the line, in whatever place the target might be.
fn all_errors(line: &str) -> Vec<Error> {
    const PLACES: [Place; 4] = [
        Place::Entry,
        Place::Inside,
        Place::Return,
        Place::Tracepoint,
    ];

    let mut errors = Vec::new();
    for file in [File::Kprobes, File::All] {
        match file.parse(line) {
            Err(error) => errors.push(error),
            Ok(Line::Create(command)) => {
                errors.extend(command.name().err());
                for place in PLACES {
                    let site = Site {
                        place,
                        signature: Signature::Unsupported,
                    };
                    let expanded = match command.expand(site, OFFSETS) {
                        Err(error) => {
                            errors.push(error);
                            continue;
                        }
                        Ok(Some(expansion)) => command.with_arguments(expansion.to_string().leak()),
                        Ok(None) => command.clone(),
                    };
                    let located = |error| command.typed_place(&expanded, error);
                    match expanded.arguments(site, register) {
                        Err(error) => errors.push(located(error)),
                        Ok(arguments) => {
                            errors.extend(arguments.filter_map(Result::err).map(located));
                        }
                    }
                }
            }
            Ok(Line::Nothing | Line::Delete(_)) => {}
        }
    }
    errors
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_error_is_within_the_line(line in line()) {
        let normalized = Normalized(&line).to_string();
        for error in all_errors(&line) {
            let column = error.at.column(&line);
            // Behind the last word, there is a space first.
            prop_assert!(column <= normalized.len() + 1, "{error:?}");
            prop_assert!(column > normalized.len() || normalized.is_char_boundary(column));

            let words: Vec<_> = normalized.split(' ').collect();
            prop_assert!(error.at.word <= words.len());
            let length = words.get(error.at.word).map_or(0, |word| word.len());
            prop_assert!(error.at.offset <= length, "{error:?}");
        }
    }

    #[test]
    fn spaces_do_not_matter(line in line()) {
        let normalized = Normalized(&line).to_string();
        prop_assert_eq!(Normalized(&normalized).to_string(), normalized.clone());
        prop_assert_eq!(all_errors(&line), all_errors(&normalized));
    }

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
            prop_assert_eq!((&a.body, &a.fetch, a.ty, a.count), (&b.body, &b.fetch, b.ty, b.count));
            prop_assert_eq!(a.name.to_string(), b.name.to_string());
        }
        prop_assert_eq!(again.arguments.len(), whole.arguments.len());
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
        let Ok(Line::Delete(delete)) = parse(&line) else {
            return Err(TestCaseError::fail(line));
        };
        let event = whole.name.event.to_string();
        prop_assert!(delete.matches(whole.name.group, &event, &listing));
        prop_assert!(!delete.matches(whole.name.group, "other", &listing));
    }
}

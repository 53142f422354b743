// SPDX-License-Identifier: GPL-2.0

//! A line, as it is written to one of the files.
//!
//! Any text is read in linear work and has its errors within it; what is accepted is listed, and its
//! listing is accepted, says the same, and deletes the probe. A reader who may not see addresses of
//! the kernel sees none.

#![no_main]

use std::{
    convert::Infallible,
    ops::Range, //
};

use fuzz::{
    measure,
    probe_point,
    read, //
};
use libfuzzer_sys::fuzz_target;
use probe::{
    argument::{
        Argument,
        Base,
        Step, //
    },
    command::{
        has_address,
        Command,
        Error,
        EventName,
        EventsFile,
        Line,
        Masked,
        Normalized,
        ProbePoint,
        ProbeSpec,
        TargetParts,
        Words,
        WrittenArgument,
        MAX_COMPARISONS, //
    },
    condition::{
        Branch,
        Check,
        Comparison,
        StringCheck, //
    },
    error::ErrorKind,
    fetch::Layout, //
};

/// In place of the kernel's hash, which nobody can find an address out from.
fn hash(address: u64) -> u32 {
    address as u32
}

const PROBE_POINTS: [ProbePoint; 6] = [
    ProbePoint::Entry,
    ProbePoint::Inside,
    ProbePoint::Return,
    ProbePoint::ReturnInsn,
    ProbePoint::Tracepoint,
    ProbePoint::Memory,
];

/// The most steps to find the errors of a line: for a name that may be another's, which makes all
/// names be read again, some times; and for each byte.
const MOST: u64 = 400_000;
const EACH: u64 = 200;

fuzz_target!(|line: &str| {
    let ((file, errors), steps) = measure(|| all_errors(line));
    assert!(steps < MOST + EACH * line.len() as u64, "{steps} steps");

    for error in &errors {
        check_error(file, line, error);
    }
    let normalized = Normalized(line).to_string();
    assert_eq!(errors, all_errors(&normalized).1, "spaces matter");
    check_listing(line);

    let masked = Masked(line).to_string();
    assert_eq!(masked.len(), line.len());
    assert!(!has_address(&masked), "{masked}");
});

/// The errors in the line, and the file that it is for: of what comes first, or of the name and of
/// the arguments, in some place.
fn all_errors(line: &str) -> (EventsFile, Vec<Error>) {
    let words = Words::new(line);
    let point = PROBE_POINTS[words.count() % PROBE_POINTS.len()];
    let (file, parsed) = match EventsFile::KprobeEvents.parse(line) {
        Err(error) if error.kind == ErrorKind::NoMatchingType => (
            EventsFile::DynamicEvents,
            EventsFile::DynamicEvents.parse(line),
        ),
        parsed => (EventsFile::KprobeEvents, parsed),
    };
    let errors = match parsed {
        Err(error) => vec![error],
        Ok(Line::Create(command)) => {
            let arguments = read(&command, point, |_, _, _| ()).err();
            command
                .name(hash)
                .err()
                .into_iter()
                .chain(arguments)
                .collect()
        }
        Ok(Line::Nothing | Line::Delete(_)) => vec![],
    };
    (file, errors)
}

/// The caret of an error is below the command.
fn check_error(file: EventsFile, line: &str, error: &Error) {
    let normalized = Normalized(line).to_string();
    let words: Vec<_> = normalized.split(' ').collect();
    assert!(error.at.word <= words.len());
    let len = words.get(error.at.word).map_or(0, |word| word.len());
    assert!(error.at.offset <= len, "{error:?}");
    // After the last word there is a space first.
    let column = error.at.column(line);
    assert!(column <= normalized.len() + 1, "{error:?}");
    assert!(column > normalized.len() || normalized.is_char_boundary(column));

    let entry = error.entry(line).to_string();
    assert_eq!(entry.lines().count(), 3, "{entry}");
    assert!(!file.subsystem(line, error).is_empty());
}

/// The string of a probe, with the parts of its target.
type Text = (String, TargetParts);

fn spec(
    command: &Command<'_>,
    written: &[WrittenArgument<'_>],
    name: &EventName<'_>,
) -> ProbeSpec<Text> {
    let make =
        |text: std::fmt::Arguments<'_>, target| Ok::<_, Infallible>((text.to_string(), target));
    let Ok(spec) = ProbeSpec::new(command, written, name, make);
    spec
}

/// What is listed can be written, and is then the same; or be deleted by its own words.
fn check_listing(line: &str) {
    let Ok(Line::Create(command)) = EventsFile::DynamicEvents.parse(line) else {
        return;
    };
    let (Some(point), Ok(name)) = (probe_point(&command), command.name(hash)) else {
        return;
    };
    let _ = read(&command, point, |written, arguments, condition| {
        let mut layout = Layout::new();
        for argument in arguments {
            layout.add(argument).unwrap();
        }

        let probe = spec(&command, written, &name);
        let listed = probe.to_string();
        let operands = condition.iter().map(|comparison| &comparison.operand);
        if arguments.iter().chain(operands).any(reads_secret)
            || condition.iter().any(compares_secret)
        {
            assert!(has_address(&listed), "{listed}");
        }
        let Ok(Line::Create(again)) = EventsFile::DynamicEvents.parse(&listed) else {
            panic!("{listed}");
        };
        assert_eq!(again.kind, command.kind);
        assert_eq!(again.maxactive, command.maxactive);
        assert_eq!(again.target, command.target);
        let name_again = again.name(hash).unwrap();
        let is_same = |written_again: &[WrittenArgument<'_>],
                       arguments_again: &[Argument<'_>],
                       condition_again: &[Comparison<'_>]| {
            assert_eq!(spec(&again, written_again, &name_again), probe);
            assert_eq!(arguments_again.len(), arguments.len());
            for (a, b) in arguments_again.iter().zip(arguments) {
                assert_eq!(a.name.to_string(), b.name.to_string());
                assert_eq!((&a.fetch, a.ty, a.count), (&b.fetch, b.ty, b.count));
            }
            assert_eq!(condition_again.len(), condition.len());
            for (a, b) in condition_again.iter().zip(condition) {
                assert_eq!(
                    (&a.operand.fetch, a.operand.ty, a.branches, shown(&a.check)),
                    (&b.operand.fetch, b.operand.ty, b.branches, shown(&b.check))
                );
            }
        };
        read(&again, point, is_same).unwrap();
        assert_eq!(probe.command().kind, command.kind);
        read(&probe.command(), point, is_same).unwrap();
        check_delete(&probe);
        check_branches(condition);
    });
}

/// The decision of a comparison, with one space in place of several.
fn shown(check: &Check<'_>) -> String {
    match check {
        Check::String(StringCheck::Equal(text)) => format!("== {text}"),
        Check::String(StringCheck::Glob(text)) => format!("~ {text}"),
        check => format!("{check:?}"),
    }
}

/// All ways lead forward, and none leads beyond the end. The condition can have both results.
fn check_branches(condition: &[Comparison<'_>]) {
    let mut results = vec![];
    for (index, comparison) in condition.iter().enumerate() {
        assert_eq!(comparison.operand.count, None);
        for result in [true, false] {
            match comparison.branches.after(result) {
                Branch::Skip(count) => assert!(index + 1 + usize::from(count) < condition.len()),
                Branch::Leave(result) => results.push(result),
            }
        }
    }
    assert!(condition.len() <= MAX_COMPARISONS);
    assert!(condition.is_empty() || results.contains(&true) && results.contains(&false));
}

/// Is a value of the comparison an address of the kernel?
fn compares_secret(comparison: &Comparison<'_>) -> bool {
    let Check::Range(range) = comparison.check else {
        return false;
    };
    let number = range.first ^ u64::from(range.keys.is_signed) << 63;
    range.span == 0 && range.keys.unused == 0 && SECRET.contains(&number)
}

/// The addresses of the kernel. The last 16 MiB contain nothing secret.
const SECRET: Range<u64> = 1 << 63..0u64.wrapping_sub(16 << 20);

/// Is a number of the argument, or its sum with an offset, an address of the kernel?
fn reads_secret(argument: &Argument<'_>) -> bool {
    let Base::Immediate(value) = argument.fetch.base else {
        return false;
    };
    let offset = match argument.fetch.steps.as_slice() {
        [Step::Deref(deref), ..] => deref.offset,
        _ => 0,
    };
    [value, value.wrapping_add(i64::from(offset) as u64)]
        .iter()
        .any(|address| SECRET.contains(address))
}

/// A probe is deleted by the words of its listing.
fn check_delete(probe: &ProbeSpec<Text>) {
    let meant = |line: &str| match EventsFile::DynamicEvents.parse(line) {
        Ok(Line::Delete(delete)) => probe.is_deleted_by(&delete),
        other => panic!("{line}: {other:?}"),
    };
    assert!(meant(&format!("-:{}", probe.text())));
    assert!(!meant(&format!(
        "-:{}",
        probe.text().replacen('/', "/other_", 1)
    )));
}

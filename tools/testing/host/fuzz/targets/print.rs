// SPDX-License-Identifier: GPL-2.0

//! The record of an event as text: any bytes, as those of another event can be where they are.
//!
//! The input is a command, for the fields of its event, a newline, the size of the header, and the
//! record. What is printed is bounded by what takes it, as is the work.

#![no_main]

use std::fmt;

use fuzz::{
    fields,
    keep,
    measure,
    probe_point,
    read,
    split, //
};
use libfuzzer_sys::{
    fuzz_target,
    Corpus, //
};
use probe::{
    fetch::{
        self,
        Field,
        Head,
        Output,
        PrintFmt, //
    },
    types::{
        FetchType,
        Style, //
    },
};

/// What the kernel prints a record to has room for so many bytes.
///
/// C: `TRACE_SEQ_BUFFER_SIZE`.
const ROOM: usize = 8192;

fuzz_target!(|input: &[u8]| -> Corpus { keep(run(input)) });

fn run(input: &[u8]) -> Option<()> {
    let (command, rest) = split(input)?;
    let (&header, record) = rest.split_first()?;
    let (fields, _) = read(&command, probe_point(&command)?, |_, arguments, _| {
        fields(arguments)
    })
    .ok()?;
    let named = || fields.iter().map(|(name, field)| (name.as_str(), *field));

    let header = match header {
        u8::MAX => usize::MAX,
        header => usize::from(header),
    };
    let mut text = Text(Vec::new());
    let (printed, steps) = measure(|| fetch::print(named(), record, header, &mut text));
    assert!(steps < 20 * ROOM as u64, "{steps} steps");
    match printed {
        Ok(()) => check_text(&fields, &text.0),
        Err(fmt::Error) => assert!(text.0.len() + record.len().max(64) > ROOM),
    }

    for head in [Head::Probe, Head::Return, Head::Event] {
        let fields = named();
        check_print_fmt(
            &named().collect::<Vec<_>>(),
            head,
            &PrintFmt {
                head,
                fields,
                error_name: |_| Some("ENAME"),
            }
            .to_string(),
        );
    }
    Some(())
}

/// What was printed: each name is there, in order, and braces where there is an array.
fn check_text(fields: &[(String, Field)], text: &[u8]) {
    let mut rest = text;
    for (name, field) in fields {
        let start = format!(" {name}={}", if field.count().is_some() { "{" } else { "" });
        let at = rest
            .windows(start.len())
            .position(|text| text == start.as_bytes());
        rest = &rest[at.unwrap() + start.len()..];
    }
}

/// Between its quotes there are as many conversions as there are values after it.
fn check_print_fmt(fields: &[(&str, Field)], head: Head, text: &str) {
    let values = match head {
        Head::Probe => 1,
        Head::Return => 2,
        Head::Event => 0,
    };
    let values = fields
        .iter()
        .map(|(_, field)| field.count().map_or(1, |count| usize::from(count.get())))
        .sum::<usize>()
        + values;
    if values == 0 {
        assert_eq!(text, "\"\"");
        return;
    }
    let (format, rest) = text.strip_prefix('"').unwrap().split_once("\", ").unwrap();
    let errors = fields
        .iter()
        .filter(|(_, field)| matches!(field.ty(), FetchType::Number(_, Style::Errno)))
        .count();
    assert_eq!(format.matches('%').count(), values + errors);
    if errors != 0 {
        assert_eq!(rest.matches("__print_symbolic").count(), 2 * errors);
        return;
    }
    assert_eq!(rest.split(", ").count(), values);
    let arrays = fields.iter().filter(|(_, field)| field.count().is_some());
    assert_eq!(format.matches('{').count(), arrays.count());
    // A quote in it has a backslash in front.
    assert_eq!(format.matches('"').count(), format.matches("\\\"").count());
    assert!(!rest.contains(['"', '\\', '%']));
}

/// Takes [`ROOM`] bytes.
struct Text(Vec<u8>);

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes())
    }
}

impl Output for Text {
    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        if self.0.len() + bytes.len() > ROOM {
            return Err(fmt::Error);
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn error_name(&self, number: u16) -> Option<&'static str> {
        (number == 2).then_some("ENOENT")
    }

    fn symbol(&mut self, address: u64) -> fmt::Result {
        self.bytes(format!("{address:#x}").as_bytes())
    }

    fn function(&mut self, address: u64) -> fmt::Result {
        self.bytes(format!("f{address:x}").as_bytes())
    }
}

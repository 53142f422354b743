// SPDX-License-Identifier: GPL-2.0

//! Records as text, those included that are not what they should be.

use std::fmt;

use probe::{
    argument::*,
    fetch::{
        self,
        Field,
        Layout,
        Output, //
    },
    types::*, //
};
use proptest::prelude::*;

use crate::{
    machine::*,
    model, //
};

fn print(fields: &[Field], record: &[u8], header: usize) -> String {
    let mut text = Text::default();
    let named = fields.iter().map(|field| ("f", *field));
    fetch::print(named, record, header, &mut text).unwrap();
    text.to_string()
}

fn field(argument: Argument<'_>) -> Field {
    Layout::new().add(&argument).unwrap()
}

/// A record with the location of a string of `len` bytes at `start`.
fn located(len: u16, start: u16, rest: &[u8]) -> Vec<u8> {
    let location = u32::from(len) << 16 | u32::from(start);
    [&location.to_le_bytes(), rest].concat()
}

#[test]
fn a_number_that_is_not_whole_is_a_fault() {
    let record = [1, 2, 3, 4, 5, 6, 7, 8];
    for (ty, last) in [(X8, 7), (X16, 6), (X32, 4), (X64, 0)] {
        let field = [field(di(&[], ty))];
        assert_ne!(print(&field, &record, last), " f=(fault)");
        assert_eq!(print(&field, &record, last + 1), " f=(fault)");
        assert_eq!(print(&field, &record, usize::MAX), " f=(fault)");
        assert_eq!(print(&field, &[], 0), " f=(fault)");
    }
    let mut layout = Layout::new();
    let fields = [X8, X8].map(|ty| layout.add(&di(&[], ty)).unwrap());
    assert_eq!(print(&fields, &record, usize::MAX), " f=(fault) f=(fault)");
    let array = [field(times(4, di(&[k(0)], X16)))];
    assert_eq!(
        print(&array, &record[..5], 0),
        " f={0x201,0x403,(fault),(fault)}"
    );
}

#[test]
fn a_string_is_printed_to_its_first_nul_within_its_length() {
    let string = [field(di(&[k(0)], STRING))];
    for (len, start, text) in [
        (4, 4, "\"abc\""),
        (3, 4, "\"abc\""),
        (2, 4, "\"ab\""),
        (7, 4, "\"abc\""),
        (1, 7, "\"\""),
        (2, 8, "\"de\""),
        // Cut short.
        (3, 8, "\"de\""),
        (u16::MAX, 9, "\"e\""),
        (1, 10, "\"\""),
        // Out of the record.
        (1, 11, "(fault)"),
        (1, u16::MAX, "(fault)"),
        // No length.
        (0, 4, "(fault)"),
        (0, 0, "(fault)"),
    ] {
        let record = located(len, start, b"abc\0de");
        let expected = format!(" f={text}");
        assert_eq!(print(&string, &record, 0), expected, "{len} at {start}");
    }
}

#[test]
fn bytes_are_printed_as_they_are() {
    let mut text = Text::default();
    let fields = [field(di(&[k(0)], STRING))];
    let record = located(6, 4, b"\xff\n\"%s\0");
    let named = fields.iter().map(|field| ("f", *field));
    fetch::print(named, &record, 0, &mut text).unwrap();
    assert_eq!(text.0, b" f=\"\xff\n\"%s\"");

    let mut text = Text::default();
    let named = [("c", field(di(&[], CHAR)))].into_iter();
    fetch::print(named, &[0], 0, &mut text).unwrap();
    assert_eq!(text.0, b" c='\0'");
}

/// Takes so many bytes, then refuses.
struct Full(usize);

impl fmt::Write for Full {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.bytes(s.as_bytes())
    }
}

impl Output for Full {
    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(fmt::Error)?;
        Ok(())
    }

    fn error_name(&self, number: u16) -> Option<&'static str> {
        (number == 2).then_some("ENOENT")
    }

    fn symbol(&mut self, _: u64) -> fmt::Result {
        self.bytes(b"s")
    }

    fn function(&mut self, _: u64) -> fmt::Result {
        self.bytes(b"f")
    }
}

#[test]
fn an_output_that_is_full_ends_the_print_with_its_error() {
    let mut machine = Machine::new();
    machine
        .set("di", 0x4000)
        .poke_word(Space::Kernel, 0x4000, 0x4041);
    let record = machine.record(&[
        di(&[], CHAR),
        di(&[], SYMBOL),
        times(2, di(&[k(0)], X8)),
        di(&[k(0)], STRING),
    ]);
    let len = r#" f='@' f=s f={0x41,0x40} f="A@""#.len();
    for room in 0..=len {
        let named = record.fields.iter().map(|field| ("f", *field));
        let result = fetch::print(named, &record.bytes, HEADER, &mut Full(room));
        assert_eq!(result.is_ok(), room == len, "{room} of {len}");
    }
}

proptest! {
    #[test]
    fn any_bytes_at_all_print_something(
        arguments in proptest::collection::vec(model::argument(), 0..6),
        record in proptest::collection::vec(any::<u8>(), 0..200),
        header in prop_oneof![0..220usize, Just(usize::MAX)],
    ) {
        let mut layout = Layout::new();
        let fields: Vec<Field> = arguments.iter().filter_map(|a| layout.add(a).ok()).collect();
        let mut text = Text::default();
        let named = fields.iter().map(|field| ("name", *field));
        prop_assert!(fetch::print(named, &record, header, &mut text).is_ok());
        let names = text.0.windows(6).filter(|window| window == b" name=").count();
        prop_assert!(names >= fields.len());
    }

    #[test]
    fn locations_of_any_kind_print_something(len: u16, start in 0..64u16, rest: [u8; 32]) {
        let string = [field(di(&[k(0)], STRING))];
        let text = print(&string, &located(len, start, &rest), 0);
        prop_assert!(text == " f=(fault)" || text.starts_with(" f=\""));
    }
}

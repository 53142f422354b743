// SPDX-License-Identifier: GPL-2.0

//! What the `format` file says of how to print.

use probe::{
    argument::*,
    fetch::{
        Field,
        FieldFormat, //
        Head,
        Layout,
        PlainPrintFmt,
        PrintFmt,
    },
    types::*, //
};

use crate::machine::*;

fn print_fmt(head: Head, arguments: &[(&'static str, Argument<'_>)]) -> String {
    let mut layout = Layout::new();
    let fields: Vec<(&str, Field)> = arguments
        .iter()
        .map(|(name, argument)| (*name, layout.add(argument).unwrap()))
        .collect();
    let fields = fields.iter().copied();
    let error_name = |number| match number {
        2 => Some("ENOENT"),
        _ => None,
    };
    PrintFmt {
        head,
        fields,
        error_name,
    }
    .to_string()
}

#[test]
fn without_arguments_there_is_the_head() {
    assert_eq!(print_fmt(Head::Probe, &[]), r#""(%lx)", REC->__probe_ip"#);
    assert_eq!(
        print_fmt(Head::Return, &[]),
        r#""(%lx <- %lx)", REC->__probe_func, REC->__probe_ret_ip"#
    );
    for head in [Head::Probe, Head::Return, Head::Event] {
        assert_eq!(head.print_fmt().to_str(), Ok(&*print_fmt(head, &[])));
    }
}

#[test]
fn each_type_has_its_conversion() {
    for (ty, format, value) in [
        (U8, "%u", "REC->f"),
        (U16, "%u", "REC->f"),
        (U32, "%u", "REC->f"),
        (U64, "%Lu", "REC->f"),
        (S8, "%d", "REC->f"),
        (S16, "%d", "REC->f"),
        (S32, "%d", "REC->f"),
        (S64, "%Ld", "REC->f"),
        (X8, "0x%x", "REC->f"),
        (X16, "0x%x", "REC->f"),
        (X32, "0x%x", "REC->f"),
        (X64, "0x%Lx", "REC->f"),
        (CHAR, "'%c'", "REC->f"),
        (SYMBOL, "%pS", "REC->f"),
        (bits(1, 1, Width::W4), "%u", "REC->f"),
        (bits(1, 1, Width::W8), "%Lu", "REC->f"),
        (STRING, r#"\"%s\""#, "__get_str(f)"),
        (USTRING, r#"\"%s\""#, "__get_str(f)"),
        (SYMSTR, r#"\"%s\""#, "__get_str(f)"),
    ] {
        let text = print_fmt(Head::Probe, &[("f", di(&[k(0)], ty))]);
        let expected = format!(r#""(%lx) f={format}", REC->__probe_ip, {value}"#);
        assert_eq!(text, expected);
    }
}

#[test]
fn an_error_has_its_number_and_its_name() {
    let errno = FetchType::Number(Width::W4, Style::Errno);
    let text = print_fmt(Head::Event, &[("f", di(&[], errno)), ("g", di(&[], U8))]);
    let (format, rest) = text.split_once(", ").unwrap();
    assert_eq!(format, r#"" f=%d%s g=%u""#);
    let of_users = r#"REC->f, (0xffffffff - REC->f) < 133 ? __print_symbolic(REC->f, { 0xffffffff, "" }, { 0xfffffffe, " (-ENOENT)" }, "#;
    assert!(rest.starts_with(of_users), "{rest}");
    let of_the_kernel =
        r#"{ 0xffffff7b, "" }) : ((0xfffffe00 - REC->f) < 20 ? __print_symbolic(REC->f, "#;
    assert!(rest.contains(of_the_kernel), "{rest}");
    assert!(
        rest.ends_with(r#"{ 0xfffffded, "" }) : ""), REC->g"#),
        "{rest}"
    );
    // The names of one error take about a page.
    assert!(text.len() < 4096);
}

#[test]
fn arrays_have_a_conversion_for_each_element() {
    assert_eq!(
        print_fmt(
            Head::Return,
            &[
                ("one", times(1, di(&[k(0)], U8))),
                ("nums", times(3, di(&[k(0)], X64))),
                ("strs", times(2, di(&[k(0)], STRING))),
                ("last", di(&[], S32)),
            ]
        ),
        concat!(
            r#""(%lx <- %lx) one={%u} nums={0x%Lx,0x%Lx,0x%Lx} strs={\"%s\",\"%s\"} last=%d""#,
            ", REC->__probe_func, REC->__probe_ret_ip",
            ", REC->one[0], REC->nums[0], REC->nums[1], REC->nums[2]",
            ", __get_str(strs[0]), __get_str(strs[1]), REC->last"
        )
    );
}

#[test]
fn the_documented_example_is_as_documented() {
    // Documentation/trace/kprobetrace.rst, with the types it has by default today.
    assert_eq!(
        print_fmt(
            Head::Probe,
            &[
                ("dfd", di(&[], X64)),
                ("filename", di(&[], X64)),
                ("flags", di(&[], X64)),
                ("mode", di(&[], X64)),
            ]
        ),
        concat!(
            r#""(%lx) dfd=0x%Lx filename=0x%Lx flags=0x%Lx mode=0x%Lx""#,
            ", REC->__probe_ip, REC->dfd, REC->filename, REC->flags, REC->mode"
        )
    );
}

#[test]
fn without_a_head_no_space_comes_first() {
    let format = |conversion, count, is_dynamic| FieldFormat {
        conversion,
        count: core::num::NonZeroU8::new(count),
        is_dynamic,
        is_errno: false,
    };
    let fields = [
        ("a", format("%u", 0, false)),
        ("b", format("0x%x", 2, false)),
        ("name", format("%s", 0, true)),
    ];
    for (len, expected) in [
        (0, r#""""#),
        (1, r#""a=%u", REC->a"#),
        (
            3,
            r#""a=%u b={0x%x,0x%x} name=%s", REC->a, REC->b[0], REC->b[1], __get_str(name)"#,
        ),
    ] {
        let fields = fields[..len].iter().copied();
        assert_eq!(PlainPrintFmt(fields).to_string(), expected);
    }
}

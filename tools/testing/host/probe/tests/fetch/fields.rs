// SPDX-License-Identifier: GPL-2.0

//! The fields of a record, as the `format` file lists them.

use probe::{
    argument::*,
    fetch::{
        first_difference,
        Field,
        Layout,
        TooBig, //
    },
    types::*, //
};

use crate::machine::*;

fn field(argument: Argument<'_>) -> Field {
    Layout::new().add(&argument).unwrap()
}

#[test]
fn each_type_has_its_text_size_and_sign() {
    for (ty, text, bytes, signed) in [
        (U8, "u8", 1, false),
        (U16, "u16", 2, false),
        (U32, "u32", 4, false),
        (U64, "u64", 8, false),
        (S8, "s8", 1, true),
        (S16, "s16", 2, true),
        (S32, "s32", 4, true),
        (S64, "s64", 8, true),
        (X8, "u8", 1, false),
        (X16, "u16", 2, false),
        (X32, "u32", 4, false),
        (X64, "u64", 8, false),
        (CHAR, "u8", 1, false),
        (SYMBOL, "u64", 8, false),
        (STRING, "__data_loc char[]", 4, true),
        (USTRING, "__data_loc char[]", 4, true),
        (SYMSTR, "__data_loc char[]", 4, true),
        (bits(2, 3, Width::W1), "u8", 1, false),
        (bits(2, 3, Width::W2), "u16", 2, false),
        (bits(2, 3, Width::W4), "u32", 4, false),
        (bits(2, 3, Width::W8), "u64", 8, false),
    ] {
        let one = field(di(&[k(0)], ty));
        assert_eq!(one.type_text().to_string(), text);
        assert_eq!(one.bytes(), bytes, "{ty:?}");
        assert_eq!(one.is_signed(), signed, "{ty:?}");
        assert_eq!(one.is_dynamic(), text.starts_with("__data_loc"), "{ty:?}");

        let many = field(times(64, di(&[k(0)], ty)));
        assert_eq!(many.type_text().to_string(), format!("{text}[64]"));
        assert_eq!(many.bytes(), bytes * 64, "{ty:?}");
        assert_eq!(many.is_signed(), signed, "{ty:?}");
    }
    let one = field(times(1, di(&[k(0)], U32)));
    assert_eq!(one.type_text().to_string(), "u32[1]");
}

#[test]
fn a_layout_adds_up() {
    let mut layout = Layout::new();
    assert_eq!((layout.bytes(), layout.is_dynamic()), (0, false));
    for (argument, offset, bytes, dynamic) in [
        (di(&[], U8), 0, 1, false),
        (di(&[], X64), 8, 16, false),
        (times(3, di(&[k(0)], U16)), 16, 22, false),
        (di(&[k(0)], STRING), 24, 28, true),
        (times(2, di(&[k(0)], USTRING)), 28, 36, true),
        (di(&[], S32), 36, 40, true),
        (times(5, di(&[k(0)], X8)), 40, 45, true),
        (times(2, di(&[k(0)], U64)), 48, 64, true),
        (di(&[], bits(2, 3, Width::W1)), 64, 65, true),
        (di(&[], bits(2, 3, Width::W2)), 66, 68, true),
    ] {
        let field = layout.add(&argument).unwrap();
        assert_eq!(field.offset(), offset);
        assert_eq!(layout.bytes(), bytes);
        assert_eq!(layout.is_dynamic(), dynamic);
    }
}

#[test]
fn fields_of_more_than_3072_bytes_are_refused() {
    let mut layout = Layout::new();
    let array = times(64, di(&[k(0)], U64));
    for _ in 0..6 {
        layout.add(&array).unwrap();
    }
    assert_eq!(layout.bytes(), 3072);
    let full = layout;
    assert_eq!(layout.add(&di(&[k(0)], STRING)), Err(TooBig));
    assert_eq!(layout.add(&di(&[], U8)), Err(TooBig));
    assert_eq!(layout, full);

    let mut layout = Layout::new();
    layout.add(&di(&[], U8)).unwrap();
    for _ in 0..5 {
        layout.add(&array).unwrap();
    }
    assert_eq!(layout.add(&array), Err(TooBig));
    layout.add(&times(63, di(&[k(0)], U64))).unwrap();
    // The gap after the byte does not count.
    layout.add(&times(7, di(&[k(0)], U8))).unwrap();
    assert_eq!(layout.bytes(), 3072 + 7);
    assert_eq!(layout.add(&di(&[], U8)), Err(TooBig));
}

#[test]
fn probes_of_one_event_are_compared_by_name_type_and_count() {
    let a = [("a", field(di(&[], U32))), ("b", field(di(&[], X64)))];
    let differ = |b: &[(&'static str, Field)]| {
        let (one, other) = (a.iter().copied(), b.iter().copied());
        let forth = first_difference(one.clone(), other.clone());
        assert_eq!(forth, first_difference(other, one));
        forth
    };
    assert_eq!(differ(&a), None);
    assert_eq!(differ(&[a[0]]), Some(1));
    assert_eq!(differ(&[a[0], a[1], a[0]]), Some(2));
    // The number of arguments comes first.
    assert_eq!(differ(&[a[1]]), Some(1));
    assert_eq!(differ(&[("b", a[0].1), a[1]]), Some(0));
    assert_eq!(differ(&[a[0], ("b", field(di(&[], U64)))]), Some(1));
    assert_eq!(differ(&[a[0], ("b", field(di(&[], SYMBOL)))]), Some(1));
    let array = field(times(1, di(&[k(0)], X64)));
    assert_eq!(differ(&[a[0], ("b", array)]), Some(1));
    // How it is fetched says nothing, and a bitfield is a part of a number.
    let cut = field(source(Base::ReturnValue, &[k(3)], bits(3, 4, Width::W4)));
    assert_eq!(differ(&[("a", cut), a[1]]), None);

    // A string is what it is called, wherever it is read.
    let string = |argument| [("s", field(argument))].into_iter();
    let kernel = string(di(&[k(0)], STRING));
    let user = string(di(&[u(0)], STRING));
    let ustring = string(di(&[k(0)], USTRING));
    assert_eq!(first_difference(kernel.clone(), user.clone()), None);
    assert_eq!(first_difference(kernel.clone(), ustring.clone()), Some(0));
    assert_eq!(first_difference(user, ustring), Some(0));
    let symstr = string(di(&[k(0)], SYMSTR));
    assert_eq!(first_difference(kernel, symstr), Some(0));
}

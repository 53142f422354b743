// SPDX-License-Identifier: GPL-2.0

//! The types that values get without being told.

use probe::{
    btf::{
        Btf,
        StringSource,
        TypeId,
        Value, //
    },
    types::{
        Bits,
        FetchType,
        Style::{
            self,
            *, //
        },
        Width::*, //
    },
};

use crate::{
    builder::*,
    open, //
};

fn value<'a>(btf: &Btf<'a>, id: TypeId, first_bit: u8, bitfield: u8) -> Value<'a> {
    Value {
        ty: btf.resolve(id).unwrap(),
        first_bit,
        bitfield,
    }
}

#[test]
fn a_type_gets_the_one_of_c() {
    let mut b = Builder::new();
    let cases = [
        (b.int("u8", 1, 0), FetchType::Number(W1, Unsigned)),
        (b.int("bool", 1, BOOL), FetchType::Number(W1, Unsigned)),
        (b.int("u16", 2, 0), FetchType::Number(W2, Unsigned)),
        (b.int("u32", 4, 0), FetchType::Number(W4, Unsigned)),
        (b.int("u64", 8, 0), FetchType::Number(W8, Unsigned)),
        (b.int("s8", 1, SIGNED), FetchType::Number(W1, Signed)),
        (b.int("s16", 2, SIGNED), FetchType::Number(W2, Signed)),
        (b.int("s32", 4, SIGNED), FetchType::Number(W4, Signed)),
        (b.int("s64", 8, SIGNED), FetchType::Number(W8, Signed)),
        (b.int("u128", 16, 0), FetchType::Number(W8, Unsigned)),
        (b.int("s128", 16, SIGNED), FetchType::Number(W8, Hex)),
        (b.ptr(TypeId::VOID), FetchType::Number(W8, Hex)),
        (b.add("e", 6 << 24, 4, &[]), FetchType::Number(W4, Signed)),
        (
            b.add("e", 6 << 24 | FLAG, 4, &[]),
            FetchType::Number(W4, Signed),
        ),
        (
            b.add("e64", 19 << 24, 8, &[]),
            FetchType::Number(W8, Signed),
        ),
        // C would read the neighbours of these as well.
        (
            b.add("e1", 6 << 24, 1, &[]),
            FetchType::Number(W1, Unsigned),
        ),
        (
            b.add("e2", 6 << 24 | FLAG, 2, &[]),
            FetchType::Number(W2, Signed),
        ),
        // There is no number in these.
        (b.members(4, "s", &[]), FetchType::Number(W8, Hex)),
        (b.members(5, "u", &[]), FetchType::Number(W8, Hex)),
        (b.array(TypeId::new(1), 4), FetchType::Number(W8, Hex)),
        (b.add("f", 16 << 24, 4, &[]), FetchType::Number(W8, Hex)),
        (TypeId::VOID, FetchType::Number(W8, Hex)),
    ];
    let other = b.refer(8, "pid_t", cases[7].0);
    let btf = open(b.bytes());
    for (id, ty) in cases.into_iter().chain([(other, cases[7].1)]) {
        assert_eq!(value(&btf, id, 0, 0).fetch_type(), Some(ty), "{id:?}");
    }
}

/// `bW@O/S`, as the shifts that it is.
fn bits(count: u8, first: u8, width: probe::types::Width) -> FetchType {
    of_style(Unsigned, count, first, width)
}

fn of_style(style: Style, count: u8, first: u8, width: probe::types::Width) -> FetchType {
    let all = width.bytes() as u8 * 8;
    let left = all - first - count;
    let right = all - count;
    FetchType::Bitfield(width, style, Bits { left, right })
}

#[test]
fn a_bitfield_is_cut_out_of_its_number() {
    let mut b = Builder::new();
    let u8 = b.int("u8", 1, 0);
    let u32 = b.int("u32", 4, 0);
    let s32 = b.int("s32", 4, SIGNED);
    let u64 = b.int("u64", 8, 0);
    let narrow = b.add("e", 6 << 24, 4, &[]);
    let btf = open(b.bytes());
    for (id, first, count, ty) in [
        (u32, 0, 3, Some(bits(3, 0, W4))),
        (u32, 7, 25, Some(bits(25, 7, W4))),
        (s32, 3, 3, Some(of_style(Signed, 3, 3, W4))),
        (narrow, 1, 2, Some(of_style(Signed, 2, 1, W4))),
        (u8, 7, 1, Some(bits(1, 7, W1))),
        (u64, 0, 63, Some(bits(63, 0, W8))),
        // Not cut.
        (u32, 0, 32, Some(FetchType::Number(W4, Unsigned))),
        (s32, 0, 32, Some(FetchType::Number(W4, Signed))),
        (u64, 0, 64, Some(FetchType::Number(W8, Unsigned))),
        // Whole bytes, which C does not cut off the rest.
        (u32, 0, 8, Some(bits(8, 0, W4))),
        (s32, 0, 16, Some(of_style(Signed, 16, 0, W4))),
        // Packed ones that leave their number.
        (u8, 6, 3, Some(bits(3, 6, W2))),
        (u32, 1, 32, Some(bits(32, 1, W8))),
        (u64, 7, 57, Some(bits(57, 7, W8))),
        (u64, 7, 58, None),
        (u64, 1, 64, None),
        (u64, 255, 255, None),
    ] {
        assert_eq!(
            value(&btf, id, first, count).fetch_type(),
            ty,
            "{first} {count}"
        );
    }
}

#[test]
fn a_number_of_odd_bits_is_a_bitfield() {
    let mut b = Builder::new();
    let odd = b.add("odd", 1 << 24, 4, &[3 << 16 | 5]);
    let most = b.add("most", 1 << 24, 8, &[SIGNED | 63]);
    let none = b.add("none", 1 << 24, 8, &[0]);
    let btf = open(b.bytes());
    let ty = |id, first| value(&btf, id, first, 0).fetch_type();
    assert_eq!(ty(odd, 0), Some(bits(5, 3, W8)));
    assert_eq!(ty(odd, 4), Some(bits(5, 7, W8)));
    assert_eq!(ty(most, 0), Some(bits(63, 0, W8)));
    assert_eq!(ty(most, 2), None);
    assert_eq!(ty(none, 0), Some(FetchType::Number(W8, Unsigned)));
}

#[test]
fn a_string_is_an_array_of_bytes_or_behind_a_pointer() {
    let mut b = Builder::new();
    let char = b.int("char", 1, 0);
    let signed = b.int("signed char", 1, SIGNED);
    let int = b.int("int", 4, 0);
    let constant = b.refer(10, "", char);
    let cases = [
        (b.array(constant, 4), Some(StringSource::Array)),
        (b.ptr(constant), Some(StringSource::Pointer)),
        (b.array(signed, 4), None),
        (b.ptr(signed), None),
        (b.ptr(int), None),
        (b.array(int, 4), None),
        (b.ptr(TypeId::VOID), None),
        (b.ptr(TypeId::new(99)), None),
        // C would take its size for a type.
        (b.add("", 1 << 24, 1, &[8]), None),
        (char, None),
    ];
    let pointers = b.array(cases[1].0, 2);
    let btf = open(b.bytes());
    for (id, text) in cases.into_iter().chain([(pointers, None)]) {
        assert_eq!(value(&btf, id, 0, 0).string_source(&btf), text, "{id:?}");
    }
}

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
        Space,
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
fn an_enumeration_has_its_enumerators() {
    let mut b = Builder::new();
    let names = ["NONE", "ONE", "MOST"].map(|name| b.string(name));
    let (none, one, most) = (names[0], names[1], names[2]);
    let unsigned = b.add("u", 6 << 24 | 3, 4, &[none, 0, one, 1, most, u32::MAX]);
    let signed = b.add("s", 6 << 24 | FLAG | 2, 4, &[one, u32::MAX, most, 1 << 31]);
    let wide = b.add(
        "w",
        19 << 24 | 3,
        8,
        &[none, 5, 0, one, 0, 1, most, u32::MAX, u32::MAX],
    );
    let signed_wide = b.add("sw", 19 << 24 | FLAG | 1, 8, &[one, -2i32 as u32, u32::MAX]);
    let empty = b.add("e", 6 << 24, 4, &[]);
    let int = b.int("ONE", 4, 0);
    let unnamed = b.add("z", 6 << 24 | 1, 4, &[0, 9]);
    let constant = b.refer(10, "", signed);
    let typedef = b.refer(8, "s_t", constant);
    let btf = open(b.bytes());
    let find = |id, name| value(&btf, id, 0, 0).enumerator(&btf, name);
    for (id, name, expected) in [
        (unsigned, "NONE", Some(0)),
        (unsigned, "ONE", Some(1)),
        (unsigned, "MOST", Some(0xffff_ffff)),
        (signed, "ONE", Some(-1)),
        (signed, "MOST", Some(-0x8000_0000)),
        (signed, "NONE", None),
        (wide, "NONE", Some(5)),
        (wide, "ONE", Some(1 << 32)),
        (wide, "MOST", Some(-1)),
        (signed_wide, "ONE", Some(-2)),
        (typedef, "ONE", Some(-1)),
        // The whole name.
        (unsigned, "ON", None),
        (unsigned, "ONES", None),
        (unsigned, "one", None),
        (unsigned, "", None),
        (unsigned, "u", None),
        (empty, "ONE", None),
        (int, "ONE", None),
        (unnamed, "9", None),
    ] {
        assert_eq!(find(id, name), expected, "{id:?} {name}");
    }
    // A bitfield has the enumerators of its type.
    assert_eq!(value(&btf, signed, 3, 2).enumerator(&btf, "ONE"), Some(-1));
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
        (b.ptr(constant), Some(StringSource::Pointer(Space::Kernel))),
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

#[test]
fn a_pointer_with_the_tag_of_user_memory_points_there() {
    let mut b = Builder::new();
    let char = b.int("char", 1, 0);
    let user = |b: &mut Builder, to| b.refer(18, "user", to);
    let tagged = user(&mut b, char);
    let ptr = b.ptr(tagged);
    let constant = b.refer(10, "", tagged);
    let inner = b.refer(10, "", char);
    let outside = user(&mut b, inner);
    let typedef = b.refer(8, "user_char", tagged);
    let rcu = b.refer(18, "rcu", char);
    let both = user(&mut b, rcu);
    let both_too = b.refer(18, "rcu", tagged);
    let void = user(&mut b, TypeId::VOID);
    let to_typedef = b.refer(8, "to_user", ptr);
    let named_user = b.refer(8, "user", char);
    let longer = b.refer(18, "user2", char);
    // The tag is of a pointer, or of a pointer that the type points to.
    let above = user(&mut b, inner);
    let kernel_ptr = b.ptr(char);
    let of_pointer = user(&mut b, kernel_ptr);
    let cases = [
        (ptr, Some(Space::User)),
        (b.ptr(constant), Some(Space::User)),
        (b.ptr(outside), Some(Space::User)),
        (b.ptr(typedef), Some(Space::User)),
        (b.ptr(both), Some(Space::User)),
        (b.ptr(both_too), Some(Space::User)),
        (to_typedef, Some(Space::User)),
        (b.ptr(above), Some(Space::User)),
        (kernel_ptr, Some(Space::Kernel)),
        (of_pointer, Some(Space::Kernel)),
        (b.ptr(rcu), Some(Space::Kernel)),
        (b.ptr(named_user), Some(Space::Kernel)),
        (b.ptr(longer), Some(Space::Kernel)),
        // None of them is a string.
        (b.ptr(void), None),
        (b.ptr(ptr), None),
        (tagged, None),
        (b.array(tagged, 4), None),
    ];
    let btf = open(b.bytes());
    for (id, space) in cases {
        let value = value(&btf, id, 0, 0);
        let source = value.string_source(&btf);
        match space {
            Some(space) => {
                assert_eq!(value.points_to(&btf), space, "{id:?}");
                assert_eq!(source, Some(StringSource::Pointer(space)), "{id:?}");
            }
            None => assert!(!matches!(source, Some(StringSource::Pointer(_))), "{id:?}"),
        }
    }
    let points_to = |id| value(&btf, id, 0, 0).points_to(&btf);
    assert_eq!(points_to(cases[13].0), Space::User);
    // A pointer to such a pointer is one to memory of the kernel.
    assert_eq!(points_to(cases[14].0), Space::Kernel);
    // What is no pointer points nowhere.
    assert_eq!(points_to(tagged), Space::Kernel);
    assert_eq!(points_to(cases[16].0), Space::Kernel);
}

#[test]
fn a_tag_behind_many_qualifiers_is_found_and_no_chain_is_endless() {
    let mut b = Builder::new();
    let char = b.int("char", 1, 0);
    let mut chain = |outside: usize| {
        let mut ty = b.refer(18, "user", char);
        for _ in 0..outside {
            ty = b.refer(10, "", ty);
        }
        b.ptr(ty)
    };
    let (near, far) = (chain(31), chain(60));
    let next = far.get() + 1;
    let endless = b.refer(10, "", TypeId::new(next));
    let to_endless = b.ptr(endless);
    let gone = b.ptr(TypeId::new(999));
    let btf = open(b.bytes());
    assert_eq!(endless, TypeId::new(next));
    let points_to = |id| value(&btf, id, 0, 0).points_to(&btf);
    assert_eq!(points_to(near), Space::User);
    for id in [far, to_endless, gone] {
        assert_eq!(points_to(id), Space::Kernel, "{id:?}");
    }
}

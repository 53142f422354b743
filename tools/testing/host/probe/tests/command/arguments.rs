// SPDX-License-Identifier: GPL-2.0

//! What an argument is read as.

use probe::{
    arch::x86_64::register,
    argument::{
        Base,
        Deref, //
    },
    command::split_symbol,
    error::Errno,
    fetch::{
        first_difference,
        Layout, //
    },
    types::{
        Bits,
        FetchType,
        Space,
        Style,
        Width, //
    },
};

use super::{
    argument,
    create, //
};

fn base(text: &str) -> Base<'static> {
    argument(text).expect(text).fetch.base
}

/// The dereferences, innermost first: the offset, and whether it is in user space.
fn derefs(text: &str) -> Vec<(i32, bool)> {
    let argument = argument(text).expect(text);
    let pair = |deref: Deref| (deref.offset, deref.space == Space::User);
    super::derefs(&argument.fetch)
        .into_iter()
        .map(pair)
        .collect()
}

fn ty(text: &str) -> FetchType {
    argument(text).expect(text).ty
}

fn reg(name: &str) -> Base<'static> {
    Base::Register(register(name).unwrap())
}

#[test]
fn a_base_is_a_register_a_variable_or_a_constant() {
    for (text, expected) in [
        ("%di", reg("di")),
        ("%orig_ax", reg("orig_ax")),
        ("$stack", Base::StackPointer),
        ("$stack0", Base::Stack(0)),
        ("$stack2048", Base::Stack(2048)),
        ("$stack010", Base::Stack(10)),
        ("$arg1", Base::Argument(0)),
        ("$arg6:u8", Base::Argument(5)),
        ("a=$arg2048", Base::Argument(2047)),
        ("+0($arg+2)", Base::Argument(1)),
        ("$comm", Base::Comm),
        ("$COMM", Base::Comm),
        ("$current", Base::Current),
        ("task=$current:u64", Base::Current),
        ("\\0x10", Base::Immediate(16)),
        ("\\010", Base::Immediate(8)),
        ("\\-1", Base::Immediate(u64::MAX)),
        ("\\+5", Base::Immediate(5)),
        ("\\+-5", Base::Immediate(-5i64 as u64)),
        ("\\18446744073709551615", Base::Immediate(u64::MAX)),
        ("\\\"text\"", Base::Text("text")),
        ("\\\"\":string", Base::Text("")),
        ("\\\"a\"b\"", Base::Text("a\"b")),
        ("@0xffff", Base::Immediate(0xffff)),
        ("@jiffies_64", Base::Symbol("jiffies_64")),
        ("@sym-8", Base::Symbol("sym-8")),
        ("+0(@sym+8)", Base::Symbol("sym+8")),
    ] {
        assert_eq!(base(text), expected, "{text}");
    }
    let whole = create("r vfs_read $retval $arg2 +8($arg1):u8 a=$arg2048 $elapsed").unwrap();
    let bases: Vec<_> = whole.arguments.iter().map(|a| a.fetch.base).collect();
    let entry = Base::EntryArgument;
    assert_eq!(
        bases,
        [
            Base::ReturnValue,
            entry(1),
            entry(0),
            entry(2047),
            Base::Elapsed
        ]
    );
}

#[test]
fn dereferences_nest_from_the_inside() {
    for (text, expected) in [
        ("%di", vec![]),
        ("@1", vec![(0, false)]),
        ("@sym", vec![(0, false)]),
        ("+8(%di)", vec![(8, false)]),
        ("-0x8(%di)", vec![(-8, false)]),
        ("+u8(%di)", vec![(8, true)]),
        ("-u8(%di)", vec![(-8, true)]),
        ("++8(%di)", vec![(8, false)]),
        ("+-8(%di)", vec![(-8, false)]),
        ("+u-8(%di)", vec![(-8, true)]),
        ("+1(-u2(+3(%di)))", vec![(3, false), (-2, true), (1, false)]),
        ("+4(@sym)", vec![(0, false), (4, false)]),
        // The low half of the number, as in C.
        ("+0x180000000(%di)", vec![(i32::MIN, false)]),
        ("-0x100000001(%di)", vec![(-1, false)]),
        // C ignores what follows the brace.
        ("+8(%di)junk", vec![(8, false)]),
        ("+8(+4(%di)x)y:u8", vec![(4, false), (8, false)]),
    ] {
        assert_eq!(derefs(text), expected, "{text}");
    }
}

#[test]
fn a_type_is_a_number_a_bitfield_or_a_string() {
    use FetchType::*;
    for (text, expected) in [
        ("%di", Number(Width::W8, Style::Hex)),
        ("%di:u8", Number(Width::W1, Style::Unsigned)),
        ("%di:u64", Number(Width::W8, Style::Unsigned)),
        ("%di:s16", Number(Width::W2, Style::Signed)),
        ("%di:x32", Number(Width::W4, Style::Hex)),
        ("%di:char", Number(Width::W1, Style::Char)),
        ("%di:symbol", Number(Width::W8, Style::Symbol)),
        (
            "%di:b1@0/8",
            Bitfield(Width::W1, Style::Unsigned, Bits { left: 7, right: 7 }),
        ),
        (
            "%di:b4@8/32",
            Bitfield(
                Width::W4,
                Style::Unsigned,
                Bits {
                    left: 20,
                    right: 28,
                },
            ),
        ),
        (
            "%di:b0x40@0/64",
            Bitfield(Width::W8, Style::Unsigned, Bits { left: 0, right: 0 }),
        ),
        (
            "%di:b010@010/0x10",
            Bitfield(Width::W2, Style::Unsigned, Bits { left: 0, right: 8 }),
        ),
        ("$comm", String(Space::Kernel)),
        ("$comm:string", String(Space::Kernel)),
        ("\\\"a\"", String(Space::Kernel)),
        ("\\1:string", String(Space::Kernel)),
        ("\\1:ustring", String(Space::User)),
        ("@sym:string", String(Space::Kernel)),
        ("+0(%di):string", String(Space::Kernel)),
        ("+0(%di):ustring", String(Space::User)),
        // The type is what the command says, wherever the string is read.
        ("+u0(%di):string", String(Space::Kernel)),
        ("+0(+u0(%di)):string", String(Space::Kernel)),
        ("+u0(%di):string[2]", String(Space::Kernel)),
        ("+u0(%di):ustring[2]", String(Space::User)),
        ("%di:symstr", Symstr),
        ("$stack3:symstr", Symstr),
        ("$arg1:symstr", Symstr),
        ("@sym:symstr", Symstr),
        ("+0(%di):symstr", Symstr),
        ("+0(+u0(\\1)):symstr", Symstr),
    ] {
        assert_eq!(ty(text), expected, "{text}");
    }
}

#[test]
fn the_time_is_a_decimal_number_by_default() {
    let whole = create("r vfs_read $elapsed $elapsed:x64 a=$elapsed:u32 $elapsed:b8@8/64").unwrap();
    let names: Vec<_> = whole.arguments.iter().map(|a| a.ty.row().name).collect();
    assert_eq!(names, ["u64", "x64", "u32", "u64"]);
    assert_eq!(
        whole.arguments[0].ty,
        FetchType::Number(Width::W8, Style::Unsigned)
    );
}

#[test]
fn an_array_has_a_count() {
    for (text, expected) in [
        ("+0(%di):u8", None),
        ("+0(%di):u8[1]", Some(1)),
        ("+0(%di):u8[0x40]", Some(64)),
        ("+0(%di):b2@2/16[3]", Some(3)),
        ("@sym:x32[7]", Some(7)),
        ("\\1:string[2]", Some(2)),
    ] {
        let count = argument(text).expect(text).count;
        assert_eq!(count.map(|n| n.get()), expected, "{text}");
    }
}

#[test]
fn the_body_is_kept_as_written() {
    for (text, expected) in [
        ("%di", "%di"),
        ("a=%di:u8", "%di:u8"),
        ("a=+0x8(%di):u8[02]", "+0x8(%di):u8[02]"),
        ("s=\\\"a=b\"", "\\\"a=b\""),
    ] {
        let line = format!("p vfs_read {text}");
        let listing = create(&line).unwrap().listing();
        let (_, body) = listing.split_once('=').unwrap();
        assert_eq!(body, expected);
    }
}

#[test]
fn a_field_is_the_same_by_name_type_and_count() {
    let field = |text: &str| {
        let argument = argument(text).unwrap();
        let field = Layout::new().add(&argument).unwrap();
        (argument.name.to_string(), field)
    };
    let same = |a: &str, b: &str| {
        let (a, b) = (field(a), field(b));
        first_difference([(&*a.0, a.1)].into_iter(), [(&*b.0, b.1)].into_iter()).is_none()
    };
    for (a, b) in [
        ("a=%di", "a=%si:x64"),
        ("arg1=%di", "%di"),
        ("%di:u32", "%di:b4@0/32"),
        ("+0(%di):string", "+u0(%di):string"),
        ("+0(%di):string", "$comm"),
        ("+0(%di):u8[2]", "@sym:u8[2]"),
    ] {
        assert!(same(a, b) && same(b, a), "{a} {b}");
    }
    for (a, b) in [
        ("a=%di", "b=%di"),
        ("%di", "%di:u64"),
        ("%di:u8", "%di:char"),
        ("%di:u64", "%di:symbol"),
        ("+0(%di):string", "+0(%di):ustring"),
        ("+u0(%di):string", "+0(%di):ustring"),
        ("+0(%di):string", "+0(%di):symstr"),
        ("+0(%di):u8[2]", "+0(%di):u8[3]"),
        ("+0(%di):u8[1]", "+0(%di):u8"),
    ] {
        assert!(!same(a, b) && !same(b, a), "{a} {b}");
    }
}

#[test]
fn each_type_has_its_name_and_size() {
    for name in [
        "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "x8", "x16", "x32", "x64",
    ] {
        let argument = argument(&format!("%di:{name}")).unwrap();
        assert_eq!(argument.ty.row().name, name);
        assert_eq!(argument.ty.size() * 8, name[1..].parse().unwrap());
    }
    let errno = argument("%di:errno").unwrap().ty;
    assert_eq!((errno.row().name, errno.size()), ("errno", 4));
    for (name, size) in [
        ("char", 1),
        ("symbol", 8),
        ("string", 4),
        ("ustring", 4),
        ("symstr", 4),
    ] {
        let argument = argument(&format!("+0(%di):{name}")).unwrap();
        assert_eq!((argument.ty.row().name, argument.ty.size()), (name, size));
    }
}

#[test]
fn a_symbol_is_split_at_its_first_sign() {
    for (text, expected) in [
        ("sym", Ok(("sym", 0))),
        ("sym+0x10", Ok(("sym", 16))),
        ("sym-8", Ok(("sym", -8))),
        ("", Ok(("", 0))),
        ("-8", Ok(("", -8))),
        ("sym+", Err(Errno::EINVAL)),
        ("sym+8-8", Err(Errno::EINVAL)),
        ("sym+9223372036854775808", Err(Errno::ERANGE)),
    ] {
        assert_eq!(split_symbol(text), expected, "{text}");
    }
}

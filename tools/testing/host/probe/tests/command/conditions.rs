// SPDX-License-Identifier: GPL-2.0

//! Conditions: `if CONDITION` at the end of a command.

use probe::{
    arch::x86_64::register,
    argument::{
        Argument,
        Base, //
    },
    command::{
        Error,
        EventsFile,
        Normalized,
        ProbeKind,
        TypeInfo,
        MAX_COMPARISONS, //
    },
    condition::{
        Branch,
        Check,
        Comparison,
        OneSpaced,
        StringCheck, //
    },
    error::{
        Errno,
        ErrorKind::{
            self,
            *, //
        },
    },
    types::{
        FetchType,
        Style::*,
        Width::*, //
    },
};

use super::{
    create,
    create_at,
    create_in,
    errors::{
        unmark,
        Case, //
    },
    functions::types_of,
    Whole, //
};

const EINVAL: Errno = Errno::EINVAL;

/// Errors in conditions that need no BTF.
pub(super) const ERRORS: &[Case] = &[
    // The condition is empty.
    ("p vfs_read if ^", NoEpFilter, EINVAL),
    ("r vfs_read a=%di if ^", NoEpFilter, EINVAL),
    // An operand is missing.
    ("p vfs_read if ^== 1", NoOperand, EINVAL),
    ("p vfs_read if ^!= 1", NoOperand, EINVAL),
    ("p vfs_read if ! ^", NoOperand, EINVAL),
    ("p vfs_read if !(!^)", NoOperand, EINVAL),
    ("p vfs_read if (^)", NoOperand, EINVAL),
    ("p vfs_read if ( ^", NoOperand, EINVAL),
    ("p vfs_read if ^)", NoOperand, EINVAL),
    ("p vfs_read if %di == 1 && ^", NoOperand, EINVAL),
    ("p vfs_read if %di==1|| ^", NoOperand, EINVAL),
    ("p vfs_read if %di == 1 && ^&& %si == 1", NoOperand, EINVAL),
    (
        "p vfs_read if %di == 1 || (^|| %si == 1)",
        NoOperand,
        EINVAL,
    ),
    ("p vfs_read if ^&& %di == 1", NoOperand, EINVAL),
    // An operator is missing.
    ("p vfs_read if %di ^", NoOperator, EINVAL),
    ("p vfs_read if %di^)", NoOperator, EINVAL),
    ("p vfs_read if (%di^)", NoOperator, EINVAL),
    ("p vfs_read if (%di ^) == 1", NoOperator, EINVAL),
    ("p vfs_read if %di ^&& %si == 1", NoOperator, EINVAL),
    ("p vfs_read if %di^||%si == 1", NoOperator, EINVAL),
    ("p vfs_read if %di ^= 1", NoOperator, EINVAL),
    ("p vfs_read if %di ^1", NoOperator, EINVAL),
    ("p vfs_read if %di ^->x == 1", NoOperator, EINVAL),
    ("p vfs_read if %di^|1", NoOperator, EINVAL),
    ("p vfs_read if +0( ^%di) == 1", NoOperator, EINVAL),
    // A value is missing.
    ("p vfs_read if %di == ^", NoComparedValue, EINVAL),
    ("p vfs_read if %di== ^", NoComparedValue, EINVAL),
    ("p vfs_read if (%di > ^)", NoComparedValue, EINVAL),
    ("p vfs_read if %di > ^&& %si == 1", NoComparedValue, EINVAL),
    ("p vfs_read if %di &^| %si == 1", NoComparedValue, EINVAL),
    // A quote is not closed.
    ("p vfs_read if $comm == \"a ^", OpenQuote, EINVAL),
    (
        "p vfs_read if $comm == 'a b\" && %di == 1 ^",
        OpenQuote,
        EINVAL,
    ),
    ("p vfs_read if $comm == \" ^", OpenQuote, EINVAL),
    // Something else follows a comparison.
    ("p vfs_read if %di == 1 ^%si == 1", NoConnective, EINVAL),
    ("p vfs_read if %di == 1 ^& %si == 1", NoConnective, EINVAL),
    ("p vfs_read if %di == 1 ^& 2", NoConnective, EINVAL),
    ("p vfs_read if %di == 1^|%si == 1", NoConnective, EINVAL),
    ("p vfs_read if %di == 1^&", NoConnective, EINVAL),
    ("p vfs_read if $comm == \"a\"^b", NoConnective, EINVAL),
    ("p vfs_read if (%di == 1) ^! %si == 1", NoConnective, EINVAL),
    ("p vfs_read if (%di == 1) ^(%si == 1)", NoConnective, EINVAL),
    ("p vfs_read if %di == 1 ^if %si == 1", NoConnective, EINVAL),
    ("p vfs_read if (%di == 1)^é", NoConnective, EINVAL),
    // Parentheses.
    ("p vfs_read if ^(%di == 1", OpenParenthesis, EINVAL),
    (
        "p vfs_read if (%di == 1 && ^(%si == 1 || %di == 2",
        OpenParenthesis,
        EINVAL,
    ),
    (
        "p vfs_read if %di == 1 && !^(%si == 1",
        OpenParenthesis,
        EINVAL,
    ),
    ("p vfs_read if ^((%di == 1)", OpenParenthesis, EINVAL),
    ("p vfs_read if %di == 1^)", ClosedParenthesis, EINVAL),
    ("p vfs_read if (%di == 1) ^)", ClosedParenthesis, EINVAL),
    (
        "p vfs_read if %di == 1 && %si == 2^) || (%di == 1",
        ClosedParenthesis,
        EINVAL,
    ),
    (
        "p vfs_read if !(((((((((((((((((((((((((((((((^(%di == 1",
        ConditionTooLong,
        EINVAL,
    ),
    // Values of numbers.
    ("p vfs_read if %di == ^a", BadComparedValue, EINVAL),
    ("p vfs_read if %di == ^1x", BadComparedValue, EINVAL),
    ("p vfs_read if %di == ^08", BadComparedValue, EINVAL),
    ("p vfs_read if %di == ^--1", BadComparedValue, EINVAL),
    ("p vfs_read if %di == ^-", BadComparedValue, EINVAL),
    ("p vfs_read if %di ==^=1", BadComparedValue, EINVAL),
    ("p vfs_read if %di == ^1==1", BadComparedValue, EINVAL),
    ("p vfs_read if %di == '^1'", BadComparedValue, EINVAL),
    ("p vfs_read if %di == \"^\"", BadComparedValue, EINVAL),
    ("p vfs_read if %di:char == '^ab'", BadComparedValue, EINVAL),
    ("p vfs_read if %di:char == '^é'", BadComparedValue, EINVAL),
    ("p vfs_read if %di:char == '^'", BadComparedValue, EINVAL),
    ("p vfs_read if %di:char == ^a", BadComparedValue, EINVAL),
    ("p vfs_read if %di == ^true", BadComparedValue, EINVAL),
    ("p vfs_read if %di == ^$arg1", BadComparedValue, EINVAL),
    ("p vfs_read if %di == ^-1", ValueRange, EINVAL),
    (
        "p vfs_read if %di == ^18446744073709551616",
        ValueRange,
        EINVAL,
    ),
    ("p vfs_read if %di:u8 == ^256", ValueRange, EINVAL),
    ("p vfs_read if %di:u8 & ^0x100", ValueRange, EINVAL),
    ("p vfs_read if %di:s8 & ^-1", ValueRange, EINVAL),
    ("r vfs_read if $retval == ^-22", ValueRange, EINVAL),
    ("r vfs_read if $retval < ^0", NeverTrue, EINVAL),
    ("p vfs_read if %di:u8 > ^255", NeverTrue, EINVAL),
    ("p vfs_read if %di:s8 < ^-128", NeverTrue, EINVAL),
    ("p vfs_read if %di:s8 > ^127", NeverTrue, EINVAL),
    ("p vfs_read if %di & ^0", NeverTrue, EINVAL),
    ("p vfs_read if !(%di:s8 & ^0x0)", NeverTrue, EINVAL),
    // Types of operands.
    ("p vfs_read if ^+0(%di):u8[2] == 1", ArrayOperand, EINVAL),
    (
        "p vfs_read if %di == 1 && ^+0(%di):string[1] == a",
        ArrayOperand,
        EINVAL,
    ),
    (
        "p vfs_read a=+0(%di):u8[2] if (^a == 1)",
        ArrayOperand,
        EINVAL,
    ),
    ("p vfs_read if $comm < ^a", BadStringOperator, EINVAL),
    ("p vfs_read if $comm >= \"^a\"", BadStringOperator, EINVAL),
    (
        "p vfs_read if +0(%di):string & ^1",
        BadStringOperator,
        EINVAL,
    ),
    ("p vfs_read if %di:symstr > ^1", BadStringOperator, EINVAL),
    ("p vfs_read if %di ~ ^a*", GlobOnNumber, EINVAL),
    ("p vfs_read if %di:char ~ \"^a*\"", GlobOnNumber, EINVAL),
    // Patterns that take long.
    ("p vfs_read if $comm ~ ^[", SlowPattern, EINVAL),
    ("p vfs_read if $comm ~ \"^a*[!]\"", SlowPattern, EINVAL),
    ("p vfs_read if $comm ~ ^[a][]", SlowPattern, EINVAL),
    ("p vfs_read if $comm ~ ^\\\\[[", SlowPattern, EINVAL),
    // Errors in the operand, like those in an argument.
    ("p vfs_read if ^%none == 1", BadRegName, EINVAL),
    ("p vfs_read if %di==1&&!(+8(^%none)>1)", BadRegName, EINVAL),
    ("p vfs_read if %di:^u7 == 1", BadType, EINVAL),
    ("p vfs_read if %di:^==1", BadType, EINVAL),
    ("p vfs_read if (%di == 1 && (^$none == 1))", BadVar, EINVAL),
    ("p vfs_read if ^$arg* == 1", BadVar, EINVAL),
    ("p vfs_read if ^$retval == 1", RetvalOnProbe, EINVAL),
    (
        "p vfs_read+4 if %di == 1 || ^$arg1 == 1",
        NofentryArgs,
        EINVAL,
    ),
    ("p vfs_read if ^$exit == 1", ExitOnProbe, EINVAL),
    ("p vfs_read if ^$obj == 1", ObjOnProbe, EINVAL),
    ("p vfs_read if +0(%di^ == 1", DerefOpenBrace, EINVAL),
    ("p vfs_read if ^1 == 1", BadFetchArg, EINVAL),
    ("p vfs_read if a^=%di == 1", NoOperator, EINVAL),
    ("p vfs_read if ^count == 1", NosupBtfarg, Errno::EOPNOTSUPP),
    (
        "p vfs_read if ^(file)%di->f_mode & 1",
        NosupBtfarg,
        Errno::EOPNOTSUPP,
    ),
    // An argument comes first.
    ("p vfs_read ^%none if %none == 1", BadRegName, EINVAL),
    ("p vfs_read ^%none if", BadRegName, EINVAL),
    ("p:^/a vfs_read if", NoGroupName, EINVAL),
];

/// The comparisons of a condition.
fn condition(line: &str, types: TypeInfo<'static>) -> Result<Vec<Comparison<'static>>, Error> {
    whole(line, types).map(|whole| whole.condition)
}

fn whole(line: &str, types: TypeInfo<'static>) -> Result<Whole<'static>, Error> {
    create_at(EventsFile::DynamicEvents, line.to_string().leak(), types)
}

/// Whether these values of the operands fulfil the condition.
fn holds(condition: &[Comparison<'_>], value: impl Fn(&Argument<'_>) -> u64) -> bool {
    let mut index = 0;
    loop {
        let comparison = &condition[index];
        let value = value(&comparison.operand);
        let result = match comparison.check {
            Check::Range(range) => range.contains(value),
            Check::Bits(mask) => value & mask != 0,
            Check::String(_) => panic!(),
        };
        match comparison.branches.after(result) {
            Branch::Skip(count) => index += 1 + usize::from(count),
            Branch::Leave(result) => return result,
        }
    }
}

/// Whether the value `value` of the only operand fulfils the condition.
fn is_fulfilled(line: &str, types: TypeInfo<'static>, value: u64) -> bool {
    holds(&condition(line, types).expect(line), |_| value)
}

/// Each line has this error at its `^`.
fn assert_errors(function: &str, cases: &[Case]) {
    for &(marked, kind, errno) in cases {
        let (line, column) = unmark(marked);
        let error = whole(&line, types_of(function)).expect_err(marked);
        assert_eq!(
            (error.kind, error.errno, error.at.column(&line)),
            (kind, errno, column),
            "{marked}"
        );
    }
}

type Truth = fn(bool, bool, bool, bool) -> bool;

#[test]
fn operators_bind_as_in_a_filter() {
    // Each name of these is `NAME == 1` in the condition.
    let cases: &[(&str, Truth)] = &[
        ("A", |a, _, _, _| a),
        ("A && B", |a, b, _, _| a && b),
        ("A || B", |a, b, _, _| a || b),
        ("A && B || C", |a, b, c, _| a && b || c),
        ("A || B && C", |a, b, c, _| a || b && c),
        ("A || B && C || D", |a, b, c, d| a || b && c || d),
        ("A && B || C && D", |a, b, c, d| a && b || c && d),
        ("A && B && C && D", |a, b, c, d| a && b && c && d),
        ("A || B || C || D", |a, b, c, d| a || b || c || d),
        ("(A || B) && (C || D)", |a, b, c, d| (a || b) && (c || d)),
        ("A && (B || C) && D", |a, b, c, d| a && (b || c) && d),
        ("A && (B || (C && !D))", |a, b, c, d| a && (b || c && !d)),
        ("((A)) && (((B || C)))", |a, b, c, _| a && (b || c)),
        ("!A", |a, _, _, _| !a),
        ("!!A", |a, _, _, _| a),
        ("! ! !A", |a, _, _, _| !a),
        ("!A && B", |a, b, _, _| !a && b),
        ("!A || B", |a, b, _, _| !a || b),
        ("A && !B", |a, b, _, _| a && !b),
        ("!(A && B)", |a, b, _, _| !(a && b)),
        ("!(A || B) && C", |a, b, c, _| !(a || b) && c),
        ("!(A || B) || C && D", |a, b, c, d| !(a || b) || c && d),
        ("!(A && !(B || C))", |a, b, c, _| !(a && !(b || c))),
        ("!(!(!(A)) || B)", |a, b, _, _| !(a || b)),
        ("!(A && B || C) && D", |a, b, c, d| !(a && b || c) && d),
        ("D || !(A && (B || C))", |a, b, c, d| d || !(a && (b || c))),
    ];
    for (text, expected) in cases {
        let spaced = ["A", "B", "C", "D"]
            .iter()
            .fold(text.to_string(), |text, name| {
                text.replace(name, &format!("{} == 1", name.to_lowercase()))
            });
        let packed: String = spaced.split(' ').collect();
        // `!=` is `!` and `==`.
        let other = spaced.replace("== 1", "!= 0");
        for condition in [&spaced, &packed, &other] {
            let line = format!("p vfs_read a=%di b=%si c=%dx d=%cx if {condition}");
            let parsed = create(&line).expect(&line).condition;
            for bits in 0..16u64 {
                let value = |operand: &Argument<'_>| {
                    let registers = ["di", "si", "dx", "cx"];
                    let index = registers
                        .iter()
                        .position(|name| {
                            operand.fetch.base == Base::Register(register(name).unwrap())
                        })
                        .unwrap();
                    bits >> index & 1
                };
                let bit = |index: u32| bits >> index & 1 != 0;
                assert_eq!(
                    holds(&parsed, value),
                    expected(bit(0), bit(1), bit(2), bit(3)),
                    "{line}: {bits:04b}"
                );
            }
        }
    }
}

#[test]
fn spaces_are_optional() {
    let types = types_of("vfs_read");
    let packed = "p vfs_read if count>5&&!($comm~\"a b\")||file->f_path.dentry->d_flags&1";
    let spaced = "p vfs_read if  count  > 5 && ! ( $comm ~ \"a b\" )  \
                  || file->f_path.dentry->d_flags & 1 ";
    let packed = condition(packed, types).unwrap();
    assert_eq!(packed.len(), 3);
    assert_eq!(
        packed[1].check,
        Check::String(StringCheck::Glob(OneSpaced("a b")))
    );
    assert_eq!(packed[2].check, Check::Bits(1));
    let spaced = condition(spaced, types).unwrap();
    for (a, b) in packed.iter().zip(&spaced) {
        assert_eq!((a.check, a.branches), (b.check, b.branches));
        assert_eq!(a.operand.fetch, b.operand.fetch);
    }
}

#[test]
fn a_typecast_is_not_a_part_in_parentheses() {
    let types = types_of("vfs_read");
    for (text, steps) in [
        ("(file)$arg1->f_bits.high & 1", &[1][..]),
        ("(file)$arg1->f_bits.high&1", &[1]),
        ("!((file)$arg1->f_bits.high & 1)", &[1]),
        ("(((file)$arg1->f_bits.high>1)&&(count>5))", &[1, 0]),
        ("(file)(%di)->f_bits.high == 1", &[1]),
        ("(file)+0(%di)->f_path.mnt == 1", &[2]),
        ("(count > 5)", &[0]),
        ("(count>5)&&(file->f_path.mnt==0)", &[0, 1]),
        ("(+8(file)==1)", &[1]),
        ("($arg1==1)||(@sym-4:u8<2)", &[0, 1]),
        ("(this_cpu_read(@sym+8)>1)", &[2]),
    ] {
        let line = format!("p vfs_read if {text}");
        let condition = condition(&line, types).expect(text);
        let found: Vec<_> = condition
            .iter()
            .map(|comparison| comparison.operand.fetch.steps.as_slice().len())
            .collect();
        assert_eq!(found, steps, "{text}");
    }
}

#[test]
fn a_string_is_bare_or_in_quotes() {
    use StringCheck::*;

    for (text, check) in [
        ("$comm == cat", Equal(OneSpaced("cat"))),
        ("$comm==cat", Equal(OneSpaced("cat"))),
        ("$comm == \"cat\"", Equal(OneSpaced("cat"))),
        ("$comm=='cat'", Equal(OneSpaced("cat"))),
        ("$comm == 'a\"b'", Equal(OneSpaced("a\"b"))),
        ("$comm == \"it's\"", Equal(OneSpaced("it's"))),
        ("$comm == a\"b", Equal(OneSpaced("a\"b"))),
        ("$comm != \"\"", Equal(OneSpaced(""))),
        ("$comm ~ post*", Glob(OneSpaced("post*"))),
        ("$comm ~ \"[a-c]?\"", Glob(OneSpaced("[a-c]?"))),
        ("$comm ~ \"a && (b || c\"", Glob(OneSpaced("a && (b || c"))),
        ("$comm ~ 12", Glob(OneSpaced("12"))),
        ("+0(%di):string == -1", Equal(OneSpaced("-1"))),
        ("+0(%di):ustring ~ */x", Glob(OneSpaced("*/x"))),
        ("%ip:symstr ~ vfs_*", Glob(OneSpaced("vfs_*"))),
        ("\\\"abc\" == abc", Equal(OneSpaced("abc"))),
        ("($comm == é)", Equal(OneSpaced("é"))),
    ] {
        let line = format!("p vfs_read if {text}");
        let condition = create(&line).expect(&line).condition;
        let [comparison] = &condition[..] else {
            panic!("{line}");
        };
        assert_eq!(comparison.check, Check::String(check), "{line}");
        // `!=` exchanges the branches.
        let is_equal = !text.contains("!=");
        assert_eq!(
            comparison.branches.after(true),
            Branch::Leave(is_equal),
            "{line}"
        );
    }
}

#[test]
fn several_spaces_are_one() {
    let shown = |text| OneSpaced(text).to_string();
    assert_eq!(shown("a  b"), "a b");
    assert_eq!(shown("a \t\x0b\n\x0c\rb c"), "a b c");
    assert_eq!(shown("  a  "), " a ");
    assert_eq!(shown(" \t"), " ");
    assert_eq!(shown(""), "");
    assert_eq!(shown("é\u{a0} é"), "é\u{a0} é");
}

#[test]
fn each_operator_has_its_numbers() {
    // The type, the operator with the value, and numbers that fulfil the comparison or not.
    let minus = |number: i64| number as u64;
    for (text, yes, no) in [
        ("u8 == 5", &[5, 0x105][..], &[4, 0x500][..]),
        ("u8 != 5", &[4, 0x500], &[5, 0x105]),
        ("u8 < 5", &[0, 4, 0xff00], &[5, 255]),
        ("u8 <= 5", &[0, 5], &[6, 255]),
        ("u8 > 5", &[6, 255], &[0, 5, 0xff00]),
        ("u8 >= 5", &[5, 255], &[0, 4]),
        ("u8 >= 0", &[0, 255], &[]),
        ("u8 <= 255", &[0, 255], &[]),
        ("u8 > 254", &[255], &[254, 0]),
        ("u8 < 1", &[0], &[1, 255]),
        ("s8 < 0", &[0x80, 0xff], &[0, 0x7f]),
        ("s8 <= -1", &[0x80, 0xff], &[0, 0x7f]),
        ("s8 > -1", &[0, 0x7f], &[0x80, 0xff]),
        ("s8 >= -128", &[0, 0x7f, 0x80, 0xff], &[]),
        ("s8 == -128", &[0x80, minus(-128)], &[0x7f, 0]),
        ("s8 == 127", &[0x7f], &[0x80]),
        ("s16 < -1", &[0x8000, 0xfffe], &[0xffff, 0, 0x7fff]),
        ("s32 > 0x7ffffffe", &[0x7fff_ffff], &[0x8000_0000, 0]),
        ("s64 < -9223372036854775807", &[1 << 63], &[0, u64::MAX]),
        ("s64 == -9223372036854775808", &[1 << 63], &[0]),
        ("s64 > 9223372036854775806", &[i64::MAX as u64], &[u64::MAX]),
        ("u64 > 18446744073709551614", &[u64::MAX], &[0, 1 << 63]),
        ("x64 >= 0x8000000000000000", &[1 << 63, u64::MAX], &[0]),
        ("u64 < 1", &[0], &[1, u64::MAX]),
        ("x16 == 010", &[8], &[10]),
        ("u32 & 6", &[2, 4, 7, 8 + 2], &[0, 1, 8]),
        ("s8 & 0x80", &[0x80, 0xff], &[0x7f, 0x100]),
        ("char == 'a'", &[0x61], &[0x62]),
        ("char != \"a\"", &[0x62], &[0x61]),
        ("char >= 'a'", &[0x61, 0xff], &[0x60]),
        ("char == 97", &[97], &[9]),
        ("char == ' '", &[0x20], &[0]),
        // In the listing, this is a space.
        ("char == '\t'", &[0x20], &[9]),
        ("char == '   '", &[0x20], &[0]),
        (
            "symbol == 0xffffffff81000000",
            &[0xffff_ffff_8100_0000],
            &[1],
        ),
        ("b4@4/8 == 15", &[15], &[14]),
    ] {
        let line = format!("p vfs_read if %di:{text}");
        for (numbers, expected) in [(yes, true), (no, false)] {
            for number in numbers {
                let result = is_fulfilled(&line, TypeInfo::Unsupported, *number);
                assert_eq!(result, expected, "{line}: {number:#x}");
            }
        }
    }
}

#[test]
fn a_value_is_in_the_range_of_the_type() {
    for (ty, min, max) in [
        ("u8", 0, 0xff),
        ("u16", 0, 0xffff),
        ("u32", 0, 0xffff_ffff),
        ("u64", 0, u64::MAX.into()),
        ("s8", i8::MIN.into(), i8::MAX.into()),
        ("s16", i16::MIN.into(), i16::MAX.into()),
        ("s32", i32::MIN.into(), i32::MAX.into()),
        ("s64", i64::MIN.into(), i64::MAX.into()),
        ("x8", 0, 0xff),
        ("x64", 0, u64::MAX.into()),
        ("char", 0, 0xff),
        ("symbol", 0, i128::from(u64::MAX)),
        ("b1@0/8", 0, 1),
        ("b3@5/8", 0, 7),
        ("b9@3/32", 0, 0x1ff),
        ("b64@0/64", 0, i128::from(u64::MAX)),
    ] {
        let check = |operator: &str, value: i128| {
            let line = format!("p vfs_read if %di:{ty} {operator} {value}");
            create(&line).map(|_| ()).map_err(|error| error.kind)
        };
        for operator in ["==", "!=", "<=", ">="] {
            assert_eq!(check(operator, min), Ok(()), "{ty} {operator}");
            assert_eq!(check(operator, max), Ok(()), "{ty} {operator}");
            for value in [min - 1, max + 1, i128::MIN, i128::MAX] {
                assert_eq!(check(operator, value), Err(ValueRange), "{ty} {operator}");
            }
        }
        for (operator, outside, inside) in [("<", min, max), (">", max, min)] {
            assert_eq!(check(operator, outside), Err(NeverTrue), "{ty} {operator}");
            assert_eq!(check(operator, inside), Ok(()), "{ty} {operator}");
        }
        assert_eq!(check("<", min - 1), Err(ValueRange), "{ty}");
        assert_eq!(check(">", max + 1), Err(ValueRange), "{ty}");
        assert_eq!(check("&", max), Ok(()), "{ty}");
    }
}

#[test]
fn comparisons_and_parentheses_are_limited() {
    let error = |condition: &str| {
        let line = format!("p vfs_read if {condition}");
        create(&line)
            .map(|whole| whole.condition.len())
            .map_err(|error| (error.kind, error.at.column(&line) - "p vfs_read if ".len()))
    };
    let list = |count: usize, operator: &str| vec!["%di==1"; count].join(operator);
    assert_eq!(MAX_COMPARISONS, 32);
    for operator in ["&&", "||"] {
        assert_eq!(error(&list(32, operator)), Ok(32));
        let end = list(32, operator).len() + 2;
        assert_eq!(error(&list(33, operator)), Err((ConditionTooLong, end)));
    }
    let nested = |count: usize, open: &str, close: &str| {
        format!("{}%di==1{}", open.repeat(count), close.repeat(count))
    };
    assert_eq!(error(&nested(32, "(", ")")), Ok(1));
    assert_eq!(error(&nested(33, "(", ")")), Err((ConditionTooLong, 32)));
    assert_eq!(error(&nested(32, "!", "")), Ok(1));
    assert_eq!(error(&nested(33, "!", "")), Err((ConditionTooLong, 32)));
    assert_eq!(error(&nested(16, "!(", ")")), Ok(1));
    assert_eq!(error(&nested(17, "!(", ")")), Err((ConditionTooLong, 32)));
    // The stack is empty again after each part.
    let parts = vec![nested(31, "(", ")"); 32].join("||");
    assert_eq!(error(&parts), Ok(32));
    // An operator waits for its right side.
    let right = |count: usize| format!("{}%di==1{}", "%di==1||(".repeat(count), ")".repeat(count));
    assert_eq!(error(&right(16)), Ok(17));
    assert_eq!(error(&right(17)), Err((ConditionTooLong, 16 * 9 + 6)));
    // All comparisons skip the rest.
    let line = format!("p vfs_read if ({}) && %si == 1", list(31, " || "));
    let condition = create(&line).unwrap().condition;
    assert_eq!(condition[0].branches.after(true), Branch::Skip(30));
    assert_eq!(condition[30].branches.after(true), Branch::Skip(0));
}

#[test]
fn an_operand_has_the_limits_of_an_argument() {
    // The sizes of the operands do not count.
    let line = format!(
        "p vfs_read {} if {}",
        ["+0(%di):u64[64]"; 6].join(" "),
        ["%di:u64 == 1"; 32].join(" && ")
    );
    assert!(create(&line).is_ok());
    let offset = "7".repeat(300);
    let line = format!("p vfs_read if %di == 1 && +{offset}(%di) == 1");
    let error = create(&line).unwrap_err();
    assert_eq!((error.kind, error.errno), (ArgTooLong, Errno::E2BIG));
    assert_eq!(error.at.column(&line), 26);
}

/// Of a function with enumerations.
fn enums() -> TypeInfo<'static> {
    use std::sync::OnceLock;

    use probe::btf::{
        Btf,
        Sections, //
    };

    use crate::builder::{
        Builder,
        FLAG, //
    };

    static BTF: OnceLock<Btf<'static>> = OnceLock::new();
    let btf = BTF.get_or_init(|| {
        let mut b = Builder::new();
        let mut names = |list: &[&str]| list.iter().map(|name| b.string(name)).collect::<Vec<_>>();
        let state = names(&["IDLE", "BUSY", "LAST"]);
        let signed = names(&["GONE", "HERE"]);
        let wide = names(&["LOW", "HIGH", "TOP"]);
        let small = names(&["ON"]);
        let state = b.add(
            "state",
            6 << 24 | 3,
            4,
            &[state[0], 0, state[1], 7, state[2], 0xffff_fff0],
        );
        let signed = b.add(
            "signed",
            6 << 24 | FLAG | 2,
            4,
            &[signed[0], -2i32 as u32, signed[1], 3],
        );
        let wide = b.add(
            "wide",
            19 << 24 | 3,
            8,
            &[wide[0], 1, 0, wide[1], 0, 1, wide[2], u32::MAX, u32::MAX],
        );
        let small = b.add("small", 6 << 24 | 1, 1, &[small[0], 200]);
        let constant = b.refer(10, "", state);
        let typed = b.refer(8, "state_t", constant);
        let device = b.bitfields(
            "device",
            &[("dev_state", typed, 0, 0), ("mode", signed, 32, 3)],
        );
        let pointer = b.ptr(device);
        b.function(
            "poll",
            &[
                ("state", state),
                ("signed", signed),
                ("wide", wide),
                ("small", small),
                ("device", pointer),
            ],
            state,
        );
        let sections = Sections::parse(b.bytes().leak(), None).unwrap();
        sections
            .index(vec![0; sections.slots().unwrap()].leak())
            .unwrap()
    });
    TypeInfo::Function(btf.function("poll").unwrap())
}

#[test]
fn an_enumerator_of_the_type_is_a_number() {
    for (text, yes, no) in [
        ("p poll if state == BUSY", 7, 0),
        ("p poll if state==IDLE", 0, 7),
        ("p poll if state != BUSY", 0, 7),
        ("p poll if state >= BUSY", 8, 6),
        ("p poll if state == 7", 7, 6),
        ("p poll if state & BUSY", 4, 8),
        ("p poll if signed == GONE", -2i64 as u64, 2),
        ("p poll if signed < HERE", -2i64 as u64, 3),
        ("p poll if wide == HIGH", 1 << 32, 0),
        ("p poll if wide==LOW", 1, 1 << 32),
        ("p poll if small == ON", 200, 1),
        ("p poll if device->dev_state == BUSY", 7, 8),
        ("p poll if device->mode == HERE", 3, 2),
        ("p poll if (device)%di->dev_state == BUSY", 7, 8),
        ("p poll s=device->dev_state if s == BUSY", 7, 8),
        ("p poll if state:u8 == BUSY", 7, 8),
        ("r poll if $retval == BUSY", 7, 8),
        // As in the record, where an enumeration is signed. The bits count.
        ("p poll if state == LAST", 0xffff_fff0, 0),
        ("p poll if state < LAST", 0x8000_0000, 0),
        ("p poll if wide == TOP", u64::MAX, 0),
        ("p poll if signed:u32 == GONE", 0xffff_fffe, 2),
        ("p poll if signed & GONE", 2, 1),
        ("p poll if device->mode == GONE", 6, 2),
        ("r poll if state == BUSY", 7, 8),
    ] {
        assert!(is_fulfilled(text, enums(), yes), "{text}");
        assert!(!is_fulfilled(text, enums(), no), "{text}");
    }
    for (marked, kind) in [
        ("p poll if state == ^HERE", BadComparedValue),
        ("p poll if state == ^busy", BadComparedValue),
        ("p poll if state == ^BUS", BadComparedValue),
        ("p poll if state == \"^BUSY\"", BadComparedValue),
        ("p poll if %di == ^BUSY", BadComparedValue),
        ("p poll if $arg1 == ^BUSY", BadComparedValue),
        ("p poll if device == ^BUSY", BadComparedValue),
        ("p poll if wide:u8 == ^HIGH", ValueRange),
        ("p poll if state:u8 == ^LAST", ValueRange),
        ("p poll if device->mode == ^8", ValueRange),
        ("p poll if device->mode > ^7", NeverTrue),
        ("p poll if state == ^-BUSY", BadComparedValue),
        ("p poll if state ~ ^BUSY", GlobOnNumber),
    ] {
        let (line, column) = unmark(marked);
        let error = whole(&line, enums()).expect_err(marked);
        assert_eq!(
            (error.kind, error.at.column(&line)),
            (kind, column),
            "{marked}"
        );
    }
}

#[test]
fn errors_of_btf_are_in_the_operand() {
    const ENOENT: Errno = Errno::ENOENT;

    assert_errors(
        "vfs_read",
        &[
            ("p vfs_read if ^hoge == 1", NoBtfarg, ENOENT),
            ("p vfs_read if count>5&&^hoge==1", NoBtfarg, ENOENT),
            ("p vfs_read if count > 5 && !(^hoge == 1)", NoBtfarg, ENOENT),
            ("p vfs_read if file->^hoge == 1", NoBtfField, ENOENT),
            (
                "p vfs_read if (file->f_path.dentry->^hoge==1)",
                NoBtfField,
                ENOENT,
            ),
            (
                "p vfs_read if count == 1 && (file)$arg1->^hoge & 1",
                NoBtfField,
                ENOENT,
            ),
            ("p vfs_read if +8(^hoge)==1", NoBtfarg, ENOENT),
            ("p vfs_read if ^count:string == a", BadType4str, EINVAL),
            ("r vfs_read if $retval->^a == 1", NoPtrStrct, EINVAL),
            ("p vfs_read if count < ^0", NeverTrue, EINVAL),
            ("p vfs_read if count == ^-1", ValueRange, EINVAL),
            ("p vfs_read if buf ~ ^a", GlobOnNumber, EINVAL),
        ],
    );
}

#[test]
fn patterns_have_closed_brackets_and_255_bytes() {
    for pattern in ["[]]", "[!]]", "\\[", "a]", "[a-]", "[[]", "[\\]", "\\"] {
        let line = format!("p vfs_read if $comm ~ {pattern}");
        assert!(condition(&line, TypeInfo::Unsupported).is_ok(), "{pattern}");
    }
    let with = |len| {
        let line = format!("p vfs_read if $comm ~ {}", "*".repeat(len));
        condition(&line, TypeInfo::Unsupported).map_err(|error| error.kind)
    };
    assert!(with(255).is_ok());
    assert_eq!(with(256).unwrap_err(), SlowPattern);
    let equal = format!("p vfs_read if $comm == {}[", "a".repeat(300));
    assert!(condition(&equal, TypeInfo::Unsupported).is_ok());
}

#[test]
fn the_type_of_btf_decides_about_signs() {
    let types = types_of("vfs_read");
    assert!(is_fulfilled(
        "r vfs_read if $retval < 0",
        types,
        0xffff_ffff
    ));
    assert!(!is_fulfilled("r vfs_read if $retval < 0", types, 1 << 32));
    assert!(is_fulfilled(
        "r vfs_read if $retval == -22",
        types,
        -22i32 as u32 as u64
    ));
    assert!(is_fulfilled(
        "r vfs_read if $retval:u8 > 250",
        types,
        u64::MAX
    ));
}

#[test]
fn the_name_of_an_argument_is_an_operand() {
    let base = |line: &str, types| {
        let condition = condition(line, types).expect(line);
        let [comparison] = &condition[..] else {
            panic!("{line}");
        };
        let operand = &comparison.operand;
        (
            operand.fetch.base,
            operand.fetch.steps.as_slice().len(),
            operand.ty,
        )
    };
    let types = types_of("vfs_read");
    let x64 = FetchType::Number(W8, Hex);
    let di = Base::Register(register("di").unwrap());
    for (line, expected) in [
        ("p vfs_read n=%di if n == 1", (di, 0, x64)),
        (
            "p vfs_read n=%di:u8 if n==1",
            (di, 0, FetchType::Number(W1, Unsigned)),
        ),
        ("p vfs_read x=%si %di if arg2 == 1", (di, 0, x64)),
        // The body needs BTF.
        (
            "p vfs_read n=file->f_path.dentry->d_flags if n == -1",
            (Base::Argument(0), 2, FetchType::Number(W4, Signed)),
        ),
        (
            "p vfs_read file->f_path.mnt if arg1 == 1",
            (Base::Argument(0), 1, x64),
        ),
        // An argument that is part of another one.
        (
            "p vfs_read $arg* if count == 1",
            (Base::Argument(2), 0, FetchType::Number(W8, Unsigned)),
        ),
        // An argument comes before a parameter.
        ("p vfs_read count=%di if count == 1", (di, 0, x64)),
        // With a type, or fields, the operand is an argument of its own.
        (
            "p vfs_read count=%di if count:u16 == 1",
            (Base::Argument(2), 0, FetchType::Number(W2, Unsigned)),
        ),
        (
            "p vfs_read file=%di if file->f_path.mnt == 1",
            (Base::Argument(0), 1, x64),
        ),
        ("p vfs_read n=%si if %di == 1", (di, 0, x64)),
        // The argument has the entry data of its own.
        (
            "r vfs_read n=$arg1 if n == 1",
            (Base::EntryArgument(0), 0, x64),
        ),
    ] {
        assert_eq!(base(line, types), expected, "{line}");
    }
    // Only with this name.
    let error = condition("p vfs_read n=%di if N == 1", types).unwrap_err();
    assert_eq!(error.kind, NoBtfarg);
}

#[test]
fn each_kind_of_probe_has_conditions() {
    for line in [
        "p vfs_read if %di == 1",
        "p vfs_read+4 if %di == 1",
        "p vfs_read if $caller == 1",
        "r vfs_read if $caller == 1",
        "p show%all if %di == 1",
        "r vfs_read if $retval == 1 && $elapsed > 5",
        "p vfs_read%retinsn if $exit == 1",
        "f vfs_* if $arg1 == 1",
        "f vfs_*%return if $retval == 1",
        "t kfree if $arg2 == 1",
        "w w@jiffies:8 if $comm == cat",
        "o rkp/made.i if $comm == cat",
        "o rkp/made.i objects=16 until=rkp/freed.i if $comm == cat",
        "o (inode)rkp/made.i vfs_* if object == 1 && parameter == 2",
        "o rkp/made.i vfs_*%return a=$retval if a == 1",
    ] {
        let whole = create_in(EventsFile::DynamicEvents, line).expect(line);
        assert!(!whole.condition.is_empty(), "{line}");
    }
}

#[test]
fn the_return_value_in_a_condition_selects_the_exit() {
    for (line, kind) in [
        ("f:x vfs_read if $retval < 10", ProbeKind::FprobeExit),
        ("f:x vfs_read if !($retval:s32<0)", ProbeKind::FprobeExit),
        (
            "f:x vfs_read if $comm == 'a b' && $retval < 9",
            ProbeKind::FprobeExit,
        ),
        (
            "f:x vfs_read if $comm == \"it's $retval\"",
            ProbeKind::FprobeEntry,
        ),
        ("f:x vfs_read r=$retval if r < 10", ProbeKind::FprobeExit),
        ("f:x vfs_read if $arg1 < 10", ProbeKind::FprobeEntry),
    ] {
        let whole = create_in(EventsFile::DynamicEvents, line).expect(line);
        assert_eq!(whole.command.kind, kind, "{line}");
    }
    // A tracepoint has none.
    for marked in [
        "t kfree if ^$retval < 10",
        "t kfree $arg1 if $arg1 == 1 &&(^$retval<10)",
    ] {
        let (line, column) = unmark(marked);
        let error = create_in(EventsFile::DynamicEvents, &line).unwrap_err();
        assert_eq!(
            (error.kind, error.at.column(&line)),
            (RetvalOnProbe, column)
        );
    }
}

#[test]
fn a_word_if_starts_the_condition() {
    // Only the whole word.
    let error: ErrorKind = create("p vfs_read ifs=%di iff if=%si if %di")
        .unwrap_err()
        .kind;
    assert_eq!(error, NosupBtfarg);
    let whole = create("p vfs_read ifs=%di if=%si if if == 1").unwrap();
    assert_eq!(whole.arguments.len(), 2);
    let si = Base::Register(register("si").unwrap());
    assert_eq!(whole.condition[0].operand.fetch.base, si);
}

#[test]
fn an_operand_at_the_entry_has_the_value_of_the_return() {
    let types = types_of("vfs_read");
    let at_entry = |text: &str| {
        let line = format!("r vfs_read a=$arg1 if {text}");
        let condition = condition(&line, types).expect(text);
        condition[0]
            .operand_at_entry()
            .map(|operand| operand.fetch.base)
    };
    for (text, base) in [
        ("$arg1 == 1", Some(Base::Argument(0))),
        ("$arg3:s32 == 1", Some(Base::Argument(2))),
        ("count == 1", Some(Base::Argument(2))),
        ("a == 1", Some(Base::Argument(0))),
        ("$comm == a", Some(Base::Comm)),
        ("$current == 1", Some(Base::Current)),
        // Memory that the call can change.
        ("+0($arg1) == 1", None),
        ("buf:string == a", None),
        ("file->f_path.mnt == 0", None),
        ("$retval == 1", None),
        ("$elapsed > 1", None),
        ("%di == 1", None),
        ("@jiffies == 1", None),
        ("$stack0 == 1", None),
    ] {
        assert_eq!(at_entry(text), base, "{text}");
    }
}

#[test]
fn the_caret_is_in_the_normalized_command() {
    for (line, expected) in [
        (
            "p vfs_read if \t %di  == 1  &&  $comm:string   <    a",
            "p vfs_read if %di == 1 && $comm:string < ^a",
        ),
        (
            " p:a  vfs_read  %di  if $comm  ==  \"a   b\"  &&   +8(%none)  == 1",
            "p:a vfs_read %di if $comm == \"a b\" && +8(^%none) == 1",
        ),
        (
            "p vfs_read if  %di  ==  \"   a   b\"  ",
            "p vfs_read if %di == \" ^a b\"",
        ),
    ] {
        let error = create(line).unwrap_err();
        let (normalized, column) = unmark(expected);
        assert_eq!(Normalized(line).to_string(), normalized);
        assert_eq!(error.at.column(line), column, "{line}");
        assert_eq!(create(&normalized).unwrap_err(), error, "{line}");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Text for readers who may not see addresses.

use std::ops::Range;

use probe::{
    argument::{
        Base,
        Deref,
        Step, //
    },
    command::{
        has_address,
        Masked, //
    },
};
use proptest::prelude::*;

use super::create;

#[test]
fn addresses_of_the_kernel_become_zeros() {
    for (text, expected) in [
        (
            "p:kprobes/ev 0xffffffff81234567",
            "p:kprobes/ev 0x0000000000000000",
        ),
        (
            "p:e 0XFFFFffff81234567 a=@0xffff888000000000:u8",
            "p:e 0X0000000000000000 a=@0x0000000000000000:u8",
        ),
        ("18446744071579955200 x", "00000000000000000000 x"),
        ("01777777777777777777777", "00000000000000000000000"),
        ("p ffffffff81234567", "p 0000000000000000"),
        ("0xffffffff81234567+4", "0x0000000000000000+4"),
        ("0xfffffffffffffffff", "0x00000000000000000"),
        ("(0xffffffff81234567)", "(0x0000000000000000)"),
        // Within a word.
        ("a=+u0xffffffff81234567(%di)", "a=+u0x0000000000000000(%di)"),
        ("r0xffffffff81234567:e", "r0x0000000000000000:e"),
        ("$stack18446744071579955200", "$stack00000000000000000000"),
        ("p:p_0xffffffff81234567 f", "p:p_0x0000000000000000 f"),
        // Below zero.
        ("a=\\-1553958400", "a=\\-0000000000"),
        ("a=\\-0x5c9f8600:x64", "a=\\-0x00000000:x64"),
        ("a=\\-013447703000", "a=\\-000000000000"),
        ("a=\\-131941395333120", "a=\\-000000000000000"),
        ("if ret == -1553958400", "if ret == -0000000000"),
        // A reader recognises an address that the parser refuses.
        ("a=\\-5c9f8600", "a=\\-00000000"),
        ("a=--1553958400", "a=--0000000000"),
        // Offsets, of which the lower 32 bits count.
        ("a=-0x5c9f8600(\\0)", "a=-0x00000000(\\0)"),
        ("a=-u0x5c9f8600(\\0)", "a=-u0x00000000(\\0)"),
        ("a=+-1553958400(\\0)", "a=+-0000000000(\\0)"),
        ("a=+u-1553958400(\\0)", "a=+u-0000000000(\\0)"),
        ("a=+0xa3607a00(\\0)", "a=+0x00000000(\\0)"),
        ("a=+2741008896(\\0)", "a=+0000000000(\\0)"),
        ("a=+0x12345678a3607a00(\\0)", "a=+0x0000000000000000(\\0)"),
        ("a=-0x15c9f8600(\\0)", "a=-0x000000000(\\0)"),
        ("a=@sym-0x5c9f8600", "a=@sym-0x00000000"),
        ("w:w rw@sym-1553958400:4", "w:w rw@sym-0000000000:4"),
    ] {
        assert_eq!(Masked(text).to_string(), expected, "{text}");
        assert!(has_address(text), "{text}");
    }
}

#[test]
fn all_else_stays() {
    for text in [
        "",
        "p:kprobes/p_0x00000000deadbeef vfs_read+4294967295 a=+8(%di):x32",
        "r16:g/e vfs_read $arg1 b=\\-1 c=\\0x7fffffffffffffff",
        "[   12.345678] trace_kprobe: error: à ffff\n  Command: p\n             ^\n",
        "0x",
        "f:g/e vfs_read a=\\-8388608 b=+4294967288(%di) c=-0x800000(%di)",
        "e:g/e syscalls/sys_exit_read if ret == -22 && ns > 3000000000 && ip == 0xc0a80001",
        "t:g/e x if ns > 1700000000000000000 && y < 9223372036854775807",
        "p:facade/add-8 decode+0xdead a=$current->files b=@beef-8",
    ] {
        assert_eq!(Masked(text).to_string(), text);
        assert!(!has_address(text), "{text}");
    }
}

/// The addresses that a reader may not see. The last 16 MiB contain nothing secret.
const SECRET: Range<u64> = 1 << 63..0u64.wrapping_sub(16 << 20);

/// A number in one of the spellings that a command can have.
fn number() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        any::<u64>(),
        any::<u32>().prop_map(u64::from),
        any::<u32>().prop_map(|low| low as i32 as u64),
        (8u64 << 20).saturating_sub(9)..(8 << 20) + 9,
        0..9u64,
    ];
    ("[+-]?", value, 0..4).prop_map(|(sign, value, base)| match base {
        0 => format!("{sign}{value}"),
        1 => format!("{sign}{value:#x}"),
        2 => format!("{sign}0X{value:X}"),
        _ => format!("{sign}0{value:o}"),
    })
}

/// The address that an argument `OFFSET(\IMMEDIATE)` reads, and the immediate.
fn addresses(line: &str) -> Option<[u64; 2]> {
    let whole = create(line).ok()?;
    let fetch = &whole.arguments.first()?.fetch;
    let (Base::Immediate(value), [Step::Deref(Deref { offset, .. })]) =
        (fetch.base, fetch.steps.as_slice())
    else {
        panic!("{line}: {fetch:?}");
    };
    Some([value.wrapping_add(i64::from(*offset) as u64), value])
}

proptest! {
    #[test]
    fn no_text_changes_its_length_or_keeps_an_address(text in "[ 0-9a-fxX_+@:,é-]{0,60}") {
        let masked = Masked(&text).to_string();
        prop_assert_eq!(masked.len(), text.len());
        prop_assert!(!has_address(&masked), "{}", masked);
        prop_assert_eq!(has_address(&text), masked != text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_sum_of_an_offset_and_an_immediate_is_an_address(
        sign in "[+-]u?",
        offset in number(),
        immediate in number(),
    ) {
        let line = format!("p:g/e vfs_read a={sign}{offset}(\\{immediate}):x64");
        let Some(read) = addresses(&line) else {
            return Ok(());
        };
        let masked = Masked(&line).to_string();
        // Zeros are a number.
        let seen = addresses(&masked).unwrap();
        prop_assert!(seen.iter().all(|address| !SECRET.contains(address)), "{}", masked);
        if read.iter().any(|address| SECRET.contains(address)) {
            prop_assert!(has_address(&line), "{}", line);
        }
    }
}

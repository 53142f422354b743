// SPDX-License-Identifier: GPL-2.0

//! Text for readers who may not see addresses.

use probe::command::{
    has_address,
    Masked, //
};
use proptest::prelude::*;

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
    ] {
        assert_eq!(Masked(text).to_string(), text);
        assert!(!has_address(text), "{text}");
    }
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

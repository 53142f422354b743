// SPDX-License-Identifier: GPL-2.0

//! arm64, by words that LLVM's assembler made.

use probe::insn::{
    arm64::{
        Arm64,
        Class::{
            self,
            *, //
        },
    },
    Decoder,
    Flow, //
};
use proptest::prelude::*;

const WORDS: &[(u32, &str, Class)] = &[
    (0xd65f03c0, "ret", Ret { register: 30 }),
    (0xd65f0120, "ret x9", Ret { register: 9 }),
    (0xd65f0bff, "retaa", RetSigned),
    (0xd65f0fff, "retab", RetSigned),
    (0x5500005f, "retaasppc .-8", RetSigned),
    (0x5520005f, "retabsppc .-8", RetSigned),
    (0xd65f0be9, "retaasppcr x9", RetSigned),
    (0x14000002, "b .+8", B { offset: 8 }),
    (0x17fffffe, "b .-8", B { offset: -8 }),
    (0x54000041, "b.ne .+8", BCond { offset: 8 }),
    (0x54000051, "bc.ne .+8", BCond { offset: 8 }),
    (0xb4ffffe0, "cbz x0, .-4", Cbz { offset: -4 }),
    (0x357fffe3, "cbnz w3, .+1048572", Cbz { offset: 1048572 }),
    (0xb60c0003, "tbz x3, #33, .-32768", Tbz { offset: -32768 }),
    (0x37180041, "tbnz w1, #3, .+8", Tbz { offset: 8 }),
    (0xd61f0200, "br x16", Br { register: 16 }),
    (0xd71f0822, "braa x1, x2", Br { register: 1 }),
    (0xd61f0c7f, "brabz x3", Br { register: 3 }),
    (0x96000000, "bl .-134217728", Bl { offset: -134217728 }),
    (0xd63f0100, "blr x8", Blr { register: 8 }),
    (0xd73f083f, "blraa x1, sp", Blr { register: 1 }),
    (0xd63f08bf, "blraaz x5", Blr { register: 5 }),
    (0xd69f03e0, "eret", Eret),
    (0xd69f0bff, "eretaa", Eret),
    (0xd6bf03e0, "drps", Eret),
    (0xd4200080, "brk #4", Breakpoint),
    (0xd4210000, "brk #0x800", Trap),
    (0xd4400020, "hlt #1", Trap),
    (0x00000003, "udf #3", Trap),
    (0xd503201f, "nop", Nop),
    (0xd503241f, "bti", Bti),
    (0xd503245f, "bti c", Bti),
    (0xd503249f, "bti j", Bti),
    (0xd50324df, "bti jc", Bti),
    (0xd503233f, "paciasp", Pac),
    (0xd503235f, "pacibz", Pac),
    (0xd503211f, "pacia1716", Pac),
    (0xdac10041, "pacia x1, x2", Pac),
    (0xdac12fe3, "pacdzb x3", Pac),
    (0xd50323bf, "autiasp", Aut),
    (0xd50323ff, "autibsp", Aut),
    (0xd503219f, "autia1716", Aut),
    (0xdac11841, "autda x1, x2", Aut),
    (0xdac137e7, "autizb x7", Aut),
    (0xd50320ff, "xpaclri", Other),
    (0xdac143e3, "xpaci x3", Other),
    (0x58000080, "ldr x0, .+16", Literal { offset: 16 }),
    (0x18ffff80, "ldr w0, .-16", Literal { offset: -16 }),
    (0x98000040, "ldrsw x0, .+8", Literal { offset: 8 }),
    (0x9c000040, "ldr q0, .+8", Literal { offset: 8 }),
    (0xd8000040, "prfm pldl1keep, .+8", Literal { offset: 8 }),
    (0x10000040, "adr x0, .+8", Other),
    (0x90000000, "adrp x0, .", Other),
    (0xd4000001, "svc #0", Other),
    (0xd4000002, "hvc #0", Other),
    (0xd4000003, "smc #0", Other),
    (0xd4a00001, "dcps1", Other),
    (0xd503203f, "yield", Other),
    (0xd5033fdf, "isb", Other),
    (0xd5033f9f, "dsb sy", Other),
    (0xd5384100, "mrs x0, sp_el0", Other),
    (0xd50342df, "msr daifset, #2", Other),
    (0xd503221f, "esb", Other),
    (0xd503229f, "csdb", Other),
    (0xa9bf7bfd, "stp x29, x30, [sp, #-16]!", Other),
    (0xa8c17bfd, "ldp x29, x30, [sp], #16", Other),
    (0xf9400420, "ldr x0, [x1, #8]", Other),
    (0x3dc00020, "ldr q0, [x1]", Other),
    (0x8b020020, "add x0, x1, x2", Other),
    (0x9b020c20, "madd x0, x1, x2, x3", Other),
    (0xdac01020, "clz x0, x1", Other),
    (0x4e22d420, "fadd v0.4s, v1.4s, v2.4s", Other),
    (0xc85f7c20, "ldxr x0, [x1]", Other),
    (0xc8e0fc41, "casal x0, x1, [x2]", Other),
    (0xd2800020, "mov x0, #1", Other),
    (0xd5031020, "wfit x0", Other),
    (0xd503477f, "smstart", Other),
    (0x2518e3e0, "ptrue p0.b", Other),
    (0x05800600, "and z0.b, z0.b, #1", Other),
    (0x058200e3, "and z3.d, z3.d, #0xff", Other),
    (0x05c00600, "dupm z0.b, #1", Other),
];

/// Those that no instruction has.
const UNDEFINED: &[u32] = &[
    0x00010000, 0x02000000, 0x06000000, 0x74000000, 0x5500001e, 0xd65f07c0, 0xd65f03c1, 0xd64003c0,
    0xd67f0000, 0xd4600000, 0xd6ff0000, 0x05090d01, 0x05c40000,
];

#[test]
fn words_have_the_class_that_their_text_says() {
    for (word, text, class) in WORDS {
        assert_eq!(Class::of(*word), Some(*class), "{text}");
    }
    for word in UNDEFINED {
        assert_eq!(Class::of(*word), None, "{word:08x}");
    }
}

/// Each of a signed field's bits, and its sign, reach the offset.
#[test]
fn fields_are_whole() {
    let cases = [
        (0x1400_0000, 0, 26),
        (0x5400_0000, 5, 19),
        (0x3600_0000, 5, 14),
    ];
    for (word, first, bits) in cases {
        for value in (0..bits).map(|bit| 1_i64 << bit).chain([(1 << bits) - 1]) {
            let sign = value >> (bits - 1) & 1;
            let offset = (value - (sign << bits)) * 4;
            let flow = Class::of(word | (value as u32) << first)
                .unwrap()
                .flow(0x1_0000_0000);
            let target = 0x1_0000_0000_u64.wrapping_add_signed(offset);
            assert_eq!(flow.target(), Some(target), "{word:08x} {value:x}");
        }
    }
}

#[test]
fn a_word_needs_its_four_bytes() {
    let text = 0xd65f_03c0_u32.to_le_bytes();
    for len in 0..4 {
        assert_eq!(Arm64::decode(&text[..len], 0), None);
    }
    let insn = Arm64::decode(&text, 0).unwrap();
    assert_eq!((insn.len, insn.flow), (4, Flow::Return));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// What leads elsewhere is within its group, and what a register gives is there.
    #[test]
    fn any_word_has_a_class_or_none(word in any::<u32>(), address in any::<u64>()) {
        let Some(class) = Class::of(word) else {
            return Ok(());
        };
        let is_branch = word >> 26 & 7 == 0b101;
        match class.flow(address) {
            Flow::Next | Flow::Trap | Flow::Breakpoint => {}
            Flow::Literal(_) => prop_assert!(!is_branch),
            _ => prop_assert!(is_branch),
        }
        if let Ret { register } | Br { register } | Blr { register } = class {
            prop_assert_eq!(u32::from(register), word >> 5 & 31);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! What a kprobe cannot replace, by instructions that LLVM's assembler made.

use probe::insn::{
    arm64::{
        Arm64,
        Class, //
    },
    x86::X86,
    Decoder,
    Unprobable, //
};
use proptest::{
    collection::vec,
    prelude::*, //
};

/// Words, as the assembler writes them, and what the verdict says of the mnemonic.
const REFUSED_ON_ARM64: &[(u32, &str, &str)] = &[
    (0x085f7c20, "ldxrb w0, [x1]", "ldxrb: exclusive load"),
    (0x485ffc20, "ldaxrh w0, [x1]", "ldaxrh: exclusive load"),
    (0xc85f7c20, "ldxr x0, [x1]", "ldxr: exclusive load"),
    (0x885ffc20, "ldaxr w0, [x1]", "ldaxr: exclusive load"),
    (0xc87f0440, "ldxp x0, x1, [x2]", "ldxp: exclusive load"),
    (0x887f8440, "ldaxp w0, w1, [x2]", "ldaxp: exclusive load"),
    (0x08007c41, "stxrb w0, w1, [x2]", "stxrb: exclusive store"),
    (0x4800fc41, "stlxrh w0, w1, [x2]", "stlxrh: exclusive store"),
    (0xc8007c41, "stxr w0, x1, [x2]", "stxr: exclusive store"),
    (0xc800fc41, "stlxr w0, x1, [x2]", "stlxr: exclusive store"),
    (0xc8200861, "stxp w0, x1, x2, [x3]", "stxp: exclusive store"),
    (
        0x88208861,
        "stlxp w0, w1, w2, [x3]",
        "stlxp: exclusive store",
    ),
    (
        0x48207c82,
        "casp x0, x1, x2, x3, [x4]",
        "casp: compare and swap of a pair",
    ),
    (
        0x08607c82,
        "caspa w0, w1, w2, w3, [x4]",
        "caspa: compare and swap of a pair",
    ),
    (
        0x4820fc82,
        "caspl x0, x1, x2, x3, [x4]",
        "caspl: compare and swap of a pair",
    ),
    (
        0x4860fc82,
        "caspal x0, x1, x2, x3, [x4]",
        "caspal: compare and swap of a pair",
    ),
    (0x19010440, "cpyfp [x0]!, [x1]!, x2!", "cpyfp: one of three"),
    (
        0x19414440,
        "cpyfmwn [x0]!, [x1]!, x2!",
        "cpyfm: one of three",
    ),
    (0x19810440, "cpyfe [x0]!, [x1]!, x2!", "cpyfe: one of three"),
    (0x1d010440, "cpyp [x0]!, [x1]!, x2!", "cpyp: one of three"),
    (0x1d412440, "cpymrt [x0]!, [x1]!, x2!", "cpym: one of three"),
    (0x1d810440, "cpye [x0]!, [x1]!, x2!", "cpye: one of three"),
    (0x19c20420, "setp [x0]!, x1!, x2", "setp: one of three"),
    (0x19c26420, "setmn [x0]!, x1!, x2", "setm: one of three"),
    (0x19c28420, "sete [x0]!, x1!, x2", "sete: one of three"),
    (0x1dc20420, "setgp [x0]!, x1!, x2", "setgp: one of three"),
    (0x1dc24420, "setgm [x0]!, x1!, x2", "setgm: one of three"),
    (0x1dc28420, "setge [x0]!, x1!, x2", "setge: one of three"),
    (0xd71f0822, "braa x1, x2", "braa: jump to a signed address"),
    (0xd71f0c22, "brab x1, x2", "brab: jump to a signed address"),
    (0xd61f083f, "braaz x1", "braaz: jump to a signed address"),
    (0xd61f0c3f, "brabz x1", "brabz: jump to a signed address"),
    (
        0xd73f0822,
        "blraa x1, x2",
        "blraa: call of a signed address",
    ),
    (
        0xd73f0c22,
        "blrab x1, x2",
        "blrab: call of a signed address",
    ),
    (0xd63f083f, "blraaz x1", "blraaz: call of a signed address"),
    (0xd63f0c3f, "blrabz x1", "blrabz: call of a signed address"),
    (0xd65f0bff, "retaa", "retaa: return to a signed address"),
    (0xd65f0fff, "retab", "retab: return to a signed address"),
    (0xd69f03e0, "eret", "eret: return from an exception"),
    (0xd69f0bff, "eretaa", "eretaa: return from an exception"),
    (0xd69f0fff, "eretab", "eretab: return from an exception"),
    (0xd4000001, "svc #0", "svc: exception"),
    (0xd4000002, "hvc #0", "hvc: exception"),
    (0xd4000003, "smc #0", "smc: exception"),
    (0xd4210000, "brk #0x800", "brk: exception"),
    (0xd4400020, "hlt #1", "hlt: exception"),
    (0xd4a00001, "dcps1", "dcps1: exception"),
    (
        0xd50342df,
        "msr daifset, #2",
        "msr: change of the processor's state",
    ),
    (
        0xd500419f,
        "msr pan, #1",
        "msr: change of the processor's state",
    ),
    (
        0xd500401f,
        "cfinv",
        "cfinv: change of the processor's state",
    ),
    (
        0xd5184100,
        "msr sp_el0, x0",
        "msr: change of the processor's state",
    ),
    (
        0xd51b4220,
        "msr daif, x0",
        "msr: change of the processor's state",
    ),
    (0xd53b4220, "mrs x0, daif", "mrs: reads the interrupt mask"),
    (0xd8000040, "prfm pldl1keep, .+8", "prfm: address relative"),
    (0xd503203f, "yield", "yield: hint"),
    (0xd503205f, "wfe", "wfe: hint"),
    (0xd503207f, "wfi", "wfi: hint"),
    (0xd503209f, "sev", "sev: hint"),
    (0xd50320bf, "sevl", "sevl: hint"),
    (0xd50320df, "dgh", "dgh: hint"),
    (0xd503221f, "esb", "esb: hint"),
    (0xd503223f, "psb csync", "psb: hint"),
    (0xd503225f, "tsb csync", "tsb: hint"),
    (0xd503229f, "csdb", "csdb: hint"),
    (0xd50322df, "clrbhb", "clrbhb: hint"),
    (0xd5032c9f, "hint #100", "hint: hint"),
    (
        0xd503219f,
        "autia1716",
        "autia1716: check of a signed address",
    ),
    (
        0xd50321df,
        "autib1716",
        "autib1716: check of a signed address",
    ),
    (0xd503239f, "autiaz", "autiaz: check of a signed address"),
    (0xd50323bf, "autiasp", "autiasp: check of a signed address"),
    (0xd50323df, "autibz", "autibz: check of a signed address"),
    (0xd50323ff, "autibsp", "autibsp: check of a signed address"),
];

const TAKEN_ON_ARM64: &[(u32, &str)] = &[
    (0xd65f03c0, "ret"),
    (0xd65f0120, "ret x9"),
    (0x14000002, "b .+8"),
    (0x94000002, "bl .+8"),
    (0x54000041, "b.ne .+8"),
    (0xb4ffffe0, "cbz x0, .-4"),
    (0x37180041, "tbnz w1, #3, .+8"),
    (0xd61f0200, "br x16"),
    (0xd63f0100, "blr x8"),
    (0x10000040, "adr x0, .+8"),
    (0x90000000, "adrp x0, ."),
    (0x58000080, "ldr x0, .+16"),
    (0x98000040, "ldrsw x0, .+8"),
    (0xd503201f, "nop"),
    (0xd50320ff, "xpaclri"),
    (0xd503211f, "pacia1716"),
    (0xd503233f, "paciasp"),
    (0xd503245f, "bti c"),
    (0xd50324df, "bti jc"),
    (0xd5033bbf, "dmb ish"),
    (0xd5033fdf, "isb"),
    (0xd50330ff, "sb"),
    (0xd5384100, "mrs x0, sp_el0"),
    (0xc8e0fc41, "casal x0, x1, [x2]"),
    (0xc8dffc20, "ldar x0, [x1]"),
    (0xc89ffc20, "stlr x0, [x1]"),
    (0xf8200041, "ldadd x0, x1, [x2]"),
    (0xf8208041, "swp x0, x1, [x2]"),
    (0xdac11041, "autia x1, x2"),
    (0xa9bf7bfd, "stp x29, x30, [sp, #-16]!"),
    (0xf9400420, "ldr x0, [x1, #8]"),
];

const REFUSED_ON_X86: &[(&[u8], &str, &str)] = &[
    (&[0xcc], "int3", "int3: exception"),
    (&[0xcd, 0x80], "int $0x80", "int: exception"),
    (&[0xf1], "int1", "int1: exception"),
    (&[0x0f, 0x0b], "ud2", "ud2: exception"),
    (
        &[0x67, 0x0f, 0xb9, 0x00],
        "ud1l (%eax), %eax",
        "ud1: exception",
    ),
    (&[0x0f, 0xff, 0xc0], "ud0l %eax, %eax", "ud0: exception"),
    (&[0x48, 0xcf], "iretq", "iret: return from an exception"),
    (
        &[0x8e, 0xd0],
        "movl %eax, %ss",
        "mov: load of the stack segment",
    ),
    (
        &[0x0f, 0x01, 0xc1],
        "vmcall",
        "vmcall: extension for virtual machines",
    ),
    (
        &[0x0f, 0x01, 0xc2],
        "vmlaunch",
        "vmlaunch: extension for virtual machines",
    ),
    (
        &[0x0f, 0x01, 0xc5],
        "pconfig",
        "pconfig: extension for virtual machines",
    ),
    (
        &[0xff, 0x50, 0x08],
        "callq *8(%rax)",
        "call: target in memory",
    ),
    (
        &[0x41, 0xff, 0x14, 0x24],
        "callq *(%r12)",
        "call: target in memory",
    ),
    (
        &[0xff, 0x24, 0xc5, 0, 0, 0, 0],
        "jmpq *(,%rax,8)",
        "jmp: target in memory",
    ),
    (
        &[0xff, 0x18],
        "lcalll *(%rax)",
        "lcall: call of another segment",
    ),
    (
        &[0x48, 0xff, 0x28],
        "ljmpq *(%rax)",
        "ljmp: jump to another segment",
    ),
];

const TAKEN_ON_X86: &[(&[u8], &str)] = &[
    (&[0xc3], "retq"),
    (&[0xe8, 0, 0, 0, 0], "callq"),
    (&[0xe9, 0, 0, 0, 0], "jmp"),
    (&[0x74, 0x00], "je"),
    (&[0xff, 0xd0], "callq *%rax"),
    (&[0x41, 0xff, 0xe3], "jmpq *%r11"),
    (&[0xff, 0x40, 0x08], "incl 8(%rax)"),
    (&[0xff, 0x70, 0x08], "pushq 8(%rax)"),
    (&[0x8e, 0xd8], "movl %eax, %ds"),
    (&[0x0f, 0x01, 0xf8], "swapgs"),
    (&[0x0f, 0x01, 0x00], "sgdtq (%rax)"),
    (&[0x55], "pushq %rbp"),
    (&[0xfa], "cli"),
    (&[0xf3, 0x0f, 0x1e, 0xfa], "endbr64"),
];

/// The verdict on an instruction, which is the first of its function, as the tables write it.
fn verdict<D: Decoder>(text: &[u8]) -> Option<String> {
    match D::unprobable(text, 0)? {
        Unprobable::Instruction { name, reason } => Some(format!("{name}: {reason}")),
        other => panic!("{other}"),
    }
}

#[test]
fn the_reason_is_that_of_the_instruction() {
    for (word, text, reason) in REFUSED_ON_ARM64 {
        let verdict = verdict::<Arm64>(&word.to_le_bytes()).expect(text);
        assert!(verdict.starts_with(reason), "{text}: {verdict}");
    }
    for (bytes, text, reason) in REFUSED_ON_X86 {
        let verdict = verdict::<X86>(bytes).expect(text);
        assert!(verdict.starts_with(reason), "{text}: {verdict}");
    }
}

#[test]
fn what_the_kernel_takes_has_no_reason() {
    for (word, text) in TAKEN_ON_ARM64 {
        assert_eq!(verdict::<Arm64>(&word.to_le_bytes()), None, "{text}");
    }
    for (bytes, text) in TAKEN_ON_X86 {
        assert_eq!(verdict::<X86>(bytes), None, "{text}");
    }
}

/// A text of these words.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

const NOP: u32 = 0xd503201f;
const LDAXR: u32 = 0x885ffc20;
const STXR: u32 = 0xc8007c41;
const RET: u32 = 0xd65f03c0;

#[test]
fn between_an_exclusive_load_and_its_store_is_no_place_for_a_probe() {
    let text = words(&[NOP, LDAXR, NOP, STXR, RET]);
    let load = Some(Unprobable::ExclusiveAccess { load: "ldaxr" });
    assert_eq!(Arm64::unprobable(&text, 0), None);
    assert_eq!(Arm64::unprobable(&text, 8), load);
    assert_eq!(Arm64::unprobable(&text, 16), None);
    // The store itself is the reason there.
    let store = Arm64::unprobable(&text, 12).unwrap();
    assert_eq!(
        store.to_string(),
        "a kprobe cannot replace `stxr`: exclusive store"
    );
}

/// A `ret` is refused as well, if the load has no store: the kernel looks at the text alone.
#[test]
fn an_exclusive_load_matters_for_32_instructions() {
    let load = Some(Unprobable::ExclusiveAccess { load: "ldaxr" });
    for distance in [1, 2, 31, 32, 33, 40] {
        let mut text = vec![LDAXR];
        text.resize(distance, NOP);
        text.push(RET);
        let expected = if distance <= 32 { load } else { None };
        assert_eq!(Arm64::unprobable(&words(&text), 4 * distance), expected);
    }
}

#[test]
fn instructions_of_arm64_start_at_words() {
    let text = words(&[NOP, LDAXR]);
    for offset in [1, 2, 3, 5, 6, 7] {
        assert_eq!(
            Arm64::unprobable(&text, offset),
            Some(Unprobable::Misaligned)
        );
    }
    assert_eq!(Arm64::unprobable(&text, 8), None);
    assert_eq!(Arm64::unprobable(&text, 9), None);
    assert_eq!(
        X86::unprobable(&[0x90, 0x0f, 0x0b], 1),
        X86::unprobable(&[0x0f, 0x0b], 0)
    );
    assert_eq!(X86::unprobable(&[0x90], 2), None);
}

#[test]
fn a_verdict_reads_as_a_sentence() {
    let ldaxr = Arm64::unprobable(&words(&[LDAXR]), 0).unwrap();
    assert_eq!(
        ldaxr.to_string(),
        "a kprobe cannot replace `ldaxr`: exclusive load"
    );
    let between = Unprobable::ExclusiveAccess { load: "ldaxr" };
    assert_eq!(
        between.to_string(),
        "a kprobe cannot be between `ldaxr` and its exclusive store"
    );
    assert_eq!(
        Unprobable::Misaligned.to_string(),
        "no instruction starts there"
    );
    assert_eq!(
        Unprobable::FtraceSite.to_string(),
        "a kprobe cannot be where ftrace calls from"
    );
    assert_eq!(
        Unprobable::Reader.to_string(),
        "only the entry of a function by which handlers read memory can be probed"
    );
}

/// The branches that the kernel simulates.
fn is_simulated(class: Class, word: u32) -> bool {
    let is_signed = matches!(word >> 24, 0xd6 | 0xd7) && word & 0x800 != 0;
    match class {
        Class::Br { .. } | Class::Blr { .. } => !is_signed,
        Class::Ret { .. } | Class::B { .. } | Class::Bl { .. } => true,
        Class::BCond { .. } | Class::Cbz { .. } | Class::Tbz { .. } | Class::Nop => true,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Any text and place has a verdict or none. What is simulated is taken.
    #[test]
    fn any_text_has_a_verdict(text in vec(any::<u8>(), 0..200), at in 0_usize..210) {
        let _ = X86::unprobable(&text, at);
        let _ = Arm64::unprobable(&text, at);
    }

    #[test]
    fn what_is_simulated_is_taken(word in 0x1400_0000_u32.., register in 0_u32..32) {
        let words = [word, word & !0x3e0 | register << 5];
        for word in words {
            if Class::of(word).is_some_and(|class| is_simulated(class, word)) {
                prop_assert_eq!(Arm64::unprobable(&word.to_le_bytes(), 0), None);
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The comparison sees what differs, and only that.

use exits::{
    compare::{
        compare,
        Report, //
    },
    image::{
        Image,
        Section, //
    },
    listing::{
        self,
        Does,
        Insn, //
    },
};
use object::Architecture;

const ENTRY: u64 = 0xffff_ffff_8100_0000;

/// A function with a part that was moved away, the return thunk, and a function that it calls in the end.
///
/// ```text
/// f:       endbr64; test %edi,%edi; je f.cold; jmp __x86_return_thunk; int3
/// f.cold:  push %rbx; jmp other; 0; 0
/// ```
const TEXT: &[u8] = &[
    0xf3, 0x0f, 0x1e, 0xfa, 0x85, 0xff, 0x74, 0x06, 0xe9, 0x0d, 0, 0, 0, 0xcc, // f
    0x53, 0xe9, 0x07, 0, 0, 0, 0, 0, // f.cold
    0xcc, 0xcc, 0xcc, 0xcc, // padding
    0xc3, // __x86_return_thunk
    0xc3, // other
];
const LISTING: &str = "
exits.elf:	file format elf64-x86-64

Disassembly of section .text:

ffffffff81000000 <f>:
ffffffff81000000: f3 0f 1e fa          	endbr64
ffffffff81000004: 85 ff                	testl	%edi, %edi
ffffffff81000006: 74 06                	je	0xffffffff8100000e <f.cold>
ffffffff81000008: e9 0d 00 00 00       	jmp	0xffffffff8100001a <__x86_return_thunk>
ffffffff8100000d: cc                   	int3

ffffffff8100000e <f.cold>:
ffffffff8100000e: 53                   	pushq	%rbx
ffffffff8100000f: e9 07 00 00 00       	jmp	0xffffffff8100001b <other>
ffffffff81000014: 00 00                	addb	%al, (%rax)

ffffffff81000016 <padding>:
ffffffff81000016: cc                   	int3
ffffffff81000017: cc                   	int3
ffffffff81000018: cc                   	int3
ffffffff81000019: cc                   	int3

ffffffff8100001a <__x86_return_thunk>:
ffffffff8100001a: c3                   	retq

ffffffff8100001b <other>:
ffffffff8100001b: c3                   	retq
";

fn image() -> Image {
    let symbols = [
        (0, "f"),
        (0, "alias"),
        (14, "f.cold"),
        (22, ".Lpadding"),
        (22, "__pfx_padding"),
        (26, "__x86_return_thunk"),
        (27, "other"),
    ];
    Image::new(
        Architecture::X86_64,
        vec![Section {
            name: ".text".to_owned(),
            address: ENTRY,
            text: TEXT.to_owned(),
        }],
        symbols.map(|(offset, name)| (ENTRY + offset, name.to_owned())),
    )
}

fn report(text: &str) -> Report {
    let listing = listing::parse(Architecture::X86_64, text.as_bytes()).unwrap();
    compare(&image(), &listing)
}

#[test]
fn what_agrees_passes() {
    let report = report(LISTING);
    assert_eq!(report.differing_insns, [""; 0]);
    assert_eq!(report.differing_functions, [""; 0]);
    assert_eq!((report.insns, report.functions), (13, 3));
    let count = |verdict| report.verdicts[verdict].values().sum::<u64>();
    assert_eq!(count("returns, and tail calls"), 1);
    assert_eq!(count("returns only"), 2);
    assert_eq!(report.returns["ret"], 2);
    assert_eq!(report.returns["__x86_return_thunk"], 1);
    assert_eq!(
        (report.cold.by_jump, report.cold.by_name, report.cold.all),
        (1, 0, 1)
    );
    let places: Vec<_> = report
        .list
        .iter()
        .map(|line| line.rsplit('\t').next().unwrap())
        .collect();
    assert_eq!(
        places,
        ["f.cold+0x1", "__x86_return_thunk+0x0", "other+0x0"]
    );
}

/// Each way in which the disassembler may be of another opinion.
#[test]
fn what_differs_is_told() {
    let changes = [
        // Another kind; the exits and blocks of the function may be the same.
        ("testl	%edi, %edi", "jmpq	*%rdi", true),
        ("pushq	%rbx", "nop", false),
        ("endbr64", "nop", false),
        ("pushq	%rbx", "callq	*%rbx", false),
        ("pushq	%rbx", "lretq", true),
        ("je	0xffffffff8100000e", "jmp	0xffffffff8100000e", true),
        // None.
        ("testl	%edi, %edi", "<unknown>", true),
        // Another target.
        ("je	0xffffffff8100000e", "je	0xffffffff8100000f", true),
        ("je	0xffffffff8100000e", "je	0xffffffff81000010", true),
        ("jmp	0xffffffff8100001b", "jmp	0xffffffff8100001a", true),
        ("jmp	0xffffffff8100001a", "jmp	0xffffffff8100001b", true),
        // Another length.
        (
            "ffffffff81000004: 85 ff ",
            "ffffffff81000004: 85 ff 74 ",
            true,
        ),
        // Another place.
        ("ffffffff81000004: 85 ff ", "ffffffff81000005: 85 ff ", true),
        ("ffffffff8100001b: c3 ", "ffffffff8100001c: c3 ", true),
    ];
    for (from, to, function_differs) in changes {
        assert_eq!(LISTING.matches(from).count(), 1, "{from:?}");
        let report = report(&LISTING.replace(from, to));
        assert_eq!(report.differing_insns.len(), 1, "{to:?}");
        let functions = report.differing_functions.len();
        assert_eq!(functions, usize::from(function_differs), "{to:?}");
    }
    // Where it says nothing.
    let (cut, _) = LISTING.split_once("ffffffff8100000e: ").unwrap();
    assert_eq!(report(cut).differing_functions.len(), 3);
}

#[test]
fn an_image_is_the_same_from_a_file() {
    let image = image();
    let again = Image::of_elf(&image.to_elf()).unwrap();
    assert_eq!(again.symbols, image.symbols);
    assert_eq!(again.architecture, image.architecture);
    assert_eq!(again.sections.len(), 1);
    assert_eq!(again.sections[0].text, TEXT);
    assert_eq!(again.sections[0].name, ".text");
    assert_eq!(again.sections[0].address, ENTRY);
    assert!(Image::of_elf(b"not an ELF file").is_err());
}

#[test]
fn symbols_go_on_to_the_next() {
    let image = image();
    assert_eq!(image.symbols[0].names, ["alias", "f"]);
    assert_eq!(image.part(0).unwrap().text.len(), 14);
    let last = image.symbols.len() - 1;
    assert_eq!(image.part(last).unwrap().text, [0xc3]);
    assert_eq!(image.place(ENTRY + 15), "f.cold+0x1");
    assert_eq!(image.place(ENTRY - 1), format!("{:#x}", ENTRY - 1));
    assert_eq!(image.names_at(ENTRY + 1), [""; 0]);
    let functions = image.symbols.iter().filter(|symbol| symbol.is_function());
    assert_eq!(functions.count(), 3);
}

/// A prefix may have a line of its own.
#[test]
fn prefixes_belong_to_what_follows() {
    let text = "
  10: f0                   	lock
  11: 48 ff 00             	incq	(%rax)
  14: f3 48 ab             	rep		stosq	%rax, %es:(%rdi)
  17: 2e e9 00 00 00 00    	jmp	0x1d <f+0xd>
  1d: 3e ff e0             	notrack		jmpq	*%rax
  20: f0                   	lock
  22: c3                   	retq
  23: d6                   	<unknown>
  24: 06                   	<unknown>
  25: f3                   	rep
";
    let insn = |address, len, does| Insn { address, len, does };
    let listing = listing::parse(Architecture::X86_64, text.as_bytes()).unwrap();
    assert_eq!(
        listing.insns,
        [
            insn(0x10, 4, Does::Plain),
            insn(0x14, 3, Does::Plain),
            insn(0x17, 6, Does::Jump(0x1d)),
            insn(0x1d, 3, Does::JumpIndirect),
            insn(0x20, 1, Does::Unknown),
            insn(0x22, 1, Does::Return),
            insn(0x23, 1, Does::Trap),
            insn(0x24, 1, Does::Unknown),
            insn(0x25, 1, Does::Unknown),
        ]
    );
    assert_eq!(listing.faults, [1]);
}

#[test]
fn words_of_arm64() {
    let text = "
ffff800080010000: d503245f     	bti	c
ffff800080010004: d503233f     	paciasp
ffff800080010008: 54000041     	b.ne	0xffff800080010010 <f+0x10>
ffff80008001000c: 36180060     	tbz	w0, #3, 0xffff800080010018 <f+0x18>
ffff800080010010: 58000040     	ldr	x0, 0xffff800080010018 <f+0x18>
ffff800080010014: f9400000     	ldr	x0, [x0]
ffff800080010018: 97ffffff     	bl	0xffff800080010014 <f+0x14>
ffff80008001001c: d50323bf     	autiasp
ffff800080010020: d65f03c0     	ret
ffff800080010024: d61f0200     	br	x16
ffff800080010028: d4210000     	brk	#0x800
ffff80008001002c: 02000000     	<unknown>
";
    let listing = listing::parse(Architecture::Aarch64, text.as_bytes()).unwrap();
    let does: Vec<_> = listing.insns.iter().map(|insn| insn.does).collect();
    let at = |offset: u64| 0xffff_8000_8001_0000 + offset;
    assert_eq!(
        does,
        [
            Does::Landing,
            Does::Plain,
            Does::Branch(at(0x10)),
            Does::Branch(at(0x18)),
            Does::Reads(at(0x18)),
            Does::Plain,
            Does::Call(at(0x14)),
            Does::Plain,
            Does::Return,
            Does::JumpIndirect,
            Does::Trap,
            Does::Unknown,
        ]
    );
    assert!(listing.insns.iter().all(|insn| insn.len == 4));
}

#[test]
fn a_branch_to_nowhere_is_not_passed_over() {
    let text = "10: e9 00 00 00 00\tjmp\tsomewhere\n";
    assert!(listing::parse(Architecture::X86_64, text.as_bytes()).is_err());
}

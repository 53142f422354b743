// SPDX-License-Identifier: GPL-2.0

//! Functions of every shape, and where they leave.

use probe::insn::{
    arm64::Arm64,
    exits::{
        is_cold_part,
        BadText,
        Exit,
        ExitKind::{
            self,
            *, //
        },
        Part,
        Reason,
        SweptFunction,
        Verdict, //
    },
    x86::X86, //
};

use crate::builder::*;

const RET: &[u8] = &[0xc3];
const INT3: &[u8] = &[0xcc];
const PUSH: &[u8] = &[0x53];
const POP: &[u8] = &[0x5b];
const ENDBR: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
const NOP5: &[u8] = &[0x0f, 0x1f, 0x44, 0x00, 0x00];
const UD2: &[u8] = &[0x0f, 0x0b];
const JMP: &[u8] = &[0xe9];
const CALL: &[u8] = &[0xe8];
const JNE: &[u8] = &[0x0f, 0x85];

fn entry() -> Text {
    Text::at(ENTRY)
}

fn cold() -> Text {
    Text::at(COLD)
}

/// A function of these parts that leaves there, and by returns only.
#[track_caller]
fn returns(texts: &[Text], expected: &[(u64, ExitKind)]) {
    let (exits, verdict) = exits::<X86>(texts).unwrap();
    assert_eq!(exits, expected);
    assert_eq!(verdict, Verdict::Returns);
}

/// A function that leaves there; the exit of this index is no return.
#[track_caller]
fn leaves(texts: &[Text], expected: &[(u64, ExitKind)], first: usize) {
    let (exits, verdict) = exits::<X86>(texts).unwrap();
    assert_eq!(exits, expected);
    let (offset, kind) = expected[first];
    let address = ENTRY + offset;
    assert_eq!(verdict, Verdict::TailCall(Exit { address, kind }));
}

/// A function that never returns.
#[track_caller]
fn never(text: Text, expected: &[(u64, ExitKind)]) {
    let expected = (expected.to_vec(), Verdict::NoReturn);
    assert_eq!(exits::<X86>(&[text]), Ok(expected));
}

/// A function that is refused for its instruction at this offset.
#[track_caller]
fn refused(texts: &[Text], offset: u64, reason: Reason) {
    let address = ENTRY + offset;
    assert_eq!(exits::<X86>(texts), Err(BadText { address, reason }));
}

const fn tail(target: u64) -> ExitKind {
    TailCall {
        target,
        is_conditional: false,
    }
}

const fn conditional(target: u64) -> ExitKind {
    TailCall {
        target,
        is_conditional: true,
    }
}

#[test]
fn sites_of_returns() {
    returns(&[entry().raw(RET)], &[(0, Return)]);
    returns(&[entry().raw(PUSH).raw(RET).raw(INT3)], &[(1, Return)]);
    returns(&[entry().raw(&[0xf3, 0xc3])], &[(0, Return)]);
    returns(&[entry().raw(&[0xc2, 0x00, 0x00])], &[(0, Return)]);
    // Return thunks as they are built, with and without a prefix, and as they are rewritten.
    returns(&[entry().to(JMP, RETURN_THUNK)], &[(0, ReturnThunk)]);
    returns(
        &[entry().to(JMP, RETURN_THUNK).raw(INT3)],
        &[(0, ReturnThunk)],
    );
    returns(
        &[entry().to(&[0x2e, 0xe9], RETURN_THUNK)],
        &[(0, ReturnThunk)],
    );
    returns(
        &[entry().raw(&[0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc])],
        &[(0, Return)],
    );
    // mov $0xc3c3c3c3,%eax; mov 0xc3(%rbx),%rax
    let text = entry().raw(&[0xb8, 0xc3, 0xc3, 0xc3, 0xc3]);
    let text = text.raw(&[0x48, 0x8b, 0x83, 0xc3, 0, 0, 0]);
    returns(&[text.raw(RET)], &[(12, Return)]);
}

/// Between the sections of a module, and after the last one.
#[test]
fn zeros_at_the_end() {
    // As an instruction, two of them are an add; of an odd number the last one is none.
    for count in [1, 2, 3, 4096] {
        let zeros = vec![0; count];
        let end = |text: Text| text.raw(INT3).raw(&zeros);
        returns(&[end(entry().raw(RET))], &[(0, Return)]);
        returns(
            &[
                entry().to(JNE, COLD).raw(RET),
                end(cold().raw(PUSH).to(JMP, ENTRY + 6)).raw(&zeros),
            ],
            &[(6, Return)],
        );
        never(entry().to(CALL, OTHER).raw(&zeros), &[(0, NoReturn)]);
        leaves(
            &[entry().raw(RET).raw(PUSH).raw(&zeros)],
            &[(0, Return), (1, FallThrough)],
            1,
        );
        // After padding, and into it.
        returns(&[entry().raw(RET).raw(NOP5).raw(&zeros)], &[(0, Return)]);
        let (nop, zero) = (ENTRY + 7, ENTRY + 12);
        for target in [nop, zero] {
            let text = entry().to(JNE, target).raw(RET).raw(NOP5);
            refused(&[text.raw(&zeros)], 0, Reason::Target(target));
        }
    }
    // They are the end of an instruction, too: mov $0,%eax.
    let text = entry().raw(RET).raw(&[0xb8, 0, 0, 0, 0]);
    leaves(&[text.raw(&[0; 8])], &[(0, Return), (1, FallThrough)], 1);
    // Not at the end: add %al,(%rax); add %al,(%rsi).
    let text = entry().raw(RET).raw(&[0, 0, 0, 0x06]);
    leaves(&[text], &[(0, Return), (3, FallThrough)], 1);
    // Nothing else.
    never(entry().raw(&[0; 16]), &[]);
    let ret = 0xd65f_03c0_u32;
    let (exits, verdict) = exits::<Arm64>(&[entry().words(&[ret, 0, 0])]).unwrap();
    assert_eq!((exits, verdict), (vec![(0, Return)], Verdict::Returns));
}

#[test]
fn shapes_that_return() {
    // The last byte; before padding of each sort.
    returns(&[entry().raw(ENDBR).raw(NOP5).raw(RET)], &[(9, Return)]);
    returns(
        &[entry().raw(RET).raw(NOP5).raw(&[0x66, 0x90, 0x90])],
        &[(0, Return)],
    );
    returns(&[entry().raw(RET).raw(&[0xcc; 15])], &[(0, Return)]);
    // Two: je 1f; ret; 1: ret
    returns(
        &[entry().raw(&[0x74, 0x01]).raw(RET).raw(RET)],
        &[(2, Return), (3, Return)],
    );
    // Eight, each after a jump that leads past it.
    let text = (0..8).fold(entry(), |text, _| text.raw(&[0x75, 0x01]).raw(RET));
    let expected: Vec<_> = (0..8).map(|n| (n * 3 + 2, Return)).collect();
    returns(&[text.raw(UD2)], &expected);
    // A shared epilogue: jne 1f; nop5; jmp 1f; push; 1: pop; ret
    let text = entry()
        .raw(&[0x75, 0x08])
        .raw(NOP5)
        .raw(&[0xeb, 0x01])
        .raw(PUSH);
    returns(&[text.raw(POP).raw(RET)], &[(11, Return)]);
    // A return that no flow reaches, as after a jump label that is off.
    returns(
        &[entry().raw(NOP5).raw(RET).raw(PUSH).raw(RET)],
        &[(5, Return), (7, Return)],
    );
    // A loop back, and one that is in front: 1: push; jne 1b; ret
    returns(
        &[entry().raw(PUSH).raw(PUSH).raw(&[0x75, 0xfd]).raw(RET)],
        &[(4, Return)],
    );
    // After WARN(), and after BUG() and a call that does not return.
    returns(&[entry().raw(UD2).raw(RET)], &[(2, Return)]);
    let text = entry().raw(&[0x75, 0x01]).raw(RET).to(CALL, OTHER);
    returns(&[text.raw(INT3)], &[(2, Return), (3, NoReturn)]);
}

#[test]
fn shapes_that_never_return() {
    never(entry().to(CALL, OTHER), &[(0, NoReturn)]);
    never(
        entry().raw(PUSH).to(CALL, OTHER).raw(NOP5).raw(NOP5),
        &[(1, NoReturn)],
    );
    never(entry().raw(&[0xff, 0xd0]), &[(0, NoReturn)]);
    never(entry().raw(PUSH).raw(UD2), &[]);
    // Loops: 1: pause; jmp 1b, and jmp to itself after the entry.
    never(entry().raw(PUSH).raw(&[0xf3, 0x90, 0xeb, 0xfc]), &[]);
    never(entry().raw(NOP5).raw(&[0xeb, 0xfe]), &[]);
    never(entry(), &[]);
}

#[test]
fn cold_parts() {
    // jne COLD; ret, and there: ud2; jmp back.
    let hot = || entry().raw(PUSH).to(JNE, COLD).raw(POP).raw(RET);
    let back = ENTRY + 7;
    returns(&[hot(), cold().raw(UD2).to(JMP, back)], &[(8, Return)]);
    // The part has the only return.
    let hot = || entry().raw(PUSH).to(JMP, COLD + 1);
    let parts = || [hot(), cold().raw(PUSH).raw(RET)];
    returns(&parts(), &[(1, Return)]);
    // It is missing; also where a tail call was before.
    let (found, verdict) = exits::<X86>(&[hot()]).unwrap();
    assert_eq!(found, [(1, ExitKind::Part { target: COLD + 1 })]);
    assert_eq!(verdict, Verdict::Part(COLD + 1));
    let text = entry().to(JNE, OTHER).to(JNE, COLD).raw(RET);
    let (_, verdict) = exits::<X86>(&[text]).unwrap();
    assert_eq!(verdict, Verdict::Part(COLD));
    // It ends with a call that does not return, and with a tail call.
    let hot = || entry().to(JNE, COLD).raw(RET);
    returns(
        &[hot(), cold().to(CALL, OTHER)],
        &[(6, Return), (0, NoReturn)],
    );
    let (_, verdict) = exits::<X86>(&[hot(), cold().to(JMP, OTHER)]).unwrap();
    let (address, kind) = (COLD, tail(OTHER));
    assert_eq!(verdict, Verdict::TailCall(Exit { address, kind }));
    // It jumps into an instruction of the other part.
    let address = COLD;
    let reason = Reason::Target(ENTRY + 1);
    let parts = [hot(), cold().to(JMP, ENTRY + 1)];
    assert_eq!(exits::<X86>(&parts), Err(BadText { address, reason }));
}

#[test]
fn cold_parts_are_known_by_name() {
    for (symbol, function, expected) in [
        ("vfs_read.cold", "vfs_read", true),
        ("vfs_read.cold.12", "vfs_read", true),
        ("do_one.isra.0.cold", "do_one.isra.0", true),
        ("do_one.part.0", "do_one", false),
        ("do_one.part.0.cold", "do_one", false),
        ("vfs_read", "vfs_read", false),
        ("vfs_readv.cold", "vfs_read", false),
        ("vfs_read.colder", "vfs_read", false),
        ("vfs_read.cold.", "vfs_read", false),
        ("vfs_read.cold.x", "vfs_read", false),
    ] {
        assert_eq!(
            is_cold_part(symbol, function),
            expected,
            "{symbol} {function}"
        );
    }
}

#[test]
fn tail_calls() {
    leaves(&[entry().to(JMP, OTHER)], &[(0, tail(OTHER))], 0);
    // Also where there are returns before and after, and to somewhere else within a function.
    let text = entry()
        .raw(&[0x75, 0x01])
        .raw(RET)
        .to(JMP, OTHER + 7)
        .raw(RET);
    leaves(
        &[text],
        &[(2, Return), (3, tail(OTHER + 7)), (8, Return)],
        1,
    );
    leaves(
        &[entry().to(JNE, OTHER).raw(RET)],
        &[(0, conditional(OTHER)), (6, Return)],
        0,
    );
    // The first of several.
    let text = entry().to(JNE, OTHER).to(JMP, OTHER + 1);
    leaves(&[text], &[(0, conditional(OTHER)), (6, tail(OTHER + 1))], 0);
    // Indirect ones, by thunk or not; a conditional jump to such a thunk, too.
    leaves(
        &[entry().to(JMP, INDIRECT_THUNK)],
        &[(0, IndirectTailCall)],
        0,
    );
    leaves(
        &[entry().to(JNE, INDIRECT_THUNK).raw(RET)],
        &[(0, IndirectTailCall), (6, Return)],
        0,
    );
    leaves(
        &[entry().raw(&[0xff, 0xe0]).raw(INT3)],
        &[(0, IndirectTailCall)],
        0,
    );
    leaves(
        &[entry().raw(&[0x41, 0xff, 0xe3])],
        &[(0, IndirectTailCall)],
        0,
    );
    // A static call as it runs, and one that does nothing: the latter is a return.
    leaves(&[entry().to(JMP, OTHER).raw(INT3)], &[(0, tail(OTHER))], 0);
    returns(
        &[entry().raw(&[0xc3, 0xcc, 0xcc, 0xcc, 0xcc])],
        &[(0, Return)],
    );
    // A probe on a conditional return would also be hit where it is not taken.
    leaves(
        &[entry().to(JNE, RETURN_THUNK).raw(RET)],
        &[(0, conditional(RETURN_THUNK)), (6, Return)],
        0,
    );
    // An optimized kprobe stands in for instructions: not known, so not trusted.
    leaves(
        &[entry().raw(NOP5).to(JMP, 0xffff_ffff_c000_0000).raw(RET)],
        &[(5, tail(0xffff_ffff_c000_0000)), (10, Return)],
        0,
    );
}

#[test]
fn tail_calls_to_itself() {
    leaves(&[entry().raw(NOP5).to(JMP, ENTRY)], &[(5, tail(ENTRY))], 0);
    leaves(
        &[entry().raw(NOP5).to(JNE, ENTRY).raw(RET)],
        &[(5, conditional(ENTRY)), (11, Return)],
        0,
    );
    // After endbr64, where such a call may arrive as well.
    let text = entry().raw(ENDBR).raw(NOP5).to(JMP, ENTRY + 4);
    leaves(&[text], &[(9, tail(ENTRY + 4))], 0);
    // But a loop goes on after the first instructions of the entry.
    never(entry().raw(ENDBR).raw(NOP5).to(JMP, ENTRY + 9), &[]);
    // A recursive call is a call.
    returns(
        &[entry().raw(ENDBR).to(CALL, ENTRY).raw(RET)],
        &[(9, Return)],
    );
    returns(
        &[entry().raw(ENDBR).to(CALL, ENTRY + 4).raw(RET)],
        &[(9, Return)],
    );
}

#[test]
fn other_ways_out() {
    leaves(&[entry().raw(&[0x48, 0xcf])], &[(0, FarReturn)], 0);
    leaves(&[entry().raw(PUSH)], &[(0, FallThrough)], 0);
    leaves(
        &[entry().raw(PUSH).raw(NOP5).raw(NOP5)],
        &[(0, FallThrough)],
        0,
    );
    leaves(
        &[entry().raw(RET).raw(&[0x75, 0xfe])],
        &[(0, Return), (1, FallThrough)],
        1,
    );
    // To just after the last instruction.
    let end = ENTRY + 7;
    leaves(
        &[entry().to(JNE, end).raw(RET)],
        &[(0, conditional(end)), (6, Return)],
        0,
    );
}

#[test]
fn text_that_is_not_understood() {
    // Not defined, and cut short.
    refused(
        &[entry().raw(PUSH).raw(&[0x06]).raw(RET)],
        1,
        Reason::Undefined,
    );
    refused(&[entry().raw(RET).raw(&[0xe9, 0x00])], 1, Reason::Undefined);
    // Into an instruction, forward and back, by each sort of branch.
    refused(
        &[entry().raw(&[0xeb, 0x01]).raw(NOP5).raw(RET)],
        0,
        Reason::Target(ENTRY + 3),
    );
    refused(
        &[entry().raw(NOP5).raw(&[0x75, 0xfc]).raw(RET)],
        5,
        Reason::Target(ENTRY + 3),
    );
    refused(
        &[entry().raw(&[0xe8, 1, 0, 0, 0]).raw(NOP5).raw(RET)],
        0,
        Reason::InnerCall(ENTRY + 6),
    );
    // To padding, from where it would go on into the next function.
    refused(
        &[entry().raw(&[0x75, 0x01]).raw(RET).raw(NOP5)],
        0,
        Reason::Target(ENTRY + 3),
    );
    // A return that no probe can be on.
    refused(
        &[entry().raw(&[0x75, 0x01]).raw(RET).raw(&[0xc2, 0x08, 0x00])],
        3,
        Reason::Pops,
    );
    // A call of the instruction after it: the return that follows is its own, at first.
    let text = entry().raw(&[0xe8, 1, 0, 0, 0]).raw(INT3).raw(POP).raw(RET);
    refused(&[text], 0, Reason::InnerCall(ENTRY + 6));
    // A breakpoint hides an instruction, except after an end.
    for before in [
        &[][..],
        PUSH,
        ENDBR,
        NOP5,
        &[0x74, 0x00],
        &[0x53, 0x90, 0x90],
    ] {
        let text = entry().raw(before).raw(INT3).raw(RET);
        refused(&[text], before.len() as u64, Reason::Breakpoint);
    }
    let text = cold().raw(PUSH).raw(INT3).raw(RET);
    refused(
        &[entry().raw(RET), text],
        COLD - ENTRY + 1,
        Reason::Breakpoint,
    );
}

#[test]
fn memory_that_is_too_small_is_refused() {
    let text = [0x90; 129];
    let parts = [Part {
        address: ENTRY,
        text: &text,
    }];
    assert_eq!(SweptFunction::<X86>::words(&parts), 3);
    assert_eq!(SweptFunction::<Arm64>::words(&parts), 1);
    let reason = Reason::Memory;
    let bad = BadText {
        address: ENTRY,
        reason,
    };
    assert_eq!(
        SweptFunction::<X86>::sweep(&parts, &mut [0; 2]).err(),
        Some(bad)
    );
    assert!(SweptFunction::<X86>::sweep(&parts, &mut [0; 3]).is_ok());
}

#[test]
fn boundaries_are_where_instructions_start() {
    let text = entry().raw(ENDBR).raw(NOP5).raw(PUSH).raw(RET).raw(NOP5);
    let parts = [Part {
        address: ENTRY,
        text: &text.bytes,
    }];
    let mut starts = [0];
    let function = SweptFunction::<X86>::sweep(&parts, &mut starts).unwrap();
    let boundaries: Vec<u64> = (0..20)
        .filter(|n| function.is_boundary(ENTRY + n))
        .collect();
    assert_eq!(boundaries, [0, 4, 9, 10]);
    assert!(!function.is_boundary(ENTRY - 1) && !function.is_boundary(u64::MAX));
    let lens: Vec<_> = function
        .instructions()
        .map(|(at, insn)| (at - ENTRY, insn.len))
        .collect();
    assert_eq!(lens, [(0, 4), (4, 5), (9, 1), (10, 1), (11, 5)]);
}

mod arm64 {
    use super::*;

    const RET: u32 = 0xd65f_03c0;
    const NOP: u32 = 0xd503_201f;
    const ADD: u32 = 0x8b02_0020;
    const BTI: u32 = 0xd503_245f;
    const PACIASP: u32 = 0xd503_233f;
    const AUTIASP: u32 = 0xd503_23bf;

    /// `b` to `target` from the word of this index.
    fn b(index: u64, target: u64) -> u32 {
        let distance = target.wrapping_sub(ENTRY + index * 4);
        0x1400_0000 | (distance as u32 >> 2) & 0x03ff_ffff
    }

    #[track_caller]
    fn check(words: &[u32], expected: &[(u64, ExitKind)], verdict: Verdict) {
        let expected = (expected.to_vec(), verdict);
        assert_eq!(exits::<Arm64>(&[entry().words(words)]), Ok(expected));
    }

    #[track_caller]
    fn leaves(words: &[u32], offset: u64, kind: ExitKind) {
        let address = ENTRY + offset;
        check(
            words,
            &[(offset, kind)],
            Verdict::TailCall(Exit { address, kind }),
        );
    }

    #[test]
    fn returns() {
        check(&[ADD, RET], &[(4, Return)], Verdict::Returns);
        check(&[0xd65f_0120], &[(0, Return)], Verdict::Returns);
        check(
            &[BTI, PACIASP, AUTIASP, RET],
            &[(12, Return)],
            Verdict::Returns,
        );
        check(
            &[PACIASP, 0xd65f_0bff, NOP, NOP],
            &[(4, Return)],
            Verdict::Returns,
        );
        // cbz x0, 1f; ret; 1: ret
        check(
            &[0xb400_0040, RET, RET],
            &[(4, Return), (8, Return)],
            Verdict::Returns,
        );
    }

    #[test]
    fn branches_back() {
        // A loop, also of tbz and b.ne, and one without an end.
        check(&[BTI, NOP, ADD, b(3, ENTRY + 8)], &[], Verdict::NoReturn);
        check(
            &[ADD, ADD, 0x54ff_ffe1, RET],
            &[(12, Return)],
            Verdict::Returns,
        );
        check(
            &[ADD, ADD, 0x3607_ffe0, RET],
            &[(12, Return)],
            Verdict::Returns,
        );
        // To the entry, after its bti too, and to the function before.
        leaves(&[ADD, b(1, ENTRY)], 4, tail(ENTRY));
        leaves(&[BTI, ADD, b(2, ENTRY + 4)], 8, tail(ENTRY + 4));
        leaves(&[ADD, b(1, ENTRY - 64)], 4, tail(ENTRY - 64));
    }

    #[test]
    fn ways_out() {
        leaves(&[b(0, OTHER)], 0, tail(OTHER));
        leaves(&[AUTIASP, 0xd61f_0200], 4, IndirectTailCall);
        leaves(&[0xd69f_03e0], 0, FarReturn);
        leaves(&[ADD, NOP], 0, FallThrough);
        // bl as the last, brk, udf
        check(&[0x9400_1000], &[(0, NoReturn)], Verdict::NoReturn);
        check(&[ADD, 0xd421_0000], &[], Verdict::NoReturn);
        check(&[RET, 0], &[(0, Return)], Verdict::Returns);
    }

    #[test]
    fn literal_pools() {
        // ldr x0, 1f; ret; 1: .quad, which could be instructions.
        let bad = BadText {
            address: ENTRY,
            reason: Reason::Data(ENTRY + 8),
        };
        let text = entry().words(&[0x5800_0040, RET, RET, RET]);
        assert_eq!(exits::<Arm64>(&[text]), Err(bad));
        // One that is elsewhere does not matter.
        check(&[0x5800_0400, RET], &[(4, Return)], Verdict::Returns);
    }

    #[test]
    fn text_that_is_not_understood() {
        let refused = |text, offset| {
            let address = ENTRY + offset;
            let reason = Reason::Undefined;
            assert_eq!(exits::<Arm64>(&[text]), Err(BadText { address, reason }));
        };
        refused(entry().words(&[ADD, 0x0200_0000, RET]), 4);
        refused(entry().words(&[RET]).raw(&[0x1f, 0x20, 0x03]), 4);
    }
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions with every kind of exit that arm64 has, for the tests of probes on return instructions.
 * exits.c calls them. Unless a comment says otherwise, a function returns its argument plus one.
 */

#include <linux/cfi_types.h>
#include <linux/linkage.h>
#include <asm/assembler.h>

/*
 * Starts a function as the compiler starts one that ftrace may trace: the space before it is for
 * the address of an ftrace_ops. Functions without this start cannot be traced.
 */
.macro TRACED
	.balign	16
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS
	nop
	nop
.Lpatch\@:
	.pushsection __patchable_function_entries, "awo", %progbits, .text
	.balign	8
	.quad	.Lpatch\@
	.popsection
	nop
	nop
#endif
.endm

.macro ROOM
#ifdef CONFIG_ARM64_BTI_KERNEL
	bti	c
#endif
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
#ifndef CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS
.Lroom\@:
	.pushsection __patchable_function_entries, "awo", %progbits, .text
	.balign	8
	.quad	.Lroom\@
	.popsection
#endif
	nop
	nop
#endif
.endm

#define FUNC_START(name) TRACED; SYM_TYPED_START(name, SYM_L_GLOBAL, SYM_A_NONE) ROOM

/* Starts a function that ftrace cannot trace. */
#define FUNC_START_PLAIN(name) SYM_TYPED_START(name, SYM_L_GLOBAL, SYM_A_NONE)

.text

/* Kinds of return instructions. */

FUNC_START(exits_ret)
	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_ret)
SYM_FUNC_ALIAS(exits_alias, exits_ret)

/* The compiler's code for a function that signs the return address. */
FUNC_START(exits_signed_ret)
	hint	#25			/* paciasp */
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	add	x0, x0, #1
	ldp	x29, x30, [sp], #16
	hint	#29			/* autiasp */
	ret
SYM_FUNC_END(exits_signed_ret)

/* Leaves by the return with this number, and returns 100 plus the number. */
.macro RETURN_IF number:req
	cmp	x0, #\number
	b.ne	.Lnext\@
	mov	x0, #100 + \number
	ret
.Lnext\@:
.endm

.macro RETURN_ELSE number:req
	mov	x0, #100 + \number
	ret
.endm

/* Adds to a register unless the argument is 0. */
.macro ADD_IF
	cbz	x0, .Lnext\@
	add	x1, x1, #1
.Lnext\@:
.endm

#include "exits_many.h"

/* Padding follows the return. */
FUNC_START(exits_padding)
	add	x0, x0, #1
	ret
	.rept	7
	nop
	.endr
SYM_FUNC_END(exits_padding)

/* A conditional jump leads to the return. The function returns 0 for 0. */
FUNC_START(exits_jump_to_ret)
	cbz	x0, 1f
	add	x0, x0, #1
1:	ret
SYM_FUNC_END(exits_jump_to_ret)

/*
 * All paths lead to one end. The function returns 1 for 0, 3 for 1, and any other argument
 * unchanged.
 */
FUNC_START(exits_epilogue)
	cbnz	x0, 2f
	mov	x0, #1
1:	ret
2:	cmp	x0, #1
	b.ne	1b
	mov	x0, #3
	b	1b
SYM_FUNC_END(exits_epilogue)

/* Only the cold part has a return. */
FUNC_START(exits_cold)
	add	x0, x0, #1
	b	exits_cold.cold
SYM_FUNC_END(exits_cold)

.pushsection .text.unlikely, "ax"
SYM_FUNC_START_LOCAL(exits_cold.cold)
	ret
SYM_FUNC_END(exits_cold.cold)
.popsection

/* For 0, returns here. For 1, returns in the cold part. Otherwise jumps there and back. */
FUNC_START(exits_half_cold)
	add	x0, x0, #1
	cmp	x0, #1
	b.eq	.Lback
	b	exits_half_cold.cold
.Lback:	ret
SYM_FUNC_END(exits_half_cold)

.pushsection .text.unlikely, "ax"
SYM_FUNC_START_LOCAL(exits_half_cold.cold)
	cmp	x0, #2
	b.eq	1f
	b	.Lback
1:	ret
SYM_FUNC_END(exits_half_cold.cold)
.popsection

/* Functions that do not return. No code calls them. */

FUNC_START(exits_never)
	bl	panic
SYM_FUNC_END(exits_never)

FUNC_START(exits_trap)
	brk	#0x800
SYM_FUNC_END(exits_trap)

FUNC_START(exits_loop)
1:	yield
	b	1b
SYM_FUNC_END(exits_loop)

/* Tail calls. */

FUNC_START(exits_tail)
	b	exits_padding
SYM_FUNC_END(exits_tail)

FUNC_START(exits_tail_conditional)
	cbnz	x0, exits_padding
	ret
SYM_FUNC_END(exits_tail_conditional)

FUNC_START(exits_tail_register)
	adr	x16, exits_padding
	br	x16
SYM_FUNC_END(exits_tail_register)

/* For the argument N, jumps to its own start N - 1 times. Returns 1. */
FUNC_START(exits_tail_itself)
	subs	x1, x0, #1
	mov	x0, #1
	b.gt	1f
	ret
1:	mov	x0, x1
	b	exits_tail_itself
SYM_FUNC_END(exits_tail_itself)

/* Other exits. */

FUNC_START(exits_far)
	eret
SYM_FUNC_END(exits_far)

/* Falls through into the next function. */
FUNC_START(exits_falls_through)
	add	x0, x0, #1
SYM_FUNC_END(exits_falls_through)

FUNC_START_PLAIN(exits_after)
	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_after)

/* Text that the analysis must reject. The bad instructions are never executed. */

FUNC_START(exits_bad_byte)
	add	x0, x0, #1
	ret
	.inst	0x00010000
	ret
SYM_FUNC_END(exits_bad_byte)

/* Data in the text. */
FUNC_START(exits_bad_data)
	ldr	x1, 1f
	add	x0, x0, x1
	ret
	.balign	8
1:	.quad	1
SYM_FUNC_END(exits_bad_data)

/* Calls a part of itself, so that part's return is also a return of the function. */
FUNC_START(exits_bad_call)
	mov	x9, x30
	bl	1f
	mov	x30, x9
	ret
1:	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_bad_call)

/* Returns that no kprobe can replace. */

/*
 * The kernel treats clrex as a part of the exclusive sequence, because it only searches for a
 * store.
 */
FUNC_START(exits_bad_exclusive)
	ldxr	x1, [sp]
	clrex
	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_bad_exclusive)

/* No code calls this function, because its return address is not signed. */
FUNC_START(exits_bad_signed)
	.inst	0xd65f0bff		/* retaa */
SYM_FUNC_END(exits_bad_signed)

/* Functions that kprobes may not probe. */

FUNC_START(exits_no_probe)
	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_no_probe)
NOKPROBE(exits_no_probe)

.pushsection .noinstr.text, "ax"
SYM_TYPED_FUNC_START(exits_noinstr)
	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_noinstr)
.popsection

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that leave in every way that arm64 has, for the tests of probes on return instructions
 * (exits.c calls them). Where nothing else is said, a function returns its argument and one more.
 */

#include <linux/cfi_types.h>
#include <linux/linkage.h>
#include <asm/assembler.h>

/*
 * As the compiler begins a function that may be traced: in front of it is room for the address of
 * an ftrace_ops. In others there are no events.
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

/* One that is not traced. */
#define FUNC_START_PLAIN(name) SYM_TYPED_START(name, SYM_L_GLOBAL, SYM_A_NONE)

.text

/* The sites of a return. */

FUNC_START(exits_ret)
	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_ret)
SYM_FUNC_ALIAS(exits_alias, exits_ret)

/* As the compiler writes it, where it signs the return address. */
FUNC_START(exits_signed_ret)
	hint	#25			/* paciasp */
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	add	x0, x0, #1
	ldp	x29, x30, [sp], #16
	hint	#29			/* autiasp */
	ret
SYM_FUNC_END(exits_signed_ret)

/* It leaves by the return of this number, and returns 100 and the number. */
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

#include "exits_many.h"

/* Behind the return stands what fills. */
FUNC_START(exits_padding)
	add	x0, x0, #1
	ret
	.rept	7
	nop
	.endr
SYM_FUNC_END(exits_padding)

/* A conditional jump leads to the return: 0 stays 0. */
FUNC_START(exits_jump_to_ret)
	cbz	x0, 1f
	add	x0, x0, #1
1:	ret
SYM_FUNC_END(exits_jump_to_ret)

/* All ways lead to one end: 0 is 1, 1 is 3, and others are what they were. */
FUNC_START(exits_epilogue)
	cbnz	x0, 2f
	mov	x0, #1
1:	ret
2:	cmp	x0, #1
	b.ne	1b
	mov	x0, #3
	b	1b
SYM_FUNC_END(exits_epilogue)

/* The only return is in the part that was moved away. */
FUNC_START(exits_cold)
	add	x0, x0, #1
	b	exits_cold.cold
SYM_FUNC_END(exits_cold)

.pushsection .text.unlikely, "ax"
SYM_FUNC_START_LOCAL(exits_cold.cold)
	ret
SYM_FUNC_END(exits_cold.cold)
.popsection

/* A return here for 1, one there for 2; others go there and come back. */
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

/* Those that do not return. They are not called. */

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

/* To itself, as often as its argument says. */
FUNC_START(exits_tail_itself)
	subs	x1, x0, #1
	mov	x0, #1
	b.gt	1f
	ret
1:	mov	x0, x1
	b	exits_tail_itself
SYM_FUNC_END(exits_tail_itself)

/* Other ways out. */

FUNC_START(exits_far)
	eret
SYM_FUNC_END(exits_far)

/* It goes on into the next one. */
FUNC_START(exits_falls_through)
	add	x0, x0, #1
SYM_FUNC_END(exits_falls_through)

FUNC_START_PLAIN(exits_after)
	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_after)

/* Text that is not to be believed. What is bad in it is not run. */

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

/* A call within the function: its return is the function's own, too. */
FUNC_START(exits_bad_call)
	mov	x9, x30
	bl	1f
	mov	x30, x9
	ret
1:	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_bad_call)

/* Returns that no kprobe can replace. */

/* To the kernel the sequence of the load goes on: it looks for a store, and not for clrex. */
FUNC_START(exits_bad_exclusive)
	ldxr	x1, [sp]
	clrex
	add	x0, x0, #1
	ret
SYM_FUNC_END(exits_bad_exclusive)

/* It is not called: the return address is not signed. */
FUNC_START(exits_bad_signed)
	.inst	0xd65f0bff		/* retaa */
SYM_FUNC_END(exits_bad_signed)

/* Where no probe may be. */

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

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that leave in every way that x86-64 has, for the tests of probes on return instructions
 * (exits.c calls them). Where nothing else is said, a function returns its argument and one more.
 */

#include <linux/cfi_types.h>
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm.h>
#include <asm/nospec-branch.h>

/* What is never run, or leaves as no function does: objtool need not understand it. */
.macro FUNC_END_ODD name:req
SYM_FUNC_END(\name)
STACK_FRAME_NON_STANDARD \name
.endm

/* As the compiler begins a function that may be traced. In others there are no events. */
.macro FENTRY
#ifdef CONFIG_FUNCTION_TRACER
#ifndef CONFIG_FTRACE_MCOUNT_USE_OBJTOOL
	.pushsection __mcount_loc, "a"
	.quad	.Lfentry\@
	.popsection
#endif
.Lfentry\@:
	call	__fentry__
#endif
.endm

#define FUNC_START(name) SYM_TYPED_FUNC_START(name); FENTRY

/* One that begins behind the last byte of the one before. */
#define FUNC_START_AT_ONCE(name) SYM_TYPED_START(name, SYM_L_GLOBAL, SYM_A_NONE) ENDBR; FENTRY

/* One that no pointer leads to. */
#define FUNC_START_DIRECT(name) SYM_FUNC_START(name); FENTRY

/* ret as it stands, where the kernel would have a return thunk, or int3 behind it. */
#define PLAIN_RET ANNOTATE_UNRET_SAFE; ret

.text

/* The sites of a return. */

/* ret is the last byte. */
FUNC_START(exits_ret)
	lea	1(%rdi), %rax
	PLAIN_RET
SYM_FUNC_END(exits_ret)
SYM_FUNC_ALIAS(exits_alias, exits_ret)

FUNC_START_AT_ONCE(exits_ret_int3)
	lea	1(%rdi), %rax
	PLAIN_RET
	int3
SYM_FUNC_END(exits_ret_int3)

/* As the kernel has it: a return thunk, which is rewritten when the module is loaded. */
FUNC_START(exits_thunk)
	lea	1(%rdi), %rax
	RET
SYM_FUNC_END(exits_thunk)

#ifdef CONFIG_MITIGATION_RETHUNK
FUNC_START(exits_thunk_prefix)
	lea	1(%rdi), %rax
	cs jmp	__x86_return_thunk
SYM_FUNC_END(exits_thunk_prefix)
#endif

/* Return thunks that objtool does not know for such, and which nobody rewrites. */
#ifdef CONFIG_MITIGATION_ITS
FUNC_START(exits_thunk_stays)
	lea	1(%rdi), %rax
	jmp	its_return_thunk
SYM_FUNC_END(exits_thunk_stays)

FUNC_START(exits_thunk_prefix_stays)
	lea	1(%rdi), %rax
	cs jmp	its_return_thunk
SYM_FUNC_END(exits_thunk_prefix_stays)
#endif

/*
 * ret imm16: it takes the argument off the stack, where its caller put it. Of an instruction with a
 * kprobe the kernel does not do that part.
 */
FUNC_START_DIRECT(exits_ret_pops)
	mov	8(%rsp), %rax
	inc	%rax
	ANNOTATE_UNRET_SAFE
	ret	$8
	int3
FUNC_END_ODD exits_ret_pops

FUNC_START(exits_calls_ret_pops)
	push	%rdi
	call	exits_ret_pops
	RET
FUNC_END_ODD exits_calls_ret_pops

FUNC_START(exits_rep_ret)
	lea	1(%rdi), %rax
	ANNOTATE_UNRET_SAFE
	rep ret
	int3
SYM_FUNC_END(exits_rep_ret)

/* The byte of a ret in an immediate operand, and in a displacement. */
FUNC_START(exits_ret_inside)
	mov	$0xc3c3c3c3, %eax
	lea	0xc3c3(%rdi), %rax
	sub	$0xc3c2, %rax
	RET
SYM_FUNC_END(exits_ret_inside)

/* The shapes of a function. */

/* It leaves by the return of this number, and returns 100 and the number. */
.macro RETURN_IF number:req
	cmp	$\number, %rdi
	jne	.Lnext\@
	mov	$100 + \number, %eax
	RET
.Lnext\@:
.endm

.macro RETURN_ELSE number:req
	mov	$100 + \number, %eax
	RET
.endm

#include "exits_many.h"

/* Behind the return stands what fills, of every sort. */
FUNC_START(exits_padding)
	lea	1(%rdi), %rax
	PLAIN_RET
	.skip	7, 0xcc
	.nops	23
FUNC_END_ODD exits_padding

/* A conditional jump leads to the return: 0 stays 0. */
FUNC_START(exits_jump_to_ret)
	mov	%rdi, %rax
	test	%rax, %rax
	je	1f
	inc	%rax
1:	PLAIN_RET
	int3
SYM_FUNC_END(exits_jump_to_ret)

/* All ways lead to one end: 0 is 1, 1 is 3, and others are what they were. */
FUNC_START(exits_epilogue)
	push	%rbx
	mov	%rdi, %rbx
	test	%rdi, %rdi
	jne	2f
	mov	$1, %ebx
1:	mov	%rbx, %rax
	pop	%rbx
	RET
2:	cmp	$1, %rdi
	jne	1b
	mov	$3, %ebx
	jmp	1b
SYM_FUNC_END(exits_epilogue)

/* The only return is in the part that was moved away. */
FUNC_START(exits_cold)
	lea	1(%rdi), %rax
	jmp	exits_cold.cold
SYM_FUNC_END(exits_cold)

.pushsection .text.unlikely, "ax"
SYM_FUNC_START_LOCAL(exits_cold.cold)
	RET
SYM_FUNC_END(exits_cold.cold)
.popsection

/* A return here for 0, one there for 1; others go there and come back. */
FUNC_START(exits_half_cold)
	lea	1(%rdi), %rax
	test	%rdi, %rdi
	jne	exits_half_cold.cold
.Lback:	RET
SYM_FUNC_END(exits_half_cold)

.pushsection .text.unlikely, "ax"
SYM_FUNC_START_LOCAL(exits_half_cold.cold)
	cmp	$1, %rdi
	jne	.Lback
	RET
SYM_FUNC_END(exits_half_cold.cold)
.popsection

/* Those that do not return. They are not called. */

FUNC_START_DIRECT(exits_never)
	call	panic
	int3
FUNC_END_ODD exits_never

FUNC_START_DIRECT(exits_trap)
	ud2
FUNC_END_ODD exits_trap

FUNC_START_DIRECT(exits_loop)
	nop
1:	pause
	jmp	1b
FUNC_END_ODD exits_loop

/* Tail calls. */

FUNC_START(exits_tail)
	jmp	exits_padding
SYM_FUNC_END(exits_tail)

FUNC_START(exits_tail_conditional)
	test	%rdi, %rdi
	jne	exits_padding
	xor	%eax, %eax
	RET
SYM_FUNC_END(exits_tail_conditional)

FUNC_START(exits_tail_indirect)
	lea	exits_padding(%rip), %rax
	JMP_NOSPEC rax
SYM_FUNC_END(exits_tail_indirect)

FUNC_START(exits_tail_register)
	lea	exits_padding(%rip), %rax
	ANNOTATE_RETPOLINE_SAFE
	jmp	*%rax
	int3
SYM_FUNC_END(exits_tail_register)

/* To itself, as often as its argument says. */
FUNC_START(exits_tail_itself)
	mov	$1, %eax
	dec	%rdi
	jg	1f
	RET
1:	jmp	exits_tail_itself
SYM_FUNC_END(exits_tail_itself)

/* Other ways out. */

FUNC_START_DIRECT(exits_far)
	lretq
	int3
FUNC_END_ODD exits_far

/* It goes on into the next one. */
FUNC_START(exits_falls_through)
	inc	%rdi
FUNC_END_ODD exits_falls_through

FUNC_START_AT_ONCE(exits_after)
	lea	1(%rdi), %rax
	RET
SYM_FUNC_END(exits_after)

/* Text that is not to be believed. What is bad in it is not run. */

/* retw, which Intel's processors take for ret, and AMD's do not. */
FUNC_START(exits_bad_byte)
	lea	1(%rdi), %rax
	RET
	ANNOTATE_UNRET_SAFE
	retw
	int3
FUNC_END_ODD exits_bad_byte

/* xbegin into an instruction, which objtool does not take for a jump. */
FUNC_START(exits_bad_branch)
1:	lea	1(%rdi), %rax
	RET
	.byte	0xc7, 0xf8
	.long	1b + 1 - . - 4
	RET
FUNC_END_ODD exits_bad_branch

/* A call within the function: its return is the function's own, too. */
FUNC_START(exits_bad_call)
	lea	1(%rdi), %rax
	ANNOTATE_INTRA_FUNCTION_CALL
	call	1f
1:	add	$8, %rsp
	RET
FUNC_END_ODD exits_bad_call

/* Where no probe may be. */

FUNC_START(exits_no_probe)
	lea	1(%rdi), %rax
	RET
SYM_FUNC_END(exits_no_probe)
_ASM_NOKPROBE(exits_no_probe)

.pushsection .noinstr.text, "ax"
SYM_TYPED_FUNC_START(exits_noinstr)
	lea	1(%rdi), %rax
	RET
SYM_FUNC_END(exits_noinstr)
.popsection

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions with every kind of exit that x86-64 has, for the tests of probes on return
 * instructions. exits.c calls them. Unless a comment says otherwise, a function returns its
 * argument plus one.
 */

#include <linux/cfi_types.h>
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm.h>
#include <asm/nospec-branch.h>

/*
 * Ends a function that never runs or leaves in an unusual way. objtool does not check the function.
 */
.macro FUNC_END_ODD name:req
SYM_FUNC_END(\name)
STACK_FRAME_NON_STANDARD \name
.endm

/* Starts a function as the compiler starts one that ftrace may trace. Others cannot be traced. */
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

/* Starts a function directly after the last byte of the previous function. */
#define FUNC_START_AT_ONCE(name) SYM_TYPED_START(name, SYM_L_GLOBAL, SYM_A_NONE) ENDBR; FENTRY

/* Starts a function that no pointer refers to. */
#define FUNC_START_DIRECT(name) SYM_FUNC_START(name); FENTRY

/* A plain ret, where the kernel would use a return thunk, or an int3 after the ret. */
#define PLAIN_RET ANNOTATE_UNRET_SAFE; ret

.text

/* Kinds of return instructions. */

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

/* The kernel's return thunk. The kernel rewrites the thunk when it loads the module. */
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

/* Return thunks that objtool does not recognize, so that the kernel does not rewrite them. */
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
 * ret imm16 also removes the argument that the caller pushed on the stack. If a kprobe is on the
 * instruction, the kernel does not do this.
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

/* Kinds of function layouts. */

/* Leaves by the return with this number, and returns 100 plus the number. */
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

/* Adds to a register unless the argument is 0. */
.macro ADD_IF
	test	%rdi, %rdi
	je	.Lnext\@
	inc	%rcx
.Lnext\@:
.endm

#include "exits_many.h"

/* Padding of all kinds follows the return. */
FUNC_START(exits_padding)
	lea	1(%rdi), %rax
	PLAIN_RET
	.skip	7, 0xcc
	.nops	23
FUNC_END_ODD exits_padding

/* A conditional jump leads to the return. The function returns 0 for 0. */
FUNC_START(exits_jump_to_ret)
	mov	%rdi, %rax
	test	%rax, %rax
	je	1f
	inc	%rax
1:	PLAIN_RET
	int3
SYM_FUNC_END(exits_jump_to_ret)

/*
 * All paths lead to one end. The function returns 1 for 0, 3 for 1, and any other argument
 * unchanged.
 */
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

/* Only the cold part has a return. */
FUNC_START(exits_cold)
	lea	1(%rdi), %rax
	jmp	exits_cold.cold
SYM_FUNC_END(exits_cold)

.pushsection .text.unlikely, "ax"
SYM_FUNC_START_LOCAL(exits_cold.cold)
	RET
SYM_FUNC_END(exits_cold.cold)
.popsection

/* For 0, returns here. For 1, returns in the cold part. Otherwise jumps there and back. */
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

/* The jump back from the cold part leads after the block of two bytes. */
FUNC_START(exits_short)
	xor	%eax, %eax
	test	%rdi, %rdi
	je	exits_short.cold
1:	dec	%rdi
	jns	1b
	mov	%edi, %eax
.Lshort:
	lea	7(%rax), %rax
	RET
SYM_FUNC_END(exits_short)

.pushsection .text.unlikely, "ax"
SYM_FUNC_START_LOCAL(exits_short.cold)
	mov	$3, %eax
	jmp	.Lshort
SYM_FUNC_END(exits_short.cold)
.popsection

/* Functions that do not return. No code calls them. */

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

/* For the argument N, jumps to its own start N - 1 times. Returns 1. */
FUNC_START(exits_tail_itself)
	mov	$1, %eax
	dec	%rdi
	jg	1f
	RET
1:	jmp	exits_tail_itself
SYM_FUNC_END(exits_tail_itself)

/* Other exits. */

FUNC_START_DIRECT(exits_far)
	lretq
	int3
FUNC_END_ODD exits_far

/* Falls through into the next function. */
FUNC_START(exits_falls_through)
	inc	%rdi
FUNC_END_ODD exits_falls_through

FUNC_START_AT_ONCE(exits_after)
	lea	1(%rdi), %rax
	RET
SYM_FUNC_END(exits_after)

/* Text that the analysis must reject. The bad instructions are never executed. */

/* retw. Intel's processors execute it as ret, and AMD's processors do not. */
FUNC_START(exits_bad_byte)
	lea	1(%rdi), %rax
	RET
	ANNOTATE_UNRET_SAFE
	retw
	int3
FUNC_END_ODD exits_bad_byte

/* xbegin to an address inside an instruction. objtool does not treat xbegin as a jump. */
FUNC_START(exits_bad_branch)
1:	lea	1(%rdi), %rax
	RET
	.byte	0xc7, 0xf8
	.long	1b + 1 - . - 4
	RET
FUNC_END_ODD exits_bad_branch

/* Calls a part of itself, so that part's return is also a return of the function. */
FUNC_START(exits_bad_call)
	lea	1(%rdi), %rax
	ANNOTATE_INTRA_FUNCTION_CALL
	call	1f
1:	add	$8, %rsp
	RET
FUNC_END_ODD exits_bad_call

/* Functions that kprobes may not probe. */

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

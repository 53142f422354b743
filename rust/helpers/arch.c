// SPDX-License-Identifier: GPL-2.0
/*
 * ktrace::arch: the C code for each architecture.
 *
 * Each architecture has a ktrace_tracepoint_stub(). ktrace attaches this stub to a tracepoint
 * instead of the tracepoint's own empty stub. The handler sees the state at the entry of the empty
 * stub: the registers with the arguments and the stack, as ftrace would save them. The stub's
 * parameters are the parameters in registers.
 */

#include <linux/build_bug.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/perf_event.h>
#include <linux/rethook.h>
#include <linux/sched.h>

#include "handlers.h"

struct pt_regs *ktrace_get_regs(struct ftrace_regs *fregs);

/* Code of the kernel that ktrace/arch implements without a call. */
struct pt_regs *ktrace_get_regs(struct ftrace_regs *fregs)
{
	return arch_ftrace_get_regs(fregs);
}

struct pt_regs *ktrace_place_regs(struct pt_regs *room, unsigned long code, unsigned long frame);

/* The code to which a function with a return probe returns: of kretprobes, of function graphs. */
struct ktrace_return_code {
	unsigned long kretprobe;
	unsigned long graph;
};

unsigned long ktrace_true_caller(unsigned long address, u64 place,
				 const struct ktrace_return_code *code);

/* The address that a kretprobe replaced in the call at this place, or 0. */
static unsigned long ktrace_kretprobe_caller(u64 place, unsigned long kretprobe)
{
	struct llist_node *node;

#ifdef CONFIG_RETHOOK
	for (node = READ_ONCE(current->rethooks.first); node; node = READ_ONCE(node->next)) {
		struct rethook_node *call = container_of(node, struct rethook_node, llist);

		if (call->frame == place && call->ret_addr != kretprobe)
			return call->ret_addr;
	}
#else
	for (node = READ_ONCE(current->kretprobe_instances.first); node;
	     node = READ_ONCE(node->next)) {
		struct kretprobe_instance *call =
			container_of(node, struct kretprobe_instance, llist);

		if ((unsigned long)call->fp == place && (unsigned long)call->ret_addr != kretprobe)
			return (unsigned long)call->ret_addr;
	}
#endif
	return 0;
}
NOKPROBE_SYMBOL(ktrace_kretprobe_caller);

/*
 * The address that a function graph replaced in the call at this place, or 0. The task's array has
 * an entry for each call, and other words between them, whose form only the kernel knows.
 */
static unsigned long ktrace_graph_caller(u64 place, unsigned long graph)
{
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
	unsigned long *words = READ_ONCE(current->ret_stack);
	int at = READ_ONCE(current->curr_ret_stack);

	at -= sizeof(struct ftrace_ret_stack) / sizeof(*words);
	for (; words && at >= 0; at--) {
		struct ftrace_ret_stack *call = (void *)&words[at];

		if ((unsigned long)call->retp == place && call->ret != graph)
			return call->ret;
	}
#endif
	return 0;
}
NOKPROBE_SYMBOL(ktrace_graph_caller);

/*
 * The address that a function returns to. @address is the one that it would return to. @place is
 * what the kernel knows the call by: on x86-64 the place of the return address on the stack, on
 * arm64 the frame pointer at the entry.
 *
 * If both a kretprobe and a function graph have replaced it, the kernel's unwinder finds the first
 * one only if the kretprobe was first. And it reads the place on the stack, which an interrupt may
 * have overwritten when the function has returned.
 */
unsigned long ktrace_true_caller(unsigned long address, u64 place,
				 const struct ktrace_return_code *code)
{
	int tries;

	for (tries = 0; tries < 2; tries++) {
		unsigned long found = 0;

		if (address == code->kretprobe)
			found = ktrace_kretprobe_caller(place, code->kretprobe);
		else if (address == code->graph)
			found = ktrace_graph_caller(place, code->graph);
		if (!found)
			break;
		address = found;
	}
	return address;
}
NOKPROBE_SYMBOL(ktrace_true_caller);

#ifdef CONFIG_X86_64
#include <asm/ibt.h>
#include <asm/nops.h>
#include <asm/unwind.h>

/* Compares FTRACE_SITE in ktrace/arch/x86_64.rs with the kernel's no-op. */
#define KTRACE_IS_NOP5(a, b, c, d, e) \
	((a) == 0x0f && (b) == 0x1f && (c) == 0x44 && (d) == 0x00 && (e) == 0x00)
#define KTRACE_EXPANDED(...) KTRACE_IS_NOP5(__VA_ARGS__)
static_assert(KTRACE_EXPANDED(BYTES_NOP5));

unsigned long ktrace_callers(unsigned long ip, u64 sp, u64 bp, unsigned long *to,
			     unsigned long len, const struct ktrace_return_code *code);
bool ktrace_landing_pads_match(u32 endbr, u32 sealed);
void ktrace_tracepoint_stub(void *data, unsigned long a0, unsigned long a1, unsigned long a2,
			    unsigned long a3, unsigned long a4);

/* Writes the addresses of the callers of the code with these registers. Returns their number. */
unsigned long ktrace_callers(unsigned long ip, u64 sp, u64 bp, unsigned long *to,
			     unsigned long len, const struct ktrace_return_code *code)
{
	struct pt_regs regs = { .ip = ip, .sp = sp, .bp = bp, .cs = __KERNEL_CS };
	struct unwind_state state;
	unsigned long count = 0;

	unwind_start(&state, current, &regs, NULL);
	while (count < len && !unwind_done(&state)) {
		unsigned long address;

#ifdef CONFIG_UNWINDER_ORC
		state.ip = ktrace_true_caller(state.ip, state.sp - sizeof(state.ip), code);
#endif
		address = unwind_get_return_address(&state);
		if (!address)
			break;
		to[count++] = address;
		unwind_next_frame(&state);
	}
	return count;
}
NOKPROBE_SYMBOL(ktrace_callers);

/* Compares LANDING_PADS in ktrace/arch/x86_64.rs with the kernel's instructions. */
bool ktrace_landing_pads_match(u32 endbr, u32 sealed)
{
#ifdef CONFIG_X86_KERNEL_IBT
	return endbr == gen_endbr() && sealed == gen_endbr_poison();
#else
	return true;
#endif
}

void notrace ktrace_tracepoint_stub(void *data, unsigned long a0, unsigned long a1,
				    unsigned long a2, unsigned long a3, unsigned long a4)
{
	struct ktrace_hook *hook = data;
	/* The code segment is 0. This marks the registers as incomplete. */
	struct __arch_ftrace_regs fregs = {
		.regs = {
			.di = (unsigned long)data,
			.si = a0,
			.dx = a1,
			.cx = a2,
			.r8 = a3,
			.r9 = a4,
			.ip = READ_ONCE(hook->stub) + MCOUNT_INSN_SIZE,
			/* For the unwinder: the caller's, which this function has saved first. */
			.bp = *(unsigned long *)__builtin_frame_address(0),
			/* The return address is directly above the saved frame pointer. */
			.sp = (unsigned long)__builtin_frame_address(0) + sizeof(long),
		},
	};

	ktrace_run_hook(hook, (struct ftrace_regs *)&fregs);
}
NOKPROBE_SYMBOL(ktrace_tracepoint_stub);

/*
 * Returns the registers for perf at a place in a module: see arch::CodePlace. The kernel's
 * perf_fetch_caller_regs() is not suitable, because it returns the registers of the caller.
 */
struct pt_regs *ktrace_place_regs(struct pt_regs *regs, unsigned long code, unsigned long frame)
{
	perf_arch_fetch_caller_regs(regs, code);
	regs->sp = frame;
	return regs;
}

#endif /* CONFIG_X86_64 */

#ifdef CONFIG_ARM64
#include <linux/stdarg.h>
#include <asm/alternative.h>

/* cpu_offset() in ktrace/arch/arm64.rs emits this structure. */
static_assert(offsetof(struct alt_instr, orig_offset) == 0);
static_assert(offsetof(struct alt_instr, alt_offset) == 4);
static_assert(offsetof(struct alt_instr, cpucap) == 8);
static_assert(offsetof(struct alt_instr, orig_len) == 10);
static_assert(offsetof(struct alt_instr, alt_len) == 11);
static_assert(sizeof(struct alt_instr) == 12);

void ktrace_tracepoint_stub(void *data, unsigned long a0, unsigned long a1, unsigned long a2,
			    unsigned long a3, unsigned long a4, unsigned long a5, unsigned long a6,
			    ...);

/* Further parameters are on the stack. The stack pointer is the address of the first one. */
void notrace ktrace_tracepoint_stub(void *data, unsigned long a0, unsigned long a1,
				    unsigned long a2, unsigned long a3, unsigned long a4,
				    unsigned long a5, unsigned long a6, ...)
{
	struct ktrace_hook *hook = data;
	struct __arch_ftrace_regs fregs = {
		.regs = { (unsigned long)data, a0, a1, a2, a3, a4, a5, a6 },
		.fp = *(unsigned long *)__builtin_frame_address(0),
		.lr = (unsigned long)__builtin_return_address(0),
		.pc = READ_ONCE(hook->stub) + MCOUNT_INSN_SIZE,
	};
	va_list stack;

	va_start(stack, a6);
	fregs.sp = (unsigned long)stack.__stack;
	va_end(stack);
	ktrace_run_hook(hook, (struct ftrace_regs *)&fregs);
}
NOKPROBE_SYMBOL(ktrace_tracepoint_stub);

/*
 * Returns the registers for perf at a place in a module: see arch::CodePlace. The kernel's
 * perf_fetch_caller_regs() is not suitable, because it returns the registers of the caller.
 */
struct pt_regs *ktrace_place_regs(struct pt_regs *regs, unsigned long code, unsigned long frame)
{
	perf_arch_fetch_caller_regs(regs, code);
	regs->regs[29] = frame;
	return regs;
}

#endif /* CONFIG_ARM64 */

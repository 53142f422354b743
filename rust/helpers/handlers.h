/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A handler can hit a tracepoint, for example when it reads memory and causes a fault. As in
 * ftrace, no handler runs inside another handler.
 */

#ifndef _KTRACE_HANDLERS_H
#define _KTRACE_HANDLERS_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

struct ftrace_regs;

/* The contexts in which a handler runs on this CPU, with one bit per context. */
DECLARE_PER_CPU(unsigned char, ktrace_handlers);

/*
 * Returns the bit of this context. If a handler runs in this context already, returns 0 and counts
 * the hit as missed. Preemption must be disabled.
 */
static __always_inline unsigned char ktrace_enter_handler(unsigned long *missed)
{
	unsigned char context = BIT(interrupt_context_level());

	if (__this_cpu_read(ktrace_handlers) & context) {
		WRITE_ONCE(*missed, READ_ONCE(*missed) + 1);
		return 0;
	}
	__this_cpu_or(ktrace_handlers, context);
	barrier();
	return context;
}

static __always_inline void ktrace_leave_handler(unsigned char context)
{
	barrier();
	__this_cpu_and(ktrace_handlers, ~context);
}

/* C counterpart of ktrace::tracepoint::Hook. */
struct ktrace_hook {
	unsigned long stub;
	unsigned long missed;
	void (*hit)(struct ktrace_hook *hook, struct ftrace_regs *fregs);
};

/* Calls the handler of a tracepoint. */
static __always_inline void ktrace_run_hook(struct ktrace_hook *hook, struct ftrace_regs *fregs)
{
	unsigned char context;

	preempt_disable_notrace();
	context = ktrace_enter_handler(&hook->missed);
	if (context) {
		hook->hit(hook, fregs);
		ktrace_leave_handler(context);
	}
	preempt_enable_notrace();
}

#endif

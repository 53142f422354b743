// SPDX-License-Identifier: GPL-2.0

#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/tracepoint.h>

#include "handlers.h"

void ktrace_tracepoint_synchronize_unregister(void);
struct tracepoint *ktrace_module_tracepoint(const struct tp_module *tp_module, const char *name);
void ktrace_tracepoint_stub(void *data, unsigned long a0, unsigned long a1, unsigned long a2,
			    unsigned long a3, unsigned long a4);

void ktrace_tracepoint_synchronize_unregister(void)
{
	tracepoint_synchronize_unregister();
}

/* The tracepoint of this name in a module, or NULL. */
struct tracepoint *ktrace_module_tracepoint(const struct tp_module *tp_module, const char *name)
{
	const struct module *mod = tp_module->mod;
	struct tracepoint *tracepoint;
	unsigned int i;

	for (i = 0; i < mod->num_tracepoints; i++) {
		tracepoint = tracepoint_ptr_deref(mod->tracepoints_ptrs + i);
		if (!strcmp(tracepoint->name, name))
			return tracepoint;
	}
	return NULL;
}

/* ktrace::tracepoint::Hook */
struct hook {
	unsigned long stub;
	unsigned long missed;
	void (*hit)(struct hook *hook, struct pt_regs *regs);
};

DEFINE_PER_CPU(unsigned char, ktrace_handlers);

static __always_inline void run(struct hook *hook, struct pt_regs *regs)
{
	unsigned char context;

	preempt_disable_notrace();
	context = ktrace_enter_handler(&hook->missed);
	if (context) {
		hook->hit(hook, regs);
		ktrace_leave_handler(context);
	}
	preempt_enable_notrace();
}

#ifdef CONFIG_X86_64
/*
 * Attached to tracepoints in place of their own empty stub, whose entry is what the handler sees:
 * the registers with the arguments, and the stack.
 */
void notrace ktrace_tracepoint_stub(void *data, unsigned long a0, unsigned long a1,
				    unsigned long a2, unsigned long a3, unsigned long a4)
{
	struct hook *hook = data;
	/* Without a code segment, which says that not all registers are there. */
	struct pt_regs regs = {
		.di = (unsigned long)data,
		.si = a0,
		.dx = a1,
		.cx = a2,
		.r8 = a3,
		.r9 = a4,
		.ip = READ_ONCE(hook->stub) + MCOUNT_INSN_SIZE,
		/* Above the frame pointer that was saved is the return address. */
		.sp = (unsigned long)__builtin_frame_address(0) + sizeof(long),
	};

	run(hook, &regs);
}
NOKPROBE_SYMBOL(ktrace_tracepoint_stub);
#endif

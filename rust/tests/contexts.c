// SPDX-License-Identifier: GPL-2.0
/* Runs a function in each context, for the KUnit tests and for plain_events.ko. */

#include <linux/bottom_half.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/preempt.h>
#ifdef CONFIG_X86_64
#include <asm/nmi.h>
#endif

typedef void context_function(unsigned int context);

bool ktrace_run_in(unsigned int context, context_function *function);

static context_function *current_function;

static void run_in_softirq(struct tasklet_struct *tasklet)
{
	current_function(1);
}

static void run_in_hardirq(struct irq_work *work)
{
	current_function(2);
}

#ifdef CONFIG_X86_64
static bool is_waiting_for_nmi;

static int run_in_nmi(unsigned int type, struct pt_regs *regs)
{
	if (!is_waiting_for_nmi)
		return NMI_DONE;
	is_waiting_for_nmi = false;
	current_function(3);
	return NMI_HANDLED;
}

static bool raise_nmi(void)
{
	if (register_nmi_handler(NMI_LOCAL, run_in_nmi, 0, "ktrace_run_in"))
		return false;
	preempt_disable();
	is_waiting_for_nmi = true;
	/* The kernel treats the interrupt with this number as an NMI. */
	asm volatile("int $2");
	preempt_enable();
	unregister_nmi_handler(NMI_LOCAL, "ktrace_run_in");
	return !is_waiting_for_nmi;
}
#else
static bool raise_nmi(void)
{
	return false;
}
#endif

/*
 * Runs the function once, in a process (0), a softirq (1), a hardirq (2) or an NMI (3). Returns
 * false if this is impossible. Only one task at a time may call this function.
 */
bool ktrace_run_in(unsigned int context, context_function *function)
{
	struct tasklet_struct tasklet;
	struct irq_work work = IRQ_WORK_INIT_HARD(run_in_hardirq);

	current_function = function;
	switch (context) {
	case 0:
		function(0);
		return true;
	case 1:
		tasklet_setup(&tasklet, run_in_softirq);
		local_bh_disable();
		tasklet_schedule(&tasklet);
		local_bh_enable();
		tasklet_kill(&tasklet);
		return true;
	case 2:
		irq_work_queue(&work);
		irq_work_sync(&work);
		return true;
	case 3:
		return raise_nmi();
	default:
		return false;
	}
}

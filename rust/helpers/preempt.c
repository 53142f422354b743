// SPDX-License-Identifier: GPL-2.0

#include <linux/kprobes.h>
#include <linux/preempt.h>

void ktrace_preempt_disable(void);
void ktrace_preempt_enable(void);
bool ktrace_in_task(void);

void notrace ktrace_preempt_disable(void)
{
	preempt_disable_notrace();
}

void notrace ktrace_preempt_enable(void)
{
	preempt_enable_notrace();
}

bool notrace ktrace_in_task(void)
{
	return in_task();
}
NOKPROBE_SYMBOL(ktrace_in_task);

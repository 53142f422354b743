// SPDX-License-Identifier: GPL-2.0

#include <linux/preempt.h>

void ktrace_preempt_disable(void);
void ktrace_preempt_enable(void);

void notrace ktrace_preempt_disable(void)
{
	preempt_disable_notrace();
}

void notrace ktrace_preempt_enable(void)
{
	preempt_enable_notrace();
}

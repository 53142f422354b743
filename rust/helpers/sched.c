// SPDX-License-Identifier: GPL-2.0

#include <linux/kprobes.h>
#include <linux/sched.h>

const struct task_struct *ktrace_current(void);
const char *ktrace_current_comm(void);

const struct task_struct *ktrace_current(void)
{
	return current;
}
NOKPROBE_SYMBOL(ktrace_current);

const char *ktrace_current_comm(void)
{
	return current->comm;
}
NOKPROBE_SYMBOL(ktrace_current_comm);

// SPDX-License-Identifier: GPL-2.0

#include <linux/kprobes.h>
#include <linux/sched.h>

const char *ktrace_current_comm(void);

const char *ktrace_current_comm(void)
{
	return current->comm;
}
NOKPROBE_SYMBOL(ktrace_current_comm);

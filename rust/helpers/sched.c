// SPDX-License-Identifier: GPL-2.0

#include <linux/sched.h>

const char *ktrace_current_comm(void);

const char *ktrace_current_comm(void)
{
	return current->comm;
}

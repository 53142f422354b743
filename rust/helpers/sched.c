// SPDX-License-Identifier: GPL-2.0

#include <linux/sched/clock.h>

u64 ktrace_local_clock(void);

/*
 * Depending on the configuration, local_clock() is a function of the kernel or an inline function.
 */
u64 ktrace_local_clock(void)
{
	return local_clock();
}

// SPDX-License-Identifier: GPL-2.0

#include <linux/sched/clock.h>

u64 ktrace_local_clock(void);

/* A function of the kernel, or an inline one, as the clock is. */
u64 ktrace_local_clock(void)
{
	return local_clock();
}

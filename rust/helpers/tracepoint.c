// SPDX-License-Identifier: GPL-2.0

#include <linux/tracepoint.h>

void ktrace_tracepoint_synchronize_unregister(void);

void ktrace_tracepoint_synchronize_unregister(void)
{
	tracepoint_synchronize_unregister();
}

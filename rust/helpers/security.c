// SPDX-License-Identifier: GPL-2.0

#include <linux/security.h>

int ktrace_locked_down_kprobes(void);
int ktrace_locked_down_tracefs(void);

int ktrace_locked_down_kprobes(void)
{
	return security_locked_down(LOCKDOWN_KPROBES);
}

int ktrace_locked_down_tracefs(void)
{
	return security_locked_down(LOCKDOWN_TRACEFS);
}

// SPDX-License-Identifier: GPL-2.0

#include <linux/ftrace.h>
#include <linux/kprobes.h>

struct pt_regs *ktrace_fill_perf_regs(void *fregs, struct pt_regs *room);

struct pt_regs *ktrace_fill_perf_regs(void *fregs, struct pt_regs *room)
{
	return ftrace_fill_perf_regs(fregs, room);
}
NOKPROBE_SYMBOL(ktrace_fill_perf_regs);

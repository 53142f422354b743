// SPDX-License-Identifier: GPL-2.0
/*
 * ktrace::assumptions: copies of numbers from the kernel's headers, which the build compares, and
 * known symbols, which the module compares when it loads.
 */

#include <linux/build_bug.h>
#include <linux/fprobe.h>
#include <linux/kprobes.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/tracepoint-defs.h>

/* The constants are in ktrace/probes/kretprobe.rs and ktrace/probes/fprobe/functions.rs. */
static_assert(KRETPROBE_MAX_DATA_SIZE == 4096);
static_assert(MAX_FPROBE_DATA_SIZE >= 15 * sizeof(long));

/* Tracepoint in ktrace/event/registration/pinned_event.rs. */
static_assert(offsetof(struct tracepoint, name) == 0);

/* The size of `$comm`. */
static_assert(TASK_COMM_LEN == 16);

unsigned long ktrace_known_text(void);
unsigned long ktrace_known_data(void);

/* The addresses of two exported symbols: seq_read and init_task. */
unsigned long ktrace_known_text(void)
{
	return (unsigned long)seq_read;
}

unsigned long ktrace_known_data(void)
{
	return (unsigned long)&init_task;
}

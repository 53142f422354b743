/* SPDX-License-Identifier: GPL-2.0 */
/* The declarations that the kernel's headers lack. */

#ifndef _RKPROBE_BUILT_IN_H
#define _RKPROBE_BUILT_IN_H

#include <linux/mutex.h>
#include <linux/types.h>

/* Defined in trace_dynevent.c, without a header. */
extern struct mutex dyn_event_ops_mutex;

/* Declared in trace.h, for objects that do not include it. */
void tracing_reset_all_online_cpus(void);

const void *rkprobe_btf(size_t *len);
void rkprobe_log_err(const char *subsystem, const char *command, const char *text, u16 caret);

#endif

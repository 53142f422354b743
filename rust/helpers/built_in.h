/* SPDX-License-Identifier: GPL-2.0 */
/* What built_in.c has beside the kernel's own. */

#ifndef _RKPROBE_BUILT_IN_H
#define _RKPROBE_BUILT_IN_H

#include <linux/mutex.h>
#include <linux/types.h>

/* Of trace_dynevent.c, which has it in no header. */
extern struct mutex dyn_event_ops_mutex;

/* Of trace.h, for what is built without it. */
void tracing_reset_all_online_cpus(void);

const void *rkprobe_btf(size_t *len);
void rkprobe_log_err(const char *subsystem, const char *command, const char *text, u16 caret);

#endif

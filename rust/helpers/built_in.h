/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the kernel's headers lack. */

#ifndef _RKPROBE_BUILT_IN_H
#define _RKPROBE_BUILT_IN_H

#include <linux/mutex.h>
#include <linux/types.h>

/* trace_dynevent.c defines this mutex, but no header declares it. */
extern struct mutex dyn_event_ops_mutex;

/* trace.h declares this function. Some files of this module do not include trace.h. */
void tracing_reset_all_online_cpus(void);

const void *rkprobe_btf(size_t *len);
void rkprobe_log_err(const char *subsystem, const char *command, const char *text, u16 caret);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KTRACE_EVENT_FIELD_H
#define _KTRACE_EVENT_FIELD_H

#include <linux/list.h>

/* C: struct ftrace_event_field in kernel/trace/trace.h. */
struct event_field {
	struct list_head link;
	const char *name;
	const char *type;
	int filter_type;
	int offset;
	int size;
	unsigned int is_signed:1;
	unsigned int needs_test:1;
	int len;
};

#endif

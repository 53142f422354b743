// SPDX-License-Identifier: GPL-2.0
/* ktrace::event_probe: what events in and out of the kernel's tree share. */

#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/trace_events.h>

#include "event_field.h"
#include "event_probe.h"

/* The registers of an event probe, which are all 0. */
extern const struct pt_regs ktrace_no_registers;
const struct pt_regs ktrace_no_registers;

/*
 * The kernel removes its event probes and the events of user_events even while they are held. Users
 * cannot enable an event with IGNORE_ENABLE.
 */
bool ktrace_can_be_probed(const struct trace_event_call *call)
{
	return !(call->flags &
		 (TRACE_EVENT_FL_KPROBE | TRACE_EVENT_FL_UPROBE | TRACE_EVENT_FL_EPROBE |
		  TRACE_EVENT_FL_IGNORE_ENABLE)) &&
	       !str_has_prefix(call->class->system, "user_events");
}

/* C counterpart of EventField in ktrace/event/event_probe/fields.rs. */
struct ktrace_event_field {
	int offset;
	int size;
	bool is_signed;
	/* The field holds a string, or locates it from the start of the record or of the field. */
	bool is_text;
	bool is_located;
	bool is_located_from_here;
};

bool ktrace_find_event_field(struct trace_event_call *call, const char *name, size_t len,
			     struct ktrace_event_field *found);
size_t ktrace_event_len(struct trace_event_call *call);

/* The caller holds the event. So its fields exist, and do not change. */
bool ktrace_find_event_field(struct trace_event_call *call, const char *name, size_t len,
			     struct ktrace_event_field *found)
{
	struct event_field *field;

	list_for_each_entry(field, trace_get_fields(call), link) {
		if (strlen(field->name) != len || memcmp(field->name, name, len))
			continue;
		*found = (struct ktrace_event_field) {
			.offset = field->offset,
			.size = field->size,
			.is_signed = field->is_signed,
			.is_text = field->filter_type == FILTER_STATIC_STRING,
			.is_located = field->filter_type == FILTER_DYN_STRING,
			.is_located_from_here = field->filter_type == FILTER_RDYN_STRING,
		};
		return true;
	}
	return false;
}

/* The minimum length of a record, in bytes. */
size_t ktrace_event_len(struct trace_event_call *call)
{
	struct event_field *field;
	size_t len = sizeof(struct trace_entry);

	list_for_each_entry(field, trace_get_fields(call), link)
		len = max_t(size_t, len, field->offset + field->size);
	return len;
}

struct pt_regs *ktrace_fetch_caller_regs(struct pt_regs *room);

struct pt_regs *ktrace_fetch_caller_regs(struct pt_regs *room)
{
	perf_fetch_caller_regs(room);
	return room;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * ktrace::event_probe in the kernel's tree: a trigger on an event calls a handler with the record.
 */

#include <linux/cleanup.h>
#include <linux/slab.h>
#include <linux/trace_events.h>
#include <linux/tracepoint.h>

#include "trace.h"

#include "event_field.h"
#include "event_probe.h"
#include "handlers.h"

/* A module for another kernel has only event_field.h. */
static_assert(sizeof(struct event_field) == sizeof(struct ftrace_event_field));
static_assert(offsetof(struct event_field, filter_type) ==
	      offsetof(struct ftrace_event_field, filter_type));
static_assert(offsetof(struct event_field, len) == offsetof(struct ftrace_event_field, len));

struct ktrace_event {
	/* In the top trace instance. */
	struct trace_event_file *file;
	struct event_trigger_data trigger;
	void (*hit)(void *data, const void *record);
	void *data;
	unsigned long missed;
	/* Whether the trigger is in the list of the file. event_mutex protects this. */
	bool is_attached;
};

static void call_hit(struct event_trigger_data *trigger, struct trace_buffer *buffer,
		     void *record, struct ring_buffer_event *ring_buffer_event)
{
	struct ktrace_event *event = container_of(trigger, typeof(*event), trigger);
	unsigned char context;

	/* The kernel may also call this without a record. With a record, preemption is disabled. */
	if (!record)
		return;
	context = ktrace_enter_handler(&event->missed);
	if (context) {
		event->hit(event->data, record);
		ktrace_leave_handler(context);
	}
}

/* Users did not set this trigger, so the event's trigger file does not show it. */
static int print_nothing(struct seq_file *m, struct event_trigger_data *trigger)
{
	return 0;
}

/* The kernel's own event probes search the data of each trigger for their probe. */
static unsigned long not_an_eprobe[8];

static struct event_command command = {
	.name = "rkprobe",
	.trigger_type = ETT_EVENT_EPROBE,
	.flags = EVENT_CMD_FL_NEEDS_REC,
	.trigger = call_hit,
	.print = print_nothing,
};

int ktrace_init_event_probes(void)
{
	return 0;
}

void ktrace_exit_event_probes(void)
{
}

struct ktrace_event *ktrace_get_event(const char *system, const char *name, unsigned int number)
{
	struct ktrace_event *event __free(kfree) = kzalloc_obj(*event);

	if (!event)
		return ERR_PTR(-ENOMEM);
	/*
	 * This does not use trace_get_event_file(), which releases the mutex before its caller can
	 * check the result.
	 */
	guard(mutex)(&event_mutex);
	event->file = find_event_file(top_trace_array(), system, name);
	if (!event->file || !ktrace_can_be_probed(event->file->event_call))
		return ERR_PTR(-ENOENT);
	if (!trace_event_try_get_ref(event->file->event_call))
		return ERR_PTR(-EBUSY);
	return no_free_ptr(event);
}

void ktrace_put_event(struct ktrace_event *event)
{
	trace_event_put_ref(event->file->event_call);
	kfree(event);
}

/* ktrace_put_event() has released them. */
void ktrace_finish_event_puts(void)
{
}

struct trace_event_call *ktrace_call_of(const struct ktrace_event *event)
{
	return event->file->event_call;
}

int ktrace_set_event_handler(struct ktrace_event *event,
			     void (*hit)(void *data, const void *record), void *data)
{
	event->trigger.flags = EVENT_TRIGGER_FL_PROBE;
	event->trigger.private_data = not_an_eprobe;
	event->trigger.count = -1;
	event->trigger.cmd_ops = &command;
	event->hit = hit;
	event->data = data;
	return 0;
}

int ktrace_attach_event_handler(struct ktrace_event *event)
{
	int ret;

	lockdep_assert_held(&event_mutex);
	if (event->is_attached)
		return -EBUSY;
	list_add_tail_rcu(&event->trigger.list, &event->file->triggers);
	event->is_attached = true;
	ret = trace_event_trigger_enable_disable(event->file, 1);
	update_cond_flag(event->file);
	if (ret)
		ktrace_detach_event_handler(event);
	return ret;
}

void ktrace_detach_event_handler(struct ktrace_event *event)
{
	lockdep_assert_held(&event_mutex);
	if (!event->is_attached)
		return;
	event->is_attached = false;
	list_del_rcu(&event->trigger.list);
	trace_event_trigger_enable_disable(event->file, 0);
	update_cond_flag(event->file);
	tracepoint_synchronize_unregister();
}

void ktrace_end_event_handler(struct ktrace_event *event)
{
	guard(mutex)(&event_mutex);
	ktrace_detach_event_handler(event);
}

unsigned long ktrace_event_handler_missed(const struct ktrace_event *event)
{
	return READ_ONCE(event->missed);
}

// SPDX-License-Identifier: GPL-2.0
/* ktrace::event_probe: a trigger on an event. The trigger calls a handler with the record. */

#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/trace_events.h>
#include <linux/tracepoint.h>

#include "trace.h"

#include "handlers.h"

/* The registers of an event probe, which are all 0. */
extern const struct pt_regs ktrace_no_registers;
const struct pt_regs ktrace_no_registers;

struct trace_event_file *ktrace_get_event(const char *system, const char *name);
void ktrace_put_event(struct trace_event_file *file);

/* The kernel removes its event probes and the events of user_events even while they are held. */
static bool can_be_probed(const struct trace_event_call *call)
{
	return !(call->flags &
		 (TRACE_EVENT_FL_KPROBE | TRACE_EVENT_FL_UPROBE | TRACE_EVENT_FL_EPROBE)) &&
	       !str_has_prefix(call->class->system, "user_events");
}

/* Finds and holds an event in the top trace instance. Returns an error if the event is a probe. */
struct trace_event_file *ktrace_get_event(const char *system, const char *name)
{
	struct trace_event_file *file;

	/*
	 * This does not use trace_get_event_file(), which releases the mutex before its caller can
	 * check the result.
	 */
	guard(mutex)(&event_mutex);
	file = find_event_file(top_trace_array(), system, name);
	if (!file || !can_be_probed(file->event_call))
		return ERR_PTR(-ENOENT);
	/* This fails if the event's module is being unloaded. */
	if (!trace_event_try_get_ref(file->event_call))
		return ERR_PTR(-EBUSY);
	return file;
}

void ktrace_put_event(struct trace_event_file *file)
{
	trace_event_put_ref(file->event_call);
}

/* C counterpart of EventField in ktrace/event/event_probe/in_tree.rs. */
struct ktrace_event_field {
	int offset;
	int size;
	bool is_signed;
	/* The field holds a string, or locates it from the start of the record or of the field. */
	bool is_text;
	bool is_located;
	bool is_located_from_here;
};

static struct list_head *fields_of(const struct trace_event_file *file)
{
	struct trace_event_call *call = file->event_call;

	return call->class->get_fields ? call->class->get_fields(call) : &call->class->fields;
}

bool ktrace_find_event_field(const struct trace_event_file *file, const char *name, size_t len,
			     struct ktrace_event_field *found);
size_t ktrace_event_len(const struct trace_event_file *file);

bool ktrace_find_event_field(const struct trace_event_file *file, const char *name, size_t len,
			     struct ktrace_event_field *found)
{
	struct ftrace_event_field *field;

	list_for_each_entry(field, fields_of(file), link) {
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
size_t ktrace_event_len(const struct trace_event_file *file)
{
	struct ftrace_event_field *field;
	size_t len = sizeof(struct trace_entry);

	list_for_each_entry(field, fields_of(file), link)
		len = max_t(size_t, len, field->offset + field->size);
	return len;
}

struct ktrace_event_probe {
	struct event_trigger_data trigger;
	void (*hit)(void *data, const void *record);
	void *data;
	unsigned long missed;
	/* NULL while the trigger is not attached. */
	struct trace_event_file *file;
};

static void call_hit(struct event_trigger_data *trigger, struct trace_buffer *buffer,
		     void *record, struct ring_buffer_event *event)
{
	struct ktrace_event_probe *probe = container_of(trigger, typeof(*probe), trigger);
	unsigned char context;

	/* The kernel may also call this without a record. With a record, preemption is disabled. */
	if (!record)
		return;
	context = ktrace_enter_handler(&probe->missed);
	if (context) {
		probe->hit(probe->data, record);
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

struct ktrace_event_probe *ktrace_new_event_probe(struct trace_event_file *file, char *filter,
						  void (*hit)(void *data, const void *record),
						  void *data);
int ktrace_attach_event_probe(struct trace_event_file *file, struct ktrace_event_probe *probe);
void ktrace_detach_event_probe(struct trace_event_file *file, struct ktrace_event_probe *probe);
void ktrace_take_back_event_probe(struct ktrace_event_probe *probe);
unsigned long ktrace_event_probe_missed(const struct ktrace_event_probe *probe);
void ktrace_free_event_probe(struct ktrace_event_probe *probe);

/* The kernel reports errors in the filter in error_log. */
struct ktrace_event_probe *ktrace_new_event_probe(struct trace_event_file *file, char *filter,
						  void (*hit)(void *data, const void *record),
						  void *data)
{
	struct ktrace_event_probe *probe = kzalloc_obj(*probe);
	struct event_filter *compiled = NULL;
	int ret;

	if (!probe)
		return ERR_PTR(-ENOMEM);
	if (filter) {
		ret = create_event_filter(file->tr, file->event_call, filter, true, &compiled);
		if (ret) {
			free_event_filter(compiled);
			kfree(probe);
			return ERR_PTR(ret == -ENOMEM ? ret : -EINVAL);
		}
	}
	RCU_INIT_POINTER(probe->trigger.filter, compiled);
	probe->trigger.flags = EVENT_TRIGGER_FL_PROBE;
	probe->trigger.private_data = not_an_eprobe;
	probe->trigger.count = -1;
	probe->trigger.cmd_ops = &command;
	INIT_LIST_HEAD(&probe->trigger.list);
	probe->hit = hit;
	probe->data = data;
	return probe;
}

int ktrace_attach_event_probe(struct trace_event_file *file, struct ktrace_event_probe *probe)
{
	int ret;

	lockdep_assert_held(&event_mutex);
	list_add_tail_rcu(&probe->trigger.list, &file->triggers);
	probe->file = file;
	ret = trace_event_trigger_enable_disable(file, 1);
	update_cond_flag(file);
	if (ret)
		ktrace_detach_event_probe(file, probe);
	return ret;
}

/* The handler does not run any more when this function returns. */
void ktrace_detach_event_probe(struct trace_event_file *file, struct ktrace_event_probe *probe)
{
	lockdep_assert_held(&event_mutex);
	probe->file = NULL;
	list_del_rcu(&probe->trigger.list);
	trace_event_trigger_enable_disable(file, 0);
	update_cond_flag(file);
	tracepoint_synchronize_unregister();
}

/* Detaches the trigger if it is attached. */
void ktrace_take_back_event_probe(struct ktrace_event_probe *probe)
{
	if (probe->file)
		ktrace_detach_event_probe(probe->file, probe);
}

unsigned long ktrace_event_probe_missed(const struct ktrace_event_probe *probe)
{
	return READ_ONCE(probe->missed);
}

void ktrace_free_event_probe(struct ktrace_event_probe *probe)
{
	free_event_filter(rcu_access_pointer(probe->trigger.filter));
	kfree(probe);
}

struct pt_regs *ktrace_fetch_caller_regs(struct pt_regs *room);

struct pt_regs *ktrace_fetch_caller_regs(struct pt_regs *room)
{
	perf_fetch_caller_regs(room);
	return room;
}

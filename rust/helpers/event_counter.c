// SPDX-License-Identifier: GPL-2.0
/*
 * ktrace::event_probe outside the kernel's tree: perf counters on an event call a handler with the
 * record, one counter for each CPU.
 *
 * perf takes event_mutex to create and to release a counter of an event, and the kernel enables
 * events with event_mutex held. So the counters exist, disabled, from the time that the handler is
 * set, and a worker releases them.
 *
 * If a CPU goes offline, perf ends its counters. The worker creates new ones when the CPU is online
 * again. The CPU's own callback cannot: it would take event_mutex while the kernel waits for the
 * callback, and a holder of event_mutex can wait for the kernel to finish this change of CPUs.
 */

#include <linux/cleanup.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/trace_events.h>
#include <linux/workqueue.h>

#include "event_field.h"
#include "event_probe.h"
#include "handlers.h"

struct counter {
	/* NULL if the CPU has none. */
	struct perf_event *event;
	/* The CPU came online after the creation of the counter. */
	bool is_old;
};

struct ktrace_event {
	/* A counter that is never enabled. It holds the event. */
	struct perf_event *hold;
	void (*hit)(void *data, const void *record);
	void *data;
	unsigned long missed;
	struct work_struct renew;
	struct work_struct release;
	/* In the list of the hotplug state, if the handler is set. */
	struct hlist_node node;
	/*
	 * Protects the fields below. Lock order: event_mutex, then this mutex. So no counter is
	 * created or released under this mutex.
	 */
	struct mutex lock;
	bool is_attached;
	struct counter counters[];
};

static struct workqueue_struct *workers;
static int hotplug_state;

/* The kernel calls this on each CPU that comes online, after perf's own function. */
static int counter_online(unsigned int cpu, struct hlist_node *node)
{
	struct ktrace_event *event = hlist_entry(node, struct ktrace_event, node);

	WRITE_ONCE(event->counters[cpu].is_old, true);
	queue_work(workers, &event->renew);
	return 0;
}

int ktrace_init_event_probes(void)
{
	workers = alloc_ordered_workqueue("ktrace_event_probe", 0);
	if (!workers)
		return -ENOMEM;
	hotplug_state = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "ktrace/event_probe:online",
						counter_online, NULL);
	if (hotplug_state < 0) {
		destroy_workqueue(workers);
		return hotplug_state;
	}
	return 0;
}

void ktrace_exit_event_probes(void)
{
	destroy_workqueue(workers);
	cpuhp_remove_multi_state(hotplug_state);
}

void ktrace_finish_event_puts(void)
{
	flush_workqueue(workers);
}

/* perf calls this with preemption disabled, with the record in its own memory. */
static void counter_hit(struct perf_event *counter, struct perf_sample_data *data,
			struct pt_regs *regs)
{
	struct ktrace_event *event = counter->overflow_handler_context;
	unsigned char context = ktrace_enter_handler(&event->missed);

	if (context) {
		event->hit(event->data, data->raw->frag.data);
		ktrace_leave_handler(context);
	}
}

/*
 * Creates a disabled counter on the event with this number. If EVENT is NULL, the counter only
 * holds the event.
 */
static struct perf_event *create_counter(u64 number, unsigned int cpu, struct ktrace_event *event)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = number,
		.sample_type = event ? PERF_SAMPLE_RAW : 0,
		.sample_period = event ? 1 : 0,
		.disabled = 1,
	};

	return perf_event_create_kernel_counter(&attr, cpu, NULL, event ? counter_hit : NULL,
						event);
}

/*
 * Creates a counter for a CPU, in the place of one that perf has ended. Returns -ENODEV if the CPU
 * is offline.
 */
static int renew_counter(struct ktrace_event *event, unsigned int cpu)
{
	struct counter *counter = &event->counters[cpu];
	struct perf_event *new, *old;

	/* A CPU that comes online later sets this again. */
	WRITE_ONCE(counter->is_old, false);
	new = create_counter(event->hold->attr.config, cpu, event);
	if (IS_ERR(new))
		return PTR_ERR(new);
	scoped_guard(mutex, &event->lock) {
		old = counter->event;
		if (old)
			perf_event_disable(old);
		counter->event = new;
		if (event->is_attached)
			perf_event_enable(new);
	}
	if (old)
		perf_event_release_kernel(old);
	return 0;
}

static void renew_counters(struct work_struct *work)
{
	struct ktrace_event *event = container_of(work, struct ktrace_event, renew);
	unsigned int cpu;
	int ret;

	for_each_possible_cpu(cpu) {
		if (!READ_ONCE(event->counters[cpu].is_old))
			continue;
		ret = renew_counter(event, cpu);
		if (ret && ret != -ENODEV)
			pr_warn("rkprobe: CPU %u came online without an event probe: %d\n", cpu,
				ret);
	}
}

/* Releases all counters but the one that holds the event. */
static void release_counters(struct ktrace_event *event)
{
	unsigned int cpu;

	if (hlist_unhashed(&event->node))
		return;
	cpuhp_state_remove_instance_nocalls(hotplug_state, &event->node);
	INIT_HLIST_NODE(&event->node);
	cancel_work_sync(&event->renew);
	for_each_possible_cpu(cpu) {
		struct counter *counter = &event->counters[cpu];

		if (counter->event)
			perf_event_release_kernel(counter->event);
		counter->event = NULL;
	}
}

static void release(struct work_struct *work)
{
	struct ktrace_event *event = container_of(work, struct ktrace_event, release);

	release_counters(event);
	perf_event_release_kernel(event->hold);
	mutex_destroy(&event->lock);
	kvfree(event);
}

/* Creates a counter that holds the event, on any CPU. */
static struct perf_event *hold_event(unsigned int number)
{
	struct perf_event *event = ERR_PTR(-ENODEV);
	unsigned int cpu;

	/* For perf, a CPU that goes offline is offline already. */
	for_each_online_cpu(cpu) {
		event = create_counter(number, cpu, NULL);
		if (event != ERR_PTR(-ENODEV))
			break;
	}
	return event;
}

/*
 * Whether the fields of an event look as in event_field.h. The first field is at the end of the
 * list.
 */
static bool has_known_fields(struct trace_event_call *call)
{
	const struct trace_event_fields *first = call->class->fields_array;
	struct list_head *fields = trace_get_fields(call);
	const struct event_field *field = list_last_entry(fields, struct event_field, link);

	if (!first || !first->type || first->type == TRACE_FUNCTION_TYPE)
		return true;
	return !list_empty(fields) && field->name == first->name && field->type == first->type &&
	       field->size == first->size && field->is_signed == first->is_signed;
}

struct ktrace_event *ktrace_get_event(const char *system, const char *name, unsigned int number)
{
	struct ktrace_event *event;
	struct trace_event_call *call;

	event = kvzalloc(struct_size(event, counters, nr_cpu_ids), GFP_KERNEL);
	if (!event)
		return ERR_PTR(-ENOMEM);
	event->hold = hold_event(number);
	if (IS_ERR(event->hold)) {
		int ret = PTR_ERR(event->hold);

		kvfree(event);
		/* No event has this number, or the event is not for perf. */
		return ERR_PTR(ret == -EINVAL || ret == -EOPNOTSUPP ? -ENOENT : ret);
	}
	INIT_WORK(&event->renew, renew_counters);
	INIT_WORK(&event->release, release);
	INIT_HLIST_NODE(&event->node);
	mutex_init(&event->lock);
	call = event->hold->tp_event;
	/* Another event can have got the number since the caller read it. */
	if (strcmp(call->class->system, system) || strcmp(trace_event_name(call), name) ||
	    !ktrace_can_be_probed(call)) {
		ktrace_put_event(event);
		return ERR_PTR(-ENOENT);
	}
	if (!has_known_fields(call)) {
		ktrace_put_event(event);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return event;
}

void ktrace_put_event(struct ktrace_event *event)
{
	queue_work(workers, &event->release);
}

struct trace_event_call *ktrace_call_of(const struct ktrace_event *event)
{
	return event->hold->tp_event;
}

int ktrace_set_event_handler(struct ktrace_event *event,
			     void (*hit)(void *data, const void *record), void *data)
{
	unsigned int cpu;
	int ret;

	event->hit = hit;
	event->data = data;
	/* First the list, so that no CPU that comes online is forgotten. */
	ret = cpuhp_state_add_instance_nocalls(hotplug_state, &event->node);
	if (ret)
		return ret;
	for_each_possible_cpu(cpu) {
		ret = renew_counter(event, cpu);
		if (ret && ret != -ENODEV)
			return ret;
	}
	return 0;
}

/* Returns -EBUSY if this changes nothing. */
static int set_attached(struct ktrace_event *event, bool is_attached)
{
	unsigned int cpu;

	guard(mutex)(&event->lock);
	if (event->is_attached == is_attached)
		return -EBUSY;
	event->is_attached = is_attached;
	for_each_possible_cpu(cpu) {
		struct counter *counter = &event->counters[cpu];

		if (!counter->event)
			continue;
		if (!is_attached)
			perf_event_disable(counter->event);
		else if (!READ_ONCE(counter->is_old))
			perf_event_enable(counter->event);
		/* The worker enables the counter that it puts in the place of an old one. */
	}
	return 0;
}

int ktrace_attach_event_handler(struct ktrace_event *event)
{
	return set_attached(event, true);
}

void ktrace_detach_event_handler(struct ktrace_event *event)
{
	/* Handlers run with preemption disabled. */
	if (!set_attached(event, false))
		synchronize_rcu();
}

void ktrace_end_event_handler(struct ktrace_event *event)
{
	ktrace_detach_event_handler(event);
	release_counters(event);
}

unsigned long ktrace_event_handler_missed(const struct ktrace_event *event)
{
	return READ_ONCE(event->missed);
}

// SPDX-License-Identifier: GPL-2.0

#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/trace_events.h>

#include "event_field.h"
#ifdef CONFIG_RKPROBE_EXPORTS
#include "built_in.h"
#endif

/* Functions in ktrace/event. */
int ktrace_call_reg(struct trace_event_call *call, unsigned int type, void *data);
int ktrace_call_define_fields(struct trace_event_call *call);
struct list_head *ktrace_call_get_fields(struct trace_event_call *call);
void ktrace_call_print(struct trace_event *event, struct trace_seq *seq, const void *record,
		       int len, bool addresses);
void ktrace_output_print(struct trace_event *event, struct trace_seq *seq, const void *record,
			 int len, bool addresses);
void ktrace_event_mutex_held(void);

extern const char ktrace_control_system[];
struct trace_event_call *ktrace_replace_control(void);
struct trace_event_call *ktrace_remove_control(void);
void ktrace_free_control(struct trace_event_call *call);
void ktrace_keep_trace(struct trace_event_file *file);
int ktrace_empty_marked_traces(void);
int ktrace_watch_cpus(void);
void ktrace_unwatch_cpus(void);
int ktrace_departures(void);
void ktrace_set_array_len(struct list_head *fields, const char *name, int size, int len);
struct trace_event_functions *ktrace_nop_funcs(void);
void ktrace_open_control(void);

int ktrace_call_reg_shim(struct trace_event_call *call, enum trace_reg type, void *data);

int ktrace_call_reg_shim(struct trace_event_call *call, enum trace_reg type, void *data)
{
	return ktrace_call_reg(call, type, data);
}

/* TRACE_ITER(SYM_ADDR) in kernel/trace/trace.h: the third option in `trace_options`. */
#define SYM_ADDR BIT(2)

/*
 * Prints a record for tp_printk. The record is not yet in the buffer, and its length is unknown.
 * Readers of the trace print through the output, which outlives the call.
 */
static enum print_line_t call_print(struct trace_iterator *iter, int flags,
				    struct trace_event *event)
{
	ktrace_call_print(event, &iter->seq, iter->ent, 0, flags & SYM_ADDR);
	return trace_handle_return(&iter->seq);
}

static enum print_line_t output_print(struct trace_iterator *iter, int flags,
				      struct trace_event *event)
{
	ktrace_output_print(event, &iter->seq, iter->ent, iter->ent_size, flags & SYM_ADDR);
	return trace_handle_return(&iter->seq);
}

/* Prints a record of a removed event. The trace buffers may still have such records. */
static enum print_line_t over_print(struct trace_iterator *iter, int flags,
				    struct trace_event *event)
{
	const struct trace_event_call *call = container_of(event, struct trace_event_call, event);

	trace_seq_printf(&iter->seq, "%s: (the event was removed)\n", call->name);
	return trace_handle_return(&iter->seq);
}

struct trace_event_functions ktrace_call_funcs = { .trace = call_print };
struct trace_event_functions ktrace_output_funcs = { .trace = output_print };

/*
 * Replaces the functions of a registered event. The kernel sets functions that are missing only
 * when it registers an event, and calls each of them without a check: see print_trace_line().
 */
struct trace_event_functions ktrace_over_funcs = {
	.trace = over_print,
	.raw = over_print,
	.hex = over_print,
	.binary = over_print,
};

/* C counterpart of ktrace::trace_event::field_list::ClassFields. */
struct ktrace_class_fields {
	const void *get_fields;
	struct list_head head;
	unsigned long no_field[4];
} ktrace_no_fields = { .head = LIST_HEAD_INIT(ktrace_no_fields.head) };

static struct trace_event_fields call_fields[] = {
	{ .type = TRACE_FUNCTION_TYPE, .define_fields = ktrace_call_define_fields },
	{}
};

/* The class for the events of a group. Each group has a copy with its own name. */
const struct trace_event_class ktrace_call_class = {
	.reg = ktrace_call_reg_shim,
	.fields_array = call_fields,
	.get_fields = ktrace_call_get_fields,
};

/* An empty list of fields looks like the field that the kernel takes from its front. */
static_assert(offsetof(struct ktrace_class_fields, head) + offsetofend(struct event_field, size) <=
	      sizeof(struct ktrace_class_fields));

/*
 * Sets the length of an array, which `format` shows. BPF programs cannot read an array without this
 * length. trace_define_field() has no parameter for the length, but has just added the field at the
 * front of the list. The caller holds event_mutex.
 */
void ktrace_set_array_len(struct list_head *fields, const char *name, int size, int len)
{
	struct event_field *field = list_first_entry(fields, struct event_field, link);

	if (field->name == name && field->size == size)
		field->len = len;
}

/*
 * The control event. Users cannot enable the event or set a trigger on it (IGNORE_ENABLE), and perf
 * cannot open it. It has two purposes:
 *
 * Outside the kernel tree, ktrace asks perf to open the event. The kernel then calls
 * ktrace_event_mutex_held() with event_mutex held.
 *
 * The event marks the trace instances that have records of removed events. The kernel sets
 * clear_trace in a trace instance if it removes an event that was enabled in this instance. It
 * empties the trace buffers of such instances when any module is unloaded, or when any probe event
 * is removed. So ktrace_keep_trace() moves the mark from the removed event to the control event.
 */
#ifndef CONFIG_RKPROBE_EXPORTS
static int control_perf_perm(struct trace_event_call *call, struct perf_event *event)
{
	ktrace_event_mutex_held();
	return -EOPNOTSUPP;
}
#else
static int control_perf_perm(struct trace_event_call *call, struct perf_event *event)
{
	return -EOPNOTSUPP;
}
#endif

/* perf can open only events that have this function. No user can enable the event. */
static int control_reg(struct trace_event_call *call, enum trace_reg type, void *data)
{
	return -EOPNOTSUPP;
}

/* The event is never recorded. It needs a number because perf opens an event by its number. */
static struct trace_event_functions control_funcs;

static struct trace_event_fields control_fields[] = { {} };

const char ktrace_control_system[] = KBUILD_MODNAME;

static struct trace_event_class control_class = {
	.system = ktrace_control_system,
	.reg = control_reg,
	.fields_array = control_fields,
	.raw_init = trace_event_raw_init,
	.fields = LIST_HEAD_INIT(control_class.fields),
};

#define CONTROL_EVENT ((struct trace_event_call) {		\
	.class = &control_class,				\
	{ .name = "control" },					\
	.event.funcs = &control_funcs,				\
	.print_fmt = "\"\"",					\
	.flags = TRACE_EVENT_FL_IGNORE_ENABLE,			\
	.perf_perm = control_perf_perm,				\
})

#ifndef CONFIG_RKPROBE_EXPORTS
/*
 * The kernel adds this event when it loads the module, so it stores the event's module. perf then
 * takes a reference to the module, which fails while the module is being unloaded. So another event
 * replaces this event: trace_add_event_call() stores no module.
 */
static struct trace_event_call first_control = CONTROL_EVENT;
static struct trace_event_call *__used __section("_ftrace_events") first_control_ptr =
	&first_control;
static struct trace_event_call *control = &first_control;
#else
static struct trace_event_call *control;
#endif

/*
 * The caller of the next three functions holds event_mutex. The functions change the control event
 * and return the previous one. The caller passes it to ktrace_free_control() after it has released
 * event_mutex, because perf may be opening the previous event.
 */

/* Adds a new control event, and removes the previous control event. */
struct trace_event_call *ktrace_replace_control(void)
{
	struct trace_event_call *previous = control;
	struct trace_event_call *call = kmalloc_obj(*call);
	int ret;

	if (!call)
		return ERR_PTR(-ENOMEM);
	*call = CONTROL_EVENT;
	ret = trace_add_event_call(call);
	if (ret) {
		kfree(call);
		return ERR_PTR(ret);
	}
	control = call;
	if (previous)
		WARN_ON(trace_remove_event_call(previous));
	return previous;
}

struct trace_event_call *ktrace_remove_control(void)
{
	struct trace_event_call *previous = control;

	control = NULL;
	if (previous)
		WARN_ON(trace_remove_event_call(previous));
	return previous;
}

void ktrace_free_control(struct trace_event_call *call)
{
#ifndef CONFIG_RKPROBE_EXPORTS
	if (call == &first_control)
		return;
#endif
	kfree(call);
}

/*
 * Makes the removal of the control event, and not the removal of this event, empty the trace
 * buffers of the file's trace instance. The instance has records of the event. The caller holds
 * event_mutex, and the file is disabled.
 *
 * The head of the list is a part of struct trace_array. The loop also visits the head. At the
 * offset of event_call, the head has another field of struct trace_array, which never equals the
 * control event.
 */
void ktrace_keep_trace(struct trace_event_file *file)
{
	struct trace_event_file *other;

	list_for_each_entry(other, &file->list, list) {
		if (control && READ_ONCE(other->event_call) == control) {
			set_bit(EVENT_FILE_FL_WAS_ENABLED_BIT, &other->flags);
			clear_bit(EVENT_FILE_FL_WAS_ENABLED_BIT, &file->flags);
			return;
		}
	}
}

/*
 * Empties the trace buffers of the instances that removed events have marked. The caller does not
 * hold event_mutex. Returns -ENOMEM, or -EOPNOTSUPP if the kernel cannot empty the buffers.
 */
int ktrace_empty_marked_traces(void)
{
#ifdef CONFIG_RKPROBE_EXPORTS
	tracing_reset_all_online_cpus();
	return 0;
#elif IS_ENABLED(CONFIG_KPROBE_EVENTS)
	/*
	 * No event has such a name, but the kernel empties the buffers before it returns the error.
	 */
	return kprobe_event_delete("0/0") == -ENOMEM ? -ENOMEM : 0;
#else
	return -EOPNOTSUPP;
#endif
}

/*
 * The kernel does not empty the buffers of offline CPUs. An offline CPU's buffer may have records
 * of this module's events if the CPU was online at some time since the module was loaded.
 */
static struct cpumask used_cpus;
static atomic_t departures;
static int cpus_state;

static int cpu_comes(unsigned int cpu)
{
	cpumask_set_cpu(cpu, &used_cpus);
	return 0;
}

static int cpu_is_gone(unsigned int cpu)
{
	atomic_inc(&departures);
	return 0;
}

/* The caller calls this function before any event exists. */
int ktrace_watch_cpus(void)
{
	/* The kernel calls cpu_comes() for each online CPU. */
	cpus_state = cpuhp_setup_state(CPUHP_BP_PREPARE_DYN, KBUILD_MODNAME ":prepare", cpu_comes,
				       cpu_is_gone);
	return min(cpus_state, 0);
}

void ktrace_unwatch_cpus(void)
{
	cpuhp_remove_state_nocalls(cpus_state);
}

/*
 * Returns the number of times that a CPU went offline, or -EBUSY while a CPU is offline whose
 * buffer may have records of this module's events.
 */
int ktrace_departures(void)
{
	/* While this lock is held, no CPU comes online or goes offline. */
	guard(cpus_read_lock)();
	if (!cpumask_subset(&used_cpus, cpu_online_mask))
		return -EBUSY;
	return atomic_read(&departures) & INT_MAX;
}

/*
 * Returns functions that print a record without this module: a copy of the kernel's functions,
 * which the kernel has set for the control event. The copy is never freed. Returns NULL without
 * memory.
 */
struct trace_event_functions *ktrace_nop_funcs(void)
{
	return kmemdup(&control_funcs, sizeof(control_funcs), GFP_KERNEL);
}

#ifndef CONFIG_RKPROBE_EXPORTS
void ktrace_open_control(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = control->event.type,
		.disabled = 1,
	};

	/* The kernel always refuses to open the event, so there is nothing to release. */
	perf_event_create_kernel_counter(&attr, 0, NULL, NULL, NULL);
}
#endif

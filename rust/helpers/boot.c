// SPDX-License-Identifier: GPL-2.0
/*
 * Built into the kernel: creates the events in the boot configuration. The configuration has the
 * form of the kernel's own probe events (see Documentation/trace/boottime-trace.rst). rkprobe
 * creates all events in rkprobe.event.GROUP.EVENT. If the kernel lacks a type of probe, rkprobe
 * also creates the events in the kernel's group for this type.
 */

#include <linux/bootconfig.h>
#include <linux/ctype.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "trace.h"

#undef pr_fmt
#define pr_fmt(fmt) "rkprobe: " fmt

/* rkprobe::parameters: executes a command. Returns whether it succeeded. Logs errors. */
bool rkprobe_run_at_boot(const char *command);

/* Calls a kernel function that may change its string argument. Passes it a copy of the text. */
static void __init change(struct trace_event_file *file, const char *text,
			  int (*function)(struct trace_event_file *, char *))
{
	char *copy = kstrdup(text, GFP_KERNEL);

	if (!copy || function(file, copy) < 0)
		pr_err("cannot be applied to an event: %s\n", text);
	kfree(copy);
}

/* The groups of the kernel's own probe events, and the commands that create these events. */
struct group_of_kernel {
	const char *node;
	char letter;
	bool is_of_kernel;
};

static const struct group_of_kernel groups_of_kernel[] __initconst = {
	{ "event.kprobes", 'p', IS_ENABLED(CONFIG_KPROBE_EVENTS) },
	{ "event.fprobes", 'f', IS_ENABLED(CONFIG_FPROBE_EVENTS) },
	{ "event.tracepoints", 't', IS_ENABLED(CONFIG_FPROBE_EVENTS) },
	{ "event.tprobes", 't', IS_ENABLED(CONFIG_FPROBE_EVENTS) },
	{ "event.eprobes", 'e', IS_ENABLED(CONFIG_EPROBE_EVENTS) },
};

/*
 * Builds the command for a probe of an event. In one of the kernel's groups, the probe can be a
 * whole command, as in the kernel. In another group, LETTER is 0, and the probe can begin with its
 * letter.
 */
static char *__init command_of(const char *probe, char letter, const char *group, const char *name)
{
	bool has_head = letter && letter != 'p' && probe[0] == letter &&
			(probe[1] == ':' || isspace(probe[1]));

	if (has_head)
		return kstrdup(probe, GFP_KERNEL);
	if (!letter && probe[0] && strchr("prfte", probe[0]) && isspace(probe[1]))
		letter = *probe++;
	return kasprintf(GFP_KERNEL, "%c:%s/%s %s", letter ?: 'p', group, name, probe);
}

static bool __init add_probes(struct xbc_node *event, char letter, const char *group,
			      const char *name)
{
	struct xbc_node *node;
	const char *probe;
	char *command;
	bool is_added;

	xbc_node_for_each_array_value(event, "probes", node, probe) {
		command = command_of(probe, letter, group, name);
		is_added = command && rkprobe_run_at_boot(command);
		kfree(command);
		if (!is_added)
			return false;
	}
	return true;
}

static void __init set_up(struct trace_array *tr, struct xbc_node *event, char letter,
			  const char *group, const char *name)
{
	struct trace_event_file *file = NULL;
	struct xbc_node *node;
	const char *text;
	bool is_added = add_probes(event, letter, group, name);

	guard(mutex)(&event_mutex);
	if (is_added)
		file = find_event_file(tr, group, name);
	if (!file) {
		pr_err("the event %s/%s is not set up\n", group, name);
		return;
	}
	text = xbc_node_find_value(event, "filter", NULL);
	if (text && *text)
		change(file, text, apply_event_filter);
	xbc_node_for_each_array_value(event, "actions", node, text)
		change(file, text, trigger_process_regex);
	if (xbc_node_find_value(event, "enable", NULL) &&
	    trace_event_enable_disable(file, 1, 0) < 0)
		pr_err("the event %s/%s cannot be enabled\n", group, name);
}

static void __init add_events(struct trace_array *tr, struct xbc_node *events, char letter)
{
	const char *name, *group = xbc_node_get_data(events);
	struct xbc_node *event;

	xbc_node_for_each_subkey(events, event) {
		name = xbc_node_get_data(event);
		if (strcmp(name, "enable"))
			set_up(tr, event, letter, group, name);
	}
	if (xbc_node_find_value(events, "enable", NULL))
		trace_array_set_clr_event(tr, group, NULL, true);
}

/* Adds the events of an instance's "ftrace" for which the kernel lacks the probe type. */
static void __init add_events_of_kernel(struct trace_array *tr, struct xbc_node *instance)
{
	struct xbc_node *events;
	int i;

	for (i = 0; i < ARRAY_SIZE(groups_of_kernel); i++) {
		if (groups_of_kernel[i].is_of_kernel)
			continue;
		events = xbc_node_find_subkey(instance, groups_of_kernel[i].node);
		if (events)
			add_events(tr, events, groups_of_kernel[i].letter);
	}
}

static void __init add_events_of_instances(struct xbc_node *ftrace)
{
	struct xbc_node *instances = xbc_node_find_subkey(ftrace, "instance"), *instance;
	struct trace_array *tr;

	if (!instances)
		return;
	xbc_node_for_each_subkey(instances, instance) {
		/* The kernel has created the instance, or has logged its error. */
		tr = trace_array_find_get(xbc_node_get_data(instance));
		if (!tr)
			continue;
		add_events_of_kernel(tr, instance);
		trace_array_put(tr);
	}
}

static int __init add_boot_events(void)
{
	struct xbc_node *ftrace = xbc_find_node("ftrace");
	struct xbc_node *groups = xbc_find_node("rkprobe.event"), *group;
	struct trace_array *tr = top_trace_array();

	/*
	 * Without trace buffers, no event is possible. For example, lockdown forbids trace buffers.
	 */
	if (!tr)
		return 0;
	if (ftrace) {
		add_events_of_kernel(tr, ftrace);
		add_events_of_instances(ftrace);
	}
	if (groups)
		xbc_node_for_each_subkey(groups, group)
			add_events(tr, group, 0);
	return 0;
}
/* This initcall level follows the initialization of rkprobe. */
late_initcall(add_boot_events);

// SPDX-License-Identifier: GPL-2.0
/*
 * Built into the kernel: events that stand in the boot configuration, in the form that the kernel
 * has for its own kprobe events (see Documentation/trace/boottime-trace.rst). That is where they
 * stand when the kernel has none; rkprobe.event.GROUP.EVENT is there in any case.
 */

#include <linux/bootconfig.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/slab.h>

#include "trace.h"

#undef pr_fmt
#define pr_fmt(fmt) "rkprobe: " fmt

/* rkprobe::parameters: what is wrong is told in the kernel's log. */
void rkprobe_run_at_boot(const char *command);

/* What the kernel's functions may write to. */
static void __init change(struct trace_event_file *file, const char *text,
			  int (*function)(struct trace_event_file *, char *))
{
	char *copy = kstrdup(text, GFP_KERNEL);

	if (!copy || function(file, copy) < 0)
		pr_err("cannot be applied to an event: %s\n", text);
	kfree(copy);
}

static void __init set_up(struct xbc_node *event, const char *group, const char *name)
{
	struct trace_event_file *file;
	struct xbc_node *node;
	const char *text;

	guard(mutex)(&event_mutex);
	file = find_event_file(top_trace_array(), group, name);
	if (!file)
		return;
	text = xbc_node_find_value(event, "filter", NULL);
	if (text && *text)
		change(file, text, apply_event_filter);
	xbc_node_for_each_array_value(event, "actions", node, text)
		change(file, text, trigger_process_regex);
	if (xbc_node_find_value(event, "enable", NULL) &&
	    trace_event_enable_disable(file, 1, 0) < 0)
		pr_err("the event %s/%s cannot be enabled\n", group, name);
}

static void __init add_events(struct xbc_node *events, const char *group)
{
	struct xbc_node *event, *node;
	const char *name, *probe;
	char *command;

	xbc_node_for_each_subkey(events, event) {
		name = xbc_node_get_data(event);
		xbc_node_for_each_array_value(event, "probes", node, probe) {
			command = kasprintf(GFP_KERNEL, "p:%s/%s %s", group, name, probe);
			if (command)
				rkprobe_run_at_boot(command);
			kfree(command);
		}
		set_up(event, group, name);
	}
	if (xbc_node_find_value(events, "enable", NULL))
		trace_set_clr_event(group, NULL, 1);
}

static int __init add_boot_events(void)
{
	struct xbc_node *groups = xbc_find_node("rkprobe.event"), *group;

	if (!IS_ENABLED(CONFIG_KPROBE_EVENTS)) {
		group = xbc_find_node("ftrace.event.kprobes");
		if (group)
			add_events(group, "kprobes");
	}
	if (groups)
		xbc_node_for_each_subkey(groups, group)
			add_events(group, xbc_node_get_data(group));
	return 0;
}
/* When rkprobe itself is there. */
late_initcall(add_boot_events);

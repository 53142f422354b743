// SPDX-License-Identifier: GPL-2.0
/*
 * This file exists only in the kernel's own tree, and is built into the kernel even if rkprobe is
 * a module. It exports functions of the kernel that modules may not use, for rkprobe alone. Each
 * export has its reason.
 */

#include <linux/export.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rethook.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracefs.h>

#include "built_in.h"

#include "trace.h"
#include "trace_dynevent.h"

#define EXPORT(symbol) EXPORT_SYMBOL_FOR_MODULES(symbol, "rkprobe")

/* Must be held where events are added and removed. */
EXPORT(event_mutex);

/* The events are in dynamic_events, too: they are created, shown and removed there. */
EXPORT(dyn_event_list);
EXPORT(dyn_event_ops_mutex);
EXPORT(dyn_event_register);

/* Removed events mark the trace instances that have their records: these are emptied. */
EXPORT(tracing_reset_all_online_cpus);

/* The address of a symbol, and how many have its name. */
EXPORT(kallsyms_lookup_name);
EXPORT(kallsyms_on_each_match_symbol);

/* The return of a call; struct kretprobe has room for each function by itself. */
#ifdef CONFIG_RETHOOK
EXPORT(rethook_alloc);
EXPORT(rethook_free);
EXPORT(rethook_hook);
EXPORT(rethook_recycle);
EXPORT(rethook_try_get);
#endif
/* No probe is hit from within a handler: kprobes and fprobes see to it themselves. */
EXPORT(kprobe_busy_begin);
EXPORT(kprobe_busy_end);

/* Gives up the hold on the mounted tracefs that each file in it has. */
EXPORT(tracefs_remove);

/*
 * Event probes. Each is a trigger on the event. The kernel creates records for triggers, and checks
 * their conditions, only after these calls.
 */
EXPORT(trace_event_trigger_enable_disable);
EXPORT(update_cond_flag);

/* The filter of an event probe, which selects records of the event. */
EXPORT(create_event_filter);
EXPORT(free_event_filter);

/* Finds and holds an event, with event_mutex held, and gives it back. */
EXPORT(find_event_file);
EXPORT(ftrace_trace_arrays);
EXPORT(trace_event_dyn_try_get_ref);
EXPORT(trace_event_dyn_put_ref);

/* The types of the kernel, which /sys/kernel/btf/vmlinux has once there is a /sys; or NULL. */
const void *rkprobe_btf(size_t *len)
{
#ifdef CONFIG_DEBUG_INFO_BTF
	extern const char __start_BTF[], __stop_BTF[];

	*len = __stop_BTF - __start_BTF;
	return __start_BTF;
#else
	return NULL;
#endif
}
EXPORT(rkprobe_btf);

/* A text that the error log may point at for good. */
struct text {
	struct list_head list;
	const char *text;
};

static LIST_HEAD(texts);
static DEFINE_MUTEX(texts_lock);

static const char **keep_text(const char *text)
{
	struct text *kept;

	guard(mutex)(&texts_lock);
	list_for_each_entry(kept, &texts, list)
		if (!strcmp(kept->text, text))
			return &kept->text;
	kept = kmalloc_obj(*kept);
	if (!kept)
		return NULL;
	kept->text = kstrdup(text, GFP_KERNEL);
	if (!kept->text) {
		kfree(kept);
		return NULL;
	}
	list_add(&kept->list, &texts);
	return &kept->text;
}

/*
 * tracing_log_err() for a module: the log keeps a pointer to the text, also when the module is
 * gone. There is one text for each sort of error.
 */
void rkprobe_log_err(const char *subsystem, const char *command, const char *text, u16 caret)
{
	const char **kept = keep_text(text);

	if (kept)
		tracing_log_err(NULL, subsystem, command, kept, 0, caret);
}
EXPORT(rkprobe_log_err);

// SPDX-License-Identifier: GPL-2.0
/*
 * This file exists only in the kernel tree. It is built into the kernel even if rkprobe is a
 * module. It exports functions of the kernel to rkprobe only. Other modules may not use them. A
 * comment states the reason for each export.
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

/* Code that adds or removes events must hold this mutex. */
EXPORT(event_mutex);

/* Users also create, list and remove rkprobe's events in dynamic_events. */
EXPORT(dyn_event_list);
EXPORT(dyn_event_ops_mutex);
EXPORT(dyn_event_register);

/*
 * A removed event marks the trace instances that have its records. rkprobe empties these instances.
 */
EXPORT(tracing_reset_all_online_cpus);

/* Finds the address of a symbol, and the number of symbols with its name. */
EXPORT(kallsyms_lookup_name);
EXPORT(kallsyms_on_each_match_symbol);

/* Catches the return of a call. A struct kretprobe has separate memory for each function. */
#ifdef CONFIG_RETHOOK
EXPORT(rethook_alloc);
EXPORT(rethook_free);
EXPORT(rethook_hook);
EXPORT(rethook_recycle);
EXPORT(rethook_try_get);
#endif
/*
 * Keeps a probe from being hit in a handler. For kprobes and fprobes, the kernel does this itself.
 */
EXPORT(kprobe_busy_begin);
EXPORT(kprobe_busy_end);

/* Drops the reference to the mounted tracefs that each file in tracefs has. */
EXPORT(tracefs_remove);

/*
 * Event probes. Each event probe is a trigger on an event. Only after these calls, the kernel
 * creates records for triggers and checks the conditions of triggers.
 */
EXPORT(trace_event_trigger_enable_disable);
EXPORT(update_cond_flag);

/* The filter of an event probe, which selects records of the event. */
EXPORT(create_event_filter);
EXPORT(free_event_filter);

/* Finds and holds an event, with event_mutex held, and releases it. */
EXPORT(find_event_file);
EXPORT(ftrace_trace_arrays);
EXPORT(trace_event_dyn_try_get_ref);
EXPORT(trace_event_dyn_put_ref);

/*
 * Returns the BTF of the kernel, or NULL. /sys/kernel/btf/vmlinux has the same bytes, but does not
 * exist early in the boot.
 */
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

/* A text to which the error log may point permanently. */
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
 * Calls tracing_log_err() for a module. The log keeps a pointer to the text even after the module
 * is unloaded, so the text is copied once for each kind of error.
 */
void rkprobe_log_err(const char *subsystem, const char *command, const char *text, u16 caret)
{
	const char **kept = keep_text(text);

	if (kept)
		tracing_log_err(NULL, subsystem, command, kept, 0, caret);
}
EXPORT(rkprobe_log_err);

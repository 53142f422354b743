// SPDX-License-Identifier: GPL-2.0
/*
 * ktrace::home and ktrace::rethook: what the kernel's own tree makes usable (see rust/built_in.c).
 */

#include <linux/kallsyms.h>
#include <linux/rcupdate.h>
#include <linux/rethook.h>
#include <linux/slab.h>

#include "trace.h"
#include "trace_dynevent.h"

#include "../built_in.h"

void ktrace_lock_event_mutex(void);
void ktrace_unlock_event_mutex(void);

void ktrace_lock_event_mutex(void)
{
	mutex_lock(&event_mutex);
}

void ktrace_unlock_event_mutex(void)
{
	mutex_unlock(&event_mutex);
}

static int count_symbol(void *count, unsigned long address)
{
	++*(unsigned int *)count;
	return 0;
}

/* How many symbols of the kernel itself have this name. */
unsigned int ktrace_count_symbols(const char *name);

unsigned int ktrace_count_symbols(const char *name)
{
	unsigned int count = 0;

	kallsyms_on_each_match_symbol(count_symbol, name, &count);
	return count;
}

/* Handlers that run already are over when this returns. */
void ktrace_free_rethook(struct rethook *room);

void ktrace_free_rethook(struct rethook *room)
{
	rethook_free(room);
	synchronize_rcu();
}

/* An entry of dynamic_events: the probe of this number. */
struct ktrace_dyn_event {
	struct dyn_event event;
	unsigned long number;
};

/* ktrace::home::Callbacks; all but create() with event_mutex held. */
struct ktrace_dyn_event_callbacks {
	int (*create)(const char *command);
	void (*show)(struct seq_file *m, unsigned long number);
	bool (*is_busy)(unsigned long number);
	int (*remove)(unsigned long number);
	bool (*matches)(unsigned long number, const char *system, const char *event, int argc,
			const char **argv);
};

static const struct ktrace_dyn_event_callbacks *callbacks;

static unsigned long number_of(struct dyn_event *event)
{
	return container_of(event, struct ktrace_dyn_event, event)->number;
}

static int dyn_event_create_probe(const char *command)
{
	return callbacks->create(command);
}

static int dyn_event_show(struct seq_file *m, struct dyn_event *event)
{
	callbacks->show(m, number_of(event));
	return 0;
}

static bool dyn_event_is_busy(struct dyn_event *event)
{
	return callbacks->is_busy(number_of(event));
}

static int dyn_event_free(struct dyn_event *event)
{
	return callbacks->remove(number_of(event));
}

static bool dyn_event_matches(const char *system, const char *event, int argc, const char **argv,
			      struct dyn_event *dyn_event)
{
	return callbacks->matches(number_of(dyn_event), system, event, argc, argv);
}

static struct dyn_event_operations operations = {
	.create = dyn_event_create_probe,
	.show = dyn_event_show,
	.is_busy = dyn_event_is_busy,
	.free = dyn_event_free,
	.match = dyn_event_matches,
};

int ktrace_register_dyn_events(const struct ktrace_dyn_event_callbacks *to);
void ktrace_unregister_dyn_events(void);
struct ktrace_dyn_event *ktrace_new_dyn_event(void);
void ktrace_add_dyn_event(struct ktrace_dyn_event *event, unsigned long number);
void ktrace_remove_dyn_event(struct ktrace_dyn_event *event);
void ktrace_free_dyn_event(struct ktrace_dyn_event *event);

int ktrace_register_dyn_events(const struct ktrace_dyn_event_callbacks *to)
{
	int ret;

	if (callbacks)
		return -EBUSY;
	callbacks = to;
	ret = dyn_event_register(&operations);
	if (ret)
		callbacks = NULL;
	return ret;
}

/* Who writes a command holds the mutex until it is carried out. */
void ktrace_unregister_dyn_events(void)
{
	mutex_lock(&dyn_event_ops_mutex);
	list_del(&operations.list);
	callbacks = NULL;
	mutex_unlock(&dyn_event_ops_mutex);
}

struct ktrace_dyn_event *ktrace_new_dyn_event(void)
{
	struct ktrace_dyn_event *event = kzalloc_obj(*event);

	if (event)
		dyn_event_init(&event->event, &operations);
	return event;
}

void ktrace_add_dyn_event(struct ktrace_dyn_event *event, unsigned long number)
{
	lockdep_assert_held(&event_mutex);
	if (!list_empty(&event->event.list))
		return;
	event->number = number;
	list_add_tail(&event->event.list, &dyn_event_list);
}

void ktrace_remove_dyn_event(struct ktrace_dyn_event *event)
{
	dyn_event_remove(&event->event);
}

void ktrace_free_dyn_event(struct ktrace_dyn_event *event)
{
	if (!WARN_ON(!list_empty(&event->event.list)))
		kfree(event);
}
